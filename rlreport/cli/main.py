"""The command line. Commands import slow packages, such as pandas, only when they run."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Any

import click

from rlreport.cli import browser, commands, watch
from rlreport.cli.terminal import say, say_click_error, say_error
from rlreport.errors import RlreportError, stop, stop_if_signalled
from rlreport.signals import INTERRUPTED, Terminated, handle
from rlreport.system.memory import collect_rarely, keep_freed_memory


class Program(click.Group):
    """The ``rlreport`` command with its subcommands; ``main`` handles errors and signals."""

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command and exit; print expected errors, also of the system, without traceback."""
        _prepare_streams()
        # NumPy's linear algebra (hardly used) would start threads, and threads rule out forking.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        collect_rarely()
        keep_freed_memory()
        # Else Python would search all objects for cycles at exit.
        atexit.register(gc.freeze)
        handle(_stop)
        try:
            status = self._run(args, **extra)
        except click.exceptions.Exit as error:
            status = error.exit_code
        except click.ClickException as error:
            say_click_error(error)
            status = error.exit_code
        except RlreportError as error:
            say_error(str(error))
            status = 2
        except (click.Abort, KeyboardInterrupt):
            _say_ending("rlreport: interrupted; no incomplete report is left")
            status = INTERRUPTED
        except Terminated as error:
            _say_ending("rlreport: terminated; no incomplete report is left")
            status = error.code
        except BrokenPipeError:
            # Standard output was closed, for example by head. Without this, Python would print an
            # error when it flushes standard output at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 1
        except OSError as error:  # for example a folder without permission to enter it
            path = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            say_error(f"{path}{error.strerror or error}")
            status = 2
        # Commands return None: they have done what they were asked for.
        sys.exit(status if isinstance(status, int) else 0)

    def _run(self, args: Sequence[str] | None, **extra: Any) -> Any:
        """Run a command, so that errors reach ``main``; return its exit status, if it has one."""
        try:
            # In click's standalone mode, it would handle errors itself, and exit.
            return super().main(args, **{**extra, "standalone_mode": False})
        except Exception:
            # Compiled modules turn the exception of a signal into others while they are imported.
            stop_if_signalled()
            raise


def _prepare_streams() -> None:
    """Open the standard streams that are closed; replace characters that the others cannot write.

    A closed stream's number would go to the next file that is opened, V8 panics without it, and
    libraries ask a stream, which Python then sets to None, whether it is a terminal.
    """
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Gets the lowest free number, which is the stream's
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))
        if isinstance(stream, TextIOWrapper) and stream is not sys.stdin:
            stream.reconfigure(errors="replace")


def _say_ending(line: str) -> None:
    """Print to standard error why the program ends."""
    with suppress(OSError):  # the terminal may be closed
        say(line, err=True)


def _stop(number: int, frame: object) -> None:
    """Handle a signal by raising an exception, which cleans up on its way to ``main``."""
    stop(KeyboardInterrupt() if number == signal.SIGINT else Terminated(number))


@click.group(
    cls=Program,
    commands=[
        commands.build,
        commands.check,
        commands.checks,
        commands.compare,
        commands.formats,
        commands.index,
        commands.inspect,
        browser.open_report,
        watch.watch,
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="rlreport", prog_name="rlreport")
def main() -> None:
    """Static HTML reports of RL runs on language models, from their rollout logs.

    \b
    Examples:
      rlreport build logs/ -o report            a folder of pages
      rlreport open report                      in the browser
      rlreport build logs/ -o run.html          one file
      rlreport compare main/ logs/ -o diff.md   differences between two runs
      rlreport index runs/ -o runs.html         many runs on one page
      rlreport inspect logs/                    what is in the logs
    """
