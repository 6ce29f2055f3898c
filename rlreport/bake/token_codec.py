"""Encode the token data of a step's page; ``docs/page-data.md`` specifies the byte format."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.bake.pages import canonical_json, packed
from rlreport.choose import COMPACT, DERIVABLE
from rlreport.columns import TOKEN_FIGURES
from rlreport.options import FigureOptions
from rlreport.rollout import Rollout
from rlreport.text.messages import message
from rlreport.text.tokens import Style, spelled

# Token figures stored in the page; its scripts compute all other figures from them
SHIPPED = (
    *("logp", "ref_logp", "log_ratio", "token_reward"),
    *("value", "advantage", "return", "sampler_logp"),
)

# Name of a token figure -> its attribute in ``Rollout.figures``, where the two names differ
ATTRIBUTES = {"return": "return_"}

MISSING_EXPONENT = -128  # marks NaN, see ``decimal``
INFINITE_EXPONENT = 127
_MOST_EXPONENT = 120
_POWERS = 10.0 ** np.arange(_MOST_EXPONENT + 1)


def pack_tokens(
    rollouts: Sequence[Rollout],
    digits: int,
    figures: FigureOptions | None = None,
    *,
    advantages_logged: bool = False,
) -> str:
    """Encode tokens and their figures as gzipped base64 text; "" if no rollout has tokens.

    Args:
        rollouts: responses in any order; those without tokens are left out.
        digits: significant decimal digits, 1 to 9; with COMPACT (4) or fewer, columns that the
            page's scripts can compute from other columns are omitted.
        figures: γ and λ, with which the page's scripts compute advantages by GAE.
        advantages_logged: whether advantages are logged: then scripts must not compute them.
    """
    rollouts = [r for r in rollouts if r.raw_tokens]
    if not rollouts:
        return ""
    # Looking up a new pair (text, logged string) assigns it the next number.
    vocabulary: defaultdict[tuple[str, str], int] = defaultdict(count().__next__)
    pairs = chain.from_iterable(zip(r.tokens, r.raw_tokens, strict=True) for r in rollouts)
    ids = np.fromiter(map(vocabulary.__getitem__, pairs), np.uint32)
    texts, raw = zip(*vocabulary, strict=True)
    # Choose the style that reproduces most token strings, so that the fewest must be stored.
    spellings = {
        style: spelled(texts, style)
        for style in (Style.PLAIN, Style.BYTE_LEVEL, Style.SENTENCEPIECE)
    }
    style = max(spellings, key=lambda one: sum(map(operator.eq, raw, spellings[one])))
    columns = {name: _column(rollouts, name) for name in SHIPPED}
    columns = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    if digits <= COMPACT:
        masked = any(r.sampled is not None for r in rollouts)
        for name in _derivable(columns, advantages_logged, masked):
            del columns[name]
    figures = figures or FigureOptions()
    header = canonical_json(
        {
            "digits": digits,
            "gamma": figures.gamma,
            "lam": figures.lam,
            "n": [r.n for r in rollouts],
            "lengths": [len(r.raw_tokens) for r in rollouts],
            "text": texts,
            "style": style.value,
            "raw": [None if a == b else a for a, b in zip(raw, spellings[style], strict=True)],
            "columns": list(columns),
        }
    )
    parts = [np.uint32(len(header)).tobytes(), header, _planes(ids)]
    for values in columns.values():
        mantissa, exponent = decimal(values, digits)
        zigzag = ((mantissa << 1) ^ (mantissa >> 63)).astype(np.uint32)
        parts += [_planes(zigzag), exponent.tobytes()]
    return packed(b"".join(parts))


def token_metrics(
    present: Mapping[str, bool], figures: FigureOptions, *, advantages_logged: bool
) -> list[dict[str, Any]]:
    """Return name, label, unit and help of each token figure that is ``present``."""
    gae = message(
        "computed from token rewards and values: GAE with γ = {gamma}, λ = {lam}",
        gamma=figures.gamma,
        lam=figures.lam,
    )
    computed = {"return": message("value + advantage; {how}", how=gae)}
    computed["advantage"] = message("as logged") if advantages_logged else gae
    return [
        {
            "key": f.name,
            "label": f.label,
            "unit": f.unit,
            "signed": f.signed,
            "help": computed.get(f.name, f.help),
        }
        for f in TOKEN_FIGURES
        if present.get(f.name)
    ]


def figures_present(rollouts: Sequence[Rollout]) -> dict[str, bool]:
    """Return for each logged token figure whether any token has a value other than NaN."""
    figures_of, result = [rollout.figures for rollout in rollouts if rollout.raw_tokens], {}
    for name in (figure.name for figure in TOKEN_FIGURES):
        attribute = ATTRIBUTES.get(name, name)
        arrays = [getattr(figures, attribute) for figures in figures_of]
        if logged_arrays := [values for values in arrays if values is not None]:
            result[name] = any(not np.isnan(values).all() for values in logged_arrays)
    return result


def _column(rollouts: Sequence[Rollout], name: str) -> NDArray[np.float64]:
    """Return a figure of all tokens, concatenated; NaN for responses that do not have it."""
    attribute = ATTRIBUTES.get(name, name)
    figures = [getattr(rollout.figures, attribute) for rollout in rollouts]
    return np.concatenate(
        [
            np.full(len(rollout.raw_tokens), np.nan) if values is None else values
            for rollout, values in zip(rollouts, figures, strict=True)
        ]
    )


def _derivable(
    columns: Mapping[str, NDArray[np.float64]], advantages_logged: bool, masked: bool
) -> list[str]:
    """Return names of columns to omit, as the page's scripts can compute them from the others."""
    names = []
    if "ref_logp" in columns and "log_ratio" in columns:
        # The page cannot compute ref_logp from a log_ratio that is missing or infinite.
        same_finite = np.isfinite(columns["log_ratio"]) == np.isfinite(columns["ref_logp"])
        names += ["ref_logp"] if same_finite.all() else []
    if not advantages_logged and {"value", "token_reward"} <= columns.keys():
        # With a mask, the page's GAE would include tokens that the policy did not sample.
        derived = DERIVABLE - {"ref_logp"} - ({"advantage"} if masked else set())
        names += sorted(derived & columns.keys())
    return names


