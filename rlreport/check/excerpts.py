"""Adds excerpts of responses to the evidence of a verdict, after the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rlreport.check.finding import Example, Verdict
from rlreport.rollout import Rollout

CHARACTERS = 60
ELLIPSIS = "…"


def with_excerpts(
    verdict: Verdict, responses: pd.DataFrame, fetch: Callable[[Sequence[int]], Iterable[Rollout]]
) -> Verdict:
    """Return the verdict with excerpts in its evidence; ``fetch`` reads table rows in order."""
    findings = [*verdict.findings, *(muted.finding for muted in verdict.muted)]
    named = {(example.step, example.n) for finding in findings for example in finding.shown}
    steps = responses["step"].to_numpy()
    rows = {(step, n): int(np.searchsorted(steps, step)) + n for step, n in sorted(named)}
    order = sorted(set(rows.values()))
    texts = dict(zip(order, fetch(order), strict=True)) if order else {}

    def with_excerpt(example: Example) -> Example:
        rollout = texts[rows[example.step, example.n]]
        before = example.before and with_excerpt(example.before)
        return replace(example, excerpt=excerpt(rollout, example), before=before)

    return verdict.map(
        lambda finding: replace(finding, evidence=tuple(map(with_excerpt, finding.evidence)))
    )


def excerpt(rollout: Rollout, example: Example) -> str:
    """Return about 60 characters of a response around the place that an example points to."""
    text = " ".join(rollout.response.split())
    if len(text) <= CHARACTERS:
        return text
    center = len(text) if example.at_end else 0
    if example.token is not None and example.token < len(rollout.tokens):
        joined = "".join(rollout.tokens[: example.token])
        center = len(" ".join(joined.split()))
    if example.look_for:
        index = text.lower().find(example.look_for.lower())
        center = index if index >= 0 else center
    start = max(0, min(center - CHARACTERS // 2, len(text) - CHARACTERS))
    part = text[start : start + CHARACTERS]
    return (ELLIPSIS if start else "") + part + (ELLIPSIS if start + len(part) < len(text) else "")
