"""Settings that differ between two runs: first those that change training."""

from __future__ import annotations

import re
from typing import NamedTuple

from rlreport.comparison.run import ComparedRun

_TRAINING = re.compile(
    r"(^|[._])(lr|learning_rate|beta|kl|model|data|dataset|train_files|val_files|reward|temperature|"
    r"top_[kp]|batch_size|num_generations|group|rollout|n|length|tokens|clip|eps\w*|loss|adv\w*|"
    r"algo\w*|seed|epochs?|max_steps|warmup|optim\w*|lora|gamma|lam|entropy)([._]|$)"
)
_BOOKKEEPING = re.compile(
    r"version|commit|host|(^|[._])(dir|path|name|run|id|project|entity|port)$|_(dir|id)$|"
    r"(run|experiment)_name|wandb|logg|save|output|timestamp|device|num_workers|report_to|push_to"
)
"""Package versions, and settings that say where a run was and how it is called."""

_UNSET = {None, "null", "None", "", "False", "false"}
"""Values of a setting that one run leaves off and the other does not name."""


class Difference(NamedTuple):
    """A setting and its value in BASE and in NEW, None where a run does not name it."""

    key: str
    base: str | None
    new: str | None

    @property
    def of_training(self) -> bool:
        """Whether its name, or a section's, is one that changes what is learned."""
        return "version" not in self.key and bool(_TRAINING.search(self.key.lower()))


def settings_that_differ(
    base: ComparedRun, new: ComparedRun
) -> tuple[list[Difference], list[Difference]]:
    """Return settings that differ, those of training first, and others that are folded.

    Folded are package versions, defaults, names and places, and the configuration of a run where
    the other has none.
    """
    differing = [
        Difference(key, one.get(key), other.get(key))
        for one, other in ((base.facts, new.facts), (base.versions, new.versions))
        for key in (sorted({*one, *other}) if one and other else ())
        if one.get(key) != other.get(key)
    ]
    configured = all(any(key.startswith("config.") for key in run.facts) for run in (base, new))

    def matters(one: Difference) -> bool:
        if not one.key.startswith("config."):
            return one.key in ("gamma", "lam")
        default = {one.base, one.new} <= _UNSET
        return configured and not default and (one.of_training or not _BOOKKEEPING.search(one.key))

    shown = sorted(filter(matters, differing), key=lambda one: not one.of_training)
    return shown, [one for one in differing if not matters(one)]
