"""Why two runs differ, and for which tasks: numbers against NumPy, and planted losses."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlreport.comparison.compare import Comparison, Side, compare_runs
from rlreport.comparison.data_file import EXTRA, PART, trainer_data, trainer_rows
from rlreport.comparison.decomposition import Decomposition, decomposition_of
from rlreport.comparison.prompt_words import prompt_counts
from rlreport.comparison.statistics import Effect
from rlreport.comparison.tasks import Task
from rlreport.text.labels import ANSWER_MARKS

BIT = {mark: 1 << bit for bit, mark in enumerate(ANSWER_MARKS)}


def run(rewards: Any, pairs: Any, step: Any = 0, **columns: Any) -> Side:
    """A run whose responses have these rewards, in the order of their steps."""
    pair = np.asarray(pairs, np.uint64)
    table = {
        "step": step,
        "n": np.arange(len(pair)),
        "split": "train",
        "pair": pair,
        "prompt_id": pair.astype(np.int64),
        "reward": np.asarray(rewards, np.float64),
    }
    return Side("run", pd.DataFrame({**table, **columns}))


def many(
    seed: int, *, prompts: int = 60, responses: int = 8, first: int = 0
) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Return a generator, the prompt of each response, and the chance that it is right.

    Runs have the same prompts, of the same difficulty, whatever their seed.
    """
    pairs = first + np.repeat(np.arange(prompts), responses)
    ability = np.random.default_rng(first).beta(1.5, 1.5, prompts)
    return np.random.default_rng(seed), pairs, np.repeat(ability, responses)


def marked_run(
    seed: int, *, lost: float = 0.0, cut: float = 0.0, first: int = 0
) -> Side:
    """A run that earns a reward only with a marked, whole answer; NEW may lose some of them."""
    random, pairs, chance = many(seed, first=first)
    is_right = random.random(len(pairs)) < chance
    is_cut = random.random(len(pairs)) < cut
    is_marked = (random.random(len(pairs)) >= lost) & ~is_cut
    return run(
        is_right & is_marked,
        pairs,
        answer_format=is_marked * float(BIT["####"]),
        cut_off=is_cut.astype(np.float64),
        other_script=(random.random(len(pairs)) < 0.1).astype(np.float64),
        tool_errors=(random.random(len(pairs)) < 0.1).astype(np.float64),
    )


def why(base: Side, new: Side) -> Decomposition:
    return compare_runs([base], [new]).decomposition


eighths = st.integers(0, 8).map(lambda count: count / 8)
tables = st.lists(
    st.tuples(
        st.integers(0, 5),  # prompt
        eighths | st.just(np.nan),
        st.sampled_from([0.0, 1.0, np.nan]),
    ),
    min_size=3,
    max_size=40,
)
several_tables = st.lists(tables, min_size=2, max_size=4)


@settings(max_examples=50, deadline=None)
@given(several_tables, st.integers(1, 3), st.booleans())
def test_part_and_rest_add_up_to_the_effect_as_numpy_computes_them(
    rows: Any, base_count: int, is_paired: bool
) -> None:
    base_count = min(base_count, len(rows) - 1)
    names = ["pair", "reward", "cut_off"]
    frames = [pd.DataFrame(table, columns=names) for table in rows]
    frames = [frame.astype({"pair": np.uint64}) for frame in frames]
    expected = by_hand(frames, base_count, is_paired=is_paired)
    effect = Effect(expected["value"], paired=is_paired)
    properties = decomposition_of(frames, base_count, effect).properties
    if not (np.isfinite(effect.value) and 0 < expected["all"] < 1):
        assert properties == []
        return
    (cut_off,) = properties
    whole = cut_off.part + cut_off.rest
    if not np.isnan(expected["part"]):
        assert whole == pytest.approx(effect.value, abs=1e-9)
    for name in ("part", "base_share", "new_share", "base_with", "new_without"):
        found = getattr(cut_off, name)
        assert found == pytest.approx(expected[name], abs=1e-9, nan_ok=True), name


# of a run: the reward of each response to a prompt, and whether it has the property
Logged = dict[int, list[tuple[float, float]]]


class ByHand(NamedTuple):
    """What a side's prompts are on average, each as often as the others."""

    share: float  # of responses with the property
    mean_with: float
    mean_without: float
    mean: float


