"""Rows on their way from JSON to figures: scalars in tuples, token arrays as raw buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import xxhash

from rlreport.fields import TOKEN_ARRAYS, count_not_taken
from rlreport.options import ReadOptions
from rlreport.read.conversation import NOTHING, Beside, ToolCounts, add_tool
from rlreport.read.diagnostics import Diagnostics, LogPosition
from rlreport.text.clean import clean_prompt, clean_text, safe_text
from rlreport.text.units import structure_of

NAN = float("nan")
LONGEST_EXTRA = 200
"""Characters; a longer text is no column."""

_INFINITY = float("inf")
_MOST_PROMPTS = 1 << 16


class RawTokens(NamedTuple):
    """The token strings of a row as raw JSON: ``text`` is an array of so many strings."""

    text: bytes
    strings: int


@dataclass(slots=True)
class TokenFields:
    """The token strings and arrays of one row.

    Attributes:
        tokens: the strings, as raw JSON or a list, or None.
        buffers: field of TOKEN_ARRAYS -> bytes of its float64 values.
        size: tokens of the shortest of them all, -1 where the row has none.
        uneven: they are not of the same length.
        mask: a byte of 0 or 1 a token: whether the policy sampled it; None for all.
    """

    tokens: RawTokens | Sequence[str] | None = None
    buffers: dict[str, memoryview] = field(default_factory=dict)
    size: int = -1
    uneven: bool = False
    mask: bytes | None = None

    def fit(self, size: int) -> None:
        """Take in an array of this size."""
        if self.size < 0:
            self.size = size
        elif size != self.size:
            self.uneven = True
            self.size = min(self.size, size)


class ParsedRow(NamedTuple):
    """What a line holds, of the right types, whichever parser read it.

    Attributes:
        rewards: reward, ref_reward, valid_reward, ref_valid_reward; NaN where absent.
        reference: the reference's response.
        group: what marks the group, None where nothing does.
        finish: 1 ended by itself, 0 at the limit, NaN where no reason is logged.
        extras: further scalars, by name.
        kept: fields that the first pass only counts; what cannot be shown is None there.
        parts: names of extras that are parts of the reward.
        oddities: kinds of what was repaired or left out.
        not_taken: name and type of fields that are neither known nor a column.
        beside: split, seat, and figures of turns.
    """

    step: int
    prompt: str
    response: str
    rewards: tuple[float, float, float, float]
    reference: str | None
    group: object
    finish: float
    tokens: TokenFields
    extras: Sequence[tuple[str, float | str]]
    kept: Mapping[str, object]
    parts: Sequence[str] = ()
    oddities: Sequence[str] = ()
    not_taken: Sequence[tuple[str, str]] = ()
    beside: Beside = NOTHING


class RowScalars(NamedTuple):
    """The scalars of one row; texts already reduced to hashes and lengths."""

    file: int
    line: int
    offset: int
    length: int
    sub: int
    step: int
    prompt_hash: int
    prompt_chars: int
    group_hash: int
    reward: float
    ref_reward: float
    valid_reward: float
    ref_valid_reward: float
    line_hash: int
    response_hash: int
    response_chars: int
    ref_response_chars: float
    finish: float
    structure: int
    nan_values: int

    @property
    def position(self) -> LogPosition:
        """Where the row lies."""
        return LogPosition(self.file, self.offset, self.line)


@dataclass(slots=True)
class Batch:
    """Many rows, field by field; the lists are as long as there are rows, unless said.

    Attributes:
        rows: scalars.
        leaves: (split, its first row), for each split that rows come from, in order.
        lengths: tokens of the row after cutting to the shortest array, -1 without any.
        token_rows: numbers of the rows that have token arrays; the next two align with it.
        tokens: token strings: None, a list, or raw JSON.
        masks: bytes of 0 and 1, which tokens the policy sampled; None for all.
        arrays: field of TOKEN_ARRAYS to bytes of float64, or None.
        texts: cleaned response; None once it has tokens, as only else its words count.
        references: cleaned reference response, or None.
        extras: name -> [(row, number or string)], for further scalars.
        figures: column of the response table -> [(row, number)], for those of turns.
        tools: (step, tool) -> its answers, and how many were errors.
        reward_parts: names of extras that are parts of the reward.
        fields: canonical field -> rows that carried it, for those that leave no other trace.
        diagnostics: what was repaired or odd.
    """

    rows: list[RowScalars] = field(default_factory=list)
    leaves: list[tuple[int, int]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    token_rows: list[int] = field(default_factory=list)
    tokens: list[RawTokens | Sequence[str] | None] = field(default_factory=list)
    arrays: dict[str, list[memoryview | None]] = field(
        default_factory=lambda: {name: [] for name in TOKEN_ARRAYS}
    )
    masks: list[bytes | None] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)
    references: list[str | None] = field(default_factory=list)
    extras: dict[str, list[tuple[int, float | str]]] = field(default_factory=dict)
    figures: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    tools: ToolCounts = field(default_factory=dict)
    reward_parts: set[str] = field(default_factory=set)
    fields: dict[str, int] = field(default_factory=dict)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def carried(self) -> dict[str, int]:
        """Return how many rows carried each canonical field with a value, numbers left out."""
        counts = dict.fromkeys(("step", "prompt", "response"), len(self.rows))
        counts |= self.fields
        columns: dict[str, Sequence[object]] = {
            "ref_response": self.references,
            "response_tokens": self.tokens,
            **self.arrays,
        }
        for name, column in columns.items():
            counts[name] = sum(value is not None for value in column)
        return {name: count for name, count in counts.items() if count}

    def add_tokens(self, own: TokenFields) -> None:
        """Add the token fields of the row that comes next."""
        size = own.size
        self.lengths.append(size)
        if size < 0:
            return
        self.token_rows.append(len(self.rows))
        self.tokens.append(own.tokens)
        self.masks.append(own.mask)
        buffers = own.buffers
        if own.uneven:
            buffers = {name: buffer[: 8 * size] for name, buffer in buffers.items()}
        for name, column in self.arrays.items():
            column.append(buffers.get(name))


class Batcher:
    """Adds parsed rows to ``batch``: texts cleaned, and reduced to what the first pass keeps."""

    def __init__(self, options: ReadOptions) -> None:
        self.batch = Batch()
        self._options = options
        self._prompts: dict[tuple[int, int], tuple[int, int]] = {}
        self._pads = options.pad_tokens
        # Looking for single characters is several times faster than for every pad token.
        self._pad_starts = sorted({pad[0] for pad in options.pad_tokens if pad})

    def take(self) -> Batch:
        """Hand over the rows so far and start a new batch."""
        batch, self.batch = self.batch, Batch()
        return batch

    def add(
        self, row: ParsedRow, position: LogPosition, length: int, sub: int = 0, content: int = 0
    ) -> None:
        """Add a row that lies there.

        Args:
            row: the row.
            position: where its line begins.
            length: bytes of its line.
            sub: its number in the line.
            content: hash of the line, 0 where there is none.
        """
        batch, tokens = self.batch, row.tokens
        # Of any type, as logged: what cannot be hashed is to leave nothing of its row behind.
        # 17 and "17" name the same group; 0 says that no group was logged.
        group_hash = 0 if row.group is None else text_hash(str(row.group)) or 1
        for kind in row.oddities:
            batch.diagnostics.add(kind, position)
        if tokens.uneven:
            batch.diagnostics.add("unequal_lengths", position)
        if tokens.mask is not None and len(tokens.mask) != tokens.size:
            batch.diagnostics.add("bad_mask", position)
            tokens.mask = None
        for name, kind in row.not_taken:
            count_not_taken(batch.diagnostics.not_taken, name, kind)
        number = len(batch.rows)
        for name, value in row.extras:
            batch.extras.setdefault(name, []).append((number, value))
        for name in row.kept:
            batch.fields[name] = batch.fields.get(name, 0) + 1
        for name, figure in row.beside.figures.items():
            batch.figures.setdefault(name, []).append((number, figure))
        for tool, counts in row.beside.tools.items():
            add_tool(batch.tools, row.step, safe_text(tool), counts)
        batch.reward_parts.update(row.parts)
        batch.add_tokens(tokens)
        prompt_hash, prompt_chars = self._prompt_figures(row.prompt)
        text = self._cleaned(row.response)
        reference = None if row.reference is None else self._cleaned(row.reference)
        batch.texts.append(text)
        batch.references.append(reference)
        batch.rows.append(
            RowScalars(
                position.file,
                position.line,
                position.offset,
                length,
                sub,
                row.step,
                prompt_hash,
                prompt_chars,
                group_hash,
                *row.rewards,
                content,
                text_hash(text),
                len(text),
                NAN if reference is None else float(len(reference)),
                row.finish,
                structure_of(text),
                0 if -_INFINITY < row.rewards[0] < _INFINITY else 1,
            )
        )

    def _prompt_figures(self, prompt: str) -> tuple[int, int]:
        """Return the hash and the number of characters of the cleaned prompt.

        Most prompts are logged many times; only their hashes are remembered.
        """
        key = (hash(prompt), len(prompt))
        known = self._prompts.get(key)
        if known is None:
            if len(self._prompts) >= _MOST_PROMPTS:
                self._prompts.clear()
            cleaned = clean_prompt(prompt, self._pads, self._options.system_end_token)
            known = self._prompts[key] = (text_hash(cleaned), len(cleaned))
        return known

    def _cleaned(self, text: str) -> str:
        for start in self._pad_starts:
            if start in text:
                return clean_text(text, self._pads)
        # Making it safe to encode would change neither its length nor whom it equals.
        return text


def text_hash(text: str) -> int:
    """Return what stands for a text in tables and exports."""
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogatepass"))
