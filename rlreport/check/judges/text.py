"""Checks of the texts of responses: diversity, dependence on the prompt, and language."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.check import LOGPROBS, RESPONSE, Check, Result
from rlreport.check.finding import CONTRACT, Facts, Limit, Limits, Met, Severity
from rlreport.check.noise import Trend
from rlreport.check.run import Ranking, Run, mean
from rlreport.check.series import LMFLOW
from rlreport.check.shapes import distinct_fall, is_verifiable
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import TextSample
from rlreport.text.messages import marked, told

DISTINCT = marked("LMFlow's post on PPO: distinct-2 fell from 0.39 to 0.22")
RAGEN_2 = marked("RAGEN-2 (template collapse)")

# Number of hash buckets for n-grams; collisions make the result only slightly less exact
_BUCKETS = 4096

# A text needs this many letters for its script (Latin, Cyrillic, ...) to be recognized
LEAST_LETTERS = 6


class _DiversityCollapse(Limits):
    fall = Limit(0.3, "of distinct-2", "fall of distinct-2, at equal numbers of bigrams", DISTINCT)
    least_bigrams = Limit(200, "bigrams", "with fewer, judge by identical responses only", DISTINCT)
    identical = Limit(
        0.5, "of responses", "share that equal a response to another prompt (warning)", DISTINCT
    )


def _diversity_clause(facts: Facts) -> str:
    if "twins" in facts:
        return marked(
            "{twins:percent} of responses equal a response to another prompt of the same step "
            "({twins_start:percent} at the start)"
        )
    return marked(
        "distinct-2 of equal samples of {bigrams:count} word pairs fell from "
        "{distinct_start:figure} to {distinct:figure}"
    )


@Check(
    name="responses become more alike",
    rank="consequence",
    needs=(RESPONSE,),
    charts=("distinct_2", "duplicates"),
    sampled=("distinct",),
    limits=_DiversityCollapse,
    title=lambda facts: told("{one:capital}.", {"one": told(_diversity_clause(facts), facts)}),
    clause=_diversity_clause,
    why="A policy that says one thing to every prompt has stopped answering them.",
    suggestion="Raise the KL coefficient, the entropy bonus or the temperature; fix the reward.",
    explains=("entropy_collapse", "reward_stalled", "watched_reward_fall"),
    trend=True,
)
def diversity_collapse(check: Check, run: Run) -> Result:
    """Find that responses vary less: more repeated word pairs, or one answer to several prompts.

    A fall of distinct-2 (fraction of distinct word pairs) alone is only a note if the run learns
    and its reward is computed by labels or rules, or confirmed by validation.
    """
    # Equal answers to one prompt are normal, so count the prompts that share an answer.
    prompts = run.responses.groupby(["step", "response_hash"])["prompt_id"]
    times = prompts.transform("nunique").to_numpy(np.float64)
    twin = (times > 1).astype(np.float64)
    series, twins, facts = run.by_step(twin), run.change(twin), {}
    repeats = run.met(_DiversityCollapse.identical, ">", twins.last) if twins.rose else []
    if repeats:
        facts = {"twins": twins.last, "twins_start": twins.first}
    fall = distinct_fall(run, run.limits[_DiversityCollapse].least_bigrams)
    met: list[Met] = []
    if fall is not None and fall.z >= run.limits[Trend].z:
        met = run.met(_DiversityCollapse.fall, ">", fall.share)
    if fall is not None and met:
        facts |= {"distinct": fall.last, "distinct_start": fall.first, "bigrams": fall.bigrams}
        series = series if repeats else fall.series
    if not (met or repeats):
        return None
    watched = run.watched_shape
    fell = any(shape is not None and shape.fell for shape in (run.reward_shape, watched))
    trusted = (watched is not None and watched.rose) or is_verifiable(run)
    harmless = run.learned and trusted and not fell and not repeats
    ranking = Ranking(times, unit="times in its step")
    if not twin[run.last.rows].any():
        ranking = Ranking(run.column("distinct_2"), highest=False)
    severity: Severity = "info" if harmless else "warning"
    return check.finding(run, severity, met + repeats, facts, ranking, series=series)


def distinct_loss(run: Run) -> bool:
    """Return whether distinct-2 (fraction of distinct word pairs) fell too far, maybe by chance."""
    limits = run.limits[_DiversityCollapse]
    fall = distinct_fall(run, limits.least_bigrams)
    return fall is not None and fall.share > limits.fall


class _TemplateCollapse(Limits):
    prompts = Limit(4, "prompts", "with two responses each that a step needs to be judged")
    first = Limit(
        0.3, "beyond chance", "responses from which their prompt can be told, first window", RAGEN_2
    )
    last = Limit(
        0.1, "beyond chance", "responses from which their prompt can be told, last window", RAGEN_2
    )
    surprisal = Limit(0.8, "times", "surprisal relative to the first window", CONTRACT)


@Check(
    name="responses no longer depend on their prompts",
    rank="consequence",
    needs=(LOGPROBS,),
    charts=("surprisal", "reward"),
    sampled=("end",),
    limits=_TemplateCollapse,
    title="Only {end:percent} of responses can be matched to their prompt beyond chance "
    "({start:percent} at the start), at the same surprisal.",
    why="Entropy looks fine, but the policy writes the same phrases whatever it is asked.",
    suggestion="Drop groups of low reward variance; lower the KL and entropy coefficients.",
    source=RAGEN_2,
    explains=("reward_stalled", "group_std_fall"),
    needs_also="n-grams of two or more responses to each of several prompts a step",
    trend=True,
)
def template_collapse(check: Check, run: Run) -> Result:
    """Find responses that no longer depend on their prompts although the surprisal did not fall."""
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
    """Return by step how often texts resemble those of their prompt: 1 always, 0 chance, or NaN.

    Steps with fewer than ``least`` prompts that have several responses are NaN.
    """
    sample = run.tables.ngrams
    rates = np.full(len(run.steps), np.nan)
    if sample is None:
        return rates
    rows, offsets = np.asarray(sample.rows), np.asarray(sample.offsets)
    step_index, prompts = run.step_index[rows], run.responses["prompt_id"].to_numpy(np.int64)[rows]
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
    """Return the fraction of texts that are most similar to the other texts of their own prompt."""
    vectors = np.zeros((len(texts), _BUCKETS), np.float32)
    for row, units in enumerate(texts):
        wide = units.astype(np.int64)
        pairs = (wide[:-1] * 31_337 + wide[1:] + 1) % _BUCKETS
        vectors[row, np.concatenate([wide % _BUCKETS, pairs])] = 1
    vectors = vectors[:, vectors.any(axis=0)]
    # Weight by inverse frequency: n-grams that most texts contain carry no information.
    vectors *= np.log(len(texts) / vectors.sum(axis=0))
    vectors = _normalize(vectors)
    member = prompt[:, None] == np.arange(prompt.max() + 1)
    sums = member.T.astype(np.float32) @ vectors
    similarity = vectors @ _normalize(sums).T
    own_similarity = (vectors * _normalize(sums[prompt] - vectors)).sum(axis=1)
    similarity[member] = -1
    return float((own_similarity > similarity.max(axis=1)).mean())


def _normalize(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows scaled to length 1; rows of zeros are unchanged."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-9)), np.float32)


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
    title="{share:percent} of responses are in another script than their prompt "
    "({share_start:percent} at the start).",
    clause="{share:percent} of responses leave the prompt's language",
    why="The reward does not require the prompt's language.",
    suggestion="Add a reward for the prompt's language, or a KL penalty.",
    source="DeepSeek-R1 (language mixing); LMFlow post on PPO training",
    explains=("diversity_collapse", "length_collapse", "watched_reward_fall"),
    trend=True,
)
def language_drift(check: Check, run: Run) -> Result:
    """Find a rise of the share of responses in another script (e.g. Cyrillic) than their prompt."""
    if run.tables.words is None:
        return check.not_run("response")
    foreign = _in_other_script(run, run.tables.words)
    if not np.isfinite(foreign).any():
        return check.not_run("prompts and responses of several letters")
    moved = run.change(foreign)
    rise = run.met(_LanguageDrift.rise, ">=", moved.difference)
    if not (rise and moved.rose):
        return None
    watched_fell = run.watched_shape is not None and run.watched_shape.fell
    majority = run.met(_LanguageDrift.most, ">", moved.last)
    severity: Severity = "warning" if watched_fell or majority else "info"
    facts = {"share": moved.last, "share_start": moved.first}
    ranking, series = Ranking(foreign, among=foreign == 1), run.by_step(foreign)
    return check.finding(run, severity, rise + majority, facts, ranking, series=series)


@cache
def _script(character: str) -> str:
    """Return the script of a letter ("LATIN", "CJK", "CYRILLIC"), "" for other characters."""
    name = unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
    return "CJK" if name in ("HIRAGANA", "KATAKANA") else name


def _scripts(text: str) -> Counter[str]:
    """Return the number of letters of each script in a text."""
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