def by_hand(
    frames: Sequence[pd.DataFrame], base_count: int, *, is_paired: bool
) -> dict[str, float]:
    """The same with loops: every prompt of a side counts once, and each run of it the same."""
    runs = [rewarded(frame) for frame in frames]
    if is_paired:
        shared = set.intersection(*map(set, runs))
        for number, one in enumerate(runs):
            runs[number] = {pair: one[pair] for pair in shared}
    base = side_by_hand(runs[:base_count])
    new = side_by_hand(runs[base_count:])
    return {
        "all": share_of_all(runs),
        "value": new.mean - base.mean,
        "part": contrast_by_hand(runs, base_count) * (new.share - base.share),
        "base_share": base.share,
        "new_share": new.share,
        "base_with": base.mean_with,
        "new_without": new.mean_without,
    }


def rewarded(frame: pd.DataFrame) -> Logged:
    of_prompt: Logged = {}
    for pair, reward, has in frame.itertuples(index=False):
        if not np.isnan(reward):
            of_prompt.setdefault(pair, []).append((reward, has))
    return of_prompt


def share_of_all(runs: Sequence[Logged]) -> float:
    """How many of all responses have the property, NaN if a run logs it of none."""
    members = []
    for one in runs:
        of_run = [has for _, has in chain(*one.values())]
        if np.isnan(of_run).all():
            return np.nan
        members += [has > 0 for has in of_run]
    return float(np.mean(members)) if members else np.nan


def side_by_hand(side: Sequence[Logged]) -> ByHand:
    prompts: set[int] = set().union(*side)
    if not prompts:
        return ByHand(np.nan, np.nan, np.nan, np.nan)
    of_prompts = []
    for pair in prompts:
        of_runs = [having_by_hand(one[pair]) for one in side if pair in one]
        of_prompts.append(np.mean(of_runs, axis=0))
    share, earned_with, earned_without = map(float, np.mean(of_prompts, axis=0))
    return ByHand(
        share,
        earned_with / share if share > 0 else np.nan,
        earned_without / (1 - share) if share < 1 - 1e-12 else np.nan,
        earned_with + earned_without,
    )


