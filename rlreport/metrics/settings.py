"""The configuration of a run as trackers keep it: W&B, Trackio and MLflow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.about.card import MOST_ENTRIES
from rlreport.errors import RlreportError
from rlreport.formats.containers import is_plain_table, open_database
from rlreport.formats.logged import json_object, mapping
from rlreport.metrics.lines import SEARCHED_LEVELS
from rlreport.metrics.wandb_file import wandb_run, wandb_settings
from rlreport.system.documents import load_config, load_json, read_bounded
from rlreport.system.own_output import walk_without_reports

_MAX_PARAM = 10_000  # bytes of a file of MLflow
# Texts that Python's constants are logged as
_CONSTANTS = {"True": True, "False": False, "None": None}


class TrackedSettings(NamedTuple):
    """The configuration of a run in a tracker's files."""

    source: str  # name of the file or folder
    run: str
    settings: Mapping[str, Any]
    # files and folders that hold nothing else
    paths: tuple[Path, ...] = ()


def find_tracked(logs: Sequence[str | Path]) -> list[TrackedSettings]:
    """Return the configurations that trackers have of runs, in files and in folders of logs."""
    found: list[TrackedSettings] = []
    for log in logs:
        if "://" not in str(log):  # only local folders are searched
            found += _found_at(Path(log))
    return found


def of_run(found: Sequence[TrackedSettings], run: str = "") -> TrackedSettings | None:
    """Return the configuration of a run, by its name if that is given; None without one.

    Without a name, configurations of several runs are of none. A run may be in several trackers.
    """
    by_tracker: dict[str, list[TrackedSettings]] = {}
    for one in found:
        if run in ("", one.run) and one.settings:
            by_tracker.setdefault(Path(one.source).suffix, []).append(one)
    if any(len(several) > 1 for several in by_tracker.values()):
        return None
    each = [several[0] for several in by_tracker.values()]
    return max(each, key=lambda one: len(one.settings), default=None)


def _found_at(path: Path) -> Iterator[TrackedSettings]:
    """Yield the configurations in a file, or in the files of a folder."""
    if path.is_file():
        yield from _in_file(path)
        return
    for here, folders, names in walk_without_reports(path, SEARCHED_LEVELS):
        if "meta.yaml" in names and "params" in folders:
            yield from _of_mlflow(here)
        for name in sorted(names):
            yield from _in_file(here / name)


def _in_file(path: Path) -> Iterator[TrackedSettings]:
    """Yield the configurations in a file, none if it has another name than a tracker's."""
    try:
        if path.suffix == ".wandb" and path.name.startswith("run-"):
            config = path.parent / "files" / "config.yaml"
            yield TrackedSettings(
                path.name, wandb_run(path), _of_wandb(path, config), (config,)
            )
        elif path.suffix == ".db" and path.is_file():
            yield from _of_trackio(path)
    except (OSError, ValueError, sqlite3.Error, RlreportError):
        return  # it is reported where its metrics are read


def _of_wandb(path: Path, config: Path) -> Mapping[str, Any]:
    """Return the configuration of a run of W&B: of its file, else of ``files/config.yaml``."""
    settings = wandb_settings(path)
    if not settings:
        document = mapping(load_config(config)) if config.is_file() else {}
        for name, entry in document.items():
            if isinstance(entry, dict) and "value" in entry:
                settings[name] = entry["value"]
    settings.pop("_wandb", None)  # W&B's own bookkeeping
    return settings


def _of_trackio(path: Path) -> Iterator[TrackedSettings]:
    with closing(open_database(path)) as database:
        if not is_plain_table(database, "configs"):
            return
        rows = database.execute(
            "SELECT run_name, config FROM configs ORDER BY run_name LIMIT 100"
        )
        for name, config in rows:
            settings = json_object(config)
            # Trackio's own entries
            own = [key for key in settings if key.startswith("_")]
            for key in own:
                del settings[key]
            yield TrackedSettings(path.name, str(name), settings)


def _of_mlflow(folder: Path) -> Iterator[TrackedSettings]:
    """Yield the parameters of a run of MLflow, a file each."""
    settings: dict[str, Any] = {}
    files = sorted(path for path in (folder / "params").rglob("*") if path.is_file())
    for path in files[:MOST_ENTRIES]:
        try:
            text = read_bounded(path, _MAX_PARAM).decode("utf-8", "replace").strip()
        except (OSError, RlreportError):
            continue
        name = path.relative_to(folder / "params").as_posix()
        settings[name] = _CONSTANTS.get(text, _number_or_text(text))
    if settings:
        own = tuple(folder / name for name in ("meta.yaml", "params", "tags"))
        yield TrackedSettings("params", folder.name, settings, own)


def _number_or_text(text: str) -> Any:
    try:
        value = load_json(text.encode())
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text
