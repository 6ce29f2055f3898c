"""Which responses a report shows: the most interesting ones first."""

from __future__ import annotations

import numpy as np

from rlreport.check.finding import Verdict
from rlreport.choose.detail import Candidate, Plan, StepPlan, fewer_steps
from rlreport.choose.extremes import Extreme, extremes
from rlreport.choose.ranking import rank_by_interest
from rlreport.choose.same_prompt import prompt_sampling_keys, shown_prompts
from rlreport.errors import UnusableInputError
from rlreport.options import ReportOptions
from rlreport.tables import Tables

__all__ = [
    "Candidate",
    "Extreme",
    "Plan",
    "StepPlan",
    "choose",
    "extremes",
    "fewer_steps",
    "shown_prompts",
]

TOKEN_ARRAYS = ("logprobs", "ref_logprobs", "values", "token_rewards", "sampler_logprobs")
"""Logged arrays that token views carry."""


MOST_STEPS = 20_000
"""Steps that a report can speak of: its tables list each of them."""


def choose(tables: Tables, verdict: Verdict, options: ReportOptions) -> list[Candidate]:
    """Orders the responses of each step: what its page shows first, and what when there is room.

    In each step: what findings point at and the run's extremes, then the step's extremes of
    every metric, then a seeded sample that keeps prompts which recur; see ``rank_by_interest``.

    Raises:
        UnusableInputError: there are too many steps for any report.
    """
    if len(tables.steps) > MOST_STEPS:
        raise UnusableInputError(
            f"the logs hold {len(tables.steps):,} steps, and a report speaks of {MOST_STEPS:,} at "
            "most. If 'step' counts samples or tokens, name the field of the training step with "
            "--map step=FIELD; else build reports of fewer files each"
        )
    responses = tables.responses
    evidence: dict[int, set[int]] = {}
    for finding in verdict.findings:
        for ref in finding.shown:
            evidence.setdefault(ref.step, set()).add(ref.n)
    for extreme in extremes(responses):
        row = responses.iloc[extreme.row]
        evidence.setdefault(int(row["step"]), set()).add(int(row["n"]))
    steps = responses["step"].to_numpy()
    tokens = np.nan_to_num(responses["response_tokens"].to_numpy(np.float64))
    logged = sum(1 for name in TOKEN_ARRAYS if tables.fields.get(name))
    has_tokens = bool(tables.fields.get("response_tokens") or tables.fields.get("token_ids"))
    # log-ratios, advantages and returns are carried beside what is logged
    arrays = logged + 3 if has_tokens and logged else int(has_tokens)
    starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    sampled_by = prompt_sampling_keys(responses, options.seed)
    chosen = []
    for start, stop in zip(starts, [*starts[1:], len(steps)], strict=True):
        step = int(steps[start])
        rows = start + rank_by_interest(
            responses.iloc[start:stop],
            step,
            options.max_responses,
            evidence=evidence.get(step, ()),
            seed=options.seed,
            recurring=sampled_by[start:stop],
        )
        pinned = len(evidence.get(step, ()))
        chosen.append(Candidate(step, rows, pinned, tokens[rows], arrays))
    return chosen