def having_by_hand(rows: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """The share of responses with the property, what these earn of the mean, and the others."""
    earned_with = 0.0
    earned_without = 0.0
    for reward, has in rows:
        if has > 0:
            earned_with += reward
        else:
            earned_without += reward
    having = [has for _, has in rows if has > 0]
    count = len(rows)
    return len(having) / count, earned_with / count, earned_without / count


def sides_that_count(sides: Sequence[Sequence[Logged]]) -> list[int]:
    """A side whose rewards are all the same does not tell what a property is worth."""
    different = []
    for side in sides:
        rewards = set()
        for one in side:
            rewards |= {reward for reward, _ in chain(*one.values())}
        different.append(len(rewards) > 1)
    return [0, 1] if different[0] == different[1] else [different.index(True)]


def contrast_by_hand(runs: Sequence[Logged], base_count: int) -> float:
    """Least squares of rewards on the property, with a constant of each prompt of each run."""
    sides = [runs[:base_count], runs[base_count:]]
    counted: list[Logged] = []
    for side in sides_that_count(sides):
        counted += sides[side]
    x = []
    y = []
    has_both = False
    cells = sum(map(len, counted))
    cell = 0
    for of_run in counted:
        for rows in of_run.values():
            having = [h > 0 for _, h in rows]
            if len(set(having)) == 2:
                has_both = True
            for is_having, (reward, _) in zip(having, rows, strict=True):
                x.append([float(is_having), *(np.arange(cells) == cell)])
                y.append(reward)
            cell += 1
    if not has_both:
        return np.nan
    columns = np.array(x, float)
    coefficients, *_ = np.linalg.lstsq(columns, np.array(y), rcond=None)
    return float(coefficients[0])


@pytest.mark.parametrize("first", [0, 100])  # of NEW's prompts: the same, and others
def test_a_lost_format_is_named_with_its_part(first: int) -> None:
    base = marked_run(1)
    new = marked_run(2, lost=0.6, first=first)
    ends = compare_runs([base], [new])
    main = ends.decomposition.main
    assert main is not None and (main.id, main.mark) == ("format", "####")
    # Had NEW kept the marks, it would have earned as much as its right answers are.
    random, pairs, chance = many(2, first=first)
    kept = (random.random(len(pairs)) < chance).mean()
    assert main.part == pytest.approx(
        new.responses["reward"].mean() - kept, abs=0.02 if first == 0 else 0.06
    )
    assert main.part + main.rest == pytest.approx(ends.effect.value, abs=1e-9)
    assert main.within.low < 0 < main.within.high


def easy_and_marked(seed: int, *, lost: float = 0.0, worth: float = 0.0) -> Side:
    """A run that marks answers to easy prompts more often; a mark itself is ``worth`` something."""
    random, pairs, chance = many(seed)
    is_marked = random.random(len(pairs)) < np.clip(chance - lost, 0, 1)
    right = random.random(len(pairs)) < np.clip(chance - lost, 0, 1)
    marks = is_marked * float(BIT["####"])
    return run(right + worth * is_marked, pairs, answer_format=marks)


def test_a_mark_of_easy_prompts_is_no_reason_for_their_rewards() -> None:
    parts = []
    for seed in range(20):
        found = why(easy_and_marked(2 * seed), easy_and_marked(2 * seed + 1, lost=0.15))
        assert found.main is None
        parts.append(found.properties[0].part)
    assert np.mean(parts) == pytest.approx(0, abs=0.01)
    base = easy_and_marked(1, worth=1.0)
    new = easy_and_marked(2, lost=0.15, worth=1.0)
    found = why(base, new)
    assert found.main is not None
    assert found.main.part == pytest.approx(found.main.share.value, abs=0.02)


def mixed_run(seed: int, hard: float, first: int) -> Side:
    """A run of two environments; answers to the easy one are marked."""
    random = np.random.default_rng(seed)
    is_hard = np.arange(200) < 200 * hard
    pairs = first + np.repeat(np.arange(200), 4)
    of_rows = np.repeat(is_hard, 4)
    reward = random.random(800) < np.where(of_rows, 0.2, 0.8)
    is_marked = random.random(800) < np.where(of_rows, 0.1, 0.9)
    marks = is_marked * float(BIT["####"])
    names = np.where(of_rows, "hard", "easy")
    return run(reward, pairs, answer_format=marks, **{f"{EXTRA}data_source": names})


def test_another_mix_of_environments_is_named_not_what_their_answers_look_like() -> (
    None
):
    found = why(mixed_run(1, 0.2, 0), mixed_run(2, 0.5, 1000))
    assert found.main is not None
    assert (found.main.id, found.main.share.paired) == ("environment", False)
    assert found.main.part == pytest.approx(-0.18, abs=0.03)


def test_runs_of_two_environments_are_compared_without_a_part() -> None:
    found = why(mixed_run(1, 0.0, 0), mixed_run(2, 1.0, 1000))
    (mix,) = [one for one in found.listed if one.id == "environment"]
    assert {mix.base_share, mix.new_share} == {0.0, 1.0}
    assert np.isnan(mix.part) and found.main is None


def test_what_is_cut_off_comes_before_the_mark_that_it_lacks() -> None:
    found = why(marked_run(1), marked_run(2, cut=0.5))
    parts = {one.id: one.part for one in found.properties}
    assert parts["format"] == parts["cut_off"]
    assert found.main is not None and found.main.id == "cut_off"
    # A format that most others lose, too, is no matter of cut ends.
    found = why(marked_run(1), marked_run(2, lost=0.5, cut=0.1))
    assert found.main is not None and found.main.id == "format"


def test_exchanged_sides_have_mirrored_parts() -> None:
    base = marked_run(1)
    new = marked_run(2, lost=0.3, cut=0.2)
    there = why(base, new)
    back = why(new, base)
    assert [one.id for one in there.properties] == [one.id for one in back.properties]
    for one, other in zip(there.properties, back.properties, strict=True):
        assert other.part == pytest.approx(-one.part, abs=1e-9)
        assert other.rest == pytest.approx(-one.rest, abs=1e-9)
        assert (other.base_share, other.new_share) == (one.new_share, one.base_share)
        assert other.p == one.p
    assert there.main is not None and back.main is not None
    assert there.main.id == back.main.id


def test_between_runs_that_do_not_differ_nothing_is_named() -> None:
    named = 0
    for seed in range(40):
        found = why(marked_run(2 * seed), marked_run(2 * seed + 1))
        if found.main is not None:
            named += 1
    assert named <= 0.05 * 40


def test_another_mark_is_no_lost_mark() -> None:
    random, pairs, chance = many(3)
    reward = random.random(len(pairs)) < chance
    is_boxed = random.random(len(pairs)) < 0.7
    marks = np.where(is_boxed, BIT["\\boxed"], BIT["####"])
    base = run(reward, pairs, answer_format=float(BIT["####"]))
    new = run(random.random(len(pairs)) < chance, pairs, answer_format=marks * 1.0)
    found = why(base, new)
    (form,) = found.properties
    assert form.mark in ("####", "\\boxed") and found.main is None
    assert abs(form.part) < 0.05
    # Where all kinds of marks are lost, that is what is named.
    is_odd = np.arange(len(pairs)) % 2 == 1
    marks = np.where(is_odd, BIT["\\boxed"], BIT["####"])
    base = run(reward, pairs, answer_format=marks * 1.0)
    is_left = random.random(len(pairs)) < 0.3
    new = run(reward & is_left, pairs, answer_format=marks * is_left * 1.0)
    found = why(base, new)
    assert found.main is not None and found.main.mark == "any"


def test_what_a_run_does_not_log_is_no_property() -> None:
    base = marked_run(1)
    new = marked_run(2, lost=0.6)
    older = Side("older", base.responses.drop(columns=["answer_format", "cut_off"]))
    assert {one.id for one in why(older, new).properties} == {
        "tool_failed",
        "other_script",
    }


def test_marks_of_cut_texts_count_only_if_their_ends_are_kept() -> None:
    def cut(side: Side, *, keeps_ends: bool) -> Side:
        responses = side.responses.assign(response_chars=300.0)
        if not keeps_ends:
            responses["answer_format"] = float(BIT["answer"])
        return Side("cut", responses, cut=True)

    base = marked_run(1)
    new = marked_run(2, lost=0.3)
    kept = why(cut(base, keeps_ends=True), cut(new, keeps_ends=True))
    assert "format" in {one.id for one in kept.properties}
    lost = why(cut(base, keeps_ends=False), cut(new, keeps_ends=True))
    assert "format" not in {one.id for one in lost.properties}


def parts_run(seed: int, *, accuracy: float = 0.6, rounded: int = 9) -> Side:
    random, pairs, _ = many(seed)
    right = (random.random(len(pairs)) < accuracy).astype(np.float64)
    form = (random.random(len(pairs)) < 0.8).astype(np.float64)
    reward = np.round(right + 0.3 * form - 0.125, rounded)
    parts = {f"{PART}accuracy_reward": right, f"{PART}format_reward": form}
    return run(reward, pairs, **parts)


def test_parts_of_the_reward_add_up_to_the_effect() -> None:
    base = parts_run(1)
    new = parts_run(2, accuracy=0.3)
    ends = compare_runs([base], [new])
    found = {one.name: one for one in ends.decomposition.reward_parts}
    assert found["accuracy_reward"].weight == pytest.approx(1)
    assert found["format_reward"].weight == pytest.approx(0.3)
    total = sum(one.part for one in found.values())
    assert total == pytest.approx(ends.effect.value, abs=1e-9)
    right = f"{PART}accuracy_reward"
    rise = new.responses[right].mean() - base.responses[right].mean()
    assert found["accuracy_reward"].part == pytest.approx(rise, abs=1e-9)
    main = ends.decomposition.main_part
    assert main is not None and main.name == "accuracy_reward"


@pytest.mark.parametrize("change", ["unknown", "alike", "copy"])
def test_parts_that_do_not_explain_the_reward_are_left_out(change: str) -> None:
    base = parts_run(1)
    new = parts_run(2, accuracy=0.3)
    right = f"{PART}accuracy_reward"
    form = f"{PART}format_reward"
    if change == "unknown":  # the reward of some responses has another part
        new.responses.loc[:4, "reward"] -= 0.1
    if change == "alike":  # which of both is paid for is not known
        for side in (base, new):
            side.responses[form] = side.responses[right]
            side.responses["reward"] = 3 * side.responses[right]
    if change == "copy":  # the whole reward is no part of it
        for side in (base, new):
            del side.responses[right]
            side.responses[f"{PART}score"] = side.responses["reward"]
    assert why(base, new).reward_parts == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [1e308, 1e160, 1e20, 5e-324])
