"""Garbled text, responses at other prompts, and one source of responses against the others."""

import numpy as np
import pytest

from rlreport.check import run_checks
from rlreport.check.finding import Severity
from rlreport.check.run import Run
from rlreport.check.sources import sources_of
from rlreport.tables import Tables
from rlreport.text.scripts import garbled_at, is_garbled
from tests.law_families import Shape
from tests.law_families_texts import (
    at_other_prompts,
    garbled,
    ranks_with_their_own_prompts,
    replica,
)
from tests.tables_builder import find, run, title

SHAPE = Shape(steps=30, prompts=8, group=4)


@pytest.mark.parametrize(
    "text",
    [
        "日本語のテキストと漢字、カタカナ、ひらがな。",
        "由题意得 α + β = 90°，所以 x ∈ ℝ，Δ > 0",
        "한국어 문장에 漢字와 English가 있습니다",
        "emoji 👩‍👩‍👧 and a cut one 👩\u200d",
        "a character cut at the end \ufffd\ufffd",
        "one broken \ufffd character of a small byte-level model in a longer text",
        "المجموع هو ١٢ and русский текст beside it",
        "μm, Å, ﬁle, ½, ª and 𝑥²",
        "« C'est l'été\xa0», dit-il, « et voilà\xa0» : « café\xa0», « déjà\xa0».",
        "Größe überprüfen: Öl, Ärger, „ja“ – schön, 3 €, “and” so’s…",
        "São Paulo não é a capital. ¿Qué? ÉLÉMENT «RÉSUMÉ»",
        "联通 移动 联通 联通，仅此而已。",
        "俄语的привет和мир和друг和дом都是常用词",  # words of one other language
        "ˈθɪŋkɪŋ ˈʃɔːt əˈbaʊt βːa",
        "",
    ],
)
def test_texts_of_languages_formulas_and_emoji_are_not_garbled(text: str) -> None:
    assert not is_garbled(text)


@pytest.mark.parametrize(
    "text",
    [
        "The answer isierungкаяदेश because",
        "a \ufffd b \ufffd c \ufffd d and so on for many words of text",
        "\ufffd\ufffd\ufffd no",
        "an unassigned \u0378 character",
    ],
)
def test_mixed_scripts_and_broken_characters_are_garbled(text: str) -> None:
    assert is_garbled(text)


CHINESE = "首先，我们需要计算苹果的总数。小明有12个苹果，又买了3箱，所以答案是36。"


@pytest.mark.parametrize("encoding", ["latin-1", "gbk"])
def test_utf8_read_in_another_encoding_is_garbled(encoding: str) -> None:
    misread = CHINESE.encode().decode(encoding, errors="ignore")
    assert is_garbled(misread)
    assert is_garbled(f"The answer is as follows: {misread}")
    assert garbled_at(f"The answer is as follows: {misread}") == 26


def test_quotes_read_as_windows_1252_are_garbled() -> None:
    assert is_garbled("It doesnâ€™t matter â€” itâ€™s fine.")
    assert is_garbled("锟斤拷锟斤拷锟斤拷")


def test_pieces_of_two_other_scripts_in_chinese_are_garbled() -> None:
    assert is_garbled("首先，我们需ировать要计算แล้ว苹果")
    assert not is_garbled("首先，我们需 ировать 要计算 แล้ว 苹果")


def made(make, strength: float, seed: int = 1) -> Tables:
    return make(np.random.default_rng(seed), SHAPE, strength)


def test_garbled_text_is_dated_where_it_begins() -> None:
    finding = find("garbled", made(garbled, 0.3))
    assert finding.onset is not None
    assert finding.onset.low <= 16 <= finding.onset.high


def with_replica(tables: Tables, of_row: np.ndarray) -> Tables:
    tables.extras["replica"] = of_row.astype(float)
    return tables


def test_garbled_text_of_one_replica_names_it() -> None:
    tables = made(garbled, 0.3)
    is_garbled_row = tables.responses["garbled"].to_numpy() == 1
    others = np.arange(len(is_garbled_row)) % 3
    found = find("garbled", with_replica(tables, np.where(is_garbled_row, 3, others)))
    assert "replica 3" in title(found)


