"""Checks of the diversity and language of responses, and of their dependence on the prompt."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import means, progress, quantities
from rlreport.check.check import LOGPROBS, RESPONSE, Check
from rlreport.check.evidence import Ranking
from rlreport.check.excerpts import other_script_place
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.fit import deviate
from rlreport.check.judges.policy import entropy_collapse
from rlreport.check.limits import LMFLOW, Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean
from rlreport.check.run import Run, once_per_run
from rlreport.check.settings import SettingKind, also, enabled, higher, lower
from rlreport.check.windows import Trend, Window
from rlreport.figures.ragged import Floats, Ints, offsets_of
from rlreport.tables import TextSample
from rlreport.text.messages import translatable

DISTINCT = translatable("LMFlow's post on PPO: distinct-2 fell from 0.39 to 0.22")
RAGEN_2 = translatable("RAGEN-2 (template collapse)")
# Number of hash buckets for n-grams; collisions make the result only slightly less exact
_BUCKETS = 4096
DRAWS = 8  # Distinct-2 is the average of samples from this many random orders of the responses
# Maximum number of bigrams from which distinct-2 is computed, for speed
MAX_BIGRAMS = 20_000
# Minimum number of bigrams from which it is computed for a step
MIN_STEP_BIGRAMS = 20
# A response with fewer different word pairs than this part of the first ones repeats itself
RARE = 0.1


class _DiversityCollapse(Limits):
    fall = Limit(
        0.3,
        LimitKind.SHARE,
        "of distinct-2",
        "fall of distinct-2, at equal numbers of bigrams",
        DISTINCT,
    )
    least_bigrams = Limit(
        200,
        LimitKind.COUNT,
        "bigrams",
        "with fewer, judge by identical responses only",
        DISTINCT,
    )
    identical = Limit(
        0.5,
        LimitKind.SHARE,
        "of responses",
        "share that equal a response to another prompt (warning)",
        DISTINCT,
    )


def _alike_title(facts: Facts) -> str:
    """Return the title: on equal responses if they are too many, else on repeated word pairs."""
    if "twins" in facts:
        return translatable(
            "{twins:percent} of responses equal a response to another prompt of the same step "
            "({twins_start:percent} at the start)."
        )
    return translatable(
        "Distinct-2 of equal samples of {bigrams:count} word pairs fell from "
        "{distinct_start:figure} to {distinct:figure}."
    )


@Check(
    name="responses become more alike",
    rank=Rank.CONSEQUENCE,
    needs=(RESPONSE,),
    charts=("distinct_2", "duplicates"),
    sampled=("distinct",),
    limits=_DiversityCollapse,
    close={"fall": "distinct-2 fell by {value:percent}"},
    title=_alike_title,
    statement="texts become repetitive",
    why="A policy that says one thing to every prompt has stopped answering them.",
    suggestion="Raise the KL coefficient, the entropy bonus or the temperature; fix the reward.",
    advice=higher(SettingKind.KL, SettingKind.ENTROPY, SettingKind.TEMPERATURE),
    rules_out=lower(SettingKind.TEMPERATURE),
    otherwise="Fix the reward, and go back to a checkpoint before the fall.",
    explains=("entropy_collapse", "reward_stalled", "watched_reward_fall"),
    trend=True,
)
def diversity_collapse(check: Check, run: Run) -> Result:
    """Find that responses to different prompts are equal, or that word pairs repeat more."""
    # Equal answers to one prompt are normal, so count the prompts that share an answer.
    prompts = run.responses.groupby(["step", "response_hash"])["prompt_id"]
    times = prompts.transform("nunique").to_numpy(np.float64)
    is_twin = (times > 1).astype(np.float64)
    twins = means.change(run, is_twin)
    limits = _DiversityCollapse
    tested: list[Tested] = []
    facts: Facts = {}
    judged_by_step: Floats | None = None  # the figure that dates the finding
    distinct = distinct_fall(run)
    if distinct is not None and distinct.z >= run.limits[Trend].z:
        fall = run.limits.test(limits.fall, ">", distinct.share)
        tested.append(fall)
        if fall.met:
            facts = {
                "distinct": distinct.last,
                "distinct_start": distinct.first,
                "bigrams": distinct.bigrams,
            }
            judged_by_step = _distinct_by_step(run)
    has_twins = False
    if twins.rose:
        identical = run.limits.test(limits.identical, ">", twins.last)
        tested.append(identical)
        has_twins = identical.met
    if has_twins:
        facts = {"twins": twins.last, "twins_start": twins.first, **facts}
        judged_by_step = run.by_step(is_twin)  # the stronger evidence of both
    if judged_by_step is None:
        return Result(tested=tuple(tested))
    ranking = Ranking(times, is_twin, unit="times in its step")
    if not has_twins:
        ranking = _repetitive(run)
    # Texts of a run that learned may well repeat words, but not whole responses.
    is_harmless = not has_twins and _is_trusted(run)
    return check.found(
        run,
        Severity.INFO if is_harmless else Severity.WARNING,
        tested,
        facts,
        ranking,
        onset=run.onset(judged_by_step),
    )


def _repetitive(run: Run) -> Ranking:
    """Return how to choose responses with fewer different word pairs than nearly all first ones."""
    assert run.first is not None
    distinct = run.column("distinct_2")
    first = distinct[run.first.rows]
    first = first[np.isfinite(first)]
    usual = np.quantile(first, RARE) if len(first) else np.nan
    return Ranking.beyond(distinct, "<", float(usual))


def _is_trusted(run: Run) -> bool:
    """Return whether the run learned, no reward fell, and the reward cannot easily be gamed.

    It cannot if validation rose with it, or if a rule seems to compute it.
    """
    watched = quantities.watched_course(run)
    for course in (quantities.reward_course(run), watched):
        if course is not None and course.lost:
            return False
    if not progress.learned(run):
        return False
    is_validated = watched is not None and watched.curve.rose
    return is_validated or progress.verifiable(run)


def distinct_loss(run: Run) -> bool:
    """Return whether distinct-2 (fraction of distinct word pairs) fell by more than its limit."""
    fall = distinct_fall(run)
    return fall is not None and fall.share > run.limits[_DiversityCollapse].fall


class DistinctFall(NamedTuple):
    """Distinct-2 (fraction of distinct bigrams) of first and last steps, and the z of its fall."""

    first: float
    last: float
    bigrams: int  # number of bigrams from which each of the two is computed
    z: float  # positive for a fall

    @property
    def share(self) -> float:
        """Part of the first distinct-2 that was lost."""
        return 1 - self.last / self.first


@once_per_run
def distinct_fall(run: Run) -> DistinctFall | None:
    """Compare distinct-2 in the first and last window; None if either has too few bigrams.

    Larger samples repeat more bigrams, so both windows, and all steps, are cut to equal numbers.
    The z is computed from the variance between steps. Identical answers to a prompt within a
    step count once.
    """
    if run.first is None or run.tables.ngrams is None:
        return None
    # Lists of the steps of a window, each a list of the responses' bigrams
    first = _bigrams_by_step(run, run.tables.ngrams, run.first)
    last = _bigrams_by_step(run, run.tables.ngrams, run.last)
    # The same without the steps
    in_first = list(chain.from_iterable(first))
    in_last = list(chain.from_iterable(last))
    size = min(MAX_BIGRAMS, _count(in_first), _count(in_last))
    if size < run.limits[_DiversityCollapse].least_bigrams:
        return None
    return DistinctFall(
        first=_distinct_2(in_first, size),
        last=_distinct_2(in_last, size),
        bigrams=size,
        z=_z_of_distinct(first, last),
    )


def _distinct_by_step(run: Run) -> Floats:
    """Return distinct-2 of each step, float64 (S,), NaN for steps with too few bigrams.

    It dates the fall, and may use more bigrams than the z.
    """
    assert run.tables.ngrams is not None
    whole_run = run.window(0, len(run.steps))
    steps = _bigrams_by_step(run, run.tables.ngrams, whole_run)
    median_size = int(np.median([_count(step) for step in steps]))
    size = max(median_size // 2, MIN_STEP_BIGRAMS)
    return np.array([_distinct_2(step, size) for step in steps])


def _bigrams_by_step(run: Run, sample: TextSample, window: Window) -> list[list[Ints]]:
    """Return for each step the bigrams (pairs of successive words) of each answer, as numbers.

    An answer that a prompt gets several times in a step comes once.
    """
    rows = np.asarray(sample.rows)
    bounds = (window.rows.start, window.rows.stop)
    start, stop = np.searchsorted(rows, bounds).tolist()
    rows = rows[start:stop]
    offsets = sample.offsets[start : stop + 1]
    units = sample.units[offsets[0] : offsets[-1]].astype(np.int64)
    # A pair of words is numbered like a number of two digits.
    pairs = units[:-1] * len(sample.vocabulary) + units[1:]
    answers = run.responses[["step", "prompt_id", "response_hash"]].iloc[rows]
    is_first = ~answers.duplicated().to_numpy()
    # The last word begins no pair; an empty response has none.
    starts = offsets[:-1] - offsets[0]
    stops = np.maximum(offsets[1:] - 1 - offsets[0], starts)
    first_step = np.searchsorted(run.steps, window.steps[0])
    step_of_window = run.step_index[rows] - first_step
    steps: list[list[Ints]] = [[] for _ in window.steps]
    of_answers = zip(
        step_of_window[is_first].tolist(),
        starts[is_first].tolist(),
        stops[is_first].tolist(),
        strict=True,
    )
    for step, start, stop in of_answers:
        steps[step].append(pairs[start:stop])
    return steps


def _count(responses: list[Ints]) -> int:
    """Return the number of bigrams of several responses."""
    return sum(map(len, responses))


def _z_of_distinct(first: list[list[Ints]], last: list[list[Ints]]) -> float:
    """Return the z of the fall of distinct-2, by its scatter over the steps of both windows.

    It is NaN if a step has fewer than MIN_STEP_BIGRAMS. Arguments: step -> response -> bigrams.
    """
    # All steps are cut to the size of the smallest.
    smallest = min(_count(step) for step in [*first, *last])
    size = max(smallest, MIN_STEP_BIGRAMS)
    before = np.array([_distinct_2(step, size) for step in first])
    after = np.array([_distinct_2(step, size) for step in last])
    of_first = before.var(ddof=1) / len(before)
    of_last = after.var(ddof=1) / len(after)
    error = float(np.sqrt(of_first + of_last))
    fall = float(before.mean() - after.mean())
    freedom = len(before) + len(after) - 2  # each mean takes one degree
    return deviate(fall, error, freedom)


def _distinct_2(responses: list[Ints], size: int) -> float:
    """Return the mean distinct fraction in samples of ``size`` bigrams, NaN if there are fewer.

    A sample consists of whole responses in random order, the last of which is cut; of DRAWS such
    samples, the mean is returned. Their seeds are fixed, so that a report can be repeated.
    """
    size = min(size, MAX_BIGRAMS)
    if _count(responses) < size:
        return np.nan
    # Numbered once from 0, so that draws are counted without being sorted.
    numbers, _ = pd.factorize(np.concatenate(responses))
    lengths = np.array(list(map(len, responses)))
    bounds = offsets_of(lengths).tolist()
    parts = [numbers[start:stop] for start, stop in pairwise(bounds)]
    distinct = 0
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(len(parts))
        # The responses that have ``size`` bigrams together
        count = int(np.searchsorted(np.cumsum(lengths[order]), size)) + 1
        sample = np.concatenate([parts[index] for index in order[:count]])[:size]
        distinct += int(np.count_nonzero(np.bincount(sample)))
    return distinct / (DRAWS * size)


class _TemplateCollapse(Limits):
    prompts = Limit(
        4,
        LimitKind.COUNT,
        "prompts",
        "with two responses each; steps with fewer are not judged",
    )
    first = Limit(
        0.3,
        LimitKind.VALUE,
        "beyond chance",
        "responses that can be matched to their prompt, first window",
        RAGEN_2,
    )
    last = Limit(
        0.1,
        LimitKind.VALUE,
        "beyond chance",
        "responses that can be matched to their prompt, last window",
        RAGEN_2,
    )


@Check(
    name="responses no longer depend on their prompts",
    rank=Rank.CONSEQUENCE,
    needs=(LOGPROBS,),
    charts=("surprisal", "reward"),
    sampled=("end",),
    limits=_TemplateCollapse,
    title="Only {end:percent} of responses can be matched to their prompt beyond chance "
    "({start:percent} at the start), although entropy did not collapse.",
    statement="only {end:percent} of responses still depend on their prompts",
    why="Entropy looks fine, but the policy writes the same phrases whatever it is asked.",
    suggestion="Drop groups of low reward variance; lower the KL and entropy coefficients.",
    advice=enabled(SettingKind.GROUP_FILTER)
    + lower(SettingKind.KL, SettingKind.ENTROPY),
    otherwise="Choose prompts whose responses earn different rewards.",
    source=RAGEN_2,
    explains=("reward_stalled", "group_std_fall"),
    needs_also="texts of two or more responses to each of several prompts per step",
    trend=True,
)
def template_collapse(check: Check, run: Run) -> Result:
    """Find that responses can no longer be matched to their prompts, at a normal entropy."""
    size = len(run.last.steps)
    at_first = _match_rates(run, run.window(0, size)).by_step
    at_last = _match_rates(run, run.last).by_step
    known_steps = [np.isfinite(rates).sum() for rates in (at_first, at_last)]
    if min(known_steps) < 2:
        return check.not_run(check.needs_also)
    first = mean(at_first)
    last = mean(at_last)
    limits = _TemplateCollapse
    matched = run.limits.test(limits.first, ">", first)
    unmatched = run.limits.test(limits.last, "<", last)
    nothing = Result(tested=(matched, unmatched))
    if not (matched.met and unmatched.met):
        return nothing
    if entropy_collapse.run(run).finding is not None:  # that says it already
        return nothing
    # Less often than by chance is as good as by chance.
    facts = {"start": first, "end": max(0.0, last)}
    whole_run = _match_rates(run, run.window(0, len(run.steps)))
    return check.found(
        run,
        Severity.WARNING,
        [matched, unmatched],
        facts,
        # The longest ones say most.
        Ranking(run.column(run.length), 1 - whole_run.matches, in_last_window=True),
        onset=run.onset(whole_run.by_step),
    )


class _MatchRates(NamedTuple):
    """How often texts of some steps match their prompt."""

    by_step: Floats  # of these steps: 1 always, 0 by chance, NaN if unknown
    # float64 (rows,), 1 for texts that do, 0 for those that do not, NaN if not compared
    matches: Floats


def _match_rates(run: Run, window: Window) -> _MatchRates:
    """Return how often texts of a window match their prompt.

    A text matches if it is more like the other texts of its prompt than like those of any other.
    Steps with fewer prompts than the limit that have two sampled responses or more are unknown.
    """
    sample = run.tables.ngrams
    rates = np.full(len(window.steps), np.nan)
    matches = np.full(len(run.responses), np.nan)
    if sample is None:
        return _MatchRates(rates, matches)
    least = run.limits[_TemplateCollapse].prompts
    rows = np.asarray(sample.rows)
    offsets = np.asarray(sample.offsets)
    step_of_texts = run.steps[run.step_index[rows]]
    prompts = run.responses["prompt_id"].to_numpy(np.int64)[rows]
    for place, step in enumerate(window.steps):
        texts_here = np.flatnonzero(step_of_texts == step)
        _, prompt, responses_of = np.unique(
            prompts[texts_here], return_inverse=True, return_counts=True
        )
        # Only prompts with two responses or more can be compared.
        is_recurring = responses_of[prompt] >= 2
        # Number these prompts from 0 again.
        recurring, prompt = np.unique(prompt[is_recurring], return_inverse=True)
        if len(recurring) < least:
            continue
        texts = [
            np.asarray(sample.units[offsets[index] : offsets[index + 1]])
            for index in texts_here[is_recurring]
        ]
        chance = 1 / len(recurring)
        does_match = _which_match(texts, prompt)
        matches[rows[texts_here[is_recurring]]] = does_match
        rates[place] = (float(does_match.mean()) - chance) / (1 - chance)
    return _MatchRates(rates, matches)


def _which_match(texts: list[NDArray[np.int32]], prompt: Ints) -> NDArray[np.bool_]:
    """Return which texts are most like the other texts of their own prompt, bool (texts,).

    Texts are compared by the cosine of the words and pairs of words that they contain, each with
    the sum of the texts of a prompt; a text is no part of the sum for its own prompt.

    Args:
        texts: the numbers of the words of each text.
        prompt: the index of each text's prompt, from 0; each prompt has two texts or more.
    """
    # Whether a text contains a word or a pair; both are hashed to a column by their numbers.
    buckets = []
    for units in texts:
        wide = units.astype(np.int64)  # products of int32 would overflow
        pairs = (wide[:-1] * 31_337 + wide[1:] + 1) % _BUCKETS
        buckets.append(np.concatenate([wide % _BUCKETS, pairs]))
    # Only buckets that some text has are columns.
    is_used = np.zeros(_BUCKETS, bool)
    is_used[np.concatenate(buckets)] = True
    column_of = np.cumsum(is_used) - 1
    vectors = np.zeros((len(texts), int(is_used.sum())))
    for row, of_text in enumerate(buckets):
        vectors[row, column_of[of_text]] = 1
    # Weight by inverse frequency: n-grams that most texts contain carry no information.
    vectors *= np.log(len(texts) / vectors.sum(axis=0))
    vectors = _normalize(vectors)
    is_of_prompt = prompt[:, None] == np.arange(prompt.max() + 1)  # (texts, prompts)
    sums = is_of_prompt.T.astype(np.float64) @ vectors
    similarity = vectors @ _normalize(sums).T
    sum_of_others = sums[prompt] - vectors
    own_similarity = (vectors * _normalize(sum_of_others)).sum(axis=1)
    similarity[is_of_prompt] = -1  # leaves the other prompts
    return np.asarray(own_similarity > similarity.max(axis=1))


def _normalize(vectors: Floats) -> Floats:
    """Return the vectors with length 1, rounded to multiples of 2⁻²⁴.

    Products of two are then multiples of 2⁻⁴⁸, which float64, with 53 bits, adds up exactly: so
    similarities, which are compared with each other, do not depend on the order of additions.
    """
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    units = np.rint(vectors / np.maximum(lengths, 1e-9) * 2.0**24)
    return np.asarray(units * 2.0**-24)


class _LanguageDrift(Limits):
    rise = Limit(
        0.2,
        LimitKind.SHARE,
        "of responses",
        "rise of the share in another script than the prompt's (note)",
        LMFLOW,
    )
    most = Limit(
        0.5, LimitKind.SHARE, "of responses", "share in another script (warning)"
    )


@Check(
    name="responses leave the prompt's language",
    rank=Rank.CONSEQUENCE,
    needs=(RESPONSE,),
    charts=("reward",),
    limits=_LanguageDrift,
    title="{share:percent} of responses use a different script from their prompt "
    "({share_start:percent} at the start).",
    statement="{share:percent} of responses leave the prompt's language",
    why="The reward does not require the prompt's language.",
    suggestion="Add a reward for the prompt's language, or a KL penalty.",
    advice=also(*higher(SettingKind.KL)),
    before_setting="Add a reward for the prompt's language.",
    source="DeepSeek-R1 (language mixing); LMFlow post on PPO training",
    explains=("diversity_collapse", "length_collapse", "watched_reward_fall"),
    trend=True,
    place=other_script_place,
)
def language_drift(check: Check, run: Run) -> Result:
    """Find that responses use another script than their prompts more often."""
    foreign = run.column("other_script")
    if not np.isfinite(foreign).any():
        return check.not_run("prompts and responses with six or more letters")
    drift = means.change(run, foreign)
    rise = run.limits.test(_LanguageDrift.rise, ">=", drift.difference)
    if not (rise.met and drift.rose):
        return Result(tested=(rise,))
    are_most = run.limits.test(_LanguageDrift.most, ">", drift.last)
    watched = quantities.watched_course(run)
    is_harmful = are_most.met or (watched is not None and watched.lost)
    return check.found(
        run,
        Severity.WARNING if is_harmful else Severity.INFO,
        [rise, are_most],
        {"share": drift.last, "share_start": drift.first},
        Ranking(foreign, foreign),
        onset=run.onset(run.by_step(foreign)),
    )