def test_huge_numbers_are_no_error(size: float) -> None:
    base = parts_run(1)
    new = parts_run(2)
    right = f"{PART}accuracy_reward"
    for side in (base, new):
        side.responses[right] *= size
        side.responses["answer_format"] = size
        if size < 1e300:
            side.responses["reward"] += side.responses[right]
    ends = compare_runs([base], [new])
    marks = [one.mark for one in ends.decomposition.properties if one.id == "format"]
    assert marks == ["format_reward"]  # and no mark in the text
    assert ends.prompt_changes["change"].notna().all()


def metrics_run(seed: int, right: float) -> Side:
    random = np.random.default_rng(seed)
    accuracy = right + random.normal(0, 0.02, 100)
    form = 0.9 + random.normal(0, 0.02, 100)
    steps = np.arange(100)
    logged = {
        "rewards/accuracy_reward/mean": accuracy,
        "rewards/format_reward/mean": form,
    }
    metrics = pd.DataFrame({"step": steps, **logged})
    table = pd.DataFrame({"step": steps, "reward_mean": accuracy + form})
    return Side(
        "metrics", responses_of(table), named=False, trainer=trainer_rows(metrics)
    )


def responses_of(steps: pd.DataFrame) -> pd.DataFrame:
    data = trainer_data(steps)
    return data.assign(pair=data["prompt_id"].astype(np.uint64))


