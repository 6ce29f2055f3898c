"""Which responses a report shows: chosen by worth, never cut at random."""

from __future__ import annotations

import numpy as np

from rlreport.check.finding import Verdict
from rlreport.choose.budget import CostModel, Plan, StepPlan, plan
from rlreport.choose.extremes import Extreme, extremes
from rlreport.choose.worth import by_worth
from rlreport.options import ReportOptions
from rlreport.tables import Tables

__all__ = ["CostModel", "Extreme", "Plan", "StepPlan", "choose", "extremes"]

TOKEN_ARRAYS = ("logprobs", "ref_logprobs", "values", "token_rewards", "sampler_logprobs")
"""Logged arrays that token views carry."""


def choose(
    tables: Tables, verdict: Verdict, options: ReportOptions, cost: CostModel, budget: float
) -> Plan:
    """Plans what is shown within ``budget`` expected bytes.

    In each step: what findings point at and the run's extremes, then the step's extremes of
    every metric, then a seeded sample; see ``by_worth`` and ``plan``.
    """
    responses = tables.responses
    evidence: dict[int, set[int]] = {}
    for finding in verdict.findings:
        for ref in finding.shown:
            evidence.setdefault(ref.step, set()).add(ref.n)
    for extreme in extremes(responses):
        row = responses.iloc[extreme.row]
        evidence.setdefault(int(row["step"]), set()).add(int(row["n"]))
    steps = responses["step"].to_numpy()
    starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    chosen = {}
    for start, stop in zip(starts, [*starts[1:], len(steps)], strict=True):
        step = int(steps[start])
        rows = by_worth(
            responses.iloc[start:stop],
            step,
            options.max_responses,
            evidence=evidence.get(step, ()),
            seed=options.seed,
        )
        chosen[step] = start + rows
    logged = sum(1 for name in TOKEN_ARRAYS if tables.fields.get(name))
    has_tokens = bool(tables.fields.get("response_tokens") or tables.fields.get("token_ids"))
    return plan(
        chosen,
        responses,
        evidence={step: len(ns) for step, ns in evidence.items()},
        cost=cost,
        budget=budget,
        # log-ratios, advantages and returns are carried beside what is logged
        arrays=logged + 3 if has_tokens and logged else int(has_tokens),
    )
