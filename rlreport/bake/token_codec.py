"""Packs the token data of a page; ``docs/page-data.md`` specifies the bytes."""

from __future__ import annotations

import base64
import gzip
import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlreport.bake.script_json import canonical_json
from rlreport.options import FigureOptions
from rlreport.rollout import Rollout
from rlreport.text.tokens import Style, spelled

COLUMNS = (
    ("logp", "logp"),
    ("ref_logp", "ref_logp"),
    ("log_ratio", "log_ratio"),
    ("token_reward", "token_reward"),
    ("value", "value"),
    ("advantage", "advantage"),
    ("return", "return_"),
    ("sampler_logp", "sampler_logp"),
)
"""Column of the page -> attribute of TokenFigures."""

DERIVABLE = frozenset({"ref_logp", "advantage", "return"})
"""Columns that the page derives from the others when bytes are short."""

COMPACT_DIGITS = 4
"""With so many digits or fewer, DERIVABLE columns are left to the page."""

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
        digits: significant decimal digits kept, 1 to 9; with COMPACT_DIGITS or fewer,
            what follows from other columns is left to the page.
        figures: γ and λ, with which the page derives advantages.
        advantages_logged: advantages are the log's, so that nothing else gives them.
    """
    with_tokens = [r for r in rollouts if r.raw_tokens]
    if not with_tokens:
        return ""
    # Text and string in one: a tuple a token would keep the garbage collector busy.
    tokens = [
        f"{t}\0{raw}" for r in with_tokens for t, raw in zip(r.tokens, r.raw_tokens, strict=True)
    ]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    ids = np.fromiter(map(vocabulary.__getitem__, tokens), np.uint32, len(tokens))
    texts, raw = zip(*(token.split("\0", 1) for token in vocabulary), strict=True)
    style = _style(texts, raw)
    columns = {key: _column(with_tokens, name) for key, name in COLUMNS}
    there = {key for key, values in columns.items() if not np.isnan(values).all()}
    shipped = {
        key: columns[key]
        for key in columns
        if key in there
        and not (digits <= COMPACT_DIGITS and _derivable(key, there, advantages_logged))
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
            "raw": [
                None if own == usual else own
                for own, usual in zip(raw, spelled(texts, style), strict=True)
            ],
            "columns": list(shipped),
        }
    )
    parts = [np.uint32(len(header)).tobytes(), header, _planes(ids)]
    for values in shipped.values():
        mantissa, exponent = decimal(values, digits)
        zigzag = ((mantissa << 1) ^ (mantissa >> 63)).astype(np.uint32)
        parts += [_planes(zigzag), exponent.tobytes()]
    packed = gzip.compress(b"".join(parts), compresslevel=4, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _style(texts: Sequence[str], raw: Sequence[str]) -> Style:
    """The style from which most tokens' strings follow, so that the fewest are shipped."""
    return max(
        (Style.PLAIN, Style.BYTE_LEVEL, Style.SENTENCEPIECE),
        key=lambda style: sum(map(operator.eq, raw, spelled(texts, style))),
    )


def _derivable(key: str, there: set[str], advantages_logged: bool) -> bool:
    if key == "ref_logp":
        return {"logp", "log_ratio"} <= there
    return key in DERIVABLE and not advantages_logged and {"value", "token_reward"} <= there


def decimal(values: NDArray[np.float64], digits: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Rounds to ``digits`` significant decimal digits: values ≈ mantissa · 10 ** exponent.

    Returns:
        int64 mantissas of at most ``digits`` digits without trailing zeros, and int8
        exponents; NaN has exponent -128, infinities 127 with mantissa ±1.
    """
    finite = np.isfinite(values)
    magnitude = np.abs(np.where(finite & (values != 0), values, 1.0))
    exponent = np.floor(np.log10(magnitude)).astype(np.int64) - (digits - 1)
    exponent = np.clip(exponent, -_MOST_EXPONENT, _MOST_EXPONENT)
    mantissa = np.where(finite, values, 0.0)
    # Multiplying by an exact power of ten keeps decimals such as 0.1 exact.
    power = _POWERS[np.abs(exponent)]
    scaled = np.where(exponent < 0, mantissa * power, mantissa / power)
    rounded = np.rint(scaled).astype(np.int64)
    ending_in_0 = np.flatnonzero((rounded % 10 == 0) & (rounded != 0))
    while len(ending_in_0):
        shorter = rounded[ending_in_0] // 10
        rounded[ending_in_0] = shorter
        exponent[ending_in_0] += 1
        ending_in_0 = ending_in_0[shorter % 10 == 0]
    exponent = np.where(rounded == 0, 0, exponent)
    exponent = np.where(np.isnan(values), MISSING_EXPONENT, exponent)
    infinite = np.isinf(values)
    rounded = np.where(infinite, np.sign(np.where(infinite, values, 0)), rounded).astype(np.int64)
    exponent = np.where(infinite, INFINITE_EXPONENT, exponent)
    return rounded, exponent.astype(np.int8)


def _column(rollouts: Sequence[Rollout], name: str) -> NDArray[np.float64]:
    parts = []
    for rollout in rollouts:
        values = getattr(rollout.figures, name)
        parts.append(np.full(len(rollout.raw_tokens), np.nan) if values is None else values)
    return np.concatenate(parts).astype(np.float64)


def _planes(values: NDArray[np.uint32]) -> bytes:
    """The bytes of ``values`` by significance: plane k holds byte k of every value."""
    return values.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes()
