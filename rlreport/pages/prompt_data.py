"""The shown responses to each prompt as data, of which scripts make the prompt's panel."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.columns import RESPONSE
from rlreport.draw.chart import drawable
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import as_formatted
from rlreport.pages.context import RunReport
from rlreport.pages.film import Answers, answers_of, citations_of, film_answers
from rlreport.pages.film_view import (
    LOG_RATIO,
    film_rules,
    has_two_rewards,
    reach_of,
)
from rlreport.pages.moved import moved_of
from rlreport.pages.page import Addresses
from rlreport.pages.page_data import PromptsData
from rlreport.pages.responses import LISTED_DIGITS
from rlreport.tables import length_column

# Maximum number of mean rewards of all prompts; of more, those of steps with a shown response
MOST_MEANS = 20_000
# Codes of the answers in the strip; 0 for the others
_IN_STRIP = 1
_WHICH = {"": _IN_STRIP, "worst": 2, "median": 3, "best": 4}


def prompts_data(report: RunReport, addresses: Addresses) -> PromptsData:
    """Return the responses that the responses page lists, by prompt.

    So there are at most ``MOST_LISTED`` of them.
    """
    run = report.run
    responses = run.tables.responses
    rows = [page.plan.rows[: report.listed] for page in report.step_pages]
    all_rows = np.concatenate([np.zeros(0, np.int64), *rows])
    answers = answers_of(run.tables, all_rows, ("prompt_id", "step"))
    prompts = responses["prompt_id"].to_numpy()[answers.rows]
    order = np.argsort(prompts, kind="stable")
    answers = answers.take(order)
    ids, sizes = np.unique(prompts[order], return_counts=True)
    means = _means(responses, ids, answers.rows)
    points = _sizes(means["prompt_id"].to_numpy(), ids)
    mean_rewards = means["reward"].to_numpy(np.float64)
    length = length_column(responses)
    steps = run.tables.steps["step"]
    low = float(steps.iloc[0])
    high = float(steps.iloc[-1])
    lengths = responses[length].to_numpy(np.float64)[answers.rows]
    cited = {
        f"{step}-{n}": (one.finding, one.token)
        for (step, n), one in citations_of(run.verdict).items()
    }
    return {
        "run": run.title,
        "prompts": ids,
        "sizes": sizes,
        "step": answers.steps,
        "n": answers.numbers,
        "reward": _rounded(answers.rewards),
        "length": _rounded(lengths),
        "lengthLabel": RESPONSE[length].label,
        "ratioHelp": LOG_RATIO.help,
        "ratioUnit": LOG_RATIO.unit,
        "which": _which(report, answers, sizes),
        "cited": cited,
        "points": points,
        "at": means["step"].to_numpy(),
        "mean": _rounded(mean_rewards),
        "low": low,
        "high": high,
        "reach": reach_of(run.tables),
        "twoRewards": has_two_rewards(run.tables),
        "rules": film_rules(report, low, high),
        "address": addresses.any_response("{step}", "{n}"),
        "all": addresses.responses_to("{prompt}"),
        "redacted": bool(run.options.redact),
    }


def _which(report: RunReport, answers: Answers, sizes: Ints) -> Ints:
    """Return a code of ``_WHICH`` for each answer in a strip, 0 for the others.

    ``sizes``: number of answers to each prompt, which follow each other.
    """
    citations = citations_of(report.run.verdict)
    onset = moved_of(report).onset
    onset_step = None if onset is None else onset.step
    which = np.zeros(len(answers.rows), np.int64)
    start = 0
    for size in sizes.tolist():
        of_prompt = answers.take(slice(start, start + size))
        for place, name in film_answers(of_prompt, citations, onset_step):
            which[start + place] = _WHICH[name]
        start += size
    return which


def _means(responses: pd.DataFrame, prompts: Ints, shown: Ints) -> pd.DataFrame:
    """Return the mean reward of all responses to each prompt at each step, by prompt and step."""
    is_known = responses["prompt_id"].isin(prompts) & responses["reward"].notna()
    keys = ["prompt_id", "step"]
    known = responses.loc[is_known, [*keys, "reward"]]
    by_step = known.groupby(keys)["reward"].mean()
    means = pd.DataFrame(by_step).reset_index()
    if len(means) > MOST_MEANS:
        at_shown = responses[keys].iloc[shown].drop_duplicates()
        means = means.merge(at_shown, on=keys)
    return means.sort_values(keys)


def _sizes(prompts: Ints, ids: Ints) -> Ints:
    """Return how often each of ``ids`` is in ``prompts``; both ascend."""
    first, last = (np.searchsorted(prompts, ids, side) for side in ("left", "right"))
    return last - first


def _rounded(values: Floats) -> Floats:
    """Return values that can be drawn, to as many digits as the responses page has."""
    return as_formatted(drawable(values), LISTED_DIGITS)
