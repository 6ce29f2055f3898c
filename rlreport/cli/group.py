"""A click group that imports commands on first use and prints errors as one line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from rlreport.cli.say import replace_unencodable, say, say_error, show_click_error
from rlreport.errors import RlreportError
from rlreport.workers import collect_rarely

INTERRUPTED = 130
"""Exit status after Ctrl-C (128 + SIGINT)."""


TERMINATED = 143
"""Exit status after SIGTERM (128 + SIGTERM), which job schedulers send."""


class LazyGroup(click.Group):
    """Commands that are imported on first use, as importing pandas takes long."""

    def __init__(self, *args: Any, commands: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.names = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, None if there is none of that name."""
        if cmd_name not in self.names:
            return None
        command: click.Command = getattr(import_module(f"rlreport.cli.{cmd_name}"), cmd_name)
        return command

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command; an RlreportError is printed as one line, with exit status 2."""
        extra["standalone_mode"] = False
        replace_unencodable()
        collect_rarely()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminated)
        try:
            status = super().main(args, **extra)
        except click.exceptions.Exit as leaving:
            sys.exit(leaving.exit_code)
        except click.ClickException as error:
            show_click_error(error)
            sys.exit(error.exit_code)
        except RlreportError as error:
            say_error(str(error))
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt):
            say("rlreport: interrupted; nothing was written", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # The reader of standard output is gone; Python would print an error at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        sys.exit(status if isinstance(status, int) else 0)


def _terminated(number: int, frame: object) -> None:
    """Exit as after Ctrl-C, so that staging folders are removed."""
    say("rlreport: terminated; no incomplete report is left", err=True)
    sys.exit(TERMINATED)
