"""Groups of runs that differ in their seed alone, told by name or configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rlreport.about.card import card_texts, run_card
from rlreport.comparison.reports import REPORT, report_about, section
from rlreport.read.files import is_url

# Matches the seed in a name, such as ``_s1`` or ``seed_2``
_SEED = re.compile(r"(?:^|[-_. ])(?:seed[-_.= ]?|s)\d+(?=$|[-_. ])", re.IGNORECASE)
# Matches names of package versions, paths, ids and other settings that do not affect training
BOOKKEEPING = re.compile(
    r"version|commit|host|(^|[._])(dir|path|name|run|id|project|entity|port)$|_(dir|id)$|"
    r"(run|experiment)_name|wandb|logg|save|output|timestamp|device|num_workers|report_to|push_to"
)


def group_of(name: str, settings: Mapping[str, object]) -> str:
    """Return what the runs of a group share: their name, else their settings, without the seed.

    It is "" for a run whose name and settings contain no seed.
    """
    shared = _SEED.sub("", name).strip("-_. ")
    if shared != name:
        return shared or "seeds"
    names = [key for key in settings if not BOOKKEEPING.search(key)]
    rest = [(key, str(settings[key])) for key in sorted(names) if "seed" not in key.lower()]
    return repr(rest) if len(rest) < len(names) else ""


def seeds_at(path: str | Path) -> list[str | Path]:
    """Return the runs in a folder that differ in their seed alone; the path itself for others."""
    folder = Path(path)
    if is_url(str(path)) or not folder.is_dir() or (folder / REPORT).is_file():
        return [path]
    children = [child for child in sorted(folder.iterdir()) if not child.name.startswith(".")]
    runs = [child for child in children if child.is_dir() or child.suffix in (".html", ".zip")]
    groups = {group_of(run.stem if run.is_file() else run.name, _settings(run)) for run in runs}
    return [*runs] if len(runs) > 1 and len(groups) == 1 and "" not in groups else [path]


def _settings(run: Path) -> Mapping[str, object]:
    about = report_about(run)
    return card_texts(
        section(section(about, "card"), "entries") if about else run_card([run]).entries
    )
