"""Checks of the texts of responses: length, diversity, dependence on the prompt, language."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.check import (
    FALLS,
    LENGTH,
    LOGPROBS,
    RESPONSE,
    REWARD,
    Check,
    Need,
    Result,
    RiseOrShare,
)
from rlreport.check.finding import EOS, Facts, Limit, Limits, LogText, Severity
from rlreport.check.noise import Trend, correlation_within, deviate
from rlreport.check.run import Ranking, Run, mean, median
from rlreport.check.series import (
    LMFLOW,
    MIN_STEPS,
    MIN_WINDOW,
    SHAPE_WINDOW_SHARE,
    Series,
    onset,
    running_mean,
)
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.tokens import find_loops, is_cut_off
from rlreport.tables import TextSample
from rlreport.text.messages import span, translatable

DISTINCT = translatable("LMFlow's post on PPO: distinct-2 fell from 0.39 to 0.22")
RAGEN_2 = translatable("RAGEN-2 (template collapse)")
# Number of hash buckets for n-grams; collisions make the result only slightly less exact
_BUCKETS = 4096
DRAWS = 8  # Distinct-2 is the average of samples from this many random orders of the responses
# Number of bigrams from which distinct-2 is computed: at most (for speed), and least per step
MAX_BIGRAMS, MIN_STEP_BIGRAMS = 20_000, 20
# A text needs this many letters for its script (Latin, Cyrillic, ...) to be recognized
LEAST_LETTERS = 6


class _DiversityCollapse(Limits):
    fall = Limit(0.3, "of distinct-2", "fall of distinct-2, at equal numbers of bigrams", DISTINCT)
    least_bigrams = Limit(200, "bigrams", "with fewer, judge by identical responses only", DISTINCT)
    identical = Limit(
        0.5, "of responses", "share that equal a response to another prompt (warning)", DISTINCT
    )


@Check(
    name="responses become more alike",
    rank="consequence",
    needs=(RESPONSE,),
    charts=("distinct_2", "duplicates"),
    sampled=("distinct",),
    limits=_DiversityCollapse,
    close={"fall": "distinct-2 fell by {value:percent}"},
    title=lambda facts: (
        translatable(
            "{twins:percent} of responses equal a response to another prompt of the same step "
            "({twins_start:percent} at the start)."
        )
        if "twins" in facts
        else translatable(
            "Distinct-2 of equal samples of {bigrams:count} word pairs fell from "
            "{distinct_start:figure} to {distinct:figure}."
        )
    ),
    statement="texts become repetitive",
    why="A policy that says one thing to every prompt has stopped answering them.",
    suggestion="Raise the KL coefficient, the entropy bonus or the temperature; fix the reward.",
    explains=("entropy_collapse", "reward_stalled", "watched_reward_fall"),
    trend=True,
)
def diversity_collapse(check: Check, run: Run) -> Result:
    # Equal answers to one prompt are normal, so count the prompts that share an answer.
    prompts = run.responses.groupby(["step", "response_hash"])["prompt_id"]
    times = prompts.transform("nunique").to_numpy(np.float64)
    twin = (times > 1).astype(np.float64)
    series = run.by_step(twin)
    twins = run.change(twin)
    facts = {}
    repeats = run.met(_DiversityCollapse.identical, ">", twins.last) if twins.rose else []
    if repeats:
        facts = {"twins": twins.last, "twins_start": twins.first}
    fall = run.once(distinct_fall)
    met = []
    if fall is not None and fall.z >= run.limits[Trend].z:
        met = run.met(_DiversityCollapse.fall, ">", fall.share)
    if fall is not None and met:
        facts |= {"distinct": fall.last, "distinct_start": fall.first, "bigrams": fall.bigrams}
        series = series if repeats else fall.series
    if not (met or repeats):
        return None
    watched = run.watched_shape
    fell = any(shape is not None and shape.fell for shape in (run.reward_shape, watched))
    trusted = (watched is not None and watched.rose) or run.verifiable
    harmless = run.learned and trusted and not fell and not repeats
    ranking = Ranking(times, unit="times in its step")
    if not twin[run.last.rows].any():
        ranking = Ranking(run.column("distinct_2"), highest=False)
    severity: Severity = "info" if harmless else "warning"
    return check.finding(run, severity, met + repeats, facts, ranking, series=series)


def distinct_loss(run: Run) -> bool:
    """Return whether distinct-2 (fraction of distinct word pairs) fell by more than its limit."""
    fall = run.once(distinct_fall)
    return fall is not None and fall.share > run.limits[_DiversityCollapse].fall


class DistinctFall(NamedTuple):
    """Distinct-2 (fraction of distinct bigrams) of first and last steps, and the z of its fall."""

    first: float
    last: float
    bigrams: int
    z: float
    series: Floats  # of each step, float64 (S,), NaN for steps with too few bigrams

    @property
    def share(self) -> float:
        return 1 - self.last / self.first


def distinct_fall(run: Run) -> DistinctFall | None:  # noqa: PLR0914
    """Compare distinct-2 in the first and last window; None if either has too few bigrams.

    Larger samples repeat more bigrams, so both windows, and all steps, are cut to equal numbers.
    The z is computed from the variance between steps. Identical answers to a prompt within a
    step count once.
    """
    sample = run.tables.ngrams
    if run.first is None or sample is None:
        return None
    rows = np.asarray(sample.rows)
    units = np.asarray(sample.units, np.int64)
    keys = units[:-1] * len(sample.vocabulary) + units[1:]
    answers = run.responses[["step", "prompt_id", "response_hash"]].iloc[rows]
    steps: list[list[Ints]] = [[] for _ in run.steps]
    for i in np.flatnonzero(~answers.duplicated().to_numpy()).tolist():
        start = sample.offsets[i]
        stop = sample.offsets[i + 1]
        steps[run.step_index[rows[i]]].append(keys[start : max(stop - 1, start)])
    size_first = len(run.first.steps)
    size_last = len(run.last.steps)
    windows = [[*chain(*part)] for part in (steps[:size_first], steps[-size_last:])]
    size = min(MAX_BIGRAMS, *(sum(map(len, part)) for part in windows))
    if size < run.limits[_DiversityCollapse].least_bigrams:
        return None
    sizes = np.array([sum(map(len, part)) for part in steps])
    ends = [*range(size_first), *range(len(steps) - size_last, len(steps))]
    # The variance is that of steps cut to the size of the smallest step in both windows. The
    # series for the onset may use more bigrams, and is NaN at steps with fewer.
    end_size = max(int(sizes[ends].min()), MIN_STEP_BIGRAMS)
    step_size = max(int(np.median(sizes)) // 2, MIN_STEP_BIGRAMS)
    scatter = np.array([_distinct_2(steps[index], end_size) for index in ends])
    first = scatter[:size_first]
    last = scatter[size_first:]
    error = float(np.sqrt(first.var(ddof=1) / size_first + last.var(ddof=1) / size_last))
    z = deviate(float(first.mean() - last.mean()), error, len(ends) - 2)
    series = np.array([_distinct_2(part, step_size) for part in steps])
    before, after = (_distinct_2(part, size) for part in windows)
    return DistinctFall(before, after, size, z, series)


def _distinct_2(responses: list[Ints], size: int) -> float:
    """Return the mean distinct fraction in samples of ``size`` bigrams, NaN if there are fewer."""
    size = min(size, MAX_BIGRAMS)
    if sum(map(len, responses)) < size:
        return np.nan
    numbers, _ = pd.factorize(np.concatenate(responses))  # once, instead of a sort of each draw
    parts = np.split(numbers, np.cumsum([*map(len, responses)])[:-1])
    orders = [np.random.default_rng(draw).permutation(len(responses)) for draw in range(DRAWS)]
    draws = [np.concatenate([parts[i] for i in order])[:size] for order in orders]
    distinct = sum(np.count_nonzero(np.bincount(draw)) for draw in draws)
    return distinct / (DRAWS * size)


class _TemplateCollapse(Limits):
    prompts = Limit(4, "prompts", "with two responses each; steps with fewer are not judged")
    first = Limit(
        0.3, "beyond chance", "responses that can be matched to their prompt, first window", RAGEN_2
    )
    last = Limit(
        0.1, "beyond chance", "responses that can be matched to their prompt, last window", RAGEN_2
    )
    surprisal = Limit(0.8, "times", "surprisal relative to the first window")


@Check(
    name="responses no longer depend on their prompts",
    rank="consequence",
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
    series = _match_rates(run, run.limits[_TemplateCollapse].prompts)
    windows = series[: len(run.last.steps)], run.last_values(series)
    if min(np.isfinite(values).sum() for values in windows) < 2:
        return check.not_run(check.needs_also)
    first, last = map(mean, windows)
    matched = run.met(_TemplateCollapse.first, ">", first)
    unmatched = run.met(_TemplateCollapse.last, "<", last)
    if not (matched and unmatched):
        return None
    surprisal = run.change(run.column("surprisal_mean"), run.column("logp_tokens"))
    if run.met(_TemplateCollapse.surprisal, "<", surprisal.last, of=surprisal.first):
        return None
    facts = {"start": first, "end": max(0.0, last)}
    finding = check.finding(run, "warning", matched + unmatched, facts, series=series)
    return replace(finding, evidence=run.examples(Ranking(run.column(run.length)), None))


def _match_rates(run: Run, least: int) -> Floats:
    """Return by step how often texts match their prompt: 1 always, 0 by chance, NaN if unknown."""
    sample = run.tables.ngrams
    rates = np.full(len(run.steps), np.nan)
    if sample is None:
        return rates
    rows = np.asarray(sample.rows)
    offsets = np.asarray(sample.offsets)
    step_index = run.step_index[rows]
    prompts = run.responses["prompt_id"].to_numpy(np.int64)[rows]
    for step in np.unique(step_index).tolist():
        rows_here = np.flatnonzero(step_index == step)
        _, code, size = np.unique(prompts[rows_here], return_inverse=True, return_counts=True)
        rows_here, code = rows_here[size[code] >= 2], code[size[code] >= 2]
        labels, code = np.unique(code, return_inverse=True)
        if len(labels) >= least:
            texts = [np.asarray(sample.units[offsets[i] : offsets[i + 1]]) for i in rows_here]
            chance = 1 / len(labels)
            rates[step] = (_hits(texts, code) - chance) / (1 - chance)
    return rates


def _hits(texts: list[NDArray[np.int32]], prompt: Ints) -> float:
    vectors = np.zeros((len(texts), _BUCKETS))
    for row, units in enumerate(texts):
        wide = units.astype(np.int64)
        pairs = (wide[:-1] * 31_337 + wide[1:] + 1) % _BUCKETS
        vectors[row, np.concatenate([wide % _BUCKETS, pairs])] = 1
    vectors = vectors[:, vectors.any(axis=0)]
    # Weight by inverse frequency: n-grams that most texts contain carry no information.
    vectors *= np.log(len(texts) / vectors.sum(axis=0))
    vectors = _normalize(vectors)
    member = prompt[:, None] == np.arange(prompt.max() + 1)
    sums = member.T.astype(np.float64) @ vectors
    similarity = vectors @ _normalize(sums).T
    own_similarity = (vectors * _normalize(sums[prompt] - vectors)).sum(axis=1)
    similarity[member] = -1
    return float((own_similarity > similarity.max(axis=1)).mean())


def _normalize(vectors: Floats) -> Floats:
    """Return the vectors with length 1, in multiples of 2⁻²⁴: products then add up exactly.

    So similarities, which are compared with each other, do not depend on the order of additions.
    """
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    units = np.rint(np.ldexp(vectors / np.maximum(lengths, 1e-9), 24))
    return np.asarray(np.ldexp(units, -24))


class _LanguageDrift(Limits):
    rise = Limit(
        0.2, "of responses", "rise of the share in another script than the prompt's (note)", LMFLOW
    )
    most = Limit(0.5, "of responses", "share in another script (warning)")


@Check(
    name="responses leave the prompt's language",
    rank="consequence",
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
)
def language_drift(check: Check, run: Run) -> Result:
    if run.tables.words is None:
        return check.not_run("response")
    foreign = _in_other_script(run, run.tables.words)
    if not np.isfinite(foreign).any():
        return check.not_run("prompts and responses with six or more letters")
    moved = run.change(foreign)
    rise = run.met(_LanguageDrift.rise, ">=", moved.difference)
    if not (rise and moved.rose):
        return None
    watched_fell = run.watched_shape is not None and run.watched_shape.fell
    majority = run.met(_LanguageDrift.most, ">", moved.last)
    severity: Severity = "warning" if watched_fell or majority else "info"
    facts = {"share": moved.last, "share_start": moved.first}
    ranking = Ranking(foreign, among=foreign == 1)
    series = run.by_step(foreign)
    return check.finding(run, severity, rise + majority, facts, ranking, series=series)


@cache
def _script(character: str) -> str:
    """Return the first word of a letter's Unicode name, "CJK" for kana; "" for other characters."""
    name = unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
    return "CJK" if name in ("HIRAGANA", "KATAKANA") else name


