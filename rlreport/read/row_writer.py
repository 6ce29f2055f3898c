"""Add rows to a batch: texts cleaned, and reduced to what the first pass keeps of them."""

from __future__ import annotations

from typing import NamedTuple

import xxhash

from rlreport.options import ReadOptions
from rlreport.read.batch import NAN, Batch, Row, TokenFields
from rlreport.read.marks import Place
from rlreport.text.clean import clean_prompt, clean_text

_MOST_PROMPTS = 1 << 16
_INFINITY = float("inf")


class RowValues(NamedTuple):
    """The canonical values of a row but for its tokens, of the right types."""

    step: int
    prompt: str
    response: str
    rewards: tuple[float, float, float, float]
    reference: str | None
    group: object
    finish: float


class Prompts:
    """What is kept of prompts; most are logged many times, and only their hashes are remembered."""

    def __init__(self, options: ReadOptions) -> None:
        self._pads = options.pad_tokens
        self._system_end = options.system_end_token
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def figures(self, prompt: str) -> tuple[int, int]:
        """Return the hash and the number of characters of the cleaned prompt."""
        key = (hash(prompt), len(prompt))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_PROMPTS:
                self._known.clear()
            cleaned = clean_prompt(prompt, self._pads, self._system_end)
            known = self._known[key] = (_hash(cleaned), len(cleaned))
        return known


class RowWriter:
    """Adds rows to ``batch``, which the caller takes away from time to time."""

    def __init__(self, options: ReadOptions, prompts: Prompts | None = None) -> None:
        self.batch = Batch()
        self._prompts = prompts or Prompts(options)
        self._pads = options.pad_tokens
        # Looking for single characters is several times faster than for every pad token.
        self._pad_starts = sorted({pad[0] for pad in options.pad_tokens if pad})

    def add(
        self, values: RowValues, tokens: TokenFields, place: Place, length: int, sub: int = 0
    ) -> None:
        """Add a row; its extras must have been added to the batch before."""
        batch = self.batch
        if tokens.uneven:
            batch.marks.add("unequal_lengths", place)
        batch.add_tokens(tokens)
        prompt_hash, prompt_chars = self._prompts.figures(values.prompt)
        text = self._cleaned(values.response)
        reference = values.reference
        if reference is not None:
            reference = self._cleaned(reference)
        batch.texts.append(None if tokens.tokens is not None else text)
        batch.references.append(reference)
        reward, ref_reward, valid_reward, ref_valid_reward = values.rewards
        batch.rows.append(
            Row(
                place.line,
                place.offset,
                length,
                sub,
                values.step,
                prompt_hash,
                prompt_chars,
                0 if values.group is None else _group_hash(values.group),
                reward,
                ref_reward,
                valid_reward,
                ref_valid_reward,
                _hash(text),
                len(text),
                NAN if reference is None else float(len(reference)),
                values.finish,
                0 if -_INFINITY < reward < _INFINITY else 1,
            )
        )

    def _cleaned(self, text: str) -> str:
        for start in self._pad_starts:
            if start in text:
                return clean_text(text, self._pads)
        # Making it safe to encode would change neither its length nor whom it equals.
        return text


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass"))


def _group_hash(group: object) -> int:
    # 17 and "17" name the same group; 0 says that no group was logged.
    return _hash(str(group)) or 1