def decimal(values: NDArray[np.float64], digits: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Round to ``digits`` significant decimal digits: values ≈ mantissa · 10 ** exponent.

    Returns:
        Mantissas (int64, at most ``digits`` digits, no trailing zeros) and exponents (int8).
        NaN is stored as exponent -128. Infinities and absolute values from 10 ** 120 on are
        stored as exponent 127 with mantissa ±1.
    """
    finite = np.abs(values) < _POWERS[-1]  # not NaN either
    numbers = np.where(finite, values, 0.0)
    magnitude = np.where(numbers == 0, 1.0, np.abs(numbers))
    exponent = np.floor(np.log10(magnitude)).astype(np.int64) - (digits - 1)
    exponent = np.clip(exponent, -_MOST_EXPONENT, _MOST_EXPONENT)
    # Multiplying by an exact power of ten keeps decimals such as 0.1 exact.
    power = _POWERS[np.abs(exponent)]
    mantissa = np.rint(np.where(exponent < 0, numbers * power, numbers / power)).astype(np.int64)
    ending_in_0 = np.flatnonzero((mantissa % 10 == 0) & (mantissa != 0))
    while len(ending_in_0):
        mantissa[ending_in_0] //= 10
        exponent[ending_in_0] += 1
        ending_in_0 = ending_in_0[mantissa[ending_in_0] % 10 == 0]
    exponent[mantissa == 0] = 0
    missing = np.isnan(values)
    exponent[missing] = MISSING_EXPONENT
    infinite = ~finite & ~missing
    exponent[infinite] = INFINITE_EXPONENT
    mantissa[infinite] = np.sign(values[infinite])
    return mantissa, exponent.astype(np.int8)


def _planes(values: NDArray[np.uint32]) -> bytes:
    """Return all lowest bytes of the values, then all second, third and highest bytes."""
    return values.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes()
