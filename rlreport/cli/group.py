"""A click group that imports a command when it is called, and tells errors in one line."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import click

from rlreport.cli.say import say, say_error, show_click_error, write_what_fits
from rlreport.errors import RlreportError
from rlreport.workers import collect_rarely

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells give it (128 + SIGINT)."""


TERMINATED = 143
"""Exit status after SIGTERM (128 + SIGTERM), as a job scheduler sends it."""


class LazyGroup(click.Group):
    """Commands by name, imported on first use, so that ``--help`` costs no pandas."""

    def __init__(self, *args: Any, commands_at: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted."""
        return sorted(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns a command, None when there is none of that name."""
        place = self.commands_at.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Runs a command; errors of ours end with one line and exit status 2."""
        extra["standalone_mode"] = False
        write_what_fits()
        collect_rarely()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminated)
        try:
            status = super().main(args, **extra)
        except click.exceptions.Exit as leave:
            sys.exit(leave.exit_code)
        except click.ClickException as error:
            show_click_error(error)
            sys.exit(error.exit_code)
        except RlreportError as error:
            say_error(str(error))
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt):
            say("rlreport: interrupted, nothing was written", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # The reader of our output has left; Python would complain again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        sys.exit(status if isinstance(status, int) else 0)


def _terminated(number: int, frame: object) -> None:
    """Leaves as after Ctrl-C, so that nothing half-written stays."""
    say("rlreport: terminated; nothing half-written is left", err=True)
    sys.exit(TERMINATED)
