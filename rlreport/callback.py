"""A callback for ``transformers`` and TRL trainers: a report when training ends."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from rlreport.errors import UsageError
from rlreport.writer import RolloutWriter


class ReportCallback:
    """Builds the report of a run from what the trainer logged.

    TRL's GRPO trainer writes its rollouts to ``<output_dir>/completions`` when
    ``log_completions=True``; set ``logging_steps=1`` too, as TRL keeps only the rollouts of the
    last generation before each log. Its RLOO trainer writes none. Where a trainer offers none,
    call ``write`` from a reward function or a training loop: it goes to
    ``<output_dir>/rollouts``, and is read in place of the trainer's own. Neither transformers
    nor TRL is imported: trainers look callbacks' methods up by name.

    Args:
        out: where the report goes; its suffix chooses the form, as for ``rlreport build``.
        options: further arguments of ``rlreport.build``; ``metrics`` are the trainer's own
            unless given.
    """

    def __init__(self, out: str | Path, **options: Any) -> None:
        self._out = out
        self._options = options
        self._writer: RolloutWriter | None = None
        self._folder: Path | None = None
        self._rank = 0

    def write(self, **row: Any) -> None:
        """Log one response, with the fields of ``RolloutWriter.write``.

        Raises:
            UsageError: before the trainer is set up, or a field holds what JSON cannot.
        """
        if self._folder is None:
            raise UsageError("give the callback to a trainer before logging rollouts through it")
        if self._writer is None:
            self._writer = RolloutWriter(self._folder / "rollouts", rank=self._rank)
        self._writer.write(**row)

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note where the trainer writes, and make sure that it logs its completions."""
        self._folder = Path(args.output_dir)
        self._rank = int(getattr(args, "process_index", 0))
        if getattr(args, "log_completions", True) is False:
            warnings.warn(
                "log_completions is off: the report will hold only rollouts given to write()",
                stacklevel=2,
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Build the report in the main process; a report that fails does not fail the run."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        metrics = folder / "trainer_state.json"
        # Both hold the same rollouts; those given to ``write`` know more of them.
        places = [folder / name for name in ("rollouts", "completions")]
        logs = [place for place in places if place.is_dir()][:1]
        from rlreport import build

        try:
            state.save_to_json(str(metrics))
            # They lie beside the rollouts' folder, where a build that gets that alone looks not.
            build(logs or [folder], self._out, **{"metrics": [metrics], **self._options})
        except Exception as error:  # what follows in the script may be to save the model
            hint = "" if logs else "; this trainer writes no rollouts: give them to write()"
            warnings.warn(f"no report was built: {error}{hint}", stacklevel=2)

    def __getattr__(self, name: str) -> Any:
        """Answer the trainer's other events by doing nothing."""
        if name.startswith("on_"):
            return _nothing
        raise AttributeError(name)


def _nothing(*_: Any, **__: Any) -> None:
    """Leave the trainer's control as it is."""