def _scripts(text: str) -> Counter[str]:
    return Counter(filter(None, map(_script, text)))


def _in_other_script(run: Run, words: TextSample) -> Floats:
    """Return 1 for responses in another script than their prompt, else 0, NaN if unknown."""
    prompts = run.tables.prompts
    prompt_scripts = {
        prompt: counts.most_common(1)[0][0]
        for prompt, text in zip(prompts["prompt_id"], prompts["prompt"], strict=True)
        if (counts := _scripts(str(text))).total() >= LEAST_LETTERS
    }
    letters = pd.DataFrame.from_records([_scripts(word) for word in words.vocabulary]).fillna(0)
    letters = letters.sort_index(axis=1)
    response = np.repeat(np.arange(len(words.rows)), np.diff(words.offsets))
    size = len(words.rows)
    foreign = np.full(len(run.responses), np.nan)
    totals = letters.apply(lambda count: np.bincount(response, count.to_numpy()[words.units], size))
    if totals.empty:
        return foreign
    expected = run.responses["prompt_id"].iloc[words.rows].map(prompt_scripts)
    usable = (totals.sum(axis=1) >= LEAST_LETTERS).to_numpy() & expected.notna().to_numpy()
    foreign[words.rows[usable]] = (totals.idxmax(axis=1).to_numpy() != expected.to_numpy())[usable]
    return foreign


