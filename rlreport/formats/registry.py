"""The known log formats, and those that installed packages add."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points

from rlreport.errors import UsageError
from rlreport.formats.art import ART
from rlreport.formats.atif import ATIF
from rlreport.formats.base import Format
from rlreport.formats.inspect_ai import InspectAI
from rlreport.formats.lm_eval import LMEval
from rlreport.formats.nemo_rl import NemoRL
from rlreport.formats.rlboard import Plain, RLBoard
from rlreport.formats.rllm import RLLM
from rlreport.formats.roll_agentic import RollAgentic
from rlreport.formats.simple import AReaL, OpenInstruct, PrimeRLTokens, Roll, Swift, Verl
from rlreport.formats.skyrl import SkyRL
from rlreport.formats.slime import Slime
from rlreport.formats.tinker import Tinker
from rlreport.formats.trackio import Trackio
from rlreport.formats.trl import TRL
from rlreport.formats.verifiers import Verifiers

ENTRY_POINTS = "rlreport.formats"
"""Entry point group; each entry names a class that takes no argument and is a Format."""

_OWN: tuple[Callable[[], Format], ...] = (
    RLBoard, TRL, Verl, NemoRL, SkyRL, PrimeRLTokens, Verifiers,
    AReaL, Roll, RollAgentic, Swift, OpenInstruct, RLLM, ART, Slime,
    Tinker, Trackio, LMEval, InspectAI, ATIF, Plain,
)  # fmt: skip


@cache
def formats() -> dict[str, Format]:
    """Return every format by id: ours first, then those of installed packages by name.

    Raises:
        UsageError: when an installed format cannot be loaded, or takes an id that is taken.
    """
    known: dict[str, Format] = {}
    for made in _OWN:
        form = made()
        known[form.id] = form
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            form = entry.load()()
        except Exception as error:
            raise UsageError(
                f"the installed log format {entry.name!r} ({entry.value}) cannot be loaded: {error}"
            ) from error
        if not isinstance(form, Format):
            raise UsageError(f"{entry.value} is no log format: see rlreport.formats.base.Format")
        if form.id in known:
            raise UsageError(f"{entry.value} takes the id {form.id!r}, which is taken")
        known[form.id] = form
    return known


def format_by_id(identity: str) -> Format:
    """Return the format of that id.

    Raises:
        UsageError: when there is none; the message lists the ids.
    """
    try:
        return formats()[identity]
    except KeyError:
        raise UsageError(
            f"there is no log format {identity!r}; formats are {', '.join(formats())}"
        ) from None
