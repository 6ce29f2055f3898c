"""Checks of the content of responses: sameness, templates, another language."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.check import LOGPROBS, RESPONSE, Check, Result
from rlreport.check.finding import Fact, Facts, Severity
from rlreport.check.limits import CONTRACT, Limit, Limits
from rlreport.check.noise import Trend
from rlreport.check.run import Ranking, Run, mean
from rlreport.check.series import LMFLOW
from rlreport.check.shapes import distinct_fall, is_verifiable
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import TextSample
from rlreport.text.messages import marked, told

DISTINCT = marked("LMFlow post: distinct-2 fell from 0.39 to 0.22")
RAGEN_2 = marked("RAGEN-2 (template collapse)")


class DiversityCollapse(Limits):
    """Thresholds of ``diversity_collapse``."""

    fall = Limit(0.3, "of distinct-2", "fall at an equal number of bigrams", DISTINCT)
    least_bigrams = Limit(200, "bigrams", "with fewer, judge by identical responses only", DISTINCT)
    identical = Limit(0.5, "of responses", "warning: repeat another prompt's answer", DISTINCT)


def judge_diversity(run: Run) -> Result:
    """Find a fall of distinct-2, or a rise of responses equal to an answer to another prompt.

    Less distinct words are severity info in a run that learns (by labels, rules or validation),
    unless responses repeat each other.
    """
    facts: dict[str, Fact] = {}
    # Equal answers to the same prompt are normal: count prompts, not responses.
    prompts = run.responses.groupby(["step", "response_hash"])["prompt_id"]
    times = prompts.transform("nunique").to_numpy(np.float64)
    twin = (times > 1).astype(np.float64)
    series, twins = run.by_step(twin), run.change(twin)
    repeats = run.met(DiversityCollapse.identical, ">", twins.last) if twins.rose else []
    if repeats:
        facts |= {"twins": twins.last, "twins_start": twins.first}
    met = []
    fall = distinct_fall(run, run.limits[DiversityCollapse].least_bigrams)
    if fall is not None and fall.z >= run.limits[Trend].z:
        met = run.met(DiversityCollapse.fall, ">", fall.share)
    if fall is not None and met:
        facts |= {"distinct": fall.last, "distinct_start": fall.first, "bigrams": fall.bigrams}
        series = series if repeats else fall.series
    if not (met or repeats):
        return None
    shapes = [shape for shape in (run.reward_shape, run.watched_shape) if shape is not None]
    validated = run.watched_shape is not None and run.watched_shape.rose
    harmless = run.learned and (validated or is_verifiable(run)) and not repeats
    harmless &= not any(shape.fell for shape in shapes)
    ranking = Ranking(times, unit="times in its step")
    if not twin[run.last.rows].any():
        ranking = Ranking(run.column("distinct_2"), highest=False)
    severity: Severity = "info" if harmless else "warning"
    return DIVERSITY_COLLAPSE.finding(
        run, severity, met + repeats, series=series, ranking=ranking, more=facts
    )


def _diversity_clause(facts: Facts) -> str:
    if "twins" in facts:
        return marked(
            "{twins:percent} of responses repeat the answer to another prompt of their step "
            "({twins_start:percent} at the start)"
        )
    return marked(
        "distinct-2 over {bigrams:count} word pairs fell from {distinct_start:figure} to "
        "{distinct:figure}"
    )


DIVERSITY_COLLAPSE = Check(
    id="diversity_collapse",
    name="responses become alike",
    rank="consequence",
    needs=(RESPONSE,),
    charts=("distinct_2", "duplicates"),
    judge=judge_diversity,
    sampled=("distinct",),
    limits=DiversityCollapse,
    title=lambda facts: told("{one:capital}.", {"one": told(_diversity_clause(facts), facts)}),
    clause=_diversity_clause,
    why="A policy that says one thing to every prompt has stopped answering them, and groups of "
    "equal responses give no advantage.",
    suggestion="Raise the KL coefficient or add an entropy bonus, sample at a higher temperature, "
    "and look at whether the reward favours one template.",
    explains=("entropy_collapse", "reward_stalled", "watched_reward_fall"),
)


class TemplateCollapse(Limits):
    """Thresholds of ``template_collapse``."""

    prompts = Limit(4, "prompts", "with two responses each that a step needs to be judged")
    first = Limit(0.3, "beyond chance", "responses matched to their prompt, first window", RAGEN_2)
    last = Limit(0.1, "beyond chance", "and in the last window, below this", RAGEN_2)
    surprisal = Limit(0.8, "times", "and surprisal did not fall below this", CONTRACT)


_BUCKETS = 4096
"""Number of hash buckets for n-grams; collisions only blur the result."""


def judge_template(run: Run) -> Result:
    """Find responses that can no longer be matched to their prompts, while surprisal stays.

    If surprisal falls too, the policy says one thing only, which other checks find.
    """
    series = _match_rates(run, run.limits[TemplateCollapse].prompts)
    first_values, last_values = series[: len(run.last.steps)], run.last_values(series)
    if np.isfinite(first_values).sum() < 2 or np.isfinite(last_values).sum() < 2:
        return TEMPLATE_COLLAPSE.not_run(TEMPLATE_COLLAPSE.needs_also)
    first, last = mean(first_values), mean(last_values)
    matched = run.met(TemplateCollapse.first, ">", first)
    unmatched = run.met(TemplateCollapse.last, "<", last)
    if not (matched and unmatched):
        return None
    surprisal = run.change(run.column("surprisal_mean"), run.column("logp_tokens"))
    if run.met(TemplateCollapse.surprisal, "<", surprisal.last, of=surprisal.first):
        return None
    finding = TEMPLATE_COLLAPSE.finding(
        run, "warning", matched + unmatched, series=series, start=first, end=max(0.0, last)
    )
    return replace(finding, evidence=run.examples(Ranking(run.column(run.length)), None))


def _match_rates(run: Run, least: int) -> Floats:
    """Return the share of responses matched to their prompts in each step, less chance, (S,)."""
    sample = run.tables.ngrams
    rates = np.full(len(run.steps), np.nan)
    if sample is None:
        return rates
    rows, offsets = np.asarray(sample.rows), np.asarray(sample.offsets)
    place, prompts = run.step_index[rows], run.responses["prompt_id"].to_numpy(np.int64)[rows]
    for step in np.unique(place).tolist():
        rows_here = np.flatnonzero(place == step)
        _, code, size = np.unique(prompts[rows_here], return_inverse=True, return_counts=True)
        rows_here, code = rows_here[size[code] >= 2], code[size[code] >= 2]
        known, code = np.unique(code, return_inverse=True)
        if len(known) >= least:
            texts = [np.asarray(sample.units[offsets[i] : offsets[i + 1]]) for i in rows_here]
            chance = 1 / len(known)
            rates[step] = (_hits(texts, code) - chance) / (1 - chance)
    return rates


def _hits(texts: list[NDArray[np.int32]], prompt: Ints) -> float:
    """Return the share of texts that are closest (cosine) to other texts of their own prompt."""
    vectors = np.zeros((len(texts), _BUCKETS), np.float32)
    for row, units in enumerate(texts):
        wide = units.astype(np.int64)
        pairs = (wide[:-1] * 31_337 + wide[1:] + 1) % _BUCKETS
        vectors[row, np.concatenate([wide % _BUCKETS, pairs])] = 1
    vectors = vectors[:, vectors.any(axis=0)]
    # N-grams that most texts share say nothing: weigh by inverse frequency.
    vectors *= np.log(len(texts) / vectors.sum(axis=0))
    vectors = _normalize(vectors)
    member = prompt[:, None] == np.arange(prompt.max() + 1)
    sums = member.T.astype(np.float32) @ vectors
    similarity = vectors @ _normalize(sums).T
    own_similarity = (vectors * _normalize(sums[prompt] - vectors)).sum(axis=1)
    similarity[member] = -1
    return float((own_similarity > similarity.max(axis=1)).mean())


def _normalize(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows scaled to length 1; empty rows stay empty."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-9)), np.float32)


TEMPLATE_COLLAPSE = Check(
    id="template_collapse",
    name="responses no longer depend on their prompts",
    rank="consequence",
    needs=(LOGPROBS,),
    charts=("surprisal", "reward"),
    judge=judge_template,
    sampled=("end",),
    limits=TemplateCollapse,
    title="Only {end:percent} of responses can be matched to their prompt beyond chance "
    "({start:percent} at the start), at the same surprisal.",
    why="Entropy looks fine, but the policy writes the same phrases whatever it is asked.",
    suggestion="Drop groups of low reward variance, lower the KL and entropy coefficients, and "
    "read responses of different prompts side by side.",
    source=RAGEN_2,
    explains=("reward_stalled", "group_std_fall"),
    needs_also="n-grams of two or more responses to each of several prompts a step",
)


class LanguageDrift(Limits):
    """Thresholds of ``language_drift``."""

    rise = Limit(
        0.2, "of responses", "info: rise of the share in another script than the prompt's", LMFLOW
    )
    most = Limit(0.5, "of responses", "warning: share in another script")


LEAST_LETTERS = 6
"""Letters that a text needs for its script to be recognized."""

_JOINED = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}


@cache
def script(character: str) -> str:
    """Return the script of a letter ("LATIN", "CJK", "CYRILLIC"), "" for other characters."""
    if not character.isalpha():
        return ""
    name = unicodedata.name(character, "").partition(" ")[0]
    return _JOINED.get(name, name)


def scripts(text: str) -> Counter[str]:
    """Return the number of letters of each script in a text."""
    counts: Counter[str] = Counter()
    for character, times in Counter(text).items():
        if name := script(character):
            counts[name] += times
    return counts


def judge_language(run: Run) -> Result:
    """Find a rise of the share of responses in another script than their prompt's."""
    if run.tables.words is None:
        return LANGUAGE_DRIFT.not_run("response")
    foreign = _in_other_script(run, run.tables.words)
    if not np.isfinite(foreign).any():
        return LANGUAGE_DRIFT.not_run("prompts and responses of several letters")
    moved = run.change(foreign)
    rise = run.met(LanguageDrift.rise, ">=", moved.difference)
    if not (rise and moved.rose):
        return None
    watched_fell = run.watched_shape is not None and run.watched_shape.fell
    majority = run.met(LanguageDrift.most, ">", moved.last)
    return LANGUAGE_DRIFT.finding(
        run,
        "warning" if watched_fell or majority else "info",
        rise + majority,
        series=run.by_step(foreign),
        ranking=Ranking(foreign, among=foreign == 1),
        share=moved.last,
        share_start=moved.first,
    )


def _in_other_script(run: Run, words: TextSample) -> Floats:
    """Return 1 for responses in another script than their prompt, else 0, NaN if unknown."""
    prompts = run.tables.prompts
    prompt_scripts = {
        prompt: counts.most_common(1)[0][0]
        for prompt, text in zip(prompts["prompt_id"], prompts["prompt"], strict=True)
        if (counts := scripts(str(text))).total() >= LEAST_LETTERS
    }
    letters = pd.DataFrame.from_records([scripts(word) for word in words.vocabulary]).fillna(0)
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


LANGUAGE_DRIFT = Check(
    id="language_drift",
    name="responses leave the prompt's language",
    rank="consequence",
    needs=(RESPONSE,),
    charts=("reward",),
    judge=judge_language,
    sampled=("share",),
    limits=LanguageDrift,
    title="{share:percent} of responses are in another script than their prompt "
    "({share_start:percent} at the start).",
    clause="{share:percent} of responses leave the prompt's language",
    why="The reward does not require the prompt's language.",
    suggestion="Add a reward for the prompt's language, or a KL penalty.",
    source="DeepSeek-R1 (language mixing); LMFlow post on PPO training",
    explains=("diversity_collapse", "length_collapse", "watched_reward_fall"),
)
