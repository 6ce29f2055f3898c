"""A report of a training, on the way and at its end, also if it fails or is killed."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rlreport.ended import FINISHED
from rlreport.errors import UsageError
from rlreport.options import BuildOptions, refuse_unknown
from rlreport.text.secrets import without_secrets
from rlreport.training.journal import (
    JOURNAL,
    SETTINGS,
    append_to_journal,
    start_journal,
)
from rlreport.training.messages import Request
from rlreport.training.session import Session, is_main_process, say_answer, warn


class _ReportCallback:
    """A report of a training: on the way, at its end, and if it fails or is killed.

    As a callback of a trainer of transformers or TRL::

        trainer = GRPOTrainer(..., callbacks=[ReportCallback("run.html", every=100)])

    As a context manager around any training loop::

        with ReportCallback("run.html", logs="rollouts/") as report:
            for step in range(1000):
                ...
                report.log({"kl": kl, "loss": loss}, step=step)  # if there are metrics

    The report is built by another process, in the main process of a training only, once it ends:
    by itself, by an exception, by Ctrl-C, by SIGTERM (then the handler that was set before is
    called) or killed. The verdict and the path are printed. A report that fails is a warning, never
    an error; the earlier one stays.

    TRL's GRPO trainer writes its rollouts to ``<output_dir>/completions`` with
    ``log_completions=True``; set ``logging_steps=1``, too, as TRL keeps only the rollouts of the
    last generation before each log. For trainers that write no rollouts, such as RLOO, log them
    from a reward function with ``RolloutWriter(f"{output_dir}/rollouts")``: the report uses these
    instead of the trainer's. Metrics are written to ``<output_dir>/rlreport_metrics.jsonl`` as they
    are logged, and the trainer's arguments, without secrets, to ``rlreport_args.json``.

    If transformers is installed, this is a subclass of its ``TrainerCallback``.

    Args:
        out: output path; the suffix selects the format as in ``rlreport.build``.
        every: also build a report every so many steps; None for none. In a context manager, steps
            are those that ``log`` is given.
        logs: rollout logs as in ``rlreport.build``; by default those in the trainer's folder, or
            in a context manager none: then the report has the metrics given to ``log`` alone.
        options: further options of ``rlreport.build``.

    Raises:
        UsageError: an option cannot be used.
    """

    def __init__(
        self,
        out: str | Path = "report",
        every: int | None = None,
        *,
        logs: str | Path | Sequence[str | Path] | None = None,
        **options: Any,
    ) -> None:
        if every is not None and (not isinstance(every, int) or every < 1):
            raise UsageError(f"every must be a number of steps or None; got {every!r}")
        # An invalid option is refused now, not after the training.
        refuse_unknown("ReportCallback", options, BuildOptions)
        BuildOptions(**options)
        self._out = os.fspath(out)
        self._every = every
        self._is_quiet = bool(options.pop("quiet", False))
        self._options = json.loads(json.dumps(options, default=_plain))
        several = [logs] if isinstance(logs, str | Path) else (logs or [])
        self._logs = [os.fspath(log) for log in several]
        self._cwd = os.getcwd()  # noqa: PTH109 - the paths above are relative to it
        self._session: Session | None = None
        self._step: int | None = None  # the last step of the training
        self._reported_step = 0  # at which a report on the way was built
        self._journal: Path | None = None

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Warn of settings of the trainer with which the report lacks rollouts or steps."""
        if getattr(args, "log_completions", True) is False:
            warn(
                "log_completions is off: only rollouts that RolloutWriter logs will be reported"
            )
        steps = getattr(args, "logging_steps", 1)
        if isinstance(steps, int | float) and steps != 1:
            warn(
                f"logging_steps is {steps:g}: metrics of other steps are missing in the report, "
                "and TRL keeps only the rollouts of the last generation before each log; "
                "set logging_steps=1"
            )

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start to follow a training."""
        with self._never_raising():
            if not state.is_world_process_zero:
                return
            if self._session is not None:
                self._session.cancel()  # an earlier training failed, or this is in a block
            folder = Path(args.output_dir).absolute()
            history = list(getattr(state, "log_history", None) or [])
            self._step = int(getattr(state, "global_step", 0) or 0)
            self._reported_step = self._step
            self._journal = folder / JOURNAL
            start_journal(self._journal, history)
            settings = folder / SETTINGS
            settings.write_text(json.dumps(_settings(args), indent=2) + "\n", "utf-8")
            self._begin(
                folder=str(folder),
                state=_scalars(state),
                settings=str(settings),
                resumed=bool(history) or self._step > 0,
            )

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Build a report on the way: by now, all is written of the step before."""
        if self._is_live:
            with self._never_raising():
                self._report_on_the_way(int(state.global_step))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Remember the step, in case the training fails."""
        if self._is_live:
            with self._never_raising():
                self._step = int(state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any
    ) -> None:
        """Write the metrics that the trainer logs."""
        if self._is_live and self._journal is not None and logs:
            with self._never_raising():
                row = {"epoch": state.epoch} if hasattr(state, "epoch") else {}
                row |= {**logs, "step": state.global_step}
                append_to_journal(self._journal, row)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Build the report of a training that ended by itself."""
        if self._session is None or not self._session.is_live:
            return
        with self._never_raising():
            self._step = int(state.global_step)
            was_cut = self._session.was_signalled and self._step < state.max_steps
            self._say(self._session.end("SIGTERM" if was_cut else FINISHED))

    def __enter__(self) -> Self:
        """Start to follow the training in a ``with`` block."""
        with self._never_raising():
            if is_main_process():
                self._step = None
                self._reported_step = 0
                self._journal = None
                self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Build the report; an exception goes on."""
        if self._session is None or not self._session.is_live:
            return
        with self._never_raising():
            if kind is None:
                was_cut = self._session.was_signalled
                self._say(self._session.end("SIGTERM" if was_cut else FINISHED))
            else:
                self._say(self._session.end_by(error))

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Write the metrics of a step, in a ``with`` block.

        They are in ``rlreport_metrics.jsonl`` in the folder of the logs, or next to the report if
        there are no logs or they are no folder. The file stays, so that a report can be built
        again; the next training with the same place replaces it.

        Args:
            metrics: name -> number.
            step: the step; by default the one after the last.
        """
        if not self._is_live:
            return
        if not isinstance(metrics, Mapping):
            kind = type(metrics).__name__
            warn(
                f"log() takes a dict of numbers; this call is ignored, as it got {kind}"
            )
            return
        with self._never_raising():
            previous = -1 if self._step is None else self._step
            self._step = previous + 1 if step is None else int(step)
            if self._journal is not None:
                append_to_journal(self._journal, {**metrics, "step": self._step})
                self._report_on_the_way(self._step)

    @property
    def _is_live(self) -> bool:
        return self._session is not None and self._session.is_live

    def _begin(self, **of_trainer: Any) -> None:
        """Start a session; ``of_trainer`` has what the request holds with a trainer."""
        if self._journal is None:
            self._journal = self._journal_folder() / JOURNAL
            start_journal(self._journal)
        request = Request(
            parent=os.getpid(),
            out=self._out,
            options=self._options,
            logs=self._logs,
            folder="",
            journal=str(self._journal),
            state={},
            settings="",
            began=time.time(),
            resumed=False,
        )
        request.update(of_trainer)  # type: ignore[typeddict-item]
        self._session = Session(request, self._cwd, lambda: self._step)

    def _journal_folder(self) -> Path:
        """Return the folder for the metrics of a ``with`` block."""
        if len(self._logs) == 1:
            folder = Path(self._cwd, self._logs[0])
            is_pattern = "://" in self._logs[0] or "*" in self._logs[0]
            if folder.is_dir() or not (is_pattern or folder.suffix or folder.exists()):
                return folder
        if "://" in self._out:
            return Path(self._cwd)
        return Path(self._cwd, self._out).parent

    def _report_on_the_way(self, step: int) -> None:
        """Build a report if so many steps have passed since the last one."""
        if self._every is None or step - self._reported_step < self._every:
            return
        self._reported_step = step
        if self._session is not None:
            self._session.build()

    def _say(self, answer: Any) -> None:
        if not self._is_quiet or answer is None or "error" in answer:
            say_answer(answer)

    @contextmanager
    def _never_raising(self) -> Iterator[None]:
        """Turn errors into warnings: the report must never end the training."""
        try:
            yield
        except Exception as error:
            warn(f"no report will be built: {error}")


