"""Checks of the diversity and language of responses, and of their dependence on the prompt."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import means, progress, quantities
from rlreport.check.check import FALLS, LOGPROBS, RESPONSE, Check, Need
from rlreport.check.evidence import Ranking, beyond
from rlreport.check.excerpts import other_script_place
from rlreport.check.finding import Facts, LogText, Onset, Rank, Result, Severity
from rlreport.check.fit import deviate
from rlreport.check.judges.length import correlation_with_reward
from rlreport.check.limits import LMFLOW, Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean
from rlreport.check.run import Run, event_onset, once_per_run, onset_of
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.windows import Trend
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import change
from rlreport.figures.tokens import find_loops
from rlreport.tables import TextSample
from rlreport.text.messages import translatable
from rlreport.text.scripts import script_of

DISTINCT = translatable("LMFlow's post on PPO: distinct-2 fell from 0.39 to 0.22")
RAGEN_2 = translatable("RAGEN-2 (template collapse)")
# Number of hash buckets for n-grams; collisions make the result only slightly less exact
_BUCKETS = 4096
DRAWS = 8  # Distinct-2 is the average of samples from this many random orders of the responses
# Maximum number of bigrams from which distinct-2 is computed, for speed
MAX_BIGRAMS = 20_000
# Minimum number of bigrams from which it is computed for a step
MIN_STEP_BIGRAMS = 20
# A text needs this many letters for its script (Latin, Cyrillic, ...) to be recognized
LEAST_LETTERS = 6
MAX_LOOPS = 400  # Of so many late responses in a loop, the usual loop is found
# A response with fewer different word pairs than this part of the first ones repeats itself
RARE = 0.1
MAX_SHOWN = 6  # Maximum number of words of a loop that a title quotes


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
            judged_by_step = distinct.series
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
    return Ranking(distinct, beyond(distinct, "<", float(usual)), highest=False)


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
    series: Floats  # distinct-2 of each step, float64 (S,), NaN for steps with too few bigrams

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
    steps = _bigrams_by_step(run, run.tables.ngrams)
    # Lists of the steps of a window, each a list of the responses' bigrams
    first = steps[: len(run.first.steps)]
    last = steps[-len(run.last.steps) :]
    # The same without the steps
    in_first = list(chain.from_iterable(first))
    in_last = list(chain.from_iterable(last))
    size = min(MAX_BIGRAMS, _count(in_first), _count(in_last))
    if size < run.limits[_DiversityCollapse].least_bigrams:
        return None
    # The series for the onset may use more bigrams than the z, and is NaN at steps with fewer.
    median_size = int(np.median([_count(step) for step in steps]))
    step_size = max(median_size // 2, MIN_STEP_BIGRAMS)
    return DistinctFall(
        first=_distinct_2(in_first, size),
        last=_distinct_2(in_last, size),
        bigrams=size,
        z=_z_of_distinct(first, last),
        series=np.array([_distinct_2(step, step_size) for step in steps]),
    )


def _bigrams_by_step(run: Run, sample: TextSample) -> list[list[Ints]]:
    """Return for each step the bigrams (pairs of successive words) of each answer, as numbers.

    An answer that a prompt gets several times in a step comes once.
    """
    rows = np.asarray(sample.rows)
    units = np.asarray(sample.units, np.int64)
    # A pair of words is numbered like a number of two digits.
    pairs = units[:-1] * len(sample.vocabulary) + units[1:]
    answers = run.responses[["step", "prompt_id", "response_hash"]].iloc[rows]
    steps: list[list[Ints]] = [[] for _ in run.steps]
    for index in np.flatnonzero(~answers.duplicated().to_numpy()).tolist():
        start = sample.offsets[index]
        stop = sample.offsets[index + 1]
        # The last word begins no pair; an empty response has none.
        bigrams = pairs[start : max(stop - 1, start)]
        steps[run.step_index[rows[index]]].append(bigrams)
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
    ends = np.cumsum([len(response) for response in responses])
    parts = np.split(numbers, ends[:-1])
    distinct = 0
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(len(parts))
        sample = np.concatenate([parts[index] for index in order])[:size]
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
    surprisal = Limit(
        0.8, LimitKind.RATIO, "times", "surprisal relative to the first window"
    )


@Check(
    name="responses no longer depend on their prompts",
    rank=Rank.CONSEQUENCE,
    needs=(LOGPROBS,),
    charts=("surprisal", "reward"),
    sampled=("end",),
    limits=_TemplateCollapse,
    title="Only {end:percent} of responses can be matched to their prompt beyond chance "
    "({start:percent} at the start), while surprisal hardly fell.",
    statement="only {end:percent} of responses still depend on their prompts",
    why="Entropy looks fine, but the policy writes the same phrases whatever it is asked.",
    suggestion="Drop groups of low reward variance; lower the KL and entropy coefficients.",
    source=RAGEN_2,
    explains=("reward_stalled", "group_std_fall"),
    needs_also="texts of two or more responses to each of several prompts per step",
    trend=True,
)
def template_collapse(check: Check, run: Run) -> Result:
    """Find that responses can no longer be matched to their prompts, at a normal entropy."""
    matches = np.full(len(run.responses), np.nan)
    by_step = _match_rates(run, run.limits[_TemplateCollapse].prompts, matches)
    at_first = by_step[: len(run.last.steps)]
    at_last = run.last_values(by_step)
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
    surprisal = means.change(
        run, run.column("surprisal_mean"), run.column("logp_tokens")
    )
    certain = run.limits.test(limits.surprisal, "<", surprisal.last, of=surprisal.first)
    if certain.met:  # then entropy collapsed, which is a check of its own
        return nothing
    # Less often than by chance is as good as by chance.
    facts = {"start": first, "end": max(0.0, last)}
    return check.found(
        run,
        Severity.WARNING,
        [matched, unmatched],
        facts,
        # The longest ones say most.
        Ranking(run.column(run.length), 1 - matches, in_last_window=True),
        onset=run.onset(by_step),
    )


def _match_rates(run: Run, least: int, matches: Floats) -> Floats:
    """Return by step how often texts match their prompt: 1 always, 0 by chance, NaN if unknown.

    A text matches if it is more like the other texts of its prompt than like those of any other.
    Steps with fewer than ``least`` prompts that have two sampled responses or more are unknown.
    ``matches``, float64 (rows,), is set to 1 or 0 for the texts that were compared.
    """
    sample = run.tables.ngrams
    rates = np.full(len(run.steps), np.nan)
    if sample is None:
        return rates
    rows = np.asarray(sample.rows)
    offsets = np.asarray(sample.offsets)
    step_index = run.step_index[rows]
    prompts = run.responses["prompt_id"].to_numpy(np.int64)[rows]
    for step in np.unique(step_index).tolist():
        texts_here = np.flatnonzero(step_index == step)
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
        rates[step] = (float(does_match.mean()) - chance) / (1 - chance)
    return rates


def _which_match(texts: list[NDArray[np.int32]], prompt: Ints) -> NDArray[np.bool_]:
    """Return which texts are most like the other texts of their own prompt, bool (texts,).

    Texts are compared by the cosine of the words and pairs of words that they contain, each with
    the sum of the texts of a prompt; a text is no part of the sum for its own prompt.

    Args:
        texts: the numbers of the words of each text.
        prompt: the index of each text's prompt, from 0; each prompt has two texts or more.
    """
    # Whether a text contains a word or a pair; both are hashed to a column by their numbers.
    vectors = np.zeros((len(texts), _BUCKETS))
    for row, units in enumerate(texts):
        wide = units.astype(np.int64)  # products of int32 would overflow
        pairs = (wide[:-1] * 31_337 + wide[1:] + 1) % _BUCKETS
        vectors[row, np.concatenate([wide % _BUCKETS, pairs])] = 1
    vectors = vectors[:, vectors.any(axis=0)]
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
    units = np.rint(np.ldexp(vectors / np.maximum(lengths, 1e-9), 24))
    return np.asarray(np.ldexp(units, -24))


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
    sampled=("share",),
    limits=_LanguageDrift,
    title="{share:percent} of responses use a different script from their prompt "
    "({share_start:percent} at the start).",
    statement="{share:percent} of responses leave the prompt's language",
    why="The reward does not require the prompt's language.",
    suggestion="Add a reward for the prompt's language, or a KL penalty.",
    source="DeepSeek-R1 (language mixing); LMFlow post on PPO training",
    explains=("diversity_collapse", "length_collapse", "watched_reward_fall"),
    trend=True,
    place=other_script_place,
)
def language_drift(check: Check, run: Run) -> Result:
    """Find that responses use another script than their prompts more often."""
    if run.tables.words is None:
        return check.not_run("response")
    foreign = _in_other_script(run, run.tables.words)
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


def _scripts(text: str) -> Counter[str]:
    """Count the letters of each script."""
    return Counter(filter(None, map(script_of, text)))


def _in_other_script(run: Run, words: TextSample) -> Floats:
    """Return 1 for responses in another script than their prompt, else 0; float64 (rows,).

    The script of a text is that of most of its letters. It is unknown (NaN) for a text with few
    letters, and for responses that are not among the sampled ones (``words``).
    """
    foreign = np.full(len(run.responses), np.nan)
    letters = _letters_of_responses(words)
    if letters.empty:
        return foreign
    prompts = run.responses["prompt_id"].iloc[words.rows]
    of_prompt = prompts.map(_scripts_of_prompts(run)).to_numpy()
    has_letters = (letters.sum(axis=1) >= LEAST_LETTERS).to_numpy()
    known = has_letters & pd.notna(of_prompt)
    # Letters of the prompt's script in each response; a response without any has no column.
    of_own_script = np.zeros(len(letters))
    for script in letters.columns:
        is_own = of_prompt == script
        of_own_script[is_own] = letters[script].to_numpy()[is_own]
    is_other = letters.max(axis=1).to_numpy() > of_own_script
    foreign[words.rows[known]] = is_other[known]
    return foreign


def _scripts_of_prompts(run: Run) -> dict[int, str]:
    """Return ``prompt_id`` -> the prompt's most common script, of prompts with enough letters."""
    prompts = run.tables.prompts
    scripts = {}
    for prompt_id, text in zip(prompts["prompt_id"], prompts["prompt"], strict=True):
        letters = _scripts(str(text))
        if letters.total() >= LEAST_LETTERS:
            scripts[prompt_id] = letters.most_common(1)[0][0]
    return scripts


