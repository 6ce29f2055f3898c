"""Texts, tokens and values per token of the chosen responses, as columns in temporary files.

``rollout_part`` converts rows that were just parsed to a ``RolloutPart``, in any process.
``spool.RolloutSpool`` appends the parts of all rows to files; ``Rollouts`` are the chosen ones of
them, with these files mapped into memory, and what all later stages use instead of the logs.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, offsets_of
from rlreport.figures.tokens import KEPT, TokenFigures
from rlreport.figures.turns import is_number
from rlreport.options import ReadOptions
from rlreport.read.digests import digests_of, string_hashes
from rlreport.read.record import ParsedRow
from rlreport.read.texts import CleanTexts
from rlreport.read.token_rows import TokenRows
from rlreport.read.vocabulary import Ids
from rlreport.system.cache import packed_pieces, unpack
from rlreport.text.chat import turns
from rlreport.text.clean import clean_prompt, clean_text
from rlreport.text.tokens import Style, readable_tokens


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the conversation after the prompt; texts are cleaned, None if not logged."""

    role: str
    text: str
    sampled: bool  # whether the policy wrote the turn
    tokens: tuple[int, int] | None = None  # first and last + 1 position in the response
    thinking: str | None = None  # reasoning that is logged separately from the text
    calls: tuple[tuple[str, str], ...] = ()  # (tool, arguments as text or JSON)
    tool: str | None = None  # name of the tool, if the turn is a tool's result
    error: str | None = None  # error message of the turn
    seconds: float | None = None
    reward: float | None = None

    @property
    def words(self) -> str:
        """Error, or else text, then calls; "(empty)" if none. A tool's name precedes its result."""
        calls = [f"{tool}({arguments})" for tool, arguments in self.calls]
        text = self.error or self.text
        if text:
            calls.insert(0, text)
        words = " ".join(calls) or "(empty)"
        return f"{self.tool}: {words}" if self.tool else words


@dataclass(slots=True)
class Rollout:
    """A response with its prompt, its tokens and numbers per token (figures), as pages show it."""

    step: int
    n: int  # position in the step
    file: str
    line: int
    # cleaned texts; None if not logged
    prompt: str
    response: str
    ref_response: str | None = None
    ground_truth: str | None = None
    # (role, text) of the prompt
    turns: list[tuple[str, str]] = field(default_factory=list)
    # as logged; empty if not loaded
    raw_tokens: list[str] = field(default_factory=list)
    # their texts, by ``readable_tokens``
    tokens: list[str] = field(default_factory=list)
    figures: TokenFigures = field(default_factory=TokenFigures)  # NaN if not sampled
    # (T,); None if the policy sampled all tokens
    sampled: NDArray[np.bool_] | None = None
    conversation: list[Turn] = field(default_factory=list)  # the turns after the prompt
    errors: list[str] = field(default_factory=list)  # error messages of the rollout
    # (name, text) of what a judge read or wrote
    judged: list[tuple[str, str]] = field(default_factory=list)
    hidden: bool = False  # whether placeholders replace its texts


# Of responses over 2 * EDGE tokens (or words), statistics use only the first and last EDGE
EDGE = 1024
# Of prompts of over 2 * PROMPT_EDGE tokens, token views show only the first and last PROMPT_EDGE
PROMPT_EDGE = 1024

# The last one is what a reward function takes, as JSON (``scoring.row_arguments``).
TEXTS = (
    "prompt",
    "response",
    "ref_response",
    "ground_truth",
    "details",
    "prompt_tokens",
    "call",
)
ABSENT = -1  # start of a text that is not logged
_STYLE_TOKENS = 5000  # token strings from which their encoding is detected
# Bits of ``flags``
HAS_TOKENS = 1
HAS_MASK = 2

Floats32 = NDArray[np.float32]


