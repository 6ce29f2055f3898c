"""Token ids: their strings, and the tokens of a response assembled from logged ids and masks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

from rlreport.errors import MissingExtraError, UsageError
from rlreport.formats import logged
from rlreport.formats.base import Row
from rlreport.text.clean import is_special
from rlreport.text.numbers import byte_size
from rlreport.text.tokens import Style, detect_style, readable_tokens

MOST_BYTES = 500_000_000
"""Maximum bytes of a tokenizer file; the largest known ones have 33 MB."""


class TokenNames:
    """Token strings by id.

    Args:
        tokenizer: path of a ``tokenizer.json`` of the ``tokenizers`` library; without one, strings
            are like ``#17``.

    Raises:
        UsageError: the file is not a valid tokenizer.
        MissingExtraError: the library is not installed.
    """

    def __init__(self, tokenizer: str | None = None) -> None:
        self._path = tokenizer
        self._tokenizer = None if tokenizer is None else _load(tokenizer)
        self._style = Style.PLAIN
        if self._tokenizer is not None:
            self._style = detect_style(self._tokenizer.get_vocab())

    def __reduce__(self) -> tuple[type[TokenNames], tuple[str | None]]:
        """Pickle only the path; the other process loads the tokenizer again."""
        return TokenNames, (self._path,)

    def strings(self, ids: Sequence[int]) -> list[str]:
        """Return the token strings of ``ids`` as in the tokenizer's vocabulary."""
        if self._tokenizer is None:
            return [f"#{token}" for token in ids]
        return [self._tokenizer.id_to_token(token) or f"#{token}" for token in ids]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` without special tokens; ``#17 #19`` without a tokenizer."""
        strings = self.strings(ids)
        if self._tokenizer is None:
            return " ".join(strings)
        tokens = readable_tokens(strings, self._style)
        return "".join(token for token in tokens if not is_special(token))

    def fill(self, row: Row) -> Row:
        """Add missing token strings and texts to a canonical row with ids, in place."""
        ids = row.get("token_ids")
        if isinstance(ids, list):
            if row.get("response_tokens") is None:
                row["response_tokens"] = self.strings(ids)
            if row.get("response") is None:
                mask = row.get("response_mask")
                if isinstance(mask, list) and len(mask) == len(ids):
                    ids = list(compress(ids, mask))
                row["response"] = self.text(ids)
        if row.get("prompt") is None and isinstance(row.get("prompt_token_ids"), list):
            row["prompt"] = self.text(row["prompt_token_ids"])
        if "ground_truth_ids" in row:
            row["ground_truth"] = self.text(row.pop("ground_truth_ids"))
        return row


@lru_cache(maxsize=4)
def _load(path: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError(
            "--tokenizer needs the tokenizers library: pip install 'rlreport[tokenizer]'"
        ) from None
    # Reading a pipe or a device might never end.
    if not Path(path).is_file() or Path(path).stat().st_size > MOST_BYTES:
        raise UsageError(f"--tokenizer {path}: no file of at most {byte_size(MOST_BYTES)}")
    try:
        return Tokenizer.from_file(path)
    except Exception as error:  # the library raises bare Exception
        raise UsageError(
            f"{path} is no tokenizer file of the tokenizers library: {error}"
        ) from None


def after_prompt(obj: Row, ids: list[int], mask: list[int], arrays: Mapping[str, str]) -> Row:
    """Return ids, mask and floats of the response, which begins with the first sampled token.

    Args:
        obj: the logged object.
        ids: token ids of prompt and response.
        mask: 1 where the policy sampled; ids beyond its end are padding.
        arrays: keys of float arrays in the object -> fields of the row.
    """
    first, stop = mask.index(1) if any(mask) else len(mask), len(mask)
    floats = {canonical: logged.numbers(obj.get(name)) for name, canonical in arrays.items()}
    return {
        "prompt_token_ids": ids[:first],
        "token_ids": ids[first:stop],
        "response_mask": mask[first:],
        **{name: values[first:stop] for name, values in floats.items() if values is not None},
    }


def tokens_of_steps(steps: Iterable[tuple[Any, Any, Any]]) -> Row:
    """Return ids, mask and logprobs of everything after the first prompt.

    Args:
        steps: per step: ids of the prompt, ids and logprobs of the reply.

    Returns:
        {} if a step has no ids, or a prompt does not continue the step before it.
    """
    before: list[int] = []
    row: Row = {}
    for prompt_ids, reply_ids, reply_logprobs in steps:
        prompt, reply = logged.ints(prompt_ids), logged.ints(reply_ids)
        if not prompt or not reply or prompt[: len(before)] != before:
            return {}
        given = prompt[len(before) :]
        logprobs = logged.numbers(reply_logprobs) or []
        if len(logprobs) != len(reply):
            logprobs = [math.nan] * len(reply)
        if not row:
            row = {"prompt_token_ids": prompt, "token_ids": [], "response_mask": [], "logprobs": []}
            given = []
        row["token_ids"] += given + reply
        row["response_mask"] += [0] * len(given) + [1] * len(reply)
        row["logprobs"] += [math.nan] * len(given) + logprobs
        before = prompt + reply
    if row and all(map(math.isnan, row["logprobs"])):
        del row["logprobs"]
    return row


def mask_runs(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Return (start, stop) of each run of equal values in a mask."""
    edges = [0, *(i for i in range(1, len(mask)) if mask[i] != mask[i - 1]), len(mask)]
    return list(pairwise(edges)) if mask else []


def span_turns(row: Row) -> None:
    """Add token spans to turns if the mask has as many sampled runs as the policy has turns.

    Tokens between two of these runs belong to the turn, or the turns, between them.
    """
    turns, mask = row.get("turns"), row.get("response_mask")
    if not turns or not mask:
        return
    runs = [run for run in mask_runs(mask) if mask[run[0]]]
    sampled = [i for i, turn in enumerate(turns) if turn["sampled"]]
    if len(runs) != len(sampled) or runs[0][0]:
        return
    for i, run in zip(sampled, runs, strict=True):
        turns[i]["tokens"] = list(run)
    for i in range(1, len(turns) - 1):
        if not turns[i]["sampled"] and {i - 1, i + 1} <= set(sampled):
            turns[i]["tokens"] = [turns[i - 1]["tokens"][1], turns[i + 1]["tokens"][0]]