def _letters_of_responses(words: TextSample) -> pd.DataFrame:
    """Return how many letters of each script (columns) each sampled response (rows) has."""
    of_words = pd.DataFrame.from_records([_scripts(word) for word in words.vocabulary])
    # Sorted, so that of scripts with equally many letters always the same one counts
    of_words = of_words.fillna(0).sort_index(axis=1)
    size = len(words.rows)
    response = np.repeat(np.arange(size), np.diff(words.offsets))  # of each word

    def of_responses(script: pd.Series) -> Floats:
        letters = script.to_numpy(np.float64)[words.units]
        return np.asarray(np.bincount(response, letters, size), np.float64)

    return of_words.apply(of_responses)


class _Loops(Limits):
    rise = Limit(
        0.08,
        LimitKind.SHARE,
        "of responses",
        "rise of the share that repeat themselves",
    )
    z = Limit(4.0, LimitKind.ERRORS, "std errors", "significance of that rise")
    lost = Limit(
        0.25,
        LimitKind.VALUE,
        "std of reward",
        "reward of these responses below that of others (warning)",
    )


class _LoopRise(NamedTuple):
    """The rise of the share of responses in a loop, and how long it lasted."""

    before: float  # the share before the rise
    level: float  # the share after it
    z: float
    onset: Onset | None
    until: int | None  # None if it lasts until the end


