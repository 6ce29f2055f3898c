"""Values per token, packed for the scripts of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rlreport.columns import TOKEN_FIGURES
from rlreport.figures.ragged import offsets_of, spans
from rlreport.figures.tokens import KEPT
from rlreport.options import GaeOptions
from rlreport.pages.html import canonical_json, gzip_base64
from rlreport.pages.page_data import MetricData, TokensHeader
from rlreport.pages.plan import COMPACT
from rlreport.read.token_columns import TokenColumns
from rlreport.text.messages import message

MISSING_EXPONENT = -128  # marks NaN, see ``decimal``
_MOST_EXPONENT = 120
_POWERS = 10.0 ** np.arange(_MOST_EXPONENT + 1)


def pack_tokens(
    tokens: TokenColumns,
    digits: int,
    metrics: Sequence[MetricData] = (),
    nan: Sequence[str] = (),
) -> str:
    """Encode tokens and their figures as gzipped base64 text; "" if there are none.

    docs/page-data.md describes the bytes.

    Args:
        tokens: those of the responses whose tokens are kept.
        digits: significant digits of the values.
        metrics: the figures on offer, see ``token_metrics``.
        nan: labels of figures that are logged and NaN at every token.
    """
    if not tokens.n:
        return ""
    columns = {
        name: tokens.figures[name] for name in KEPT if tokens.has_values.get(name)
    }
    _drop_derivable(columns, digits)
    header: TokensHeader = {
        "digits": digits,
        "metrics": list(metrics),
        "n": tokens.n,
        "lengths": tokens.lengths.tolist(),
        "text": [text for text, _ in tokens.vocabulary],
        "raw": [None if raw == text else raw for text, raw in tokens.vocabulary],
        "columns": list(columns),
    }
    if nan:
        header["nan"] = list(nan)
    given = _not_sampled(tokens)
    if given:
        header["given"] = given
    if tokens.prompts:
        header["prompts"] = [
            {"n": prompt.n, "count": prompt.size, "ids": prompt.ids}
            for prompt in tokens.prompts
        ]
    packed_header = canonical_json(header)
    size = np.uint32(len(packed_header)).tobytes()
    parts = [size, packed_header, _planes(tokens.ids)]
    for values in columns.values():
        mantissa, exponent = decimal(values, digits)
        # 0, −1, 1, −2, … become 0, 1, 2, 3, …, whose high bytes are 0 if numbers are small: this
        # compresses better.
        zigzag = ((mantissa << 1) ^ (mantissa >> 63)).astype(np.uint32)
        parts += [_planes(zigzag), exponent.tobytes()]
    return gzip_base64(b"".join(parts))


def _not_sampled(tokens: TokenColumns) -> dict[str, list[tuple[int, int]]]:
    """Return n -> [first, stop) of its tokens that the policy did not sample, if there are any."""
    given: dict[str, list[tuple[int, int]]] = {}
    if tokens.sampled.all():  # as in most logs
        return given
    offsets = offsets_of(tokens.lengths).tolist()
    for n, (start, stop) in zip(tokens.n, pairwise(offsets), strict=True):
        unsampled = spans(~tokens.sampled[start:stop]).tolist()
        if unsampled:
            given[str(n)] = unsampled
    return given


def _drop_derivable(columns: dict[str, NDArray[np.float64]], digits: int) -> None:
    """Drop columns that the page computes from others, in place.

    ``digits``: significant digits of the values that the page has.
    """
    # The page computes ref_logp as logp − log_ratio, unless a log_ratio is missing.
    if {"ref_logp", "log_ratio"} <= columns.keys():
        missing = np.isnan(columns["log_ratio"])
        if np.array_equal(missing, np.isnan(columns["ref_logp"])):
            del columns["ref_logp"]
    # With few digits, value + advantage is as exact as the return.
    if digits <= COMPACT and {"value", "advantage", "return"} <= columns.keys():
        computed = columns["value"] + columns["advantage"]
        scale = np.nanmax(np.abs(computed), initial=0.0)
        if np.allclose(computed, columns["return"], 0.0, 1e-6 * scale, equal_nan=True):
            del columns["return"]


def token_metrics(
    present: Mapping[str, bool], gae: GaeOptions, *, advantages_logged: bool
) -> list[MetricData]:
    """Return what a page offers for each token figure that is ``present``.

    Args:
        present: name of a figure -> whether it has a value, see ``TokenColumns``.
        gae: parameters with which advantages are computed if none are logged.
        advantages_logged: whether they are.
    """
    by_gae = message(
        "computed from token rewards and values: GAE with γ = {gamma}, λ = {lam}",
        gamma=gae.gamma,
        lam=gae.lam,
    )
    computed = {"return": message("value + advantage; {how}", how=by_gae)}
    computed["advantage"] = message("as logged") if advantages_logged else by_gae
    return [
        {
            "key": figure.name,
            "label": figure.label,
            "unit": figure.unit,
            "signed": figure.signed,
            "help": computed.get(figure.name, figure.help),
        }
        for figure in TOKEN_FIGURES
        if present.get(figure.name)
    ]


def decimal(
    values: NDArray[np.float64], digits: int
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Return (mantissas, exponents): values rounded to ``digits`` digits are m × 10^e.

    Mantissas have no trailing zeros; NaN has exponent -128. Values must be in float32's range.
    """
    has_digits = np.abs(values) > 0  # it is neither 0 nor missing
    numbers = np.where(has_digits, values, 1.0)
    leading = np.floor(np.log10(np.abs(numbers)))  # power of the first digit
    exponent = leading.astype(np.int64) - (digits - 1)
    exponent = np.clip(exponent, -_MOST_EXPONENT, _MOST_EXPONENT)
    # Multiplying by an exact power of ten keeps decimals such as 0.1 exact.
    power = _POWERS[np.abs(exponent)]
    scaled = numbers * power
    is_whole = exponent >= 0
    scaled[is_whole] = numbers[is_whole] / power[is_whole]
    mantissa = np.rint(scaled).astype(np.int64)
    mantissa[~has_digits] = 0
    # Remove a zero from all mantissas that end in one, until none does.
    ends_in_0 = mantissa // 10 * 10 == mantissa
    ending_in_0 = np.flatnonzero(ends_in_0 & (mantissa != 0))
    while len(ending_in_0):
        mantissa[ending_in_0] //= 10
        exponent[ending_in_0] += 1
        ending_in_0 = ending_in_0[mantissa[ending_in_0] % 10 == 0]
    exponent[mantissa == 0] = 0
    exponent[np.isnan(values)] = MISSING_EXPONENT
    return mantissa, exponent.astype(np.int8)


def _planes(values: NDArray[np.uint32]) -> bytes:
    """Return first the lowest bytes of all values, then the next, …: this compresses better."""
    by_value = values.astype("<u4").view(np.uint8).reshape(-1, 4)
    return by_value.T.tobytes()
