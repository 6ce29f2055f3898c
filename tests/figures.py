"""Exported figures of the sample runs, one comparison and one index, kept as test data.

``python -m tests.figures`` writes them anew, after figures changed on purpose; say in the commit
which ones and why. Texts for readers, versions and sizes of files are left out.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

import rlreport
from tests.conftest import unpack_runs

KEPT = Path(__file__).parent / "data" / "figures"
RUNS = ("ppo_healthy", "ppo_reward_hacking")
TABLES = ("steps", "prompts", "tokens")
_LEFT_OUT = {
    *("sentence", "title", "why", "try", "needs", "source", "reasons"),
    *("generator", "versions", "built", "bytes"),
    *("steps", "verdict", "findings", "not_run", "passed", "muted"),
}
"""Fields of report.json that are texts, change with the machine, or stand in other files."""

_TEXTS = {"sentence", "title", "why", "try", "needs", "source", "reasons", "generator"}


def without(value: Any, names: set[str]) -> Any:
    """Return a JSON value without the fields of these names."""
    if isinstance(value, dict):
        return {key: without(one, names) for key, one in value.items() if key not in names}
    return [without(one, names) for one in value] if isinstance(value, list) else value


def report_figures(report: Path) -> dict[str, Any]:
    """Return tables and JSON values of a report folder by file name."""
    data = report / "data"
    found: dict[str, Any] = {name: pd.read_csv(data / f"{name}.csv") for name in TABLES}
    found["findings"] = without(json.loads((data / "findings.json").read_text()), _TEXTS)
    found["report"] = without(json.loads((data / "report.json").read_text()), _LEFT_OUT)
    return found


def comparison_figures(logs: Path, folder: Path) -> dict[str, Any]:
    """Compare the sample runs in ``logs``; return the JSON value of the comparison."""
    rlreport.compare(logs / RUNS[0], logs / RUNS[1], folder)
    return {"compare": without(json.loads((folder / "data" / "compare.json").read_text()), _TEXTS)}


def index_figures(reports: list[Path], page: Path) -> dict[str, Any]:
    """List reports on a page; return verdict, figures and curve of each row."""
    rlreport.index(reports, page)
    rows = re.findall(r"<tr data-n.*?</tr>", page.read_text("utf-8"), re.DOTALL)
    return {
        "index": [
            {
                "verdict": re.findall(r'data-key="verdict">.*?(\w+)</div>', row),
                "figures": [float(number) for number in re.findall(r'title="([-\d.e]+)"', row)],
                "curve": re.findall(r' d="(.*?)"', row),
            }
            for row in rows
        ]
    }


def write(found: dict[str, Any], folder: Path) -> None:
    """Write figures with 12 digits, those of tokens with 9."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in found.items():
        if isinstance(value, pd.DataFrame):
            digits, kind = "%.9g" if name == "tokens" else "%.12g", "csv"
            text = value.to_csv(index=False, float_format=digits, quoting=csv.QUOTE_NONNUMERIC)
        else:
            text, kind = json.dumps(value, indent=1, ensure_ascii=False), "json"
        (folder / f"{name}.{kind}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def read(folder: Path) -> dict[str, Any]:
    """Return what ``write`` wrote to a folder."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.gz")):
        name, _, kind = path.stem.partition(".")
        found[name] = (
            pd.read_csv(path) if kind == "csv" else json.loads(gzip.decompress(path.read_bytes()))
        )
    return found


def main() -> None:
    """Build everything and write its figures."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        (root / "logs").mkdir()
        unpack_runs(root / "logs")
        reports = [root / "reports" / run / "report" for run in RUNS]
        for run, report in zip(RUNS, reports, strict=True):
            rlreport.build(root / "logs" / run, report, workers=1)
            write(report_figures(report), KEPT / run)
        write(comparison_figures(root / "logs", root / "compare"), KEPT)
        write(index_figures(reports, root / "index.html"), KEPT)


if __name__ == "__main__":
    main()
