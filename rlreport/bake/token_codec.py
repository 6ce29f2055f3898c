"""Packs the token data of a page; ``docs/page-data.md`` specifies the bytes."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.bake.script_json import canonical_json, packed
from rlreport.choose.detail import COMPACT, DERIVABLE
from rlreport.columns import TOKEN_FIGURES
from rlreport.options import FigureOptions
from rlreport.rollout import Rollout
from rlreport.text.tokens import Style, spelled

SHIPPED = (
    *("logp", "ref_logp", "log_ratio", "token_reward"),
    *("value", "advantage", "return", "sampler_logp"),
)
"""Figures that the page carries; the others follow from them."""

ATTRIBUTES = {"return": "return_"}
"""Attribute of TokenFigures, where it has another name than the figure."""

_MOST_EXPONENT = 120
_POWERS = 10.0 ** np.arange(_MOST_EXPONENT + 1)
MISSING_EXPONENT = -128
INFINITE_EXPONENT = 127


def pack_tokens(
    rollouts: Sequence[Rollout],
    digits: int,
    figures: FigureOptions | None = None,
    *,
    advantages_logged: bool = False,
) -> str:
    """Packs the tokens of ``rollouts`` as base64 text; "" when none has tokens.

    Args:
        rollouts: responses in any order; those without tokens are left out.
        digits: significant decimal digits kept, 1 to 9; with COMPACT or fewer,
            what follows from other columns is left to the page.
        figures: γ and λ, with which the page derives advantages.
        advantages_logged: advantages are the log's, so that nothing else gives them.
    """
    with_tokens = [r for r in rollouts if r.raw_tokens]
    if not with_tokens:
        return ""
    # A pair that is met for the first time gets the next number.
    vocabulary: defaultdict[tuple[str, str], int] = defaultdict(count().__next__)
    pairs = chain.from_iterable(zip(r.tokens, r.raw_tokens, strict=True) for r in with_tokens)
    ids = np.fromiter(map(vocabulary.__getitem__, pairs), np.uint32)
    texts, raw = zip(*vocabulary, strict=True)
    style, usual = _spelling(texts, raw)
    masked = any(r.sampled is not None for r in with_tokens)
    columns = {
        key: values
        for key in SHIPPED
        if (values := _column(with_tokens, ATTRIBUTES.get(key, key))) is not None
    }
    shipped = {
        key: values
        for key, values in columns.items()
        if not (digits <= COMPACT and _derivable(key, columns, advantages_logged, masked))
    }
    figures = figures or FigureOptions()
    header = canonical_json(
        {
            "digits": digits,
            "gamma": figures.gamma,
            "lam": figures.lam,
            "n": [r.n for r in with_tokens],
            "lengths": [len(r.raw_tokens) for r in with_tokens],
            "text": texts,
            "style": style.value,
            "raw": [None if a == b else a for a, b in zip(raw, usual, strict=True)],
            "columns": list(shipped),
        }
    )
    parts = [np.uint32(len(header)).tobytes(), header, _planes(ids)]
    for values in shipped.values():
        mantissa, exponent = decimal(values, digits)
        zigzag = ((mantissa << 1) ^ (mantissa >> 63)).astype(np.uint32)
        parts += [_planes(zigzag), exponent.tobytes()]
    return packed(b"".join(parts), level=4)


def token_metrics(rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
    """Figures that a token of ``rollouts`` feeds, as the page's data has them."""
    figures = [rollout.figures for rollout in rollouts if rollout.raw_tokens]

    def fed(name: str) -> bool:
        arrays = (getattr(one, ATTRIBUTES.get(name, name)) for one in figures)
        return any(values is not None and not np.isnan(values).all() for values in arrays)

    return [
        {"key": f.name, "label": f.label, "unit": f.unit, "signed": f.signed, "help": f.help}
        for f in TOKEN_FIGURES
        if fed(f.name)
    ]