SHORT_RESPONSES = translatable("TRL error on responses under 4 tokens (LMFlow post)")
# If a smaller fraction (but not 0) of responses ends with an end token, end tokens are ignored
RARE = 0.02
# Fraction of responses that counts as all: all empty in a step, or all at the maximum length
ALL = 0.98
# If the longest response has fewer tokens than this, its length is not taken as a limit
LIMIT_TOKENS = 16
# A response counts as cut off if it has this fraction of the longest response's tokens
AT_LIMIT = 0.99


class _LengthHacking(Limits):
    ratio = Limit(1.5, "times", "mean length against the first window")
    correlation = Limit(
        0.4, "", "correlation of reward and length within a group, else within a step"
    )


@Check(
    name="length hacking",
    rank="cause",
    needs=(REWARD,),
    charts=("length", "reward"),
    limits=_LengthHacking,
    title="Responses grew from {start:figure} to {end:figure} {unit}, and longer ones earn more "
    "(correlation {correlation:figure}; mean reward {reward_start:figure} at the start, "
    "{reward_end:figure} at the end).",
    statement="longer responses earn more, and length grows to {end:short} {unit}",
    why="Longer text scores higher whatever it says, so the policy pads instead of improving.",
    suggestion="Normalise or penalise length, or retrain the reward model on equally long pairs.",
    explains=(
        "kl_explosion",
        "missing_eos",
        "diversity_collapse",
        "entropy_collapse",
        "reward_part_dominance",
        "watched_reward_fall",
    ),
    of_reward=True,
    trend=True,
)
def length_hacking(check: Check, run: Run) -> Result:
    length = run.column(run.length)
    watched = run.watched_shape
    moved = run.change(length)
    rewards = run.change(run.column("reward"))
    ratio = run.met(_LengthHacking.ratio, ">=", moved.last, of=moved.first)
    if not (ratio and moved.rose) or rewards.fell or (watched is not None and watched.rose):
        return None
    correlation, z = _correlation_with_reward(run, length)
    pays = run.met(_LengthHacking.correlation, ">=", correlation)
    if not pays or z < run.limits[Trend].z:
        return None
    facts: Facts = {"reward_start": rewards.first, "reward_end": rewards.last}
    facts = {**facts, "start": moved.first, "end": moved.last, "correlation": correlation}
    facts = {**facts, "unit": run.length_unit}
    ranking = Ranking(length, unit=run.length_unit, at_end=True)
    series = run.by_step(length)
    return check.finding(run, "warning", ratio + pays, facts, ranking, series=series)