class _LoopRewards(NamedTuple):
    """Mean rewards of responses in a loop and of others, in the late window."""

    earned: float
    others: float
    lost: Tested
    do_harm: bool  # whether loops surely earn less, or the reward fell


@Check(
    name="responses repeat themselves",
    rank=Rank.CONSEQUENCE,
    needs=(Need("response", ("response_chars",), ("loops",)),),
    charts=("loops", "reward"),
    sampled=("share",),
    limits=_Loops,
    title={
        "paid": "{share:percent} of responses repeat a few words in a loop, such as {text:quoted} "
        "({share_start:percent} at the start); these earn {earned:figure}, others {others:figure}.",
        "peak": "Up to {share:percent} of responses repeat a few words in a loop, such as "
        "{text:quoted} ({share_start:percent} at the start, {share_end:percent} at the end).",
        "metric": "The trainer counts {share:percent} of responses as repetitive "
        "({share_start:percent} at the start).",
    },
    statement={
        "paid": "{share:percent} of responses repeat themselves ({text:quoted})",
        "peak": "up to {share:percent} of responses repeat themselves ({text:quoted})",
        "metric": "{share:percent} of responses repeat themselves",
    },
    why="A response in a loop does not finish its answer, and its tokens teach the policy to loop.",
    suggestion="Lower the learning rate or raise the KL coefficient; penalise cut-off responses.",
    explains=(
        *FALLS,
        "missing_eos",
        "diversity_collapse",
        "length_collapse",
        "reward_stalled",
    ),
    trend=True,
)
def loops(check: Check, run: Run) -> Result:
    """Find that more responses repeat a few words to their end, or did for some steps."""
    words = run.tables.words
    if words is None:
        return _judge_loop_metric(check, run)
    share = run.column("loop_share")  # of a response's words, 0 without a loop
    in_loop = np.sign(share)
    series = means.series(run, in_loop)
    rise = _loop_rise(series)
    if rise is None:
        return Result()
    tested = _test_rise(run, rise)
    if not all(one.met for one in tested):
        return Result(tested=tested)
    late = _rows_of_rise(run, rise)
    rewards = _rewards_of_loops(run, in_loop, late)
    text, has_loop = _usual_loop(run, share, words, late)
    # "paid" compares rewards in its title: both kinds of responses need some.
    is_paid = rise.until is None and np.isfinite(rewards.earned - rewards.others)
    assert series.curve is not None
    facts: Facts = {
        "share": rise.level,
        "share_start": rise.before,
        "share_end": series.curve.last.value,
        "text": text,
        "earned": rewards.earned,
        "others": rewards.others,
        "kind": "paid" if is_paid else "peak",
    }
    ranking = Ranking(share, has_loop, unit="of its words", look_for=text, at_end=True)
    is_serious = rewards.do_harm and rise.until is None
    return check.found(
        run,
        Severity.WARNING if is_serious else Severity.INFO,
        [*tested, rewards.lost],
        facts,
        ranking,
        onset=rise.onset,
        until=rise.until,
        texts=(text,),
    )


