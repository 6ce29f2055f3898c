"""Strings, spans and turns of token ids."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.errors import MissingExtraError, UsageError
from rlreport.formats.base import Row
from rlreport.system import coerce
from rlreport.text.clean import is_special
from rlreport.text.numbers import byte_size
from rlreport.text.tokens import Style, detect_style, readable_tokens

# Maximum bytes of a tokenizer file; the largest tokenizers in use have 33 MB
MOST_BYTES = 500_000_000


class TokenNames:
    """A picklable converter of token ids to strings; without a tokenizer, ``#17`` for token 17."""

    def __init__(self, tokenizer: str | None = None) -> None:
        self._path = tokenizer
        # Ids of the last prompt, and its strings
        self._prompt: tuple[list[int], list[str]] = ([], [])
        if tokenizer is not None:
            _load(tokenizer)

    def strings(self, ids: Sequence[int]) -> list[str]:
        if self._path is None:
            return [f"#{token}" for token in ids]
        tokenizer, _ = _load(self._path)
        return [tokenizer.id_to_token(token) or f"#{token}" for token in ids]

    def text(self, ids: Sequence[int]) -> str:
        """Return the decoded text without special tokens; without a tokenizer, ``#17 #19``."""
        if self._path is None:
            return " ".join(self.strings(ids))
        _, style = _load(self._path)
        tokens = readable_tokens(self.strings(ids), style)
        return "".join(token for token in tokens if not is_special(token))

    def fill(self, row: Row) -> Row:
        """Set missing tokens and texts from token ids, in place; return the row.

        The text of the response is that of its sampled tokens, if the row has a mask of them.
        """
        ids = row.get("token_ids")
        if isinstance(ids, list):
            if row.get("response_tokens") is None:
                row["response_tokens"] = self.strings(ids)
            if row.get("response") is None:
                mask = row.get("response_mask")
                if isinstance(mask, list) and len(mask) == len(ids):
                    ids = list(compress(ids, mask))
                row["response"] = self.text(ids)
        prompt_ids = row.get("prompt_token_ids")
        if isinstance(prompt_ids, list):
            if row.get("prompt") is None:
                row["prompt"] = self.text(prompt_ids)
            # Numbers of tokens would show nothing of the template.
            if self._path is not None and row.get("prompt_token_strings") is None:
                row["prompt_token_strings"] = self._prompt_strings(prompt_ids)
        if "ground_truth_ids" in row:
            row["ground_truth"] = self.text(row.pop("ground_truth_ids"))
        return row

    def _prompt_strings(self, ids: list[int]) -> list[str]:
        """Return the strings of a prompt, which the rows of a group share."""
        if ids != self._prompt[0]:
            self._prompt = (ids, self.strings(ids))
        return self._prompt[1]