def _correlation_with_reward(run: Run, length: Floats) -> tuple[float, float]:
    grouped = run.responses["group"].duplicated(keep=False).mean() > 0.5
    inside = "group" if grouped else "step"
    reward = run.column("reward")
    windows = (run.last, run.window(0, len(run.steps)))
    pairs = [correlation_within(run.tables, reward, length, part, inside) for part in windows]
    return max(pairs, key=lambda pair: np.nan_to_num(pair[0], nan=-2.0))


class _LengthCollapse(Limits):
    ratio = Limit(0.5, "times", "mean length against the first window", SHORT_RESPONSES)
    severe = Limit(0.25, "times", "mean length against the first three steps", SHORT_RESPONSES)
    paid = Limit(0.3, "", "correlation of reward and shortness, if the run learns")
    tokens = Limit(4, "tokens", "length below which a response is nearly empty", SHORT_RESPONSES)
    stubs = Limit(0.1, "of responses", "share nearly empty, last window", SHORT_RESPONSES)


@Check(
    name="length collapse",
    rank="consequence",
    needs=(LENGTH,),
    charts=("length",),
    limits=_LengthCollapse,
    title={
        "empty": "From step {since} on, nearly all responses are empty or only an end token.",
        "shrunk": "The mean length fell from {start:figure} to {end:figure} {unit}.",
        "finished": "The mean length of finished responses fell from {start:figure} to "
        "{end:figure} {unit}.",
        "stubs": "{stubs:percent} of responses have fewer than {tokens} tokens "
        "({stubs_start:percent} at the start).",
    },
    statement={
        "empty": "nearly all responses are empty",
        "shrunk": "responses shrink to {end:short} {unit} ({start:short} in {early})",
        "finished": "finished responses shrink to {end:short} {unit} ({start:short} in {early})",
        "stubs": "{stubs:percent} of responses have fewer than {tokens} tokens",
    },
    why="Stopping at once is often the cheapest way to avoid a penalty.",
    suggestion="Look for a penalty that grows with length; give empty responses the lowest reward.",
    explains=(
        "diversity_collapse",
        "entropy_collapse",
        "reward_stalled",
        "watched_reward_fall",
        "zero_variance_groups",
        "unclosed_thinking",
    ),
    trend=True,
)
def length_collapse(check: Check, run: Run) -> Result:
    if run.responses.empty:
        return _shrunk(check, run)
    return _all_empty(check, run) or _shrunk(check, run) or _stubs(check, run)