def _loop_rise(series: Series) -> _LoopRise | None:
    """Return the rise of the share to the end or, without one, for some steps; None without.

    An event has levels of its own beside the rise; without one, the first and last level count.
    """
    curve = series.curve
    if curve is None:
        return None
    event = curve.climb or curve.hump
    if event is not None:
        return _LoopRise(
            before=event.before,
            level=event.level,
            z=event.z or 0.0,
            onset=event_onset(event),
            until=None if curve.climb else event.until,
        )
    if not curve.rose:
        return None
    return _LoopRise(
        before=curve.first.value,
        level=curve.last.value,
        z=curve.changed or 0.0,
        onset=onset_of(curve),
        until=None,
    )


def _test_rise(run: Run, rise: _LoopRise) -> tuple[Tested, Tested]:
    """Compare the size of the rise, and its z, with their limits."""
    size = change(rise.before, rise.level)
    return (
        run.limits.test(_Loops.rise, ">=", size),
        run.limits.test(_Loops.z, ">=", rise.z),
    )


def _rows_of_rise(run: Run, rise: _LoopRise) -> slice:
    """Return the rows of the steps in which loops are common, from the onset on.

    Without an onset, they begin with the last window.
    """
    first = rise.onset.step if rise.onset else run.last.steps[0]
    last = int(run.steps[-1]) if rise.until is None else rise.until
    return run.window_of((first, last)).rows


