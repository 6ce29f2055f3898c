"""The process that builds one report of a training: ``python -m rlreport.training.builder``.

It reads one JSON object from standard input and writes an ``Answer`` to standard output. If the
training no longer waits for it, it prints the answer to standard error.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlreport.ended import ENDED, FINISHED, KILLED, Ended
from rlreport.errors import RlreportError, UnusableInputError, stop
from rlreport.signals import ENDING, Terminated
from rlreport.system.memory import collect_rarely
from rlreport.text.secrets import is_secret
from rlreport.training.messages import Answer, Request

# Folders with rollouts in that of the trainer. The first has more fields: RolloutWriter wrote it.
ROLLOUTS = ("rollouts", "completions")
STATE = "trainer_state.json"

_NICENESS = 10  # of builds during the training
_CLOCK_SECONDS = 2.0  # by which times of files may be off
_MOST_TEXT = 200  # characters of an error's message


def main() -> int:
    """Build the report that standard input asks for; return the exit status."""
    answer_to = os.dup(1)
    os.dup2(2, 1)  # what a custom chart prints is no answer
    order = json.load(sys.stdin)
    ended: Ended | None = order["ended"]
    _prepare(is_last=ended is not None)
    try:
        answer = Answer(lines=_build(order["request"], ended))
    except RlreportError as error:
        answer = Answer(error=str(error))
    except Exception as error:
        answer = Answer(error=f"{type(error).__name__}: {error}")
    try:
        os.write(answer_to, json.dumps(answer).encode() + b"\n")
    except OSError:  # the training has died, or does not wait
        _print(answer)
    return 1 if "error" in answer else 0


def _prepare(*, is_last: bool) -> None:
    """Set signals and priority of this process; the last build ends by itself only."""
    # As in the command line: threads of NumPy's linear algebra would rule out forking.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    collect_rarely()
    atexit.register(gc.freeze)  # else Python searches all objects for cycles at exit
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    if not is_last:
        signal.signal(signal.SIGINT, _stop)
        if hasattr(os, "nice"):
            os.nice(_NICENESS)


def _stop(number: int, frame: object) -> None:
    stop(Terminated(number))


def _print(answer: Answer) -> None:
    from rlreport.text.clean import printable

    lines = answer.get("lines") or [f"rlreport: no report was built: {answer['error']}"]
    with suppress(OSError):
        print(*map(printable, lines), sep="\n", file=sys.stderr, flush=True)


def _build(request: Request, ended: Ended | None) -> list[str]:
    """Build the report; return how the training ended, the verdict and the path, as lines."""
    from rlreport.api import build

    options = dict(request["options"])
    rows = _rows(request["journal"])
    if ended is not None and ended["step"] is None and rows:
        ended["step"] = rows[-1].get("step")
    logs = request["logs"] or _rollouts(request)
    if request["folder"]:
        options.setdefault("title", Path(request["folder"]).name)
        if rows:
            state = _write_state(request, rows, ended)
            options.setdefault("metrics", [str(state)])
        elif not logs:
            raise UnusableInputError("nothing was logged")
    elif not logs:
        # A block without logs: the report has the metrics that were logged in it.
        if not rows:
            raise UnusableInputError("nothing was logged; call log(), or give logs=")
        logs = [request["journal"]]
    elif rows and not _is_inside(request["journal"], logs):
        options.setdefault("metrics", [request["journal"]])
    if request["settings"]:
        options.setdefault("config", [request["settings"]])
    text = ""
    if ended is None:
        options = {"in_progress": True, "workers": 1, **options}
    else:
        text = ended_text(ended)
        options["meta"] = {**(options.get("meta") or {}), ENDED: text}
    # Without rollouts, the report has the trainer's metrics alone.
    report = build(logs or [request["folder"]], request["out"], **options)
    return [f"rlreport: training {_sentence(text)}", *repr(report).split("\n")]


def ended_text(ended: Ended) -> str:
    """Return how a training ended, such as "SIGTERM at step 12", without likely secrets."""
    how = ended["how"]
    if how == KILLED:
        how = "killed, or ended without notice,"
    place = "" if ended["step"] is None else f" at step {ended['step']}"
    text = f"{how}{place}"
    first_line = ended["text"].strip().partition("\n")[0]
    if not first_line:
        return text.rstrip(",")
    # Judged before it is cut, as its end may be the secret
    if is_secret(ENDED, ended["text"]):
        return text
    return f"{text}: {first_line[:_MOST_TEXT]}"


def _sentence(text: str) -> str:
    if text.startswith(FINISHED):
        return text
    return f"ended: {text}" if text else "goes on"


def _rollouts(request: Request) -> list[str]:
    """Return the folder with the rollouts that the trainer wrote, [] without one."""
    for name in ROLLOUTS if request["folder"] else ():
        folder = Path(request["folder"], name)
        if folder.is_dir() and _is_of_this_run(folder, request):
            return [str(folder)]
    return []


def _is_of_this_run(folder: Path, request: Request) -> bool:
    """Return whether a file in a folder was written since the training began, or it was resumed."""
    since = request["began"] - _CLOCK_SECONDS
    if request["resumed"]:
        return True
    times = [file.stat().st_mtime for file in folder.iterdir()]
    return max(times, default=0.0) >= since


def _is_inside(journal: str, logs: list[str]) -> bool:
    folder = Path(journal).parent.resolve()
    return any(Path(log).resolve() == folder for log in logs)


def _rows(journal: str) -> list[dict[str, Any]]:
    """Return the rows of the metrics logged so far, without one that a crash tore."""
    rows: list[dict[str, Any]] = []
    if not journal or not Path(journal).is_file():
        return rows
    for line in Path(journal).read_text("utf-8", "replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _write_state(
    request: Request, rows: list[dict[str, Any]], ended: Ended | None
) -> Path:
    """Write the ``trainer_state.json`` that a trainer writes at its end, and return its path."""
    steps = [row["step"] for row in rows if isinstance(row.get("step"), int)]
    if ended is not None and ended["step"] is not None:
        steps.append(ended["step"])
    state = {
        **request["state"],
        "global_step": max(steps, default=0),
        "epoch": rows[-1].get("epoch"),
        "log_history": rows,
    }
    path = Path(request["folder"], STATE)
    temporary = path.with_name(f".{STATE}.{os.getpid()}.part")
    try:
        temporary.write_text(json.dumps(state, indent=2) + "\n", "utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


if __name__ == "__main__":
    sys.exit(main())