def _all_empty(check: Check, run: Run) -> Result:
    tokens = run.column("response_tokens")
    chars = run.column("response_chars")
    only_end = (tokens == 1) & (run.column("finished") == 1)
    empty = np.where((chars == 0) | (tokens == 0) | only_end, 1.0, 0.0)
    series = run.by_step(empty)
    start = int(np.flatnonzero(series < ALL).max(initial=-1)) + 1
    if len(series) - start < MIN_WINDOW or mean(series[:MIN_WINDOW]) >= 0.5:
        return None
    met = run.met(_LengthCollapse.stubs, ">", mean(series[start:]))
    ranking = Ranking(run.column(run.length), highest=False, among=empty == 1)
    facts: Facts = {"kind": "empty", "since": int(run.steps[start])}
    return check.finding(run, "critical", met, facts, ranking, series=series)


def _shrunk(check: Check, run: Run) -> Result:
    """Return a finding for a large fall of the mean length, or for a suspicious moderate one.

    A moderate fall is suspicious if the run does not learn, or if shorter responses earn more.
    Learning to stop is not a collapse: if the log tells which responses finished, only these
    count. If it does not, the trainer's metric is judged or, without one, all responses.
    """
    length = run.column(run.length)
    trainers = run.series_of("length")
    if _finish_known(run):
        length, trainers = np.where(run.column("finished") == 1, length, np.nan), None
    if trainers is not None and run.covers(trainers):
        severe = trainers.change(MIN_WINDOW)
        moved = trainers.change()
        series = trainers
        unit = translatable("tokens")
    else:
        first = run.window(0, MIN_WINDOW)
        medians = [median(length[part.rows]) for part in (run.last, first)]
        if medians[0] >= run.limits[_LengthCollapse].ratio * medians[1]:
            return None  # The mean fell only because a few long responses disappeared.
        severe = run.change(length, first=first)
        moved = run.change(length)
        series = Series(run.steps, run.by_step(length))
        unit = run.length_unit
    met = run.met(_LengthCollapse.severe, "<", severe.last, of=severe.first) if severe.fell else []
    early: object = run.window(0, MIN_WINDOW).span
    if not met:
        severe = moved
        early = run.first and run.first.span
        if moved.fell and (not run.learned or _shortness_pays(run, length)):
            met = run.met(_LengthCollapse.ratio, "<", moved.last, of=moved.first)
    if not met:
        return None
    ranking = Ranking(run.column(run.length), highest=False, unit=run.length_unit)
    kind = "finished" if _finish_known(run) else "shrunk"
    facts: Facts = {"kind": kind, "start": severe.first, "early": span(early)}
    facts = {**facts, "end": severe.last, "unit": unit}
    return check.finding(run, "warning", met, facts, ranking, series=series)


