"""Settings that differ between two runs: first those that change training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rlreport.comparison.run import ComparedRun

_TRAINING = re.compile(
    r"(^|[._])(lr|learning_rate|beta|kl\w*|model\w*|data\w*|train_files|val_files|reward\w*|score\w*|"
    r"temperature|top_[kp]|min_p|\w*batch\w*|num_generations|group\w*|rollout\w*|n|mu|\w*length|"
    r"\w*tokens|clip\w*|eps\w*|loss\w*|adv\w*|algo\w*|estimator|seed|\w*epochs?|max_steps|"
    r"warmup\w*|scheduler\w*|optim\w*|weight_decay|lora\w*|prompt\w*|template|gamma|lam|entropy\w*)$"
)
"""How a setting ends, or the section before it, that changes what is trained."""

_BOOKKEEPING = re.compile(
    r"version|commit|hash|host|port$|(^|[._])(dir|path|name|run|id|project|entity|date|time)$|"
    r"\w+_(dir|id)$|run_name|experiment_name|uuid|wandb|mlflow|tensorboard|logg|logs|save|output|"
    r"timestamp|device|num_workers|verbos|report_to|push_to"
)
"""What says where a run was and how it is called."""

_UNSET = {None, "null", "None", "", "False", "false"}
"""Values of a setting that one run does not name and the other leaves off."""


class Difference(NamedTuple):
    """A setting and its value in BASE and in NEW, None where a run does not name it."""

    key: str
    base: str | None
    new: str | None


def settings_that_differ(
    base: ComparedRun, new: ComparedRun
) -> tuple[list[Difference], list[Difference]]:
    """Return the settings that differ, those of training first, and what is folded below them.

    Folded are package versions, defaults, names and places, and every setting where a run has
    no configuration to compare with.
    """
    differing = _differing(base.facts, new.facts)
    configured = all(any(key.startswith("config.") for key in run.facts) for run in (base, new))
    shown = [d for d in differing if not _folded(d, configured=configured)]
    shown.sort(key=lambda d: not _of_training(d.key))
    folded = [d for d in differing if d not in shown]
    return shown, folded + _differing(base.versions, new.versions)


def _differing(base: Mapping[str, str], new: Mapping[str, str]) -> list[Difference]:
    keys = sorted({*base, *new}) if base and new else []
    return [
        Difference(key, base.get(key), new.get(key))
        for key in keys
        if base.get(key) != new.get(key)
    ]


def _folded(difference: Difference, *, configured: bool) -> bool:
    key, *values = difference
    if not configured and key.startswith("config."):
        return True
    return set(values) <= _UNSET or (not _of_training(key) and bool(_BOOKKEEPING.search(key)))


def _of_training(key: str) -> bool:
    """Say whether a setting changes training, by its name or its section's."""
    section, _, name = key.removeprefix("config.").lower().rpartition(".")
    if "version" in name:
        return False
    return bool(_TRAINING.search(name) or _TRAINING.search(section))