def test_parts_of_the_trainers_reward_add_up_to_the_effect() -> None:
    ends = compare_runs([metrics_run(1, 0.6)], [metrics_run(2, 0.4)])
    assert ends.metrics_alone
    found = {one.name: one.part for one in ends.decomposition.reward_parts}
    assert sum(found.values()) == pytest.approx(ends.effect.value, abs=1e-9)
    assert found["accuracy_reward"] == pytest.approx(-0.2, abs=0.02)
    main = ends.decomposition.main_part
    assert main is not None and main.name == "accuracy_reward"


def test_a_part_that_is_the_same_in_all_steps_is_a_part_and_the_other_one_no_copy() -> (
    None
):
    sides = []
    for seed, right in ((1, 0.6), (2, 0.4)):
        accuracy = right + np.random.default_rng(seed).normal(0, 0.02, 100)
        steps = np.arange(100)
        logged = {"rewards/accuracy_reward/mean": accuracy, "rewards/form/mean": 0.2}
        metrics = pd.DataFrame({"step": steps, **logged})
        table = responses_of(
            pd.DataFrame({"step": steps, "reward_mean": accuracy + 0.2})
        )
        sides.append(Side("run", table, named=False, trainer=trainer_rows(metrics)))
    ends = compare_runs(sides[:1], sides[1:])
    found = {one.name: one for one in ends.decomposition.reward_parts}
    assert found["form"].part == 0 and found["form"].base == pytest.approx(0.2)
    right_part = found["accuracy_reward"].part
    assert right_part == pytest.approx(ends.effect.value, abs=1e-9)


def paid_run(seed: int, *, kept: float, prefix: str = PART) -> Side:
    """A run whose reward pays for right answers in a format, which a part of it tells."""
    side = marked_run(seed)
    random = np.random.default_rng(seed)
    form = random.random(len(side.responses)) < kept
    side.responses[f"{prefix}format_reward"] = form * 0.5
    side.responses["reward"] *= form
    return side


@pytest.mark.parametrize("prefix", [PART, EXTRA])
def test_a_part_of_the_reward_that_pays_for_format_comes_before_marks(prefix) -> None:
    base = paid_run(1, kept=0.9, prefix=prefix)
    new = paid_run(2, kept=0, prefix=prefix)
    ends = compare_runs([base], [new])
    main = ends.decomposition.main
    assert main is not None and (main.id, main.mark) == ("format", "format_reward")
    assert main.new_share == 0
    # NEW earns nothing, so that what the format is worth in BASE is about all of the difference.
    assert main.part == pytest.approx(ends.effect.value, rel=0.15)


def test_a_format_that_base_never_lost_is_told_if_nothing_is_earned_without_it() -> (
    None
):
    base = paid_run(1, kept=1)
    new = paid_run(2, kept=0)
    # One response of BASE lost it: no prompts tell what it is worth.
    base.responses.loc[0, [f"{PART}format_reward", "reward"]] = 0.0
    ends = compare_runs([base], [new])
    main = ends.decomposition.main
    assert main is not None and main.mark == "format_reward"
    assert main.part == pytest.approx(ends.effect.value, rel=0.02)
    # Not if responses without it earn something, too
    new.responses.loc[::50, "reward"] = 0.5
    assert compare_runs([base], [new]).decomposition.main is None


