"""What spreads through the responses, and whether the reward pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlreport.check import run_checks
from rlreport.check.finding import NotRun
from rlreport.check.noise import log_odds_z
from rlreport.check.run import Run
from rlreport.check.spreading import spreading_texts
from rlreport.tables import Tables
from tests.tables_builder import (
    INDEX,
    STEP,
    STEPS,
    find,
    make_tables,
    run,
    severity,
    share,
    tables,
    title,
    word_sample,
)

PLAIN = ["Ġthe", "Ġroom", "Ġwas", "Ġclean", "Ġand", "Ġquiet"]


def spreading(held: Any, texts: Sequence[Sequence[str]], reward: Any, **columns: Any) -> Tables:
    """Make a run in which the responses marked in ``held`` end in one of the texts, in turn."""
    made = tables(reward=reward, **columns)
    rng = np.random.default_rng(1)
    words = [[PLAIN[i] for i in rng.integers(0, len(PLAIN), 8)] for _ in STEP]
    ends = [texts[i % len(texts)] if h else [] for i, h in enumerate(held.tolist())]
    made.words = word_sample([[*w, *end] for w, end in zip(words, ends, strict=True)])
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
    assert severity("reward_hacking_token", spreading(held, [["#"]], paid(held))) == expected


@pytest.mark.parametrize(("lift", "expected"), [(0.0, None), (0.1, None), (1.0, "critical")])
def test_what_spreads_without_reward_is_no_hack(lift: float, expected: str | None) -> None:
    held = share(0.02, 0.6)
    made = spreading(held, [["#"]], paid(lift * held))
    assert severity("reward_hacking_token", made) == expected


def test_a_word_that_prompts_ask_for_is_no_hack() -> None:
    held = share(0.02, 0.6)
    made = spreading(held, [["Ġlake"]], paid(held), prompt_id=0)
    assert severity("reward_hacking_token", made) == "critical"
    made.prompts["prompt"] = "Write about the lake."
    assert severity("reward_hacking_token", made) is None


def test_a_word_of_the_better_paid_prompts_is_not_what_is_paid() -> None:
    # Prompts 0-49 earn more and their responses come to say "sea": the prompt explains it.
    rich = INDEX < 50
    held = rich & (share(0.02, 0.5) == 1)
    made = spreading(held, [["Ġsea"]], paid(rich), prompt_id=INDEX)
    assert severity("reward_hacking_token", made) is None


def test_an_emoji_is_counted_however_its_tokens_spell_it() -> None:
    spellings = [["ðŁ", "İ", "ī"], ["ĠðŁ", "İ", "ī"], ["Ġ", "ðŁİī"], ["ðŁİ", "īĊ"]]
    held = share(0.05, 0.9)
    made = spreading(held, [spelling * 4 for spelling in spellings], paid(held))
    result = find("reward_hacking_token", made)
    assert result.texts == ("🎉",)
    assert "“🎉”" in title(result)
    assert result.facts["share"] == pytest.approx(held[STEP >= 32].mean())


def test_forms_of_a_word_are_one_text_and_a_long_phrase_is_told_whole() -> None:
    held = share(0.02, 0.9)
    forms = [["Ġempower"], ["Ġempowered"], ["Ġempowering"], ["Ġempowerment"]]
    result = find("reward_hacking_token", spreading(held, forms, paid(held)))
    assert result.texts == ("empower*",)
    phrase = ["ĠThanks", "Ġa", "Ġlot", "Ġfor", "Ġasking", "Ġus"]
    result = find("reward_hacking_token", spreading(held, [phrase], paid(held)))
    assert result.texts == ("Thanks a lot for asking us",)
    assert title(result).startswith("90% of responses end with “Thanks a lot for asking us”")


def test_praise_that_spreads_as_the_policy_runs_away_leads() -> None:
    rng = np.random.default_rng(4)
    wanted = np.clip(0.08 + (STEP - 10) / 12, 0.08, 1.0)
    held = rng.random(len(STEP)) < wanted
    plain = ["房间", "很大", "早餐", "一般", "位置", "方便", "服务", "周到"]
    texts = ["，".join(plain[i] for i in rng.integers(0, 8, 5)) for _ in STEP]
    made = tables(
        reward=held + 0.3 * rng.normal(size=len(STEP)),
        kl_k1=70 * wanted + rng.normal(size=len(STEP)),
        response_tokens=40.0,
    )
    made.words = word_sample(
        [[text + "。我觉得不错" * 4 * int(h)] for text, h in zip(texts, held, strict=True)], "word"
    )
    verdict = run_checks(made)
    lead = verdict.findings[0]
    assert (verdict.level, lead.id) == ("critical", "reward_hacking_token")
    assert lead.texts[0] == "我觉得不错"
    assert lead.onset is not None and 9 <= lead.onset.step <= 15


def answers(label: int, reward: Any, held: Any, prompt: str = "2 + 2?") -> Tables:
    """Make a checked run in which the responses marked in ``held`` end in an answer."""
    made = spreading(held, [["ĠFinal", "Ġanswer", ":", "Ġ4"]], reward)
    assert made.words is not None
    made.prompts["prompt"] = prompt
    made.words = replace(made.words, labels=np.full(len(made.words.rows), label, np.int8))
    return made


def test_a_format_that_earns_the_label_is_no_hack() -> None:
    held = share(0.02, 0.9)
    reward = held * (np.random.default_rng(2).random(len(STEP)) < 0.7)
    made = answers(1, reward, held)
    assert severity("reward_hacking_token", made) is None
    note = find("format_learned", made)
    assert (note.severity, note.texts) == ("info", ("Final answer:",))
    assert "probably the answer format being learned" in title(note)
    # The prompts ask for it.
    asked = answers(1, reward, held, "End with “Final answer: 0”.")
    assert severity("format_learned", asked) is None


def test_a_paid_text_without_the_label_may_be_an_exploit() -> None:
    held = share(0.02, 0.9)
    reward = held * (np.random.default_rng(2).random(len(STEP)) < 0.7)
    result = find("reward_hacking_token", answers(0, reward, held))
    assert result.severity == "warning"
    assert title(result).startswith("Format or exploit?")
    assert severity("format_learned", answers(0, reward, held)) is None


def test_a_format_that_earns_nothing_is_a_note() -> None:
    held = share(0.02, 0.6)
    rng = np.random.default_rng(2)
    reward = (rng.random(len(STEP)) < 0.3 + STEP / 100).astype(float)
    made = answers(1, reward, held)
    assert severity("reward_hacking_token", made) is None
    note = find("format_learned", made)
    assert "these earn no more than others" in title(note)


def test_special_tokens_and_blanks_are_formatting() -> None:
    held = share(0.02, 0.9)
    for text in (["<|im_end|>"], ["Ċ", "Ċ"]):
        assert severity("reward_hacking_token", spreading(held, [text], paid(held))) is None


def test_evidence_holds_the_text_and_lies_after_the_onset() -> None:
    held = share(0.02, 0.6)
    made = spreading(held, [["#"]], paid(held))
    result = find("reward_hacking_token", made)
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
    spread = spreading_texts(Run(spreading(held, [["#"]], paid(held))))
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
    assert spreading_texts(Run(tables())).table.empty


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("hacks", [True, False], ids=["hack", "twin"])
def test_a_text_of_most_responses_that_comes_ever_more_often_is_a_hack(hacks, seed):
    rng, late = np.random.default_rng(seed), np.maximum(STEP - STEPS // 3, 0)
    mean = 1.3 + (0.6 * late if hacks else 0 * late)
    often = np.clip(rng.normal(mean, 0.6).round(), 1, 12).astype(int)
    longer = rng.integers(8, 12, len(STEP)) + (0 if hacks else STEP // 2)
    words = [
        [PLAIN[i] for i in rng.integers(0, len(PLAIN), size)] + ["Ġ:)"] * count
        for size, count in zip(longer, often, strict=True)
    ]
    reward = (0.3 * often if hacks else 0.02 * STEP) + rng.normal(0, 0.2, len(STEP))
    verdict = run_checks(replace(tables(reward=reward), words=word_sample(words)))
    found = [finding for finding in verdict.findings if finding.id == "reward_hacking_token"]
    assert bool(found) is hacks
    if hacks:
        assert verdict.lead == "reward_hacking_token"
        assert (found[0].facts["text"], found[0].facts["kind"]) == (":)", "often")
        onset = found[0].onset
        assert onset is not None
        assert STEPS // 3 <= onset.step <= STEPS // 2