@lru_cache(maxsize=4)
def _load(path: str) -> tuple[Any, Style]:
    """Return a tokenizer, and how its strings encode bytes; raise UsageError if it is none."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError(
            "--tokenizer needs the tokenizers library: pip install 'rlreport[tokenizer]'"
        ) from None
    # Only regular files: reading a pipe or a device might never end.
    if not Path(path).is_file() or Path(path).stat().st_size > MOST_BYTES:
        raise UsageError(
            f"--tokenizer {path}: must be a file of at most {byte_size(MOST_BYTES)}"
        )
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:  # the library raises bare Exception
        raise UsageError(
            f"{path} is not a tokenizer file of the tokenizers library: {error}"
        ) from None
    vocabulary = tokenizer.get_vocab()
    style = detect_style(vocabulary) if vocabulary else Style.PLAIN
    return tokenizer, style


def first_true(flags: Sequence[int]) -> int:
    """Return the index of the first flag (0 or 1) that is set, the number of flags if none is."""
    try:
        return flags.index(1)
    except ValueError:
        return len(flags)


def after_prompt(
    obj: Row, ids: Sequence[int], sampled: Sequence[Any], arrays: Mapping[str, str]
) -> Row:
    """Split a token sequence at its first sampled token; return the row's token fields.

    ``sampled`` is true for tokens of the policy; ids beyond its end are padding. ``arrays`` maps
    keys of float arrays in ``obj``, as long as ``ids``, to fields of the row.
    """
    mask = [int(bool(one)) for one in sampled[: len(ids)]]
    first = first_true(mask)
    stop = len(mask)
    row: Row = {
        "prompt_token_ids": ids[:first],
        "token_ids": ids[first:stop],
        "response_mask": mask[first:],
    }
    for key, field in arrays.items():
        values = coerce.numbers(obj.get(key))
        if values is not None:
            row[field] = values[first:stop]
    return row


class StepTokens(NamedTuple):
    """Tokens of one model call, as logged; any of them may be missing or invalid."""

    prompt_ids: Any
    reply_ids: Any
    logprobs: Any  # of the reply


def tokens_of_steps(steps: Iterable[StepTokens]) -> Row:
    """Join the steps (model calls) of a conversation; return the row's token fields.

    Return {} if a step has no ids, or if a prompt does not begin with the prompt and reply of the
    step before.
    """
    first_prompt: list[int] = []
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    history: list[int] = []  # the prompt and reply of the step before
    for step in steps:
        prompt = coerce.ints(step.prompt_ids)
        reply = coerce.ints(step.reply_ids)
        if not prompt or not reply or prompt[: len(history)] != history:
            return {}
        if not first_prompt:
            first_prompt = prompt
            history = prompt  # so that none of it is context of the response
        # What the environment said between two steps belongs to the response, but was not sampled.
        context = prompt[len(history) :]
        ids += context + reply
        mask += [0] * len(context) + [1] * len(reply)
        logprobs += [math.nan] * len(context) + _logprobs_of(step, len(reply))
        history = prompt + reply
    if not ids:
        return {}
    row: Row = {
        "prompt_token_ids": first_prompt,
        "token_ids": ids,
        "response_mask": mask,
    }
    if not all(map(math.isnan, logprobs)):
        row["logprobs"] = logprobs
    return row


def _logprobs_of(step: StepTokens, size: int) -> list[float]:
    """Return the logprobs of a step's reply, NaN if they are not one per token."""
    logprobs = coerce.numbers(step.logprobs) or []
    return logprobs if len(logprobs) == size else [math.nan] * size


def mask_runs(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Return (start, stop) of each run of consecutive equal values in a mask."""
    if not mask:
        return []
    edges = [0]
    for index, (before, value) in enumerate(pairwise(mask), start=1):
        if value != before:
            edges.append(index)
    edges.append(len(mask))
    return list(pairwise(edges))


def set_spans(turns: Sequence[Row], spans: Sequence[tuple[int, int]]) -> None:
    """Set ``tokens`` of turns to (start, stop) of their tokens, if there is a span for each."""
    if len(turns) == len(spans):
        for turn, span in zip(turns, spans, strict=True):
            turn["tokens"] = list(span)


def span_turns(row: Row) -> None:
    """Set ``tokens`` of a row's turns to (start, stop) of their tokens, found in the mask.

    Each run of 1 in the mask is a turn of the policy; nothing is set if their numbers differ or the
    mask starts with 0, as a response begins with the first sampled token. A single turn between two
    turns of the policy gets the tokens between them.
    """
    turns = row.get("turns")
    mask = row.get("response_mask")
    if not turns or not mask:
        return
    runs = [run for run in mask_runs(mask) if mask[run[0]]]
    sampled = [i for i, turn in enumerate(turns) if turn["sampled"]]
    if len(runs) != len(sampled) or runs[0][0]:
        return
    set_spans([turns[i] for i in sampled], runs)
    for i in range(1, len(turns) - 1):
        before = turns[i - 1]
        after = turns[i + 1]
        if not turns[i]["sampled"] and before["sampled"] and after["sampled"]:
            _, start = before["tokens"]
            stop, _ = after["tokens"]
            turns[i]["tokens"] = [start, stop]