def test_a_logged_field_that_is_no_part_of_the_reward_is_no_format() -> None:
    base = paid_run(1, kept=0.9, prefix=EXTRA)
    new = paid_run(2, kept=0.9, prefix=EXTRA)
    for side in (base, new):
        form = side.responses.pop(f"{EXTRA}format_reward")
        side.responses[f"{EXTRA}format_version"] = form
    assert {one.mark for one in why(base, new).properties} <= {"", "####"}


def test_what_came_with_a_run_that_earns_nothing_is_not_named() -> None:
    base = marked_run(1)
    new = marked_run(2, lost=0.5)
    new.responses["reward"] = 0.0  # with the mark, too
    ends = compare_runs([base], [new])
    assert ends.level == "worse"
    (form,) = [one for one in ends.decomposition.properties if one.id == "format"]
    assert form.p < 0.05
    assert np.isnan(form.part)  # BASE has no response without the mark
    assert ends.decomposition.main is None


def test_a_mark_that_all_responses_lost_is_listed_without_a_part() -> None:
    base = marked_run(1)
    new = marked_run(2, lost=1.0)
    found = why(base, new)
    (form,) = [one for one in found.listed if one.id == "format"]
    assert (form.base_share, form.new_share) == (1, 0)
    assert np.isnan(form.part) and found.main is None


@pytest.mark.parametrize(
    ("responses", "compared"),
    [
        (3, False),
        (20, True),
    ],
)
def test_rewards_with_a_property_are_compared_if_many_responses_have_it(
    responses: int, compared: bool
) -> None:
    base = marked_run(1)
    new = marked_run(2)
    new.responses["answer_format"] = 0.0
    new.responses.loc[: 8 * responses - 1 : 8, "answer_format"] = float(BIT["####"])
    (form,) = [one for one in why(base, new).properties if one.id == "format"]
    assert np.isfinite(form.within.low) == compared


def test_listed_are_properties_whose_share_changed_and_that_matter() -> None:
    found = why(marked_run(1), marked_run(2, lost=0.6))
    assert [one.id for one in found.listed] == ["format"]
    assert len(found.properties) > 1
    # More tool calls fail in NEW, but the rewards are the same.
    base = marked_run(1)
    new = marked_run(1)
    new.responses["tool_errors"] = np.maximum(
        new.responses["tool_errors"], new.responses.index % 3 == 0
    )
    found = why(base, new)
    assert not found.effect.is_shown
    (tool,) = found.listed
    assert tool.id == "tool_failed" and tool.share.value > 0.2
    assert np.isnan(tool.part) and np.isnan(tool.rest)


ENVIRONMENTS = np.array(["code", "maths", "puzzles"])


def of_environments(seed: int, lost: float = 0.0) -> Side:
    random, pairs, chance = many(seed)
    environment = ENVIRONMENTS[pairs % 3]
    lost_there = np.where(environment == "maths", lost, 0.0)
    chance = np.clip(chance - lost_there, 0, 1)
    reward = random.random(len(pairs)) < chance
    return run(reward, pairs, **{f"{EXTRA}data_source": environment})


def tasks(ends: Comparison) -> dict[str, Task]:
    return {task.name: task for task in ends.tasks.environments}


def test_the_environment_that_lost_is_the_one_that_is_worse() -> None:
    base = of_environments(1)
    new = of_environments(2, lost=0.4)
    ends = compare_runs([base], [new])
    assert ends.tasks.field == "data_source"
    found = tasks(ends)
    assert found["maths"].level == "worse"
    assert {found["code"].level, found["puzzles"].level} == {"none"}
    for name, task in found.items():
        means = [
            side.responses.loc[
                side.responses[f"{EXTRA}data_source"] == name, "reward"
            ].mean()
            for side in (base, new)
        ]
        assert [task.base, task.new] == pytest.approx(means)
        assert task.effect.value == pytest.approx(means[1] - means[0])
        assert task.prompts == 20


def test_numbers_and_texts_of_one_field_name_environments() -> None:
    base = of_environments(1)
    new = of_environments(2)
    base.responses[f"{EXTRA}data_source"] = (base.responses["pair"] % 3).astype(float)
    new.responses[f"{EXTRA}data_source"] = (new.responses["pair"] % 3).map(str)
    assert set(tasks(compare_runs([base], [new]))) == {"0", "1", "2"}


