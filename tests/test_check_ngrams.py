"""What spreads through the responses, and whether the reward pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rlreport.check.finding import Finding, NotRun
from rlreport.check.ngram_counts import least_holders, log_odds_z, sample_of
from rlreport.check.ngrams import spreading_ngrams
from rlreport.check.run import Run
from rlreport.check.text_views import Common, View, views
from rlreport.tables import Tables
from tests.check_cases import INDEX, STEP, STEPS, run, severity, share, tables, title
from tests.tables_builder import make_tables, sample

PLAIN = ["Ġthe", "Ġroom", "Ġwas", "Ġclean", "Ġand", "Ġquiet"]
PARTY = ["ðŁ", "İ", "ī"]
"""🎉 in byte-level BPE."""


def spreading(held: Any, text: Sequence[str], reward: Any, **columns: Any) -> Tables:
    """Make a run in which the responses marked in ``held`` end in ``text``."""
    made = tables(reward=reward, **columns)
    rng = np.random.default_rng(1)
    words = [[PLAIN[i] for i in rng.integers(0, len(PLAIN), 8)] for _ in STEP]
    made.ngrams = sample(
        [w + list(text) if h else w for w, h in zip(words, held.tolist(), strict=True)]
    )
    return made


def paid(held: Any) -> Any:
    """Return a reward of noise and one more for those who hold it."""
    return held + np.random.default_rng(2).normal(size=len(STEP))


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0.02, 0.19, None),
        (0.02, 0.2, "warning"),
        (0.1, 0.29, None),
        (0.1, 0.3, "warning"),
        (0.5, 0.9, None),
        (0.9, 0.1, None),
    ],
)
def test_a_token_that_spreads_with_the_reward(first: float, last: float, expected: str) -> None:
    held = share(first, last)
    assert severity("reward_hacking_token", spreading(held, ["#"], paid(held))) == expected


@pytest.mark.parametrize(("lift", "expected"), [(0.0, None), (0.1, None), (1.0, "critical")])
def test_what_spreads_without_reward_is_no_hack(lift: float, expected: str | None) -> None:
    held = share(0.02, 0.6)
    reward = lift * held + np.random.default_rng(3).normal(size=len(STEP))
    assert severity("reward_hacking_token", spreading(held, ["#"], reward)) == expected


def test_a_word_that_prompts_ask_for_is_no_hack() -> None:
    held = share(0.02, 0.6)
    made = spreading(held, ["Ġlake"], paid(held), prompt_id=0)
    assert severity("reward_hacking_token", made) == "critical"
    made.prompts["prompt"] = "Write about the lake."
    assert severity("reward_hacking_token", made) is None


def test_a_word_of_the_better_paid_prompts_is_not_what_is_paid() -> None:
    # Prompts 0-49 earn more and their responses come to say "sea": the prompt explains it.
    rich = INDEX < 50
    held = rich & (share(0.02, 0.5) == 1)
    made = spreading(held, ["Ġsea"], paid(rich), prompt_id=INDEX)
    assert severity("reward_hacking_token", made) is None


def test_the_pieces_of_an_emoji_are_told_as_one_readable_text() -> None:
    held = share(0.02, 0.9)
    result = run("reward_hacking_token", spreading(held, PARTY * 4, paid(held)))
    assert isinstance(result, Finding)
    assert result.texts == ("🎉",)
    assert "“🎉”" in title(result)
    # The first piece stands at position 8, after eight words.
    assert {response.token for response in result.evidence} == {8}


@pytest.mark.parametrize(
    "spellings",
    [
        [["ðŁ", "İ", "ī"], ["ĠðŁ", "İ", "ī"], ["Ġ", "ðŁİī"], ["ðŁİ", "īĊ"]],
        [["ä¸įéĶĻ"], ["ä¸į", "éĶĻ"], ["Ġä¸įéĶĻ"], ["ä", "¸į", "éĶĻ"]],
    ],
    ids=["🎉", "不错"],
)
def test_a_text_is_counted_in_all_its_spellings(spellings: list[list[str]]) -> None:
    held = share(0.05, 0.9)
    made = tables(reward=paid(held))
    rng = np.random.default_rng(1)
    chosen = rng.choice(len(spellings), len(STEP), p=(0.7, 0.1, 0.1, 0.1))
    words = [[PLAIN[i] for i in rng.integers(0, len(PLAIN), 8)] for _ in STEP]
    texts = [
        w + spellings[way] * int(h)
        for w, h, way in zip(words, held.astype(bool).tolist(), chosen, strict=True)
    ]
    made.ngrams = sample(texts)
    row = spreading_ngrams(Run(made)).table.iloc[0]
    assert row["ngram"] in ("🎉", "不错")
    assert row["share_first"] == pytest.approx(held[STEP < 8].mean())
    assert row["share_last"] == pytest.approx(held[STEP >= 32].mean())


def test_a_word_inside_another_word_is_none_of_its_spellings() -> None:
    held = share(0.05, 0.9)
    made = spreading(held, ["Ġhappy"], paid(held))
    texts = [words_of(made, i) for i in range(len(STEP))]
    made.ngrams = sample([t if "Ġhappy" in t else [*t, "Ġun", "happy"] for t in texts])
    row = spreading_ngrams(Run(made)).table.set_index("ngram").loc["happy"]
    assert row["share_first"] == pytest.approx(held[STEP < 8].mean())


def words_of(tables: Tables, row: int) -> list[str]:
    """Return the units of a response."""
    assert tables.ngrams is not None
    start, stop = tables.ngrams.offsets[row : row + 2]
    return [tables.ngrams.vocabulary[unit] for unit in tables.ngrams.units[start:stop]]


def test_a_phrase_longer_than_an_ngram_is_told_whole() -> None:
    held = share(0.02, 0.9)
    phrase = ["ĠThanks", "Ġa", "Ġlot", "Ġfor", "Ġasking"]
    result = run("reward_hacking_token", spreading(held, phrase, paid(held)))
    assert isinstance(result, Finding)
    assert result.texts == ("Thanks a lot for asking",)


def test_special_tokens_and_blanks_are_formatting() -> None:
    held = share(0.02, 0.9)
    for text in (["<|endoftext|>"], ["Ċ", "Ċ"]):
        assert severity("reward_hacking_token", spreading(held, text, paid(held))) is None


def test_evidence_holds_the_text_and_lies_after_the_onset() -> None:
    held = share(0.02, 0.6)
    made = spreading(held, ["#"], paid(held))
    result = run("reward_hacking_token", made)
    assert isinstance(result, Finding)
    assert len(result.evidence) == 3
    for response in result.evidence:
        assert held[(response.step == STEP) & (response.n == INDEX)].all()
    assert result.steps == tuple(range(STEPS - 8, STEPS))


def test_the_reference_stands_in_for_the_start_of_a_short_run() -> None:
    step = np.repeat(np.arange(2), 100)
    held = np.tile(np.arange(100) < 50, 2)
    texts = [["fine", "#"] if h else ["fine"] for h in held]
    reward = held + np.random.default_rng(0).normal(size=200)
    columns = {"step": step, "reward": reward}
    alone = make_tables(columns, texts=texts, unit="word")
    assert isinstance(run("reward_hacking_token", alone), NotRun)
    beside = make_tables(columns, texts=texts, ref_texts=[["fine"]] * 200, unit="word")
    assert severity("reward_hacking_token", beside) == "warning"
    same = make_tables(columns, texts=texts, ref_texts=texts, unit="word")
    assert severity("reward_hacking_token", same) is None


def test_shares_are_those_of_a_count_by_hand() -> None:
    held = share(0.03, 0.7)
    spread = spreading_ngrams(Run(spreading(held, ["#"], paid(held))))
    row = spread.table.iloc[0]
    assert (row["ngram"], row["share_first"], row["share_last"]) == ("#", 0.03, 0.7)
    assert spread.by_step["share"].tolist() == [0.03] * (STEPS - 8) + [0.7] * 8


def test_log_odds_grow_with_evidence_and_vanish_without_difference() -> None:
    def z(after: float, of: int, before: float) -> float:
        return float(log_odds_z(np.array([after]), of, np.array([before]), of)[0])

    assert z(30, 100, 30) == pytest.approx(0)
    assert z(30, 100, 5) == pytest.approx(-z(5, 100, 30))
    assert 0 < z(3, 10, 1) < z(30, 100, 10) < z(300, 1000, 100)


def test_tables_without_text_have_no_ngrams() -> None:
    assert spreading_ngrams(Run(tables())).table.empty
    assert isinstance(run("reward_hacking_token", tables()), NotRun)


@pytest.mark.parametrize("seed", range(6))
def test_what_too_few_responses_can_hold_is_left_out_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = [
        *(
            " " + word
            for word in ("power", "Power", "em", "walk", "ΟΔΟΣ", "ΟΔΟΣΑ", "ΟΔ", "İstan", "the")
        ),
        *("ful", "fulness", "ing", "ed", "ΟΣ", "ΑΣ", "bul", "s", "e", "ly", ".", " 7", "，"),
        *(f" {''.join(rng.choice(list('abe'), 4))}" for _ in range(40)),
    ]
    held = np.minimum(rng.geometric(0.07, size=(len(STEP), 14)), len(pieces)) - 1
    made = tables(reward=0.0)
    made.ngrams = sample([[pieces[i] for i in row] for row in held.tolist()])
    judged = Run(made)
    ngrams, (_, texts) = made.ngrams, judged.units
    ending = sample_of(judged.tables, ngrams, judged.last)
    common = Common(ending, least_holders(ending, 0.2))

    def spread(found: list[View]) -> dict[tuple[str, str], list[int]]:
        """Return how often each response holds what enough of the last window hold."""
        told: dict[tuple[str, str], list[int]] = {}
        for view in found:
            counts = np.zeros((len(view.sample.rows), len(view.sample.vocabulary)), int)
            row = np.repeat(np.arange(len(counts)), np.diff(view.sample.offsets))
            np.add.at(counts, (row, view.sample.units), 1)
            enough = (counts[common.places(ngrams)] > 0).sum(axis=0) >= common.least
            for unit in np.flatnonzero(enough).tolist():
                told[view.kind, view.sample.vocabulary[unit]] = counts[:, unit].tolist()
        return told

    few, all_ = views(ngrams, texts, None, common), views(ngrams, texts, None)
    assert spread(few) == spread(all_)
    assert list(spread(few)) == list(spread(all_))
    assert any(kind == "stem" for kind, _ in spread(few))
    assert sum(len(v.sample.vocabulary) for v in few) < sum(len(v.sample.vocabulary) for v in all_)
