"""``template_collapse``: responses no longer depend on their prompts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import CONTRACT, Limit, Limits
from rlreport.check.run import Run, Shown, mean
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.messages import marked

RAGEN_2 = marked("RAGEN-2 (template collapse)")


class TemplateCollapse(Limits):
    """Thresholds of ``template_collapse``."""

    prompts = Limit(4, "prompts", "with two responses each, else a step is not judged")
    first = Limit(0.3, "beyond chance", "responses that find their prompt at first", RAGEN_2)
    last = Limit(0.1, "beyond chance", "the same in the last window, below this", RAGEN_2)
    surprisal = Limit(0.8, "times", "surprisal that fell further is another matter", CONTRACT)


_BUCKETS = 4096
"""Hashed n-grams; some share a bucket, which only blurs."""


def judge(run: Run) -> Result:
    """Ask how often a response is closest to its own prompt's others, chance taken off.

    Variety that stays (surprisal) beside a link that is lost tells templates from a policy
    that says one thing only, which other checks find.
    """
    series = _recognised(run, run.limits[TemplateCollapse].prompts)
    early, late = series[: len(run.last.steps)], run.late(series)
    if np.isfinite(early).sum() < 2 or np.isfinite(late).sum() < 2:
        return CHECK.not_run(CHECK.needs_also)
    first, last = mean(early), mean(late)
    linked = run.met(TemplateCollapse.first, ">", first)
    lost = run.met(TemplateCollapse.last, "<", last)
    if not (linked and lost):
        return None
    surprisal = run.change(run.column("surprisal_mean"), run.column("logp_tokens"))
    if run.met(TemplateCollapse.surprisal, "<", surprisal.last, of=surprisal.first):
        return None
    found = CHECK.finding(
        run,
        "warning",
        linked + lost,
        series=series,
        start=first,
        end=max(0.0, last),
    )
    return replace(found, evidence=run.examples(Shown(run.column(run.length)), None))


def _recognised(run: Run, least: int) -> Floats:
    """Return by step how much more often than by chance responses find their prompt, (S,)."""
    sample = run.tables.ngrams
    found = np.full(len(run.steps), np.nan)
    if sample is None:
        return found
    rows, offsets = np.asarray(sample.rows), np.asarray(sample.offsets)
    place, prompts = run.place[rows], run.responses["prompt_id"].to_numpy(np.int64)[rows]
    for step in np.unique(place).tolist():
        own = np.flatnonzero(place == step)
        _, code, size = np.unique(prompts[own], return_inverse=True, return_counts=True)
        own, code = own[size[code] >= 2], code[size[code] >= 2]
        known, code = np.unique(code, return_inverse=True)
        if len(known) >= least:
            texts = [np.asarray(sample.units[offsets[i] : offsets[i + 1]]) for i in own]
            chance = 1 / len(known)
            found[step] = (_hits(texts, code) - chance) / (1 - chance)
    return found


def _hits(texts: list[NDArray[np.int32]], prompt: Ints) -> float:
    """Return the share of texts whose own prompt's other texts are the closest (cosine)."""
    vectors = np.zeros((len(texts), _BUCKETS), np.float32)
    for row, units in enumerate(texts):
        wide = units.astype(np.int64)
        pairs = (wide[:-1] * 31_337 + wide[1:] + 1) % _BUCKETS
        vectors[row, np.concatenate([wide % _BUCKETS, pairs])] = 1
    vectors = vectors[:, vectors.any(axis=0)]
    # What most texts share tells nothing.
    vectors *= np.log(len(texts) / vectors.sum(axis=0))
    vectors /= _lengths(vectors)[:, None]
    order = np.argsort(prompt, kind="stable")
    starts = np.searchsorted(prompt[order], np.arange(int(prompt.max()) + 1))
    sums = np.add.reduceat(vectors[order], starts, axis=0)
    near = vectors @ (sums / _lengths(sums)[:, None]).T
    others = sums[prompt] - vectors
    own = np.einsum("ij,ij->i", vectors, others) / _lengths(others)
    near[np.arange(len(texts)), prompt] = -1
    return float((own > near.max(axis=1)).mean())


def _lengths(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the lengths of rows; of empty ones, what divides them without a warning."""
    squares: NDArray[np.float32] = np.einsum("ij,ij->i", vectors, vectors)
    return np.maximum(np.sqrt(squares), np.float32(1e-9))


CHECK = Check(
    id="template_collapse",
    name="responses no longer depend on their prompts",
    rank="consequence",
    needs=(Need("logprobs", ("surprisal_mean",)),),
    charts=("surprisal", "reward"),
    judge=judge,
    sampled=("end",),
    limits=TemplateCollapse,
    title="{end:percent} of responses can be told to belong to their prompt beyond chance "
    "({start:percent} before), at the same surprisal.",
    why="Entropy looks well, but the policy writes one set of phrases whatever it is asked: what "
    "varies is not reasoning about the prompt.",
    suggestion="Drop groups of low reward variance, lower the KL and entropy coefficients, whose "
    "pull does not depend on the prompt, and read responses of different prompts side by side.",
    source=RAGEN_2,
    explains=("reward_stalled", "group_std_fall"),
    needs_also="n-grams of two or more responses to each of several prompts a step",
)