@dataclass(slots=True)
class RolloutPart:
    """Texts and tokens of R responses with N tokens in total."""

    # int64 (R, len(TEXTS), 2): where each text starts and ends in ``texts``; ABSENT if not logged
    spans: Ints
    texts: NDArray[np.uint8]  # UTF-8
    lengths: Ints  # int64 (R,), number of tokens of each response
    flags: NDArray[np.uint8]  # (R,): HAS_TOKENS, HAS_MASK
    ids: Ids  # (N,), tokens as indices of ``vocabulary``; 0 in responses without token strings
    sampled: NDArray[np.bool_]  # (N,), whether the policy sampled the token
    figures: dict[str, Floats32]  # name in KEPT -> (N,), NaN where not logged
    vocabulary: list[str] = field(repr=False)  # token strings as logged
    # (R, DIGEST_BYTES), a hash of all of the above of each response; (R, 0) without a cache, in
    # which what is made of responses is found by it
    digests: NDArray[np.uint8]

    def packed(self) -> list[bytes | memoryview]:
        """Return the pieces of the bytes that ``unpacked`` reads."""
        head = {"figures": list(self.figures), "vocabulary": self.vocabulary}
        arrays: list[Any] = [self.spans, self.texts, self.lengths, self.flags]
        arrays += [self.ids, self.sampled, self.digests, *self.figures.values()]
        return packed_pieces(head, arrays)

    @classmethod
    def unpacked(cls, data: bytes) -> RolloutPart:
        """Return the part that ``packed`` wrote; its arrays are views of ``data``."""
        head, arrays = unpack(data)
        spans, texts, lengths, flags, ids, sampled, digests, *figures = arrays
        return cls(
            spans=spans,
            texts=texts,
            lengths=lengths,
            flags=flags,
            ids=ids,
            sampled=sampled,
            figures=dict(zip(head["figures"], figures, strict=True)),
            vocabulary=head["vocabulary"],
            digests=digests,
        )


def unload(maps: Sequence[mmap.mmap]) -> None:
    """Remove from memory what was read of mapped files; the next access loads it again.

    Without it, the whole files would be in memory in the end.
    """
    if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        for one in maps:
            one.madvise(mmap.MADV_DONTNEED)


Clean = Callable[[object], str]


class _Blob:
    """Texts of R rows, encoded, one behind the other."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._size = 0

    def add(self, texts: Sequence[bytes | None]) -> Ints:
        """Append a text of each row; return where each starts and ends, int64 (R, 2)."""
        spans = np.full((len(texts), 2), ABSENT)
        pieces = [text for text in texts if text is not None]
        if not pieces:
            return spans
        ends = self._size + np.cumsum(list(map(len, pieces)))
        is_logged = [text is not None for text in texts]
        spans[is_logged, 0] = [self._size, *ends[:-1]]
        spans[is_logged, 1] = ends
        self.pieces += pieces
        self._size = int(ends[-1])
        return spans

    def add_once(
        self,
        texts: Sequence[str | None],
        encode: Callable[[str | None], bytes | None],
    ) -> Ints:
        """Append a text of each row like ``add``, equal ones only once."""
        first = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        spans = self.add([encode(text) for text in first])
        return spans[[first[text] for text in texts]]


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def rollout_part(
    rows: Sequence[ParsedRow],
    tokens: TokenRows | None,
    figures: TokenFigures,
    texts: CleanTexts,
    options: ReadOptions,
) -> RolloutPart:
    """Convert R parsed rows, given figures of their sampled tokens and their cleaned texts.

    ``tokens`` are those of the rows without padding, None if no row has any.
    """
    clean = partial(as_text, pads=options.pad_tokens)
    # Number of tokens of each row; −1 without tokens, as in ``TokenFields.size``
    sizes = np.full(len(rows), -1)
    if tokens is not None:
        sizes[tokens.rows] = tokens.lengths
    # If padding was dropped, the token positions of turns are no longer valid.
    details = [
        _details_of(row, clean, spans=size == row.tokens.size)
        for row, size in zip(rows, sizes.tolist(), strict=True)
    ]

    def clean_and_encode(prompt: str | None) -> bytes | None:
        if prompt is None:
            return None
        pads = options.pad_tokens
        return clean_prompt(prompt, pads, options.system_end_token).encode()

    blob = _Blob()
    spans = {
        # Rows of a group have the same prompt and the same tokens of it.
        "prompt": blob.add_once([row.prompt for row in rows], clean_and_encode),
        "response": blob.add(texts.encoded),
        "ref_response": blob.add(list(map(_encoded, texts.references))),
        "ground_truth": blob.add([_label_of(row, clean) for row in rows]),
        "details": blob.add(details),
        "prompt_tokens": blob.add_once(list(map(_prompt_tokens_of, rows)), _encoded),
        "call": blob.add(list(map(_encoded, texts.calls))),
    }
    part = RolloutPart(
        spans=np.stack([spans[name] for name in TEXTS], axis=1),
        texts=np.frombuffer(b"".join(blob.pieces), np.uint8),
        lengths=np.zeros(len(rows), np.int64),
        flags=np.zeros(len(rows), np.uint8),
        ids=np.zeros(0, np.int32),
        sampled=np.zeros(0, np.bool_),
        figures={},
        vocabulary=[],
        digests=np.zeros((len(rows), 0), np.uint8),
    )
    if tokens is not None:
        _add_tokens(part, tokens, figures)
    if options.cache:
        strings = string_hashes(part.vocabulary)[part.ids]
        columns = {"string": strings, "sampled": part.sampled, **part.figures}
        part.digests = digests_of(
            part.spans, part.texts, part.flags, part.lengths, columns
        )
    return part


def _label_of(row: ParsedRow, clean: Clean) -> bytes | None:
    """Return a row's ground truth as text; None for an object, which is no label to show."""
    label = row.carried.get("ground_truth")
    if label is None or isinstance(label, dict | list):
        return None
    return clean(str(label)).encode()


