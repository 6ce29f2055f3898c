"""Tokens of an answer: those after the prompt, and of steps and turns put together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from rlreport.formats import logged
from rlreport.formats.base import Row


def tokens_of_steps(steps: Iterable[tuple[Any, Any, Any]]) -> Row:
    """Return ids, mask and logprobs of what came after the first prompt.

    Args:
        steps: ids of the prompt, ids and logprobs of the reply, of each step as logged.

    Returns:
        {} where a step has no ids, or a prompt does not hold the step before it.
    """
    before: list[int] = []
    row: Row = {}
    for asked, replied, likely in steps:
        prompt, reply = logged.ints(asked), logged.ints(replied)
        if not prompt or not reply or prompt[: len(before)] != before:
            return {}
        given = prompt[len(before) :]
        logprobs = logged.numbers(likely) or []
        if len(logprobs) != len(reply):
            logprobs = [math.nan] * len(reply)
        if not before:
            row = {"prompt_token_ids": prompt, "token_ids": [], "response_mask": [], "logprobs": []}
            given = []
        row["token_ids"] += given + reply
        row["response_mask"] += [0] * len(given) + [1] * len(reply)
        row["logprobs"] += [math.nan] * len(given) + logprobs
        before = prompt + reply
    if row and all(map(math.isnan, row["logprobs"])):
        del row["logprobs"]
    return row


def span_turns(row: Row) -> None:
    """Give turns their tokens, where the mask's runs are as many as the policy's turns.

    What stands between two of them is one turn's, or several turns' together.
    """
    turns, mask = row.get("turns"), row.get("response_mask")
    if not turns or not mask:
        return
    edges = [0, *(i for i in range(1, len(mask)) if mask[i] != mask[i - 1]), len(mask)]
    runs = [(a, b) for a, b in pairwise(edges) if mask[a]]
    places = [i for i, turn in enumerate(turns) if turn["sampled"]]
    if len(runs) != len(places) or runs[0][0]:
        return
    for place, run in zip(places, runs, strict=True):
        turns[place]["tokens"] = list(run)
    for i, turn in enumerate(turns):
        known = 0 < i < len(turns) - 1 and {i - 1, i + 1} <= set(places)
        if not turn["sampled"] and known:
            turn["tokens"] = [turns[i - 1]["tokens"][1], turns[i + 1]["tokens"][0]]


def after_prompt(obj: Row, ids: list[int], mask: list[int], arrays: Mapping[str, str]) -> Row:
    """Return ids, mask and floats of what follows the prompt: all before the first sampled token.

    Args:
        obj: as logged.
        ids: of prompt and response.
        mask: 1 where the policy sampled; what lies beyond it is padding.
        arrays: names of the object's floats, to those of the row's.
    """
    first, stop = mask.index(1) if any(mask) else len(mask), len(mask)
    floats = {canonical: logged.numbers(obj.get(name)) for name, canonical in arrays.items()}
    return {
        "prompt_token_ids": ids[:first],
        "token_ids": ids[first:stop],
        "response_mask": mask[first:],
        **{name: values[first:stop] for name, values in floats.items() if values is not None},
    }
