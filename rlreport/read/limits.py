"""How much is read, kept and chosen at a time; tests read with smaller limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

_CACHED_RANGE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Sizes given to ``read_logs``. Those of pieces of work never change what is found."""

    # Of files: they are cut at multiples of ``range_bytes``, so that appending to a file does not
    # change its earlier ranges. Longer lines than ``line_bytes`` are skipped.
    range_bytes: int = 32 << 20
    line_bytes: int = 256_000_000
    piece_bytes: int = 1 << 20  # requested from a file at a time

    # Of rows that are held as Python objects at a time
    batch_bytes: int = 8 << 20
    batch_rows: int = 16384

    # Of the sample for figures of texts and tokens
    sampled: int = 8192
    sampled_tokens: int = 4_000_000
    # Responses that a worker collects at a time, and their tokens, unless it is one response
    sample_job_rows: int = 256
    sample_job_tokens: int = 1 << 18

    # Of the responses that are chosen to be quoted and shown, among which the sample is
    chosen: int = 16384
    chosen_bytes: int = 512 << 20  # of their texts
    # of a step that are chosen for their extreme figures, if all steps have room
    extremes: int = 256

    def with_cache(self) -> ReadLimits:
        """Return limits with shorter ranges: the last one of a file that grew is read again."""
        return replace(self, range_bytes=min(self.range_bytes, _CACHED_RANGE_BYTES))


LIMITS = ReadLimits()