def _rewards_of_loops(run: Run, in_loop: Floats, late: slice) -> _LoopRewards:
    """Return what responses in a loop earn, and whether loops do harm.

    Args:
        run: the run.
        in_loop: 1 for responses in a loop, 0 for others, NaN if unknown, float64 (rows,).
        late: the rows of the steps in which loops are common.
    """
    reward = run.column("reward")[late]
    earned = mean(reward[in_loop[late] == 1])
    others = mean(reward[in_loop[late] == 0])
    spread = means.spread(run)
    lost = run.limits.test(_Loops.lost, ">=", others - earned, of=spread)
    # Positive if responses without a loop earn more
    _, z = correlation_with_reward(run, -in_loop)
    course = quantities.reward_course(run)
    reward_fell = course is not None and course.lost
    least = run.limits[Trend].z
    # A fall of the reward is not due to loops that surely earn more.
    do_harm = (lost.met and z >= least) or (reward_fell and not z <= -least)
    return _LoopRewards(earned, others, lost, do_harm)


class _Loop(NamedTuple):
    """What a response repeats."""

    row: int
    text: LogText  # some words of it, as they are written
    words: tuple[str, ...]  # the same for all responses that repeat these words


def _usual_loop(
    run: Run, share: Floats, words: TextSample, late: slice
) -> tuple[LogText, Floats]:
    """Return what most late responses in a loop repeat, and which responses have this loop.

    The responses, float64 (rows,), are 1 if they have this loop, 0 if they have none, and NaN if
    they have another one, or are not read. Of loops that are equally frequent, the one that takes
    up most of its response comes first.
    """
    in_loop = np.flatnonzero(np.nan_to_num(share[late]) > 0) + late.start
    # Those that readers can see come first, of these the longest loops.
    has_no_text = run.responses["has_texts"].to_numpy()[in_loop] != 1
    order = np.lexsort((-share[in_loop], has_no_text))
    loops_found = [_loop_of(words, row) for row in in_loop[order][:MAX_LOOPS].tolist()]
    counts = Counter(one.words for one in loops_found)
    usual = max(loops_found, key=lambda one: counts[one.words])
    has_loop = np.where(share == 0, 0.0, np.nan)
    has_loop[[one.row for one in loops_found if one.words == usual.words]] = 1.0
    return usual.text, has_loop


def _judge_loop_metric(check: Check, run: Run) -> Result:
    """Judge the trainer's share of repetitive responses, for a log without texts."""
    metric = quantities.series_of(run, "loops", MIN_STEPS)
    if metric is None:
        return check.not_run("response")
    rise = _loop_rise(metric)
    if rise is None:
        return Result()
    tested = _test_rise(run, rise)
    if not all(one.met for one in tested):
        return Result(tested=tested)
    return check.found(
        run,
        Severity.INFO if progress.learned(run) else Severity.WARNING,
        tested,
        {"kind": "metric", "share": rise.level, "share_start": rise.before},
        series=metric,
        onset=rise.onset,
        until=rise.until,
    )


def _loop_of(words: TextSample, row: int) -> _Loop:
    """Return what the sampled response of a row repeats.

    Its text has two repetitions if that is one word, and at most MAX_SHOWN words.
    """
    index = int(np.searchsorted(words.rows, row))
    units = words.units[words.offsets[index] : words.offsets[index + 1]]
    loops_of_texts = find_loops(units, offsets=np.array([0, len(units)]))  # of one text
    start, period, _ = loops_of_texts[0].tolist()
    length = min(max(period, 2), MAX_SHOWN)
    # Where it comes the second time
    shown = units[start + period :][:length]
    text = "".join(words.vocabulary[unit] for unit in shown)
    repeated = [words.vocabulary[unit] for unit in units[start : start + period]]
    return _Loop(row, LogText(" ".join(text.split())), _in_one_order(repeated))


def _in_one_order(repeated: list[str]) -> tuple[str, ...]:
    """Return the words of a loop, which may begin at any of them, from the same one on."""
    stripped = [word.strip().lower() for word in repeated]
    # Without signs and blanks, unless there is nothing else
    plain = [word for word in stripped if word.isalnum()] or stripped
    rotations = [tuple(plain[i:] + plain[:i]) for i in range(len(plain))]
    return min(rotations)
