"""The tokens of responses that an earlier report has; docs/page-data.md specifies the bytes.

``pages/token_data.py`` writes what this reads, as ``static/js/shared/data.js`` does for pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, offsets_of
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
    ValueError, TypeError or LookupError if it is not what a report has.
    """
    size = int.from_bytes(packed[:4], "little")
    header = load_json(packed[4 : 4 + size])
    lengths = np.array(header["lengths"], np.int64)
    numbers = [int(n) for n in header["n"]]
    is_possible = (lengths >= 0) & (lengths <= len(packed))
    if len(numbers) != len(lengths) or not is_possible.all():
        raise ValueError("tokens of other responses")
    offsets = offsets_of(lengths)
    total = int(offsets[-1])
    names = [name for name in header["columns"] if name in KEPT]
    if len(names) != len(header["columns"]):
        raise ValueError("a figure of another version")
    body = np.frombuffer(packed, np.uint8, offset=4 + size)
    if len(body) != total * (4 + 5 * len(names)):
        raise ValueError("tokens are cut off")
    ids = _words(body[: 4 * total])
    columns = {}
    for k, name in enumerate(names):
        start = total * (4 + 5 * k)
        zigzag = _words(body[start : start + 4 * total])
        exponents = body[start + 4 * total : start + 5 * total].view(np.int8)
        columns[name] = _decimals(zigzag, exponents)
    texts = list(map(safe_text, header["text"]))
    raw = [
        text if logged is None else safe_text(logged)
        for text, logged in zip(texts, header["raw"], strict=True)
    ]
    given = mapping(header.get("given"))
    rollouts = {}
    for k, n in enumerate(numbers):
        start, stop = int(offsets[k]), int(offsets[k + 1])
        if n not in wanted or stop - start > longest:
            continue
        numbers_of_tokens = ids[start:stop].tolist()
        figures = {name: values[start:stop] for name, values in columns.items()}
        rollouts[n] = Rollout(
            step=step,
            n=n,
            file="",
            line=0,
            prompt="",
            response="",
            tokens=[texts[number] for number in numbers_of_tokens],
            raw_tokens=[raw[number] for number in numbers_of_tokens],
            figures=_derived(figures),
            sampled=_sampled(given.get(str(n)), stop - start),
        )
    return rollouts


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