def _shortness_pays(run: Run, length: Floats) -> bool:
    """Return whether shorter responses earn more while the watched reward did not rise."""
    watched = run.watched_shape
    correlation, z = _correlation_with_reward(run, -length)
    pays = run.met(_LengthCollapse.paid, ">=", correlation) and z >= run.limits[Trend].z
    return bool(pays) and (watched is None or not watched.rose)


def _stubs(check: Check, run: Run) -> Result:
    """Return a finding if many responses are tiny, a note if that is not new or the run learns."""
    tokens = run.column("response_tokens")
    limit = run.limits[_LengthCollapse].tokens
    is_stub = np.where(np.isfinite(tokens), tokens < limit, np.nan)
    share = run.change(is_stub)
    if not (met := run.met(_LengthCollapse.stubs, ">", share.last)):
        return None
    facts: Facts = {"stubs": share.last, "stubs_start": share.first, "tokens": limit}
    severity: Severity = "warning" if share.rose and not run.learned else "info"
    ranking = Ranking(tokens, highest=False, unit=run.length_unit)
    series = run.by_step(is_stub)
    dating = {"series": series, "always": not share.rose}
    return check.finding(run, severity, met, {**facts, "kind": "stubs"}, ranking, **dating)


class MissingEos(RiseOrShare):
    rise = Limit(0.2, "of responses", "share cut off, rise since the first window", EOS)
    share = Limit(0.5, "of responses", "share cut off in the last window", EOS)