def test_a_model_that_learns_with_its_garbled_texts_is_noted_only() -> None:
    step = SHAPE.step
    tables = SHAPE.log(reward=step / 30, garbled=1.0)
    assert find("garbled", tables).severity is Severity.INFO
    reward = np.tile([0.0, 1.0], SHAPE.rows // 2)
    flat = SHAPE.log(reward=reward, garbled=1.0)
    assert find("garbled", flat).severity is Severity.WARNING


def test_a_few_responses_are_garbled_only_if_most_are() -> None:
    few = Shape(steps=1, prompts=6, group=4)
    reward = np.tile([0.0, 1.0], few.rows // 2)
    most = np.where(np.arange(few.rows) % 4, 1.0, 0.0)
    assert find("garbled", few.log(reward=reward, garbled=most)).facts["share"] == 0.75
    assert run("garbled", few.log(reward=reward, garbled=1 - most)).finding is None
    fewest = Shape(steps=1, prompts=1, group=4)
    assert run("garbled", fewest.log(reward=1.0, garbled=1.0)).finding is None


def test_a_reward_of_a_single_step_is_told_once() -> None:
    few = Shape(steps=1, prompts=6, group=4)
    reward = np.tile([0.0, 1.0], few.rows // 2)
    verdict = run_checks(few.log(reward=reward, garbled=1.0))
    words = "The reward was 0.50 in step 1, the only step logged."
    assert verdict.course_sentence == words


def test_responses_at_other_prompts_invalidate_the_run_from_the_first_step_on() -> None:
    finding = find("answers_other_prompt", made(at_other_prompts, 1.0))
    assert finding.severity is Severity.CRITICAL
    assert finding.onset is not None
    assert finding.onset.step == 1


def test_prompts_without_words_of_their_own_are_not_judged() -> None:
    tables = made(at_other_prompts, 1.0)
    tables.prompts["prompt"] = "Solve the task above."
    assert run("answers_other_prompt", tables).needs


@pytest.mark.parametrize("seed", range(5))
def test_ranks_with_prompts_of_their_own_may_differ_in_length(seed: int) -> None:
    tables = made(ranks_with_their_own_prompts, 0.0, seed)
    assert run("rank_differs", tables).finding is None


def test_the_replica_that_differs_is_named_with_both_figures() -> None:
    finding = find("rank_differs", made(replica, 1.5))
    assert finding.facts["source"] == "replica 2"
    assert finding.facts["kind"] == "length"


@pytest.mark.parametrize("weaker", [True, False], ids=["weaker", "as good"])
def test_a_rank_whose_responses_earn_less_on_the_same_prompts_is_named(
    weaker: bool,
) -> None:
    random = np.random.default_rng(0)
    rank = np.arange(SHAPE.rows) % 4
    chance = np.where(weaker & (rank == 2), 0.1, 0.6)
    reward = (random.random(SHAPE.rows) < chance).astype(float)
    made = SHAPE.log(reward=reward, extra={"rank": rank.astype(float)})
    finding = run("rank_differs", made).finding
    assert (finding is not None) is weaker
    if finding is not None:
        assert (finding.facts["source"], finding.facts["kind"]) == ("rank 2", "reward")
        assert "earn" in title(finding)


def test_ranks_with_prompts_of_their_own_may_differ_in_reward() -> None:
    # The groups of a step come from other ranks, one of which has harder prompts.
    rank = SHAPE.prompt % 4
    random = np.random.default_rng(0)
    chance = np.where(rank == 2, 0.1, 0.6)
    reward = (random.random(SHAPE.rows) < chance).astype(float)
    made = SHAPE.log(reward=reward, extra={"rank": rank.astype(float)})
    assert run("rank_differs", made).finding is None


def test_sources_are_told_by_a_field_or_by_names_of_files() -> None:
    tables = SHAPE.log(reward=1.0)
    assert sources_of(Run(tables)) is None
    tables.extras["dp_rank"] = np.arange(SHAPE.rows) % 4
    sources = sources_of(Run(tables))
    assert sources is not None
    assert sources.label(2) == "rank 2"


def test_a_fraction_is_no_rank() -> None:
    tables = SHAPE.log(reward=1.0)
    tables.extras["rank"] = np.linspace(0, 1, SHAPE.rows)
    assert sources_of(Run(tables)) is None


def copied(**columns) -> Tables:
    """Return a log of which each response equals its neighbour in the group."""
    return SHAPE.log(
        reward=np.tile([0.0, 1.0], SHAPE.rows // 2),
        response_hash=np.arange(SHAPE.rows) // 2 * 2,
        **{"response_chars": 400, **columns},
    )


def test_long_copies_from_the_first_step_on_are_found() -> None:
    finding = find("copied_responses", copied())
    assert finding.facts["share"] == 1.0
    assert finding.onset is not None and finding.onset.step == 1


def test_short_answers_may_be_equal() -> None:
    assert run("copied_responses", copied(response_chars=199)).finding is None


def test_a_certain_policy_repeats_itself() -> None:
    certain = copied(surprisal_mean=0.1, response_tokens=100.0)
    assert run("copied_responses", certain).finding is None
    sampled = copied(surprisal_mean=0.6, response_tokens=100.0)
    assert run("copied_responses", sampled).finding is not None


def test_rows_of_one_rollout_are_no_copies() -> None:
    rollouts = copied(rollout=np.arange(SHAPE.rows) // 2)
    assert run("copied_responses", rollouts).finding is None
