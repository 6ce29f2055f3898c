"""Recognize runs that differ only in their seed, by name or configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rlreport.about.card import card_texts, configured, run_card
from rlreport.comparison.reports import REPORT, report_about, section
from rlreport.errors import RlreportError
from rlreport.read.files import is_url

SEEDS = "seeds"  # Name of a group whose runs are named by their seed alone
# Matches the seed in a name, such as ``_s1`` or ``seed_2``
_SEED = re.compile(r"(?:^|[-_. ])(?:seed[-_.= ]?|s)\d+(?=$|[-_. ])", re.IGNORECASE)
# Matches names of package versions, paths, ids and other settings that do not affect training
BOOKKEEPING = re.compile(
    r"version|commit|host|(^|[._])(dir|path|name|run|id|project|entity|port)$|_(dir|id)$|"
    r"(run|experiment)_name|wandb|logg|save|output|timestamp|device|num_workers|report_to|push_to"
)


def name_without_seed(name: str) -> str:
    """Return a name without its seed, SEEDS if nothing else is left, "" if it has no seed."""
    shared = _SEED.sub("", name).strip("-_. ")
    return "" if shared == name else shared or SEEDS


def settings_without_seed(settings: Mapping[str, object]) -> str:
    """Return settings without seeds and bookkeeping as a text, "" if there is no seed."""
    names = [key for key in settings if not BOOKKEEPING.search(key)]
    rest = [(key, str(settings[key])) for key in sorted(names) if "seed" not in key.lower()]
    return repr(rest) if len(rest) < len(names) else ""


def seeds_at(path: str | Path) -> list[str | Path]:
    """Return the runs in a folder if they differ only in their seed, else the path itself."""
    folder = Path(path)
    if is_url(str(path)) or not folder.is_dir() or (folder / REPORT).is_file():
        return [path]
    children = [child for child in sorted(folder.iterdir()) if not child.name.startswith(".")]
    runs = [child for child in children if child.is_dir() or child.suffix in (".html", ".zip")]
    groups = (
        name_without_seed(run.stem if run.is_file() else run.name)
        or settings_without_seed(_settings(run))
        for run in runs
    )
    first = next(groups, "")
    alike = first and all(group == first for group in groups)
    return [*runs] if alike and len(runs) > 1 else [path]


def _settings(run: Path) -> Mapping[str, object]:
    """Return a run's own configuration, not that of the folder that contains it."""
    try:
        if about := report_about(run):
            return card_texts(section(section(about, "card"), "entries"))
        return card_texts(run_card([], configs=configured(run)).entries)
    except RlreportError:  # for example an HTML file that is not a report
        return {}
