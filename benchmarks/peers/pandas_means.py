"""Means per step as one computes them in a notebook: ``pandas.read_json``, then group by step.

``python -m benchmarks.peers.pandas_means LOG RESULT``: a file is in memory at a time, and the
figures of all responses. Means are those of rlreport for logs without padding tokens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

# rlreport leaves out tokens with a log-probability above this, which no token can have
HIGHEST_LOGPROB = 0.001


def main(log: Path, result: Path) -> None:
    """Read a log; write the number of its rows and the means of each step."""
    files = sorted(log.glob("*.jsonl"))
    responses = pd.concat(figures(pd.read_json(path, lines=True)) for path in files)
    means = step_means(responses)
    found = {
        "rows": len(responses),
        "means": means.to_dict("list"),
        "text": "means of reward, KL, length and entropy",
    }
    result.write_text(json.dumps(found))


def figures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return step, reward and sums over tokens of each response."""
    sums = map(token_sums, rows["logprobs"], rows["ref_logprobs"])
    table = pd.DataFrame(sums, columns=["tokens", "surprisal", "kl"])
    return table.assign(step=rows["step"], reward=rows["reward"])


def token_sums(
    logprobs: Sequence[float], ref_logprobs: Sequence[float]
) -> tuple[int, float, float]:
    """Return a response's number of tokens, and the sums of its surprisals and log-ratios."""
    logp = np.array(logprobs)
    ref_logp = np.array(ref_logprobs)
    counts = (logp <= HIGHEST_LOGPROB) & (ref_logp <= HIGHEST_LOGPROB)
    logp = logp[counts]
    return len(logp), -logp.sum(), (logp - ref_logp[counts]).sum()


def step_means(responses: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each step, under the names of rlreport's table of steps."""
    steps = responses.groupby("step")
    columns = {
        "reward_mean": steps["reward"].mean(),
        "kl_k1_mean": steps["kl"].mean(),
        "response_tokens_mean": steps["tokens"].mean(),
        "surprisal_mean": steps["surprisal"].sum() / steps["tokens"].sum(),
    }
    return pd.DataFrame(columns).reset_index()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
