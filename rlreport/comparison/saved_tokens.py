"""The tokens of responses that an earlier report has; docs/page-data.md specifies the bytes.

``pages/token_data.py`` writes what this reads, as ``static/js/shared/data.js`` does for pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats
from rlreport.figures.tokens import KEPT, TokenFigures
from rlreport.formats.logged import mapping
from rlreport.read.rollouts import Rollout
from rlreport.system.documents import load_json
from rlreport.text.clean import safe_text

# Path of the script with the tokens of a step, as ``pages.page.TOKENS_SCRIPT``
SCRIPT = "data/tokens/{step}.js"

_MISSING_EXPONENT = -128  # marks NaN
_POWERS = 10.0 ** np.arange(128)
_LARGEST = float(np.finfo(np.float32).max)  # values are kept as float32 everywhere


def rollouts_of(
    packed: bytes, step: int, wanted: set[int], longest: int
) -> dict[int, Rollout]:
    """Return n -> rollout with its tokens, but without texts, of the wanted responses of a step.

    Those of more than ``longest`` tokens are left out. ``packed`` may be anything: it raises
    ValueError, TypeError, LookupError or AttributeError if it is not what a report has.
    """
    saved = _Saved.of(packed)
    rollouts = {}
    for n, start, stop in saved.spans:
        if n in wanted and stop - start <= longest:
            rollouts[n] = saved.rollout(step, n, slice(start, stop))
    return rollouts


class _Saved(NamedTuple):
    """The tokens of the responses of a step, one response after the other."""

    spans: list[tuple[int, int, int]]  # n, first token, last + 1, of each response
    ids: NDArray[np.uint32]
    texts: list[str]  # by id, as read and as logged
    raw: list[str]
    columns: Mapping[str, Floats]
    given: Mapping[str, Any]  # n -> spans of tokens that the policy did not sample

    @classmethod
    def of(cls, packed: bytes) -> _Saved:
        """Unpack the tokens of a step; see ``rollouts_of`` for errors."""
        size = int.from_bytes(packed[:4], "little")
        header = load_json(packed[4 : 4 + size])
        names = header["columns"]
        if not set(names) <= set(KEPT):
            raise ValueError("a figure of another version")
        spans = _spans(header, len(packed))
        total = spans[-1][2] if spans else 0
        # For all tokens, 4 bytes of their ids; then of each column 4 of mantissas, 1 of exponents
        planes = np.frombuffer(packed, np.uint8, offset=4 + size)
        if len(planes) != total * (4 + 5 * len(names)):
            raise ValueError("tokens are cut off")
        columns = {}
        for k, name in enumerate(names):
            mantissas = total * (4 + 5 * k)
            exponents = mantissas + 4 * total
            columns[name] = _decimals(
                _words(planes[mantissas:exponents]),
                planes[exponents : exponents + total].view(np.int8),
            )
        texts = list(map(safe_text, header["text"]))
        raw = [
            text if logged is None else safe_text(logged)
            for text, logged in zip(texts, header["raw"], strict=True)
        ]
        given = mapping(header.get("given"))
        return cls(spans, _words(planes[: 4 * total]), texts, raw, columns, given)

    def rollout(self, step: int, n: int, tokens: slice) -> Rollout:
        """Return a response with these tokens, without texts."""
        ids = self.ids[tokens].tolist()
        figures = {name: values[tokens] for name, values in self.columns.items()}
        return Rollout(
            step=step,
            n=n,
            file="",
            line=0,
            prompt="",
            response="",
            tokens=[self.texts[number] for number in ids],
            raw_tokens=[self.raw[number] for number in ids],
            figures=_derived(figures),
            sampled=_sampled(self.given.get(str(n)), len(ids)),
        )


def _spans(header: Mapping[str, Any], size: int) -> list[tuple[int, int, int]]:
    """Return n, first and last + 1 token of each response; ``size`` is that of the file."""
    spans = []
    start = 0
    for n, length in zip(header["n"], header["lengths"], strict=True):
        if not 0 <= length <= size:
            raise ValueError("tokens are cut off")
        spans.append((int(n), start, start + int(length)))
        start += int(length)
    return spans


def _words(planes: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return 32-bit words whose bytes lie in four planes, the lowest bytes first."""
    by_value = np.ascontiguousarray(planes.reshape(4, -1).T)
    return by_value.view("<u4").reshape(-1).astype(np.uint32)


def _decimals(zigzag: NDArray[np.uint32], exponents: NDArray[np.int8]) -> Floats:
    """Return the values m × 10^e, NaN for missing ones and those beyond float32."""
    wide = zigzag.astype(np.int64)
    mantissa = ((wide >> 1) ^ -(wide & 1)).astype(np.float64)
    missing = exponents == _MISSING_EXPONENT
    exponent = np.where(missing, 0, exponents.astype(np.int64))
    power = _POWERS[np.abs(exponent)]
    # Dividing by an exact power of ten gives the exact decimal, multiplying would not.
    values = np.where(exponent < 0, mantissa / power, mantissa * power)
    values[missing | (np.abs(values) > _LARGEST)] = np.nan
    return values


def _derived(figures: Mapping[str, Floats]) -> TokenFigures:
    """Return all figures of a response, those that a report leaves out computed again."""
    logged = {
        name: values for name, values in figures.items() if not np.isnan(values).all()
    }
    if {"logp", "log_ratio"} <= logged.keys():
        logged.setdefault("ref_logp", logged["logp"] - logged["log_ratio"])
    if {"value", "advantage"} <= logged.keys():
        logged.setdefault("return", logged["value"] + logged["advantage"])
    return TokenFigures(logged).derive()


def _sampled(given: Any, length: int) -> NDArray[np.bool_] | None:
    """Return which tokens the policy sampled, None for all; ``given`` are spans of the others."""
    if not isinstance(given, Sequence) or not given:
        return None
    sampled = np.ones(length, np.bool_)
    for first, stop in given:
        sampled[max(0, int(first)) : max(0, int(stop))] = False
    return sampled
