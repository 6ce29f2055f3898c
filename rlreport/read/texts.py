"""The texts of a batch of rows without padding, and the columns that are computed from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats
from rlreport.options import ReadOptions
from rlreport.read.record import ParsedRow
from rlreport.text.clean import clean_prompt, clean_text
from rlreport.text.labels import answer_marks, label_hit
from rlreport.text.scripts import is_garbled, leaves_script, main_script
from rlreport.text.tokens import structure_of

Columns = dict[str, NDArray[np.generic]]


class CleanTexts(NamedTuple):
    """Texts of R rows without padding tokens; None where a row logs no reference.

    ``encoded`` are the responses as UTF-8. ``calls`` is what a reward function takes of each row,
    as logged; None without a function.
    """

    responses: Sequence[str]
    encoded: Sequence[bytes]
    references: Sequence[str | None]
    calls: Sequence[str | None]


def clean_texts(
    rows: Sequence[ParsedRow], calls: Sequence[str | None], pads: tuple[str, ...]
) -> CleanTexts:
    """Return the texts of rows without padding, as all columns and pages use them."""
    responses = [clean_text(row.response, pads) for row in rows]
    references = [
        None if row.reference is None else clean_text(row.reference, pads)
        for row in rows
    ]
    encoded = [response.encode() for response in responses]
    return CleanTexts(responses, encoded, references, calls)


def text_columns(
    rows: Sequence[ParsedRow], texts: CleanTexts, options: ReadOptions
) -> Columns:
    """Return the columns that are computed from texts, (R,) each."""
    pads = options.pad_tokens
    prompts = [_prompt(row.prompt, pads, options.system_end_token) for row in rows]
    responses = texts.responses
    answers = [
        _last_turn(row) or response
        for row, response in zip(rows, responses, strict=True)
    ]
    reference_chars = [
        np.nan if text is None else len(text) for text in texts.references
    ]
    prompt_hashes = [prompt.hash for prompt in prompts]
    columns: Columns = {
        "prompt_hash": np.array(prompt_hashes, np.uint64),
        "response_hash": np.array(list(map(_hash, texts.encoded)), np.uint64),
        "response_chars": np.array(list(map(len, responses)), np.int64),
        "structure": np.array(list(map(structure_of, responses)), np.int64),
        "garbled": np.array(list(map(is_garbled, responses)), np.float64),
        "ref_response_chars": np.array(reference_chars, np.float64),
        "label_hit": _label_hits(rows, answers),
        "other_script": _other_scripts(prompts, responses),
    }
    # Bits of ``labels.ANSWER_MARKS``
    columns["answer_format"] = np.array(list(map(answer_marks, answers)), np.int64)
    return columns | _fit_of_tokens(rows, responses)


class _Prompt(NamedTuple):
    """What columns need of a prompt: the hash of its text, and the script of most letters."""

    hash: int
    script: str


@lru_cache(maxsize=512)  # the responses of a group have the same prompt
def _prompt(
    prompt: str, pad_tokens: tuple[str, ...], system_end_token: str | None
) -> _Prompt:
    text = clean_prompt(prompt, pad_tokens, system_end_token)
    return _Prompt(text_hash(text), main_script(text))


_hash = xxhash.xxh3_64_intdigest


def text_hash(text: str) -> int:
    """Return the 64-bit hash that identifies a text in tables and exports."""
    return _hash(text.encode(errors="surrogatepass"))


def _last_turn(row: ParsedRow) -> str:
    """Return the last text that the policy wrote in a conversation, "" without turns.

    The response of a conversation contains the outputs of tools, too.
    """
    turns: Any = row.carried.get("turns") or ()
    for turn in reversed(turns):
        text = turn.get("text")
        if turn["sampled"] and isinstance(text, str) and text.strip():
            return text
    return ""


def _label_hits(rows: Sequence[ParsedRow], answers: Sequence[str]) -> Floats:
    """Return whether each row's final answer is its label: 1, 0, or NaN if unknown, (R,)."""
    hits = np.full(len(rows), np.nan)
    for i, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        label = row.carried.get("ground_truth")
        if label is not None:
            hits[i] = label_hit(answer, label)
    return hits


def _other_scripts(prompts: Sequence[_Prompt], responses: Sequence[str]) -> Floats:
    """Return whether each row leaves the script of its prompt: 1, 0, or NaN, (R,).

    It is unknown if one of them has few letters.
    """
    others = np.full(len(responses), np.nan)
    for i, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        leaves = leaves_script(response, prompt.script) if prompt.script else None
        if leaves is not None:
            others[i] = leaves
    return others


# All bytes but ASCII letters and digits
_NO_LETTERS = bytes(
    byte for byte in range(256) if not chr(byte).isalnum() or byte > 127
)
# What one of tokens and text may lack: control tokens, tags of thinking, bytes written as a token
_NOT_IN_BOTH = re.compile(r"<[|｜][^<>\s]{1,64}[|｜]>|</?\w{1,12}>|<0x[0-9A-Fa-f]{2}>")
# Fewer letters say little about whether tokens are those of a text
_FEWEST_LETTERS = 8
_ENOUGH_LETTERS = re.compile(rf"(?:[^A-Za-z0-9]*+[A-Za-z0-9]){{{_FEWEST_LETTERS}}}")


def _fit_of_tokens(rows: Sequence[ParsedRow], responses: Sequence[str]) -> Columns:
    """Return the column ``tokens_fit`` if any row has token strings, {} otherwise.

    Of conversations it is unknown, as their text may have more or fewer turns than their tokens.
    """
    fits = np.full(len(rows), np.nan)
    for i, (row, response) in enumerate(zip(rows, responses, strict=True)):
        if row.tokens.ids is not None and "turns" not in row.metadata.figures:
            fits[i] = _is_one_text(row.tokens.text, response)
    return {} if np.isnan(fits).all() else {"tokens_fit": fits}


def _is_one_text(joined: str, response: str) -> float:
    """Return 1 if one of two texts contains the other, 0 if not, NaN if they are too short.

    One may be cut, or lack the thinking. Only ASCII letters and digits are compared: they are the
    same in tokens as logged and as decoded, unlike blanks and other characters.
    """
    if joined == response:
        return 1.0 if _ENOUGH_LETTERS.match(joined) else np.nan
    one = _letters(joined)
    other = _letters(response)
    if one == other or one in other or other in one:
        return 1.0 if min(len(one), len(other)) >= _FEWEST_LETTERS else np.nan
    one = _letters(_NOT_IN_BOTH.sub("", joined))
    other = _letters(_NOT_IN_BOTH.sub("", response))
    if min(len(one), len(other)) < _FEWEST_LETTERS:
        return np.nan
    return float(one in other or other in one)


def _letters(text: str) -> bytes:
    """Return only the ASCII letters and digits of a text."""
    return text.encode(errors="replace").translate(None, _NO_LETTERS)
