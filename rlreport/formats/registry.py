"""The known log formats, those that installed packages add, and which one a file has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import NamedTuple

from rlreport.errors import UsageError
from rlreport.formats.atif import ATIF
from rlreport.formats.base import Format, Row
from rlreport.formats.evaluations import InspectAI, LMEval
from rlreport.formats.mapping import Mapped
from rlreport.formats.nemo_rl import NemoRL
from rlreport.formats.refusal import certain_refusal
from rlreport.formats.rllm import RLLM
from rlreport.formats.roll import Roll, RollAgentic
from rlreport.formats.simple import (
    ART,
    AReaL,
    OpenInstruct,
    Plain,
    PrimeRLTokens,
    RLBoard,
    Swift,
    Verl,
)
from rlreport.formats.skyrl import SkyRL
from rlreport.formats.slime import Slime
from rlreport.formats.tinker import Tinker
from rlreport.formats.trackio import Trackio
from rlreport.formats.trl import TRL
from rlreport.formats.verifiers import Verifiers

ENTRY_POINTS = "rlreport.formats"
"""Entry point group; each entry names a class that takes no argument and is a Format."""

_FORMATS: tuple[Callable[[], Format], ...] = (
    RLBoard, TRL, Verl, NemoRL, SkyRL, PrimeRLTokens, Verifiers,
    AReaL, Roll, RollAgentic, Swift, OpenInstruct, RLLM, ART, Slime,
    Tinker, Trackio, LMEval, InspectAI, ATIF, Plain,
)  # fmt: skip


class Detected(NamedTuple):
    """The format of a file, and why it is taken for that."""

    format: Format
    reason: str


@cache
def formats() -> dict[str, Format]:
    """Return every format by id: ours first, then those of installed packages by name.

    Raises:
        UsageError: when an installed format cannot be loaded, or takes an id that is taken.
    """
    known = {form.id: form for form in (create() for create in _FORMATS)}
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


def detect(
    name: str,
    objects: Sequence[Row],
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    step_from_path: str | None = None,
) -> Detected | None:
    """Name the format of a file, or None when it is no rollout log (``refusal`` says why).

    Args:
        name: path relative to the logs' folder, parts joined by ``/``.
        objects: the file's first objects (twenty are plenty).
        log_format: id of a format to take without looking.
        mapping: canonical field to dotted path, as the user gave it.
        step_from_path: regular expression that finds the step in ``name``.

    Raises:
        UsageError: unknown format id, unknown mapped field, or a bad expression.
    """
    found = None
    if log_format is not None:
        found = Detected(format_by_id(log_format), "named on the command line")
    elif not certain_refusal(name, objects):
        matches = [(form, form.match(name, objects)) for form in formats().values()]
        claims = [(match.confidence, form, match.reason) for form, match in matches if match]
        if claims:
            _, form, reason = max(claims, key=lambda claim: claim[0])
            found = Detected(form, reason)
    if not mapping and (found is None or step_from_path is None):
        return found
    mapped = Mapped(dict(mapping or {}), step_from_path, found.format if found else None)
    match = mapped.match(name, objects)
    return Detected(mapped, match.reason) if match else found
