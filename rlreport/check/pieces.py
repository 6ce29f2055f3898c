"""The pieces of a curve in words: rise, flat, fall, dead.

Rule R4 of docs/checks.md, "How a curve is read".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np

from rlreport.check.fit import LEAST_PIECE, Fit
from rlreport.check.prepared import Prepared
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import rounded

# A piece is flat, and two are equal, if they differ by less than so many standard errors, or this
# part of the range of the fit
FLAT_Z = 3.0
FLAT_SHARE = 0.08
# The variance of the whole rise of a line through n values is 12 times that of their mean
RISE_VARIANCE = 12
# A last piece is dead within this part of the range above the lowest value
DEAD_SHARE = 0.03


class PieceKind(StrEnum):
    """How a piece runs."""

    RISE = "rise"
    FLAT = "flat"
    FALL = "fall"
    DEAD = "dead"  # flat at the lowest value until the end


@dataclass(frozen=True, slots=True)
class Piece:
    """A straight stretch of a curve, in the units of the fit."""

    kind: PieceKind
    # indices of its first value, and of the value after its last
    start: int
    stop: int
    # the line at its first and last value
    first: float
    last: float
    error: float  # standard error of an end of the line
    is_jump: bool = False  # whether it is the gap between two pieces

    @property
    def is_level(self) -> bool:
        return self.kind in (PieceKind.FLAT, PieceKind.DEAD)

    def __len__(self) -> int:
        return self.stop - self.start


def pieces_of(prepared: Prepared, fit: Fit) -> tuple[tuple[Piece, ...], Floats]:
    """Return the pieces of a fit, and its lines, flat where a piece is flat."""
    values = prepared.values
    lines = np.clip(fit.lines, values.min(), values.max())
    span = float(np.ptp(lines))
    straight = []
    for start, stop in pairwise(fit.cuts):
        ends = (float(lines[start]), float(lines[stop - 1]))
        piece = _piece(values, ends, (start, stop), fit, span)
        if piece.kind is PieceKind.FLAT:
            lines[start:stop] = piece.first
        straight.append(piece)
    merged = _merged(straight, fit, span)
    return _with_death(merged, values, fit, span), lines


def _piece(
    values: Floats,
    ends: tuple[float, float],
    stretch: tuple[int, int],
    fit: Fit,
    span: float,
) -> Piece:
    """Return the piece of a stretch, flat if its line hardly changes between its ``ends``."""
    first, last = ends
    start, stop = stretch
    error = fit.noise.of_mean(start, stop)
    least = max(FLAT_Z * error * math.sqrt(RISE_VARIANCE), FLAT_SHARE * span)
    if abs(last - first) < least or stop - start < 2:
        mean = rounded(values[start:stop].mean())
        return Piece(PieceKind.FLAT, start, stop, mean, mean, error)
    # An end of a line has four times the variance of the mean.
    return Piece(_kind(first, last), start, stop, first, last, 2 * error)


def _kind(first: float, last: float) -> PieceKind:
    if last > first:
        return PieceKind.RISE
    return PieceKind.FALL if last < first else PieceKind.FLAT


def _merged(pieces: list[Piece], fit: Fit, span: float) -> list[Piece]:
    """Return the pieces with equal flat ones joined, and jumps between others in between."""
    merged = pieces[:1]
    for piece in pieces[1:]:
        before = merged[-1]
        gap = piece.first - before.last
        error = math.hypot(before.error, piece.error)
        is_jump = abs(gap) >= max(FLAT_Z * error, FLAT_SHARE * span)
        both_flat = before.kind is piece.kind is PieceKind.FLAT
        if both_flat and not is_jump:
            merged[-1] = _joined(before, piece, fit)
            continue
        if is_jump:
            merged.append(_jump(before, piece, error))
        merged.append(piece)
    return merged


def _joined(before: Piece, piece: Piece, fit: Fit) -> Piece:
    total = len(before) * before.last + len(piece) * piece.last
    mean = rounded(total / (len(before) + len(piece)))
    error = fit.noise.of_mean(before.start, piece.stop)
    return Piece(PieceKind.FLAT, before.start, piece.stop, mean, mean, error)


def _jump(before: Piece, piece: Piece, error: float) -> Piece:
    """Return the change from the last value of a piece to the first of the next."""
    return Piece(
        kind=_kind(before.last, piece.first),
        start=piece.start - 1,
        stop=piece.start + 1,
        first=before.last,
        last=piece.first,
        error=error,
        is_jump=True,
    )


def _with_death(
    pieces: list[Piece], values: Floats, fit: Fit, span: float
) -> tuple[Piece, ...]:
    """Return the pieces; the last is dead if it is flat at the lowest value and others are not."""
    end = pieces[-1]
    before = pieces[:-1]
    if end.kind is not PieceKind.FLAT or len(end) < LEAST_PIECE:
        return tuple(pieces)
    fell = any(piece.last > end.last for piece in before)
    if not fell or any(_is_lower(piece, end, values, fit, span) for piece in before):
        return tuple(pieces)
    dead = replace(end, kind=PieceKind.DEAD)
    return (*before, dead)


def _is_lower(piece: Piece, end: Piece, values: Floats, fit: Fit, span: float) -> bool:
    """Return whether values of a piece lie below the last level, by more than noise.

    Lines overshoot where a curve bends, so an end of a piece is the mean of its values there.
    """
    count = min(LEAST_PIECE, len(piece))
    for start in (piece.start, piece.stop - count):
        stop = start + count
        error = math.hypot(end.error, fit.noise.of_mean(start, stop))
        below = end.last - float(values[start:stop].mean())
        if below >= max(DEAD_SHARE * span, FLAT_Z * error):
            return True
    return False
