"""Presets of lists, whose rewards can be trusted, and columns that tell nothing of their own."""

import re
from pathlib import Path

import numpy as np
import pytest

from rlreport.check.finding import Finding, Onset, Rank, Severity, ToldFinding
from rlreport.check.registry import BY_ID
from rlreport.check.trust import OVERPAID, UNRELATED, distrusts_reward, overpaid_steps
from rlreport.check.verdict import Judged
from rlreport.columns import _HIGH_IS_BAD, _LOW_IS_BAD, PROMPT, RESPONSE, STEP
from rlreport.pages.listed import ENDING, SPLIT, error_counts
from rlreport.pages.presets import cut_off, presets
from rlreport.pages.redundant import without_redundant
from rlreport.pages.response_text import END_CHARS, HEAD_CHARS, ResponseText
from rlreport.pages.table import ColumnView
from rlreport.pages.widths import label_width, text_width
from tests.tables_builder import response_table

NAN = np.nan
SCRIPTS = Path(__file__).resolve().parents[1] / "static" / "js" / "list"


def preset_of(key, values, strings=None, finding=None, order=""):
    """Return a preset of a list, None if it does not apply."""
    columns = {name: np.array(column, float) for name, column in values.items()}
    found = presets(columns, strings or {}, distrusting=finding, order=order)
    return next((one for one in found if one["key"] == key), None)


def distrusting(check: str, severity: Severity = Severity.CRITICAL) -> ToldFinding:
    finding = Finding(check, severity, Rank.CAUSE)
    return ToldFinding.of(finding, name=BY_ID[check].name)


def test_worst_and_best_are_a_tenth_and_all_that_equal_its_last_value():
    rewards = [*range(20), NAN]
    worst = preset_of("worst", {"reward": rewards})
    best = preset_of("best", {"reward": rewards}, order="worth")
    assert worst["ranges"] == {"reward": (None, 1)}
    assert worst["sort"] == "reward"
    assert best["ranges"] == {"reward": (18, None)}
    assert best["sort"] == "-reward,worth"
    binary = {"reward": [0] * 12 + [1] * 8}
    assert preset_of("worst", binary)["ranges"] == {"reward": (None, 0)}
    assert preset_of("best", binary)["ranges"] == {"reward": (1, None)}


def test_one_end_of_the_reward_never_has_all_responses():
    rare = {"reward": [0] + [1] * 99}
    assert preset_of("worst", rare)["ranges"] == {"reward": (None, 0)}
    assert preset_of("best", rare)["ranges"] == {"reward": (1, None)}


NOTHING: list[float] = []
UNKNOWN = [NAN, NAN]
EQUAL = [1, 1]
ONE_FINITE = [2, np.inf]


@pytest.mark.parametrize("rewards", [NOTHING, UNKNOWN, EQUAL, ONE_FINITE])
def test_without_different_rewards_none_is_worst_or_best(rewards):
    assert preset_of("worst", {"reward": rewards}) is None
    assert preset_of("best", {"reward": rewards}) is None


def test_the_worst_of_a_hacked_reward_are_cited_and_the_highest_come_first():
    finding = distrusting("reward_hacking_token")
    strings = {"finding": ["KL explosion, reward hacking", None]}
    worst = preset_of("worst", {"reward": [5, 0]}, strings, finding)
    assert "ranges" not in worst
    assert worst["words"] == {"finding": "reward hacking"}
    assert worst["sort"] == "-reward"
    assert (
        "reward hacking" in preset_of("best", {"reward": [5, 0]}, {}, finding)["help"]
    )
    # A list without a cited response does not call the lowest rewards the worst.
    strings = {"finding": [None]}
    assert preset_of("worst", {"reward": [5, 0]}, strings, finding) is None


def test_where_rewards_belong_to_other_rows_the_worst_are_cited_in_their_order():
    finding = distrusting("rewards_shifted")
    strings = {"finding": [finding.name, None]}
    worst = preset_of("worst", {"reward": [5, 0]}, strings, finding)
    assert worst["sort"] == ""