def _details_of(row: ParsedRow, clean: Clean, *, spans: bool) -> bytes | None:
    """Return the turns and errors of a row, and texts of its judge, as JSON; None if it has none.

    ``spans``: turns keep the positions of their tokens.
    """
    prompt_turns = row.carried.get("prompt_turns")
    conversation = row.metadata.turns
    errors: Any = row.carried.get("errors") or []
    if not (prompt_turns or conversation or errors or row.judged):  # as most rows
        return None
    if not isinstance(errors, list):
        errors = [errors]
    judged = row.judged.items()
    details = {
        "turns": _prompt_turns(prompt_turns, clean),
        "conversation": [_turn(turn, clean, spans=spans) for turn in conversation],
        "errors": [clean(error) for error in errors],
        "judged": [(as_text(name), clean(text)) for name, text in judged],
    }
    return orjson.dumps(details) if any(details.values()) else None


def _prompt_tokens_of(row: ParsedRow) -> str | None:
    """Return the number of a prompt's tokens and the strings of those to show, as JSON."""
    strings = row.carried.get("prompt_token_strings")
    if not isinstance(strings, list) or not all(
        isinstance(one, str) for one in strings
    ):
        return None
    shown = strings
    if len(strings) > 2 * PROMPT_EDGE:
        shown = [*strings[:PROMPT_EDGE], *strings[-PROMPT_EDGE:]]
    return json.dumps([len(strings), shown]) if strings else None


def _add_tokens(part: RolloutPart, tokens: TokenRows, figures: TokenFigures) -> None:
    """Set tokens of a part, in place; ``figures`` are those of the sampled tokens."""
    rows = tokens.rows
    size = int(tokens.offsets[-1])
    flags = part.flags
    flags[rows[tokens.has_strings]] |= HAS_TOKENS
    if tokens.masked is not None:
        flags[rows[tokens.masked]] |= HAS_MASK
    part.ids, part.vocabulary = tokens.numbers.renumbered(tokens.ids)
    part.sampled = np.ones(size, np.bool_) if tokens.sampled is None else tokens.sampled
    part.lengths[rows] = tokens.lengths
    for name in KEPT:
        if name not in figures:
            continue
        values = _as_float32(figures[name])
        if tokens.sampled is not None:
            sampled_values = values
            values = np.full(size, np.nan, np.float32)
            values[tokens.sampled] = sampled_values
        part.figures[name] = values


