"""Small logs made by hand, and shorthand to read them."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlreport.columns import TOKEN_FIGURES
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.limits import ReadLimits
from rlreport.read.logs import read_logs
from rlreport.read.tables import Scan
from rlreport.summarise.tokens import token_table


def row(step: object = 0, **fields: object) -> dict[str, Any]:
    return {
        "step": step,
        "prompt": "Say hi.",
        "response": "Hi there.",
        "reward": 1.0,
        **fields,
    }


def tokens(*strings: str, **fields: object) -> dict[str, Any]:
    """A row with token arrays of plausible numbers, one per string."""
    size = len(strings)
    arrays = {
        "response_tokens": list(strings),
        "logprobs": [-0.5 - 0.1 * i for i in range(size)],
        "ref_logprobs": [-0.6 - 0.05 * i for i in range(size)],
        "values": [0.1 * i for i in range(size)],
        "token_rewards": [0.01] * size,
    }
    return row(**{**arrays, **fields})


def write(path: Path, rows: Sequence[Mapping[str, Any] | bytes | str]) -> Path:
    """Write rows as lines, in a folder that is made; bytes and text go in as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = []
    for item in rows:
        if isinstance(item, bytes):
            parts.append(item)
        elif isinstance(item, str):
            parts.append(item.encode())
        else:
            parts.append(json.dumps(item).encode() + b"\n")
    path.write_bytes(b"".join(parts))
    return path


def damage(data: bytearray, rng: random.Random, tricks: Sequence[bytes]) -> None:
    """Flip, overwrite, cut or splice a few bytes of a log, in place."""
    at = rng.randrange(len(data))
    kind = rng.random()
    if kind < 0.4:
        data[at] = rng.randrange(256)
    elif kind < 0.7:
        data[at : at + rng.randint(0, 3)] = rng.choice(tricks)
    elif kind < 0.85:
        del data[at : at + rng.randint(1, 400)]
    else:
        other = rng.randrange(len(data))
        data[at:at] = data[other : other + rng.randint(1, 400)]


def read(*paths: Path | str, limits: ReadLimits | None = None, **options: Any) -> Scan:
    settings = ReadOptions(workers=1, **options)
    return read_logs(list(paths), settings, GaeOptions(), limits=limits)


def kinds(scan: Scan) -> set[str]:
    return {note.kind for note in scan.notes}


def token_figures(scan: Scan) -> pd.DataFrame:
    """Return the table of tokens by their string as logged."""
    return token_table(scan.tokens, scan.responses).set_index("raw")


def described_kl(ratio: Any) -> Any:
    """Return a token's KL of its log-ratio r by the formula that pages and docs show for it."""
    described = next(column.help for column in TOKEN_FIGURES if column.name == "kl")
    formula = described.partition(", ")[0].replace("−", "-")
    return eval(formula, {"exp": np.exp, "log": np.log, "r": ratio})
