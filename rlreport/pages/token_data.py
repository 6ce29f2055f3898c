"""Values per token, packed for the scripts of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from rlreport.columns import TOKEN_FIGURES
from rlreport.figures.ragged import spans
from rlreport.figures.tokens import KEPT
from rlreport.options import GaeOptions
from rlreport.pages.html import canonical_json, gzip_base64
from rlreport.pages.page_data import MetricData, PromptTokens, TokensHeader
from rlreport.pages.plan import COMPACT
from rlreport.read.rollouts import Rollout
from rlreport.text.messages import message

MISSING_EXPONENT = -128  # marks NaN, see ``decimal``
_MOST_EXPONENT = 120
_POWERS = 10.0 ** np.arange(_MOST_EXPONENT + 1)


def pack_tokens(
    rollouts: Sequence[Rollout],
    digits: int,
    metrics: Sequence[MetricData] = (),
    nan: Sequence[str] = (),
) -> str:
    """Encode tokens and their figures as gzipped base64 text; "" if no rollout has tokens.

    docs/page-data.md describes the bytes.

    Args:
        rollouts: those whose tokens are kept.
        digits: significant digits of the values.
        metrics: the figures on offer, see ``token_metrics``.
        nan: labels of figures that are logged and NaN at every token.
    """
    rollouts = [r for r in rollouts if r.raw_tokens]
    if not rollouts:
        return ""
    numbers = _Numbers()
    ids = numbers.of(
        chain.from_iterable(zip(r.tokens, r.raw_tokens, strict=True) for r in rollouts)
    )
    prompts = _prompts(rollouts, numbers)
    vocabulary = list(numbers)
    # The tokens of all rollouts follow each other; ``lengths`` tells them apart.
    columns = {name: _column(rollouts, name) for name in KEPT}
    columns = {
        name: values for name, values in columns.items() if not np.isnan(values).all()
    }
    _drop_derivable(columns, digits)
    header: TokensHeader = {
        "digits": digits,
        "metrics": list(metrics),
        "n": [r.n for r in rollouts],
        "lengths": [len(r.raw_tokens) for r in rollouts],
        "text": [text for text, _ in vocabulary],
        "raw": [None if raw == text else raw for text, raw in vocabulary],
        "columns": list(columns),
    }
    if nan:
        header["nan"] = list(nan)
    given = _not_sampled(rollouts)
    if given:
        header["given"] = given
    if prompts:
        header["prompts"] = prompts
    packed_header = canonical_json(header)
    size = np.uint32(len(packed_header)).tobytes()
    parts = [size, packed_header, _planes(ids)]
    for values in columns.values():
        mantissa, exponent = decimal(values, digits)
        # 0, −1, 1, −2, … become 0, 1, 2, 3, …, whose high bytes are 0 if numbers are small: this
        # compresses better.
        zigzag = ((mantissa << 1) ^ (mantissa >> 63)).astype(np.uint32)
        parts += [_planes(zigzag), exponent.tobytes()]
    return gzip_base64(b"".join(parts))


class _Numbers(dict[tuple[str, str], int]):
    """Number of each token, as (text, logged string), in the order of first occurrence."""

    def __missing__(self, token: tuple[str, str]) -> int:
        self[token] = number = len(self)
        return number

    def of(self, tokens: Iterable[tuple[str, str]]) -> NDArray[np.uint32]:
        return np.fromiter(map(self.__getitem__, tokens), np.uint32)


def _prompts(rollouts: Sequence[Rollout], numbers: _Numbers) -> list[PromptTokens]:
    """Return the different prompts whose tokens are logged, each with its responses."""
    prompts: dict[tuple[str, ...], PromptTokens] = {}
    for rollout in rollouts:
        if not rollout.raw_prompt_tokens:
            continue
        key = tuple(rollout.raw_prompt_tokens)
        if key not in prompts:
            pairs = zip(rollout.prompt_tokens, rollout.raw_prompt_tokens, strict=True)
            ids = numbers.of(pairs).tolist()
            prompts[key] = {"n": [], "count": rollout.prompt_token_count, "ids": ids}
        prompts[key]["n"].append(rollout.n)
    return list(prompts.values())


def _not_sampled(rollouts: Sequence[Rollout]) -> dict[str, list[tuple[int, int]]]:
    """Return n -> [first, stop) of its tokens that the policy did not sample, if there are any."""
    given: dict[str, list[tuple[int, int]]] = {}
    for rollout in rollouts:
        if rollout.sampled is None:  # all are
            continue
        unsampled = spans(~rollout.sampled).tolist()
        if unsampled:
            given[str(rollout.n)] = unsampled
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
        present: name of a figure -> whether it has a value, see ``figures_present``.
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


def figures_present(rollouts: Sequence[Rollout]) -> dict[str, bool]:
    """Return name -> whether it has a value other than NaN, of each token figure.

    Figures that no rollout with tokens has, as they are not logged, are left out.
    """
    result = {}
    for figure in TOKEN_FIGURES:
        arrays = [
            r.figures[figure.name]
            for r in rollouts
            if r.raw_tokens and figure.name in r.figures
        ]
        if arrays:
            is_known = any(not np.isnan(values).all() for values in arrays)
            result[figure.name] = is_known
    return result


def _column(rollouts: Sequence[Rollout], name: str) -> NDArray[np.float64]:
    """Return a figure of all tokens, concatenated; NaN for responses that do not have it."""
    parts = []
    for rollout in rollouts:
        missing = np.full(len(rollout.raw_tokens), np.nan)
        parts.append(rollout.figures.get(name, missing))
    return np.concatenate(parts)


def decimal(
    values: NDArray[np.float64], digits: int
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Return (mantissas, exponents): values rounded to ``digits`` digits are m × 10^e.

    Mantissas have no trailing zeros; NaN has exponent -128. Values must be in float32's range.
    """
    missing = np.isnan(values)
    numbers = np.where(missing, 0.0, values)
    magnitude = np.where(numbers == 0, 1.0, np.abs(numbers))  # 0 has no logarithm
    leading = np.floor(np.log10(magnitude)).astype(np.int64)  # power of the first digit
    exponent = leading - (digits - 1)
    exponent = np.clip(exponent, -_MOST_EXPONENT, _MOST_EXPONENT)
    # Multiplying by an exact power of ten keeps decimals such as 0.1 exact.
    power = _POWERS[np.abs(exponent)]
    scaled = np.where(exponent < 0, numbers * power, numbers / power)
    mantissa = np.rint(scaled).astype(np.int64)
    # Remove a zero from all mantissas that end in one, until none does.
    ending_in_0 = np.flatnonzero((mantissa % 10 == 0) & (mantissa != 0))
    while len(ending_in_0):
        mantissa[ending_in_0] //= 10
        exponent[ending_in_0] += 1
        ending_in_0 = ending_in_0[mantissa[ending_in_0] % 10 == 0]
    exponent[mantissa == 0] = 0
    exponent[missing] = MISSING_EXPONENT
    return mantissa, exponent.astype(np.int8)


def _planes(values: NDArray[np.uint32]) -> bytes:
    """Return first the lowest bytes of all values, then the next, …: this compresses better."""
    by_value = values.astype("<u4").view(np.uint8).reshape(-1, 4)
    return by_value.T.tobytes()