def test_all_checks_that_distrust_the_reward_exist_and_notes_do_not_count():
    assert set(OVERPAID) | set(UNRELATED) <= set(BY_ID)
    assert distrusts_reward(distrusting("length_hacking"))
    assert not distrusts_reward(distrusting("length_hacking", Severity.INFO))
    assert not distrusts_reward(distrusting("kl_explosion"))


def test_rewards_are_not_earned_since_the_onset_of_the_leading_finding():
    def steps_of(check: str, onset: Onset | None, until: int | None = None):
        finding = Finding(
            check, Severity.CRITICAL, Rank.CAUSE, onset=onset, until=until
        )
        judged = Judged("critical", check, findings=[finding], first_step=2)
        return overpaid_steps(judged)

    onset = Onset(30, 28, 31)
    assert steps_of("reward_hacking_token", onset) == (30, None)
    assert steps_of("unearned_gain", onset, until=40) == (30, 40)
    assert steps_of("length_hacking", None) == (2, None)
    assert steps_of("length_hacking", Onset(5, 5, 5, from_start=True)) == (2, None)
    assert steps_of("rewards_shifted", onset) is None
    assert overpaid_steps(Judged("healthy", first_step=2)) is None


def test_the_longest_are_no_preset_where_a_limit_cuts_most():
    assert preset_of("longest", {"response_tokens": [9] * 6 + [1] * 4}) is None
    longest = preset_of("longest", {"response_tokens": [9] * 4 + [1] * 6})
    assert longest["ranges"] == {"response_tokens": (9, None)}
    both = {"response_tokens": [1, 2], "response_chars": [5, 9]}
    assert preset_of("longest", both)["sort"] == "-response_tokens"


def test_cited_and_errors_apply_where_there_are_any():
    assert preset_of("cited", {"cited": [0, 0]}) is None
    cited = preset_of("cited", {"cited": [0, 2]})
    assert cited["ranges"] == {"cited": (1, None)}
    assert preset_of("errors", {"errors": [NAN, 0]}) is None
    assert preset_of("errors", {"errors": [NAN, 3]})["sort"] == "-errors"


def test_cut_off_is_by_the_ending_where_it_is_listed_else_by_what_did_not_finish():
    endings = {ENDING.key: ["by itself", "at the token limit", None]}
    finished = {"finished": [1, 0, 0]}
    preset = preset_of("cut_off", finished, endings)
    assert preset["words"] == {ENDING.key: "at the token limit"}
    assert preset_of("cut_off", finished)["ranges"] == {"finished": (None, 0)}
    assert preset_of("cut_off", {"finished": [1, NAN]}) is None
    columns = {"finished": np.array([1.0, 0, NAN])}
    assert cut_off(columns, endings).tolist() == [False, True, False]
    assert cut_off(columns, {}).tolist() == [False, True, False]


def test_untrained_branches_neither_make_a_preset_nor_move_its_limit():
    strings = {SPLIT: ["train"] * 10 + ["branch"] * 10}
    rewards = [*range(10), *range(-10, 0)]
    worst = preset_of("worst", {"reward": rewards}, strings)
    assert worst["ranges"] == {"reward": (None, 0)}
    assert preset_of("errors", {"errors": [0] * 10 + [1] * 10}, strings) is None


def test_errors_are_those_of_calls_and_an_ending_in_one():
    table = response_table(
        {
            "step": [0, 0, 0, 0],
            "tool_errors": [NAN, 2.0, NAN, NAN],
            "unparsed_calls": [NAN, 1.0, 1.0, NAN],
            "ending": [0, 5, 1, 1],
        }
    )
    counts = error_counts(table)
    assert counts.tolist() == pytest.approx([NAN, 4, 1, 0], nan_ok=True)


def test_columns_with_a_bad_end_exist_and_have_one():
    names = set(RESPONSE) | set(STEP) | set(PROMPT)
    assert names >= _LOW_IS_BAD | _HIGH_IS_BAD
    assert not _LOW_IS_BAD & _HIGH_IS_BAD
    assert RESPONSE["reward"].bad_end == "low"
    assert RESPONSE["kl_k1"].bad_end == RESPONSE["response_tokens"].bad_end == "high"
    assert RESPONSE["surprisal_mean"].bad_end == ""