class _Events:
    """Stands for ``TrainerCallback`` where transformers is not installed."""

    def __getattr__(self, name: str) -> Any:
        """Return a function that does nothing for any other event (``on_…``) of a trainer."""
        if name.startswith("on_"):
            return lambda *args, **kwargs: None
        raise AttributeError(name)


if TYPE_CHECKING:
    ReportCallback = _ReportCallback


def __getattr__(name: str) -> Any:
    """Make the class when it is first asked for, as transformers takes seconds to import."""
    if name != "ReportCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    described = {
        "__doc__": _ReportCallback.__doc__,
        "__module__": __name__,
        "__qualname__": name,
    }
    made = type(name, (_ReportCallback, _trainer_callback()), described)
    globals()[name] = made
    return made


def _trainer_callback() -> type:
    """Return the class of transformers for callbacks, or what stands for it."""
    try:
        if "transformers" in sys.modules or find_spec("transformers") is not None:
            from transformers import TrainerCallback

            found: type = TrainerCallback
            return found
    except Exception as error:  # whatever an installation that is broken raises
        warn(f"transformers cannot be imported: {error}")
    return _Events


def _settings(args: Any) -> dict[str, Any]:
    """Return a trainer's arguments without secrets."""
    if hasattr(args, "to_json_string"):
        values = json.loads(args.to_json_string())
    else:
        values = json.loads(json.dumps(vars(args), default=_plain))
    return without_secrets(values)


def _scalars(state: Any) -> dict[str, Any]:
    """Return the numbers and texts of a trainer's state."""
    return {
        name: value
        for name, value in vars(state).items()
        if isinstance(value, str | int | float | bool | None)
    }


def _plain(value: Any) -> Any:
    """Return what JSON has for an option, such as the text of a path."""
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)