def _as_float32(values: Floats) -> Floats32:
    """Round values to float32; NaN for those beyond its range."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    narrow[np.isinf(narrow)] = np.nan
    return narrow


class RowIds(NamedTuple):
    """Identifiers of R responses, int64 (R,) each, ascending by ``row``."""

    row: Ints  # row of the response table
    step: Ints
    n: Ints
    file: Ints  # index of ``names``
    line: Ints
    names: list[str]  # names of the log files

    def take(self, at: Ints) -> RowIds:
        """Return the identifiers of the responses at these positions."""
        return RowIds(
            row=self.row[at],
            step=self.step[at],
            n=self.n[at],
            file=self.file[at],
            line=self.line[at],
            names=self.names,
        )


class Mask(Protocol):
    """What replaces texts of responses whenever they are read; it can be pickled."""

    def hides(self, row: int) -> bool:
        """Return whether all texts and tokens of a row of the response table are hidden."""
        ...

    def masked(self, row: int, rollout: Rollout) -> Rollout:
        """Return the response of a row with what may be shown of it."""
        ...

    def take(self, rows: Ints) -> Mask:
        """Return a mask of these rows alone."""
        ...


@dataclass(slots=True)
class Rollouts(RolloutPart):
    """The chosen responses of a run: their texts, tokens and values per token."""

    places: RowIds  # the R responses, ascending by row
    starts: Ints  # int64 (R,), the first token of each response in ``ids``
    style: Style  # how the run's token strings encode bytes
    # the files that the arrays are in, if they are not in memory
    maps: Sequence[mmap.mmap] = field(default=(), repr=False)
    mask: Mask | None = None  # None if all texts may be shown

    def unload(self) -> None:
        unload(self.maps)

    def indices(self, rows: Sequence[int] | Ints) -> Ints:
        """Return the index of each response-table row; raise LookupError if it was not chosen."""
        wanted = np.asarray(rows, np.int64)
        if not np.isin(wanted, self.places.row).all():
            raise LookupError("a response that was not chosen")
        return np.searchsorted(self.places.row, wanted)

    def text(self, name: str, index: int) -> str | None:
        """Return a text of a response (by its index), None if it is not logged."""
        return self._decoded(self.spans[index, TEXTS.index(name)].tolist())

    def _decoded(self, span: Sequence[int]) -> str | None:
        start, stop = span
        return None if start == ABSENT else self.texts[start:stop].tobytes().decode()

    def each_text(self, name: str, indices: Ints) -> Iterator[str | None]:
        """Return a text of each of several responses, as ``text`` does."""
        spans = self.spans[indices, TEXTS.index(name)].tolist()
        return map(self._decoded, spans)

    def take(self, rows: Sequence[int] | Ints) -> Rollouts:
        """Return the responses in ``rows``, ascending, with arrays in memory instead of files."""
        indices = np.unique(self.indices(rows))
        spans, texts = self._texts_of(indices)
        lengths = self.lengths[indices]
        tokens = self.tokens_of(indices)
        # The vocabulary is that of the whole run; renumber the tokens that occur here.
        used, ids = np.unique(self.ids[tokens], return_inverse=True)
        in_memory = replace(
            self,
            places=self.places.take(indices),
            spans=spans,
            texts=texts,
            starts=offsets_of(lengths)[:-1],
            lengths=lengths,
            flags=self.flags[indices],
            ids=ids.astype(np.int32),
            sampled=self.sampled[tokens],
            figures={name: values[tokens] for name, values in self.figures.items()},
            vocabulary=[self.vocabulary[number] for number in used.tolist()],
            digests=self.digests[indices],
            maps=(),
        )
        if self.mask is not None:
            in_memory.mask = self.mask.take(self.places.row[indices])
        self.unload()
        return in_memory

    def _texts_of(self, indices: Ints) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the texts of responses, one behind the other, and their new spans."""
        spans = self.spans[indices].copy()
        pieces = [np.zeros(0, np.uint8)]  # as there may be no text at all
        size = 0
        for span in spans.reshape(-1, 2):  # views: changing one changes ``spans``
            start, stop = span.tolist()
            if start == ABSENT:
                continue
            pieces.append(self.texts[start:stop])
            span[0] = size
            size += stop - start
            span[1] = size
        return spans, np.concatenate(pieces)

    def tokens_of(self, indices: Ints) -> Ints:
        """Return where the tokens of responses are in ``ids``, one response after the other."""
        lengths = self.lengths[indices]
        # A response's tokens are consecutive in ``ids`` and here, from different starts.
        moved_by = self.starts[indices] - offsets_of(lengths)[:-1]
        here = np.arange(int(lengths.sum()))
        return here + np.repeat(moved_by, lengths)

    def read(
        self, rows: Sequence[int] | Ints, with_tokens: int | None = None
    ) -> list[Rollout]:
        """Return responses, the first ``with_tokens`` (None: all) with tokens.

        Where ``mask`` hides something of a response, placeholders replace it.
        """
        indices = self.indices(rows)
        turns_of = cache(turns)  # the responses of a group have the same prompt
        rollouts = [self._without_tokens(index, turns_of) for index in indices.tolist()]
        with_values = indices[:with_tokens]
        # All at once, which is faster; each response gets its part below.
        figures = self.figures_of(with_values)
        offsets = offsets_of(self.lengths[with_values])
        for number, index in enumerate(with_values.tolist()):
            flags = int(self.flags[index])
            rollout = rollouts[number]
            start = int(self.starts[index])
            tokens = slice(start, start + int(self.lengths[index]))
            if flags & HAS_TOKENS:
                ids = self.ids[tokens].tolist()
                rollout.raw_tokens = [self.vocabulary[number] for number in ids]
                rollout.tokens = readable_tokens(rollout.raw_tokens, self.style)
            if self.lengths[index]:  # else there are no figures, not empty ones
                first, stop = offsets[number : number + 2].tolist()
                rollout.figures = figures.between(first, stop)
            # A copy, as a view would load its part of the file again
            sampled = self.sampled[tokens].copy() if flags & HAS_MASK else None
            rollout.sampled = sampled
        self.unload()
        if self.mask is None:
            return rollouts
        those = map(int, self.places.row[indices])
        return list(map(self.mask.masked, those, rollouts))

    def _without_tokens(
        self, index: int, turns_of: Callable[[str], list[tuple[str, str]]]
    ) -> Rollout:
        """Return the response at an index with texts only; ``turns_of`` is ``turns``."""
        places = self.places
        spans = dict(zip(TEXTS, self.spans[index].tolist(), strict=True))
        prompt = self._decoded(spans["prompt"]) or ""
        details = orjson.loads(self._decoded(spans["details"]) or "{}")
        # A prompt without logged turns may have them in its text, marked by a chat template.
        prompt_turns = [(role, text) for role, text in details.get("turns", ())]
        conversation = [_as_turn(turn) for turn in details.get("conversation", ())]
        judged = [(name, text) for name, text in details.get("judged", ())]
        return Rollout(
            step=int(places.step[index]),
            n=int(places.n[index]),
            file=places.names[places.file[index]],
            line=int(places.line[index]),
            prompt=prompt,
            response=self._decoded(spans["response"]) or "",
            ref_response=self._decoded(spans["ref_response"]),
            ground_truth=self._decoded(spans["ground_truth"]),
            turns=prompt_turns or turns_of(prompt),
            conversation=conversation,
            errors=details.get("errors", []),
            judged=judged,
        )

    def figures_of(self, indices: Ints) -> TokenFigures:
        """Return the figures of all tokens of the responses at ``indices``, concatenated, (N,)."""
        return self.kept_figures(indices).derive()

    def kept_figures(self, indices: Ints) -> TokenFigures:
        """Return only those figures that others follow from; the others are in ``figures_of``."""
        tokens = self.tokens_of(indices)
        values = {
            name: flat[tokens].astype(np.float64) for name, flat in self.figures.items()
        }
        # Other responses of the run may have figures that none of these has.
        logged = {name: v for name, v in values.items() if not np.isnan(v).all()}
        return TokenFigures(logged)