def hidden(prompts, steps=None, **columns):
    """Return name -> why it is hidden, of logged columns next to a reward."""
    steps = np.zeros(len(prompts), int) if steps is None else np.array(steps)
    values = {name: np.array(column, float) for name, column in columns.items()}
    views = [ColumnView(name, name.title()) for name in values]
    result = without_redundant(
        [one for one in views if one.key == "reward"],
        [one for one in views if one.key != "reward"],
        values,
        steps,
        np.array(prompts),
    )
    assert [one.key for one in result] == [one.key for one in views]
    return {one.key: str(one.help) for one in result if one.hidden}


def test_a_copy_of_a_shown_column_is_hidden_and_says_so():
    reward = [0.1, 0.5, NAN, 0.7]
    found = hidden(
        [0, 1, 0, 1],
        reward=reward,
        raw=np.array(reward, np.float32),
        near=[0.1, 0.5, NAN, 0.71],
        less=[0.1, NAN, NAN, 0.7],
    )
    assert found == {"raw": "hidden at first: it equals “Reward” in every response"}


def test_equal_constants_are_no_copies():
    same = [1, 1]
    assert not hidden([0, 1], reward=same, turns=same)


def test_numbers_of_prompts_and_of_rows_are_hidden():
    prompts = np.repeat(np.arange(10), 3)
    random = np.random.default_rng(0)
    words = [7, 7, 8, 9, 9, 9, 4, 5, 5, 6]
    found = hidden(
        prompts,
        reward=random.normal(size=30),
        question=np.repeat(random.permutation(500)[:10], 3),
        row=range(30),
        words=np.repeat(words, 3),
        turns=random.integers(1, 4, 30),
    )
    assert set(found) == {"question", "row"}
    assert "prompt" in found["question"]


def test_a_figure_of_few_prompts_is_no_number_of_them():
    found = hidden(
        [0, 0, 1, 1, 2, 2],
        reward=[1, 2, 3, 1, 2, 4],
        words=[12] * 2 + [40] * 2 + [7] * 2,
    )
    assert not found


def test_rows_are_numbered_anew_in_each_step():
    steps = np.repeat([0, 1, 2], 4)
    rows = np.arange(12)
    found = hidden([0] * 12, steps, reward=rows % 5, place=rows % 4)
    assert set(found) == {"place"}


def test_widths_fit_labels_in_two_lines_and_most_texts():
    assert label_width("Reward") == label_width("Mean KL, k3") == ""
    assert label_width("Advantage") == "ch-10"
    assert label_width("Second evaluations") == "ch-12"
    assert label_width("rewards/accuracy_reward/mean") == "ch-20"
    assert label_width("x" * 90) == "ch-20"
    assert text_width("Prompt", ["What is 1 plus 1?"] * 9) == "ch-16"
    assert text_width("Prompt", ["春风又绿江南岸"] * 9) == "ch-12"
    assert text_width("Prompt", ["a long text " * 20] * 9) == ""
    assert text_width("Prompt", []) == "ch-10"


def test_a_response_that_was_cut_off_shows_its_end():
    text = f"{'a' * HEAD_CHARS}<b>{'c' * END_CHARS}"
    cut = ResponseText.of(f"Well, {text}", ["Well, "], is_cut=True)
    assert cut == f"Well, {text}"
    assert cut.brief.startswith("… aaa") and cut.brief.endswith("…" + "c" * END_CHARS)
    shown = re.sub(r'<span class="(shared|middle)">[^<]*</span>', "", cut.__html__())
    assert "&lt;" not in shown and "Well" not in shown and "c" * END_CHARS in shown
    whole = ResponseText.of(text, (), is_cut=False)
    assert "span" not in whole.__html__()
    assert ResponseText.of("short", (), is_cut=True).brief == "short"


def test_scripts_and_pages_hide_the_same_part_of_a_cut_response():
    script = (SCRIPTS / "text-parts.js").read_text()
    assert f"HEAD_CHARS = {HEAD_CHARS};" in script
    assert f"END_CHARS = {END_CHARS};" in script