def test_of_one_response_in_the_window_other_steps_tell_the_difficulty() -> None:
    sides = []
    for seed in (1, 2):
        random, pairs, chance = many(seed, prompts=60, responses=10)
        step = np.tile(np.arange(10), 60)
        side = run(random.random(len(pairs)) < chance, pairs, step)
        # Two steps are compared; each prompt is in one of them.
        is_kept = (step < 8) | (step == 8 + pairs % 2)
        sides.append(Side("run", side.responses[is_kept]))
    difficulties = compare_runs(sides[:1], sides[1:]).tasks.difficulties
    assert [task.name for task in difficulties] == ["hard", "medium", "easy"]
    assert difficulties[2].base - difficulties[0].base > 0.3


def test_equal_rewards_have_no_classes_of_difficulty() -> None:
    _, pairs, _ = many(1)
    same = run(np.ones(len(pairs)), pairs)
    ends = compare_runs([same], [same])
    assert ends.tasks.difficulties == [] and ends.tasks.environments == []


def test_a_run_compared_with_its_own_copy_has_no_difference_in_any_class() -> None:
    ends = compare_runs([marked_run(1)], [marked_run(1)])
    assert ends.effect.paired and ends.effect.value == 0
    assert ends.tasks.difficulties == []


def changes(base: Side, new: Side) -> dict[int, str]:
    table = compare_runs([base], [new]).prompt_changes
    return dict(zip(table["pair"].tolist(), table["change"], strict=True))


def test_prompts_that_changed_beyond_chance_are_told_from_those_that_did_not() -> None:
    pairs = np.repeat(np.arange(5), 10)
    rows = np.arange(50) % 10
    base = np.array([0, 0, 1, 1, 1])[pairs]
    new = np.array([1, 0, 0, 1, 0])[pairs]
    new = np.where(pairs == 4, rows < 8, new)  # eight right of ten
    found = changes(run(base, pairs), run(new, pairs))
    assert found == {
        0: "improved",
        1: "never",
        2: "regressed",
        3: "always",
        4: "same",
    }


@pytest.mark.parametrize("rewards", [(0.0, 1.0), (0.1, 0.7)])
def test_one_response_a_side_never_shows_a_change(rewards: tuple[float, float]) -> None:
    pairs = np.arange(40)
    low, high = rewards
    other = np.where(pairs % 4 == 0, 0.5, low)  # more than two values
    for base in (np.full(40, low), other):
        found = changes(run(base, pairs), run(np.full(40, high), pairs))
        assert set(found.values()) == {"same"}


def test_what_is_logged_as_right_counts_and_not_points_beside_it() -> None:
    pairs = np.repeat(np.arange(3), 10)
    right = (pairs > 0).astype(np.float64)
    base = run(right, pairs, correct=right)
    new = run(right * 0.5 + 0.1, pairs, correct=right)
    assert changes(base, new) == {0: "never", 1: "always", 2: "always"}
    older = Side("older", base.responses.drop(columns="correct"))
    assert changes(older, new) == {0: "improved", 1: "regressed", 2: "regressed"}


def test_other_prompts_have_no_changes_and_no_classes() -> None:
    ends = compare_runs([marked_run(1)], [marked_run(2, first=100)])
    assert not ends.effect.paired
    assert ends.prompt_changes.empty and ends.tasks.difficulties == []


@pytest.mark.parametrize(
    ("responses", "can_tell"),
    [
        (4, False),
        (8, True),
    ],
)
def test_few_responses_cannot_tell_any_single_prompt(
    responses: int, can_tell: bool
) -> None:
    # 2 / 70 and 2 / 12870 are the smallest p, 0.05 / 40 the largest that counts.
    pairs = np.repeat(np.arange(40), responses)
    half = np.arange(len(pairs)) % responses < responses / 2
    base = run(half, pairs)
    new = run(half & (pairs > 10), pairs)
    ends = compare_runs([base], [new])
    assert set(ends.prompt_changes["change"]) == {"same"}
    assert ends.can_tell_prompts == can_tell
    directions = prompt_counts(ends).directions
    assert (directions["lower"], directions["higher"]) == (11, 0)


def test_what_was_told_can_be_told() -> None:
    pairs = np.repeat(np.arange(40), 4)
    base = run(pairs >= 0, pairs)
    new = run(pairs < 0, pairs)
    ends = compare_runs([base], [new])
    assert set(ends.prompt_changes["change"]) == {"regressed"}
    assert ends.can_tell_prompts