@Check(
    name="responses no longer end",
    rank="consequence",
    charts=("eos", "length"),
    limits=MissingEos,
    close={"share": "{value:percent} of responses are cut off"},
    title="{share:percent} of responses are cut off before their end ({before:percent} at the "
    "start).",
    statement="{share:percent} of responses are cut off",
    why="A response that is cut off has no ending, so its reward judges an unfinished text.",
    suggestion="Penalise responses without EOS, allow more tokens, and check the mask of the EOS.",
    needs_also="an end-of-sequence token, a finish reason, or lengths in tokens",
)
def missing_eos(check: Check, run: Run) -> Result:
    # A share that is always high counts only if most of these responses are as long as the longest
    # or if none finished: responses that end with a stop string have no end token either.
    cut_off = _cut_off(run)
    if cut_off is not None:
        among = cut_off == 1
        ranking = Ranking(run.column(run.length), unit=run.length_unit, among=among, at_end=True)
        finding = check.judge_rows(run, cut_off, ranking=ranking)
        rose = finding is not None and any(met.name == "rise" for met in finding.thresholds)
        if rose or _same_length(run, cut_off):
            return finding
        run.tested.pop(MissingEos.share, None)  # the responses end with a stop string
        return None
    return check.judge_metric(run, "truncated")


def _finish_known(run: Run) -> bool:
    share = mean(run.column("finished"))
    return share == 0 or share >= RARE


def _cut_off(run: Run) -> Floats | None:
    if _finish_known(run):
        return is_cut_off(run.column("finished"), run.column("ending"))
    tokens = run.column("response_tokens")
    if not run.has("response_tokens") or np.nanmax(tokens) < LIMIT_TOKENS:
        return None
    at_limit = np.where(np.isfinite(tokens), tokens >= AT_LIMIT * np.nanmax(tokens), np.nan)
    return None if mean(at_limit) > ALL else at_limit


def _same_length(run: Run, cut_off: Floats) -> bool:
    tokens = run.column("response_tokens")[run.last.rows]
    if not np.isfinite(tokens).any() or not (run.column("finished") == 1).any():
        return True
    at_limit = tokens[cut_off[run.last.rows] == 1] >= AT_LIMIT * np.nanmax(tokens)
    return bool(2 * at_limit.sum() > len(at_limit))


class _Loops(Limits):
    rise = Limit(0.08, "of responses", "rise of the share that repeat themselves")
    z = Limit(4.0, "std errors", "significance of that rise")
    lost = Limit(0.25, "std of reward", "reward of these responses below that of others (warning)")