def empty_metrics(rollouts: Sequence[Rollout]) -> list[str]:
    """Labels of figures that are logged, and NaN at every token of ``rollouts``."""
    figures = [rollout.figures for rollout in rollouts if rollout.raw_tokens]
    found = []
    for figure in TOKEN_FIGURES:
        arrays = [getattr(one, ATTRIBUTES.get(figure.name, figure.name)) for one in figures]
        logged = [values for values in arrays if values is not None]
        if logged and all(np.isnan(values).all() for values in logged):
            found.append(figure.label)
    return found


def _spelling(texts: Sequence[str], raw: Sequence[str]) -> tuple[Style, list[str]]:
    """The style from which most tokens' strings follow, so that the fewest are shipped.

    Returns:
        The style, and how it spells each of ``texts``.
    """
    styles = (Style.PLAIN, Style.BYTE_LEVEL, Style.SENTENCEPIECE)
    return max(
        ((style, spelled(texts, style)) for style in styles),
        key=lambda found: sum(map(operator.eq, raw, found[1])),
    )


def _derivable(
    key: str,
    columns: Mapping[str, NDArray[np.float64]],
    advantages_logged: bool,
    masked: bool,
) -> bool:
    if key == "ref_logp":
        # Where the policy's is missing or infinite, a difference does not give it back.
        return "log_ratio" in columns and bool(
            (np.isfinite(columns["log_ratio"]) == np.isfinite(columns[key])).all()
        )
    if key == "advantage" and masked:
        return False  # the page would run over tokens that the policy did not sample
    there = columns.keys()
    return key in DERIVABLE and not advantages_logged and {"value", "token_reward"} <= there


def decimal(values: NDArray[np.float64], digits: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Rounds to ``digits`` significant decimal digits: values ≈ mantissa · 10 ** exponent.

    Returns:
        int64 mantissas of at most ``digits`` digits without trailing zeros, and int8
        exponents; NaN has exponent -128, infinities and what is larger than exponents hold
        127 with mantissa ±1.
    """
    finite = np.abs(values) < _POWERS[-1]  # not NaN either
    known = values if finite.all() else np.where(finite, values, 0.0)
    magnitude = np.abs(known)
    magnitude[magnitude == 0] = 1.0
    exponent = np.floor(np.log10(magnitude)).astype(np.int64) - (digits - 1)
    np.clip(exponent, -_MOST_EXPONENT, _MOST_EXPONENT, out=exponent)
    # Multiplying by an exact power of ten keeps decimals such as 0.1 exact.
    power = _POWERS[np.abs(exponent)]
    mantissa = np.rint(np.where(exponent < 0, known * power, known / power)).astype(np.int64)
    ending_in_0 = np.flatnonzero(_ends_in_0(mantissa) & (mantissa != 0))
    while len(ending_in_0):
        shorter = mantissa[ending_in_0] // 10
        mantissa[ending_in_0] = shorter
        exponent[ending_in_0] += 1
        ending_in_0 = ending_in_0[_ends_in_0(shorter)]
    exponent[mantissa == 0] = 0
    if known is not values:
        exponent[np.isnan(values)] = MISSING_EXPONENT
        infinite = ~finite & ~np.isnan(values)
        exponent[infinite] = INFINITE_EXPONENT
        mantissa[infinite] = np.sign(values[infinite])
    return mantissa, exponent.astype(np.int8)


def _ends_in_0(whole: NDArray[np.int64]) -> NDArray[np.bool_]:
    # NumPy divides by a constant in a tenth of the time that a remainder takes.
    ends: NDArray[np.bool_] = whole // 10 * 10 == whole
    return ends


def _column(rollouts: Sequence[Rollout], name: str) -> NDArray[np.float64] | None:
    """A figure of all tokens, NaN where a response lacks it; None where all do."""
    figures = [getattr(rollout.figures, name) for rollout in rollouts]
    if all(values is None for values in figures):
        return None
    column = np.concatenate(
        [
            np.full(len(rollout.raw_tokens), np.nan) if values is None else values
            for rollout, values in zip(rollouts, figures, strict=True)
        ]
    )
    return None if np.isnan(column).all() else column


def _planes(values: NDArray[np.uint32]) -> bytes:
    """The bytes of ``values`` by significance: plane k holds byte k of every value."""
    return values.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes()
