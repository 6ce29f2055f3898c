"""Charts of the user's own: functions from the tables to Altair charts, drawn like ours.

They come from a file that the user names, and from packages that offer them as entry points of
the group ``rlreport.charts``. Nothing is looked for beside the logs: a chart is code that runs.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pandas as pd

from rlreport.draw.chart import Chart
from rlreport.draw.labels import label, unique_names
from rlreport.draw.layout import HEIGHT, WIDTH
from rlreport.draw.series import PALETTE
from rlreport.draw.svg import drawn_alone
from rlreport.draw.theme import LIGHT, vega_config
from rlreport.errors import UsageError
from rlreport.tables import Note, Tables
from rlreport.text.messages import message

ENTRY_POINTS = "rlreport.charts"
GROUP = message("Charts of your own")
MOST_BYTES = 500_000
"""A larger specification belongs aggregated: it stands in the page."""

MOST_CHARTS = 12
"""Charts that one function may make."""

PADDING = 4
_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function that makes charts, and where it stands in words."""

    name: str
    place: str
    load: Callable[[], Callable[[Tables], Any]]


def own_functions(files: Sequence[Path]) -> list[OwnFunction]:
    """The functions of the files, in the order they stand there, then those of installed packages.

    A file's public functions that it defines itself all make charts.

    Raises:
        UsageError: a file cannot be read or run, or has no such function.
    """
    found = [function for file in files for function in _of_file(file)]
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        found.append(OwnFunction(entry.name, entry.value, entry.load))
    return found


def own_charts(
    functions: Sequence[OwnFunction], tables: Tables, *, quote: bool = True
) -> tuple[list[Chart], list[Note]]:
    """Calls the functions and draws what they make.

    Args:
        functions: what makes charts.
        tables: given to each; what it changes in them, no other sees.
        quote: whether a note may repeat an error's words, which may quote the logs.

    Returns:
        Charts, and a note on each function or chart that failed.
    """
    charts: list[Chart] = []
    notes = []
    for function in functions:
        try:
            made = _several(function.load()(_lent(tables)))
        except (Exception, SystemExit) as error:
            notes.append(_note(function, error, quote))
            continue
        for number, one in enumerate(made):
            try:
                charts.append(_drawn(one, function, number))
            except (Exception, SystemExit) as error:
                notes.append(_note(function, error, quote))
    names = unique_names([f"own_{chart.name}" for chart in charts])
    return [replace(c, name=n) for c, n in zip(charts, names, strict=True)], notes


def _of_file(file: Path) -> list[OwnFunction]:
    spec = importlib.util.spec_from_file_location(f"rlreport_charts_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"--charts {file}: no Python file; name one that ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # as an import would: dataclasses look there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"--charts {file}: cannot be run: {_reason(error)}") from error
    found = [
        OwnFunction(name, file.name, lambda value=value: value)  # type: ignore[misc]
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if not found:
        raise UsageError(
            f"--charts {file}: has no function; write one that takes the tables and returns "
            "an altair chart"
        )
    return found


def _lent(tables: Tables) -> Tables:
    """The tables as a function may change them: pandas copies what is written to."""
    held = {field.name: getattr(tables, field.name) for field in fields(tables)}
    for name, value in held.items():
        if isinstance(value, pd.DataFrame):
            held[name] = value.copy(deep=False)
        elif isinstance(value, list | dict):
            held[name] = value.copy()
    return Tables(**held)


def _several(made: Any) -> list[Any]:
    import altair as alt  # slow to import, and seldom needed

    if isinstance(made, alt.TopLevelMixin):
        return [made]
    if not isinstance(made, Iterable) or isinstance(made, (str, dict)):
        raise TypeError(f"returned {type(made).__name__}, not an altair chart or several")
    several = list(made)
    if len(several) > MOST_CHARTS:
        raise ValueError(f"returned {len(several)} charts, at most {MOST_CHARTS} are drawn")
    return several


def _drawn(made: Any, function: OwnFunction, number: int) -> Chart:
    import altair as alt

    if not isinstance(made, alt.TopLevelMixin):
        raise TypeError(f"returned {type(made).__name__}, not an altair chart")
    spec = _housed(made.to_dict())
    words = function.name.replace("_", " ").capitalize()
    title = spec.pop("title", None)
    if isinstance(title, dict):
        title = title.get("text")
    doc = inspect.getdoc(function.load()) or ""
    said = spec.get("description") or doc.split("\n\n")[0].replace("\n", " ") or words
    chart = Chart(
        f"{function.name}_{number + 1}" if number else function.name,
        label(title if isinstance(title, str) else words, 80),
        label(str(said), 400),
        spec,
        {},
        group=GROUP,
    )
    return drawn_alone(chart)


def _housed(spec: dict[str, Any]) -> dict[str, Any]:
    """A specification in our look, whose data is inside it.

    Raises:
        ValueError: it asks for something from elsewhere, or is too large.
    """
    import orjson

    if size := _from_elsewhere(spec):
        raise ValueError(f"asks for {size}; a report makes no request: put the data inside")
    weight = len(orjson.dumps(spec))
    if weight > MOST_BYTES:
        raise ValueError(f"takes {weight:,} bytes, more than {MOST_BYTES:,}: aggregate its data")
    config = {**vega_config(), "mark": {"color": LIGHT["policy"]}}
    # Our designs place titles and labels by hand; here Vega makes room for them.
    config["axisX"] = {k: v for k, v in config["axisX"].items() if k.startswith(("grid", "domain"))}
    config["axisY"] = {}
    config["range"] = {"category": [colour for colour, _ in PALETTE]}
    for key, own in spec.get("config", {}).items():
        ours = config.get(key)
        config[key] = {**ours, **own} if isinstance(ours, dict) and isinstance(own, dict) else own
    sets = spec.get("datasets", {})
    if spec.get("data", {}).get("name") in sets and len(sets) == 1:
        spec["data"] = {"values": spec.pop("datasets")[spec["data"]["name"]]}
    if "mark" in spec or "layer" in spec:
        spec.setdefault("width", WIDTH["half"] - 2 * PADDING)
        spec.setdefault("height", HEIGHT["half"])
        spec["autosize"] = {"type": "fit", "contains": "padding"}
    sides = dict.fromkeys(("left", "right", "top", "bottom"), PADDING)
    return {**spec, "config": config, "padding": sides}


def _from_elsewhere(value: Any) -> str:
    """The first address or picture that a specification asks for, "" without any."""
    if isinstance(value, dict):
        if isinstance(value.get("url"), str):
            return str(value["url"])[:80]
        mark = value.get("mark")
        if mark == "image" or (isinstance(mark, dict) and mark.get("type") == "image"):
            return "a picture"
        inside: Iterable[Any] = (v for k, v in value.items() if k not in ("values", "datasets"))
    elif isinstance(value, list):
        inside = value
    else:
        return ""
    return next((found for part in inside if (found := _from_elsewhere(part))), "")


def _note(function: OwnFunction, error: BaseException, quote: bool) -> Note:
    reason = _reason(error) if quote else type(error).__name__
    text = message(
        "own chart not drawn: {name} of {file}: {reason}",
        name=function.name,
        file=function.place,
        reason=reason,
    )
    return Note("charts", text, 1)


def _reason(error: BaseException) -> str:
    text = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
    return label(text, _REASON_CHARS)
