"""Custom charts: the user's functions that take the tables and return Altair charts.

The functions are defined in files that the user names; files next to the logs are never run.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from rlreport.draw.chart import Chart, label, unique_names
from rlreport.draw.svg import drawn_alone
from rlreport.draw.theme import HEIGHT, LIGHT, PALETTE, WIDTH, Spec, vega_config
from rlreport.errors import UsageError, stop_if_signalled
from rlreport.tables import Note, NoteKind, Tables, length_column
from rlreport.text.messages import message

GROUP = message("Custom charts")
# Maximum size in bytes of a specification, which is embedded in the page
MOST_BYTES = 500_000
MOST_CHARTS = 12  # Maximum number of charts that one function may return
PADDING = 4
_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class ChartFunction:
    name: str
    file: str  # name of the file that defines the function
    call: Callable[..., Any]


def chart_functions(files: Sequence[Path]) -> list[ChartFunction]:
    """Run Python files and return their public functions; UsageError if a file has none."""
    functions = []
    for file in files:
        functions += _functions_of_file(file)
    return functions


def custom_charts(
    functions: Sequence[ChartFunction],
    tables: Tables,
    texts: Callable[[], pd.DataFrame],
    *,
    quote: bool = True,
) -> tuple[list[Chart], list[Note]]:
    """Return the charts that the functions draw, and a note on each function that failed.

    ``texts`` is called for the functions that take the texts. Without ``quote``, notes have only
    the kind of an error, as its message may contain what was logged.
    """
    charts: list[Chart] = []
    notes = []
    for function in functions:
        try:
            charts += _charts_of(function, tables, texts)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a failure of V8 itself is no Exception
            stop_if_signalled()
            text = message(
                "custom chart {name} ({file}) failed: {reason}",
                name=function.name,
                file=function.file,
                reason=_reason(error) if quote else type(error).__name__,
            )
            notes.append(Note(NoteKind.CHARTS, text, 1))
    # With the prefix no name is that of a built-in chart.
    names = unique_names([f"own_{chart.name}" for chart in charts])
    renamed = []
    for chart, name in zip(charts, names, strict=True):
        renamed.append(replace(chart, name=name))
    return renamed, notes


def _functions_of_file(file: Path) -> list[ChartFunction]:
    """Run a Python file; return its public functions, without those that it imports."""
    spec = importlib.util.spec_from_file_location(f"rlreport_charts_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(
            f"--charts {file}: is not an existing file whose name ends in .py"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # like an import; dataclasses need it
    try:
        # The loader would leave a folder ``__pycache__`` beside the user's file.
        exec(compile(file.read_bytes(), file, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        raise UsageError(f"--charts {file}: cannot be run: {_reason(error)}") from error
    functions = [
        ChartFunction(name, file.name, value)
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__  # not imported
        and not name.startswith("_")
    ]
    if not functions:
        raise UsageError(
            f"--charts {file}: defines no public function; define one that takes the tables and "
            "returns an Altair chart"
        )
    return functions


def _charts_of(
    function: ChartFunction, tables: Tables, texts: Callable[[], pd.DataFrame]
) -> list[Chart]:
    """Call a function of the user; return the charts (up to MOST_CHARTS) that it returns.

    ``texts`` reads the table of texts, for a function that has a parameter of that name.
    """
    arguments: dict[str, Any] = {}
    # Reading the texts takes long, so that only functions that have the parameter get them.
    if "texts" in inspect.signature(function.call).parameters:
        arguments["texts"] = texts()
    returned = function.call(_copy_of(tables), **arguments)
    is_several = isinstance(returned, list | tuple | Iterator)
    results = list(returned) if is_several else [returned]
    if len(results) > MOST_CHARTS:
        raise ValueError(
            f"returned {len(results)} charts; the maximum is {MOST_CHARTS}"
        )
    # What the charts are called unless they have a title and a description of their own
    title = function.name.replace("_", " ").capitalize()
    description = inspect.getdoc(function.call) or title
    summary = description.split("\n\n")[0].replace("\n", " ")
    charts = []
    for number, chart in enumerate(results, 1):
        name = function.name if number == 1 else f"{function.name}_{number}"
        charts.append(_to_chart(chart, name, title, summary))
    return charts


def _copy_of(tables: Tables) -> Tables:
    """Return a copy that the user's code may change.

    Its responses have a column ``length``: in tokens, or in characters if tokens are not logged.
    """
    copies = {}
    for field in fields(tables):
        copies[field.name] = copy(getattr(tables, field.name))
    lengths = tables.responses[length_column(tables.responses)]
    copies["responses"] = tables.responses.assign(length=lengths)
    return Tables(**copies)


def _to_chart(result: Any, name: str, title: str, summary: str) -> Chart:
    """Return an Altair chart as ours, drawn; raise an error that says why it cannot be shown.

    ``title`` and ``summary`` (the description) are for a chart without any of its own.
    """
    import altair as alt  # slow to import, and rarely needed

    if not isinstance(result, alt.TopLevelMixin):
        raise TypeError(f"returned {type(result).__name__}, not an Altair chart")
    spec = _apply_theme(result.to_dict())
    # The page shows the title above the chart, so that the drawing needs none.
    chart_title = spec.pop("title", None)
    if isinstance(chart_title, dict):
        chart_title = chart_title.get("text")
    heading = label(chart_title if isinstance(chart_title, str) else title, 80)
    description = label(str(spec.get("description") or summary), 400)
    chart = Chart(
        name=name,
        title=heading,
        description=description,
        spec=spec,
        vega={},  # compiled when it is drawn
        group=GROUP,
    )
    return drawn_alone(chart)


def _apply_theme(spec: Spec) -> Spec:
    """Return a specification with our colours and sizes wherever it has none of its own."""
    size = len(orjson.dumps(spec))
    if size > MOST_BYTES:
        raise ValueError(
            f"the specification has {size:,} bytes, more than the limit of "
            f"{MOST_BYTES:,}: aggregate its data"
        )
    config = _default_config()
    for key, value in spec.get("config", {}).items():
        default = config.get(key)
        if isinstance(default, dict) and isinstance(value, dict):
            config[key] = default | value
        else:
            config[key] = value
    # Altair puts the rows into ``datasets`` under a name; pages expect them in ``data``, where
    # other charts have them.
    datasets = spec.get("datasets", {})
    data = spec.get("data")
    if len(datasets) == 1 and isinstance(data, dict) and data.get("name") in datasets:
        spec["data"] = {"values": spec.pop("datasets")[data["name"]]}
    # Of composed charts (facets, concatenations) each part has its own size.
    if "mark" in spec or "layer" in spec:
        spec.setdefault("width", WIDTH["half"])
        spec.setdefault("height", HEIGHT["half"])
        spec["autosize"] = {"type": "fit", "contains": "padding"}
    padding = dict.fromkeys(("left", "right", "top", "bottom"), PADDING)
    return {**spec, "config": config, "padding": padding}


def _default_config() -> dict[str, Any]:
    """Return the Vega-Lite ``config`` of custom charts, which the user's own one overrides."""
    config = {**vega_config(), "mark": {"color": LIGHT["policy"]}}
    # Built-in designs fix the positions of titles and labels; here Vega computes the layout.
    config["axisX"] = {
        name: value
        for name, value in config["axisX"].items()
        if name.startswith(("grid", "domain"))
    }
    config["axisY"] = {}
    config["range"] = {"category": [colour for colour, _ in PALETTE]}
    return config


def _reason(error: BaseException) -> str:
    text = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
    return label(text, _REASON_CHARS)
