"""A callback for ``transformers`` and TRL trainers that builds a report after training."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


class ReportCallback:
    """A trainer callback that builds a report of the logged rollouts when training ends.

    TRL's GRPO trainer writes its rollouts to ``<output_dir>/completions`` with
    ``log_completions=True``; set ``logging_steps=1``, too, as TRL keeps only the rollouts of the
    last generation before each log. For trainers that write no rollouts, such as RLOO, log them
    from a reward function with ``RolloutWriter(f"{output_dir}/rollouts")``: the report uses these
    instead of the trainer's. Neither transformers nor TRL is imported.

    Args:
        out: output path; the suffix selects the format as in ``rlreport.build``.
        options: further options of ``rlreport.build``; ``metrics`` defaults to the metrics that
            the trainer recorded.
    """

    def __init__(self, out: str | Path, **options: Any) -> None:
        self._out = out
        self._options = options

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Warn if the trainer has the option ``log_completions`` and it is off."""
        if getattr(args, "log_completions", True) is False:
            warnings.warn(
                "log_completions is off: only rollouts that RolloutWriter logs will be reported",
                stacklevel=2,
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save the metrics and build the report, only in the main process; warn if that fails."""
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        metrics = folder / "trainer_state.json"
        # If both folders exist, use the first, which RolloutWriter wrote: it has more fields.
        candidates = [folder / name for name in ("rollouts", "completions")]
        logs = [path for path in candidates if path.is_dir()][:1]
        # Imported only now, so that training starts without it.
        from rlreport import build

        options = {"metrics": [metrics], **self._options}
        try:
            state.save_to_json(str(metrics))
            # Without rollouts, the report of the folder has the metrics alone.
            build(logs or [folder], self._out, **options)
        except Exception as error:  # the script may still have to save the model
            hint = ""
            if not logs:
                hint = "; this trainer writes no rollouts: log them with RolloutWriter"
            warnings.warn(f"no report was built: {error}{hint}", stacklevel=2)

    def __getattr__(self, name: str) -> Any:
        """Return a function that does nothing for any other event (``on_…``) of a trainer."""
        if name.startswith("on_"):
            return lambda *args, **kwargs: None
        raise AttributeError(name)