class Selection(NamedTuple):
    """Responses of a run, by ``rows`` of the response table; a pickle contains only these."""

    rollouts: Rollouts
    rows: Ints

    def __reduce__(self) -> tuple[Any, ...]:
        return Selection, (self.rollouts.take(self.rows), self.rows)


def as_text(value: object, pads: tuple[str, ...] = ()) -> str:
    """Return a text, or any other value as JSON ("…" if nested too deeply), cleaned of padding."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, default=str)
        except RecursionError:
            value = "…"
    return clean_text(value, pads)


def _prompt_turns(pairs: object, clean: Clean) -> list[tuple[str, str]]:
    return [
        (as_text(turn[0]), clean(turn[1]))
        for turn in (pairs if isinstance(pairs, list) else [])
        if isinstance(turn, list | tuple) and len(turn) == 2
    ]


def _turn(turn: Mapping[str, Any], clean: Clean, *, spans: bool) -> Turn:
    """Return a logged turn with clean texts; ``spans``: with the positions of its tokens."""

    def text(name: str) -> str | None:
        value = turn.get(name)
        return clean(value) if isinstance(value, str) else None

    def number(name: str) -> float | None:
        value = turn.get(name)
        return float(value) if is_number(value) else None

    calls = turn.get("calls")
    error = turn.get("error")
    return Turn(
        role=as_text(turn["role"]),
        text=clean(turn["text"]),
        sampled=turn["sampled"],
        tokens=tuple(turn["tokens"]) if spans and "tokens" in turn else None,
        thinking=text("thinking"),
        calls=tuple(map(_call, calls)) if isinstance(calls, list) else (),
        tool=text("tool"),
        error=clean(error) if error else None,
        seconds=number("seconds"),
        reward=number("reward"),
    )


def _call(call: object) -> tuple[str, str]:
    call = call if isinstance(call, dict) else {"arguments": call}
    return as_text(call.get("name", "")), as_text(call.get("arguments", ""))


def _as_turn(values: dict[str, Any]) -> Turn:
    """Return the turn that ``_details_of`` wrote as JSON, which has lists instead of tuples."""
    tokens = values["tokens"]
    calls = tuple(map(tuple, values["calls"]))
    return Turn(**{**values, "tokens": tokens and tuple(tokens), "calls": calls})
