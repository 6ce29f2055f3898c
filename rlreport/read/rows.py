"""Turn lines and canonical records into rows of a batch."""

from __future__ import annotations

from typing import Any

from rlreport.fields import NO_COLUMN, REQUIRED, TOKEN_ARRAYS
from rlreport.options import ReadOptions
from rlreport.read.batch import NAN, Batch, TokenFields
from rlreport.read.fast_rows import FastRows
from rlreport.read.fields import (
    COUNTED_ONLY,
    FINISH_FIELDS,
    FINISH_REASONS,
    LONGEST_EXTRA,
    SCALARS,
)
from rlreport.read.marks import Place
from rlreport.read.row_writer import Prompts, RowValues, RowWriter
from rlreport.read.tolerant import (
    RowError,
    floats_of,
    load_object,
    number_of,
    step_of,
    text_of,
)
from rlreport.text.clean import safe_text


class RowReader:
    """Reads lines of one file into a batch that the caller takes away from time to time."""

    def __init__(self, file: int, options: ReadOptions, prompts: Prompts | None = None) -> None:
        self._file = file
        self._writer = RowWriter(options, prompts)
        self._fast = FastRows(file, self._writer)

    @property
    def batch(self) -> Batch:
        """The rows read so far."""
        return self._writer.batch

    def take(self) -> Batch:
        """Hand over the rows read so far and start a new batch."""
        batch, self._writer.batch = self._writer.batch, Batch()
        return batch

    def read_line(self, line_number: int, offset: int, line: bytes) -> None:
        """Read a native line.

        Raises:
            RowError: nothing can be made of it; the batch is as before.
        """
        if self._fast.read(line_number, offset, line) is None:
            self._read_odd_line(line_number, offset, line)

    def read_back(self, line_number: int, offset: int, line: bytes) -> dict[str, Any]:
        """Read a native line, and return its record: all fields, or those that are texts.

        Raises:
            RowError: nothing can be made of it; the batch is as before.
        """
        parsed = self._fast.read(line_number, offset, line)
        if parsed is None:
            return self._read_odd_line(line_number, offset, line)
        return parsed.texts()

    def _read_odd_line(self, line_number: int, offset: int, line: bytes) -> dict[str, Any]:
        place = Place(self._file, offset, line_number)
        obj, lenient = load_object(line)
        self.read_record(obj, place, len(line))
        if lenient:
            self.batch.marks.add("tolerant", place)
        return obj

    def read_record(self, record: dict[str, Any], place: Place, length: int, sub: int = 0) -> None:
        """Read a row given as a dict with the canonical fields, whatever its types.

        Raises:
            RowError: a required field is missing or means nothing; the batch is as before.
        """
        for name in REQUIRED:
            if name not in record:
                raise RowError(f"no {name}")
        step, coerced = step_of(record["step"])
        prompt = text_of(record["prompt"], "prompt")
        response = text_of(record["response"], "response")
        rewards, as_text = self._rewards(record, place)
        marks = self.batch.marks
        if coerced or as_text:
            marks.add("coerced", place)
        reference = record.get("ref_response")
        if reference is not None and not isinstance(reference, str):
            marks.add("not_text", place)
            reference = None
        finish = self._finish(record, place)
        tokens = self._tokens(record, place)
        self._add_extras(record)
        for name in COUNTED_ONLY:
            if record.get(name) is not None:
                self.batch.count(name)
        group = record.get("group_id")
        values = RowValues(step, prompt, response, rewards, reference, group, finish)
        self._writer.add(values, tokens, place, length, sub)

    def _rewards(
        self, record: dict[str, Any], place: Place
    ) -> tuple[tuple[float, float, float, float], bool]:
        """Return the four rewards, and whether any was logged as text."""
        try:
            reward, coerced = number_of(record["reward"])
        except ValueError:
            raise RowError(f"reward is not a number: {record['reward']!r:.60}") from None
        others = []
        for name in SCALARS:
            try:
                number, as_text = number_of(record.get(name))
            except ValueError:
                number, as_text = NAN, False
                self.batch.marks.add("not_a_number", place)
            coerced = coerced or as_text
            others.append(number)
        return (reward, others[0], others[1], others[2]), coerced

    def _tokens(self, record: dict[str, Any], place: Place) -> TokenFields:
        fields = TokenFields()
        marks = self.batch.marks
        tokens = record.get("response_tokens")
        if isinstance(tokens, list) and set(map(type, tokens)) <= {str}:
            fields.tokens = tokens
            fields.fit(len(tokens))
        elif tokens is not None:
            marks.add("not_tokens", place)
        for name in TOKEN_ARRAYS:
            values = record.get(name)
            if values is None or values == []:
                continue
            if fields.size > 0 and isinstance(values, (int, float)):
                # One advantage for the whole response, as GRPO has it.
                values = [values] * fields.size
            try:
                floats, odd = floats_of(values)
            except ValueError:
                marks.add("nested", place)
                continue
            if odd:
                marks.add("array_strings", place)
            fields.buffers[name] = memoryview(floats.tobytes())
            fields.fit(len(floats))
        return fields

    def _add_extras(self, record: dict[str, Any]) -> None:
        parts = record.get("reward_parts")
        named = dict(record)
        if isinstance(parts, dict):
            self.batch.reward_parts.update(safe_text(str(part)) for part in parts)
            # A part that is logged as a column too counts once.
            named.update(parts)
        for name, value in named.items():
            if name in NO_COLUMN:
                continue
            if isinstance(value, (bool, int, float)):
                self.batch.add_extra(safe_text(str(name)), number_of(value)[0])
            elif isinstance(value, str) and len(value) <= LONGEST_EXTRA:
                self.batch.add_extra(safe_text(str(name)), safe_text(value))

    def _finish(self, record: dict[str, Any], place: Place) -> float:
        for name in FINISH_FIELDS:
            reason = record.get(name)
            if reason is None:
                continue
            known = FINISH_REASONS.get(str(reason).lower())
            if known is not None:
                return known
            self.batch.marks.add("reasonless", place)
        return NAN
