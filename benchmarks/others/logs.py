"""Runs whose responses are logged, and their metrics as a trainer would have logged them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.judge_runs import folders, read, truth_of
from benchmarks.others.ours import KINDS
from benchmarks.others.runs import HACKING, KL, LENGTH, LabelledRun

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
SAMPLE_TRUTHS: dict[str, tuple[frozenset[str], tuple[int, int] | None]] = {
    "healthy": (frozenset(), None),
    "reward_hacking": (frozenset([HACKING, KL, LENGTH]), (32, 46)),
}
"""Folder -> kinds of its fault, and where it begins."""


def sample_logs() -> Iterator[LabelledRun]:
    """Yield the sample logs of this repository."""
    for name, (kinds, onset) in SAMPLE_TRUTHS.items():
        yield _labelled(SAMPLES / name, f"sample_{name}", kinds, onset)


def labelled_logs(given: Sequence[Path]) -> Iterator[LabelledRun]:
    """Yield the runs of folders with a ``truth.json``, in the form of ``judge_runs``.

    They count in a row with the name of the folder above. Left out are runs whose truth expects
    none of the kinds of ``runs``, and those without a fault in which a fall of the reward may be
    named, as their prompts become harder.
    """
    for folder in folders(given):
        truth = truth_of(folder)
        kinds = frozenset().union(*(KINDS.get(id, ()) for id in truth["expected"]))
        is_open = "reward_collapse" not in truth["not_expected"]
        if not kinds and (truth["expected"] or is_open):
            continue
        onset = truth.get("onset")
        yield _labelled(folder, folder.name, kinds, tuple(onset) if onset else None)


def _labelled(
    folder: Path, name: str, kinds: frozenset[str], onset: tuple[int, int] | None
) -> LabelledRun:
    group = f"{folder.parent.name}: {'faulty' if kinds else 'healthy'}"
    metrics = metrics_of(read(folder).steps)
    return LabelledRun(name, group, kinds, onset, metrics, folder)


def metrics_of(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics of a run from its table of steps; those that it lacks are left out.

    The KL is the estimate k3 of a response, divided by its tokens; for the entropy stands the
    surprisal of the tokens that were sampled, which has the same mean.
    """
    groups = steps["groups"].where(steps["groups"] > 0)
    metrics = {
        "step": steps["step"],
        "reward": steps["reward_mean"],
        "reward_std": steps["reward_std"],
        "kl": steps["kl_k3_mean"] / steps["response_tokens_mean"],
        "entropy": steps["surprisal_mean"],
        "completions/mean_length": steps["response_tokens_mean"],
        "completions/clipped_ratio": 1 - steps["eos_rate"],
        "frac_reward_zero_std": steps["zero_variance_groups"].where(groups.notna()),
    }
    table = pd.DataFrame(metrics).astype(float)
    return table.dropna(axis="columns", how="all")