@Check(
    name="responses repeat themselves",
    rank="consequence",
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
    explains=(*FALLS, "missing_eos", "diversity_collapse", "length_collapse", "reward_stalled"),
    trend=True,
)
def loops(check: Check, run: Run) -> Result:  # noqa: PLR0914
    words = run.tables.words
    share = run.column("loop_share")
    reward = run.column("reward")
    if words is None:
        return _judge_loop_metric(check, run)
    in_loop = np.sign(share)
    steps = len(run.steps)
    series = run.by_step(in_loop)
    size = max(MIN_WINDOW, int(steps * SHAPE_WINDOW_SHARE))
    peak = int(np.argmax(running_mean(np.nan_to_num(series), size)))
    start, end, high = (run.window(at, at + size) for at in (0, steps - size, peak))
    # A tenth of the steps may have too few responses for significance, a fifth has more.
    for first, late in ((run.first, run.last), (start, end), (start, high)):
        moved = run.change(in_loop, first=first, last=late, by_step=False)
        met = run.met(_Loops.rise, ">=", moved.difference) + run.met(_Loops.z, ">=", moved.z)
        if len(met) == 2:
            break
    else:
        return None
    # The mean is taken over 64 responses or more: of few, none may be in a loop by chance.
    width = min(size, -(-64 * steps // len(words.rows)))
    dated = pd.Series(series).rolling(width, min_periods=1, center=True).mean().to_numpy()
    began = run.onset(dated)
    until = None
    stop = peak + size
    left = mean(series[-size:])
    middle = (moved.first + moved.last) / 2
    if stop < steps and left < middle:  # The share rose, but fell again.
        until = int(run.steps[stop - 1 + np.argmax(dated[stop:] < middle)])
        began = onset(run.steps[:stop], dated[:stop], end=size)
    earned, others = (mean(reward[late.rows][in_loop[late.rows] == value]) for value in (1, 0))
    lost = run.met(_Loops.lost, ">=", others - earned, of=run.spread())
    _, z = _correlation_with_reward(run, -in_loop)
    fell = run.reward_shape is not None and run.reward_shape.fell
    least = run.limits[Trend].z
    harmful = until is None and ((lost and z >= least) or (fell and not z <= -least))
    longest = late.rows.start + int(np.nanargmax(share[late.rows]))
    text = _loop_text(words, int(np.searchsorted(words.rows, longest)))
    facts: Facts = {"share": moved.last, "share_start": moved.first, "share_end": left}
    kind = "paid" if late is not high and np.isfinite(earned - others) else "peak"
    facts = {**facts, "text": text, "earned": earned, "others": others, "kind": kind}
    severity: Severity = "warning" if harmful else "info"
    ranking = Ranking(share, unit="of its words", among=share > 0, look_for=text, at_end=True)
    details = {"onset": began, "until": until, "texts": (text,)}
    return check.finding(run, severity, met + lost, facts, ranking, **details)


def _judge_loop_metric(check: Check, run: Run) -> Result:
    if (metric := run.series_of("loops", MIN_STEPS)) is None:
        return check.not_run("response")
    moved = metric.change()
    met = run.met(_Loops.rise, ">=", moved.difference) + run.met(_Loops.z, ">=", moved.z)
    if len(met) < 2:
        return None
    facts: Facts = {"kind": "metric", "share": moved.last, "share_start": moved.first}
    return check.finding(run, "info" if run.learned else "warning", met, facts, series=metric)


def _loop_text(words: TextSample, index: int) -> LogText:
    """Return what a response repeats: twice if it is one word, at most six words."""
    units = words.units[words.offsets[index] : words.offsets[index + 1]]
    start, period, _ = find_loops(units, np.array([0, len(units)]))[0].tolist()
    shown = units[start + period :][: min(max(period, 2), 6)]
    return LogText(" ".join("".join(words.vocabulary[unit] for unit in shown).split()))


NEARLY = 0.99


class _CutTexts(Limits):
    share = Limit(0.2, "of responses", "responses with at least 99% of the largest length (note)")
    least = Limit(64, "characters", "largest length; shorter ones may be equal by chance")


@Check(
    name="texts cut by the logger",
    rank="note",
    limits=_CutTexts,
    title="{share:percent} of responses have about {most:count} characters, and none has more: "
    "the logger cut them.",
    why="Lengths in characters, response endings and spreading texts are computed from the "
    "truncated texts.",
    suggestion="Log whole responses, and fewer of them if space is short.",
    whole_run=True,
)
def cut_texts(check: Check, run: Run) -> Result:
    chars = run.responses["response_chars"].to_numpy(np.int64)
    largest = int(chars.max(initial=0))
    longest = run.responses.loc[chars >= NEARLY * largest, "response_hash"]
    if largest < run.limits[_CutTexts].least or 2 * longest.nunique() < len(longest):
        return None
    share = len(longest) / len(chars)
    met = run.met(_CutTexts.share, ">", share)
    return check.finding(run, "info", met, {"share": share, "most": largest}) if met else None
