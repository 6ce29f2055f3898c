"""Earlier reports as sides of a comparison."""

from __future__ import annotations

import base64
import gzip
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlreport.about.card import card_texts, configured, run_card
from rlreport.check.verdict import SCHEMA
from rlreport.comparison.data_file import (
    MAX_CELLS,
    MAX_DATA,
    METRICS_FILE,
    PATH,
    UNREADABLE,
    unpacked,
)
from rlreport.errors import RlreportError, UnreadableReportError, UnusableInputError
from rlreport.formats.logged import dicts, mapping
from rlreport.read.listing import is_url
from rlreport.system.documents import (
    LimitError,
    load_csv,
    load_json,
    open_zip,
    read_bounded,
    read_stream,
)
from rlreport.text.clean import safe_text, unescape

REPORT = "data/report.json"

SEEDS = "seeds"  # Name of a group whose runs are named by their seed alone
# Matches the seed in a name, such as ``_s1`` or ``seed_2``
_SEED = re.compile(r"(?:^|[-_. ])(?:seed[-_.= ]?|s)\d+(?=$|[-_. ])", re.IGNORECASE)
# Matches names of package versions, paths, ids and other settings that do not affect training
BOOKKEEPING = re.compile(
    r"version|commit|host|(^|[._])(dir|path|name|run|id|project|entity|port)$|_(dir|id)$|"
    r"(run|experiment)_name|wandb|logg|save|output|timestamp|device|num_workers|report_to|push_to"
)


# Maximum decompressed size in bytes of ``report.json`` and each page of a report
MAX_PART = 64_000_000

TEXTS = "data/texts.js"  # Path of the script with the texts that the pages show
MAX_TOKEN_CELLS = (
    2_000_000  # Maximum number of table cells in ``data/tokens.csv``, read as texts
)
ResponseId = tuple[
    int, int
]  # (step, n) of a response, where n is its number in the step
# Reads a file of a report, given its path in the report folder; None if there is none
ReadPart = Callable[[str], bytes | None]

_NODE = r'<script type="application/[a-z-]+" class="{name}">'
_GENERATOR = b'<meta name="generator" content="rlreport '
# Exceptions raised if a value in a report has an unexpected type
_UNEXPECTED = (ArithmeticError, AttributeError, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier report: ``about`` is the parsed ``report.json``, ``read`` returns other files."""

    name: str
    about: Mapping[str, Any]
    responses: pd.DataFrame
    read: ReadPart

    def texts(self, wanted: Iterable[ResponseId]) -> dict[ResponseId, tuple[str, str]]:
        """Return id -> (prompt, response) of the wanted responses; those not shown are left out."""
        responses = set(wanted)
        texts_by_id = {}
        with suppress(*UNREADABLE, *_UNEXPECTED):
            packed = load_json(
                (self.read(TEXTS) or b"").partition(b"= ")[2].rstrip(b";\n")
            )
            for step in {str(step) for step, _ in responses} & packed.keys():
                with suppress(*UNREADABLE, *_UNEXPECTED):
                    texts_by_id.update(_texts_of_step(int(step), packed[step]))
                    texts_by_id = {
                        id: texts_by_id[id] for id in responses & texts_by_id.keys()
                    }
        return texts_by_id

    def metrics(self) -> pd.DataFrame:
        """Return the trainer's metrics by step; empty if they are missing or unreadable."""
        try:
            table = load_csv(self.read(METRICS_FILE) or b"", MAX_CELLS)
            numbers: pd.DataFrame = table.apply(pd.to_numeric, errors="coerce")
            return numbers.astype({"step": np.int64})
        except (*UNREADABLE, LookupError, TypeError):
            return pd.DataFrame()

    def tokens(self) -> pd.DataFrame | None:
        """Return ``token`` and ``kl_share``, None if they are missing, unreadable or redacted."""
        if section(self.about, "settings").get("redact"):
            return None
        try:
            content = self.read("data/tokens.csv") or b""
            table = load_csv(content, MAX_TOKEN_CELLS, dtype=str, keep_default_na=False)
            shares = pd.to_numeric(table["kl_share"], errors="coerce")
            return pd.DataFrame(
                {"token": table["token"].map(unescape), "kl_share": shares}
            )
        except (*UNREADABLE, LookupError):
            return None


def section(about: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the dict under a key of ``report.json``, {} if it is missing or not a dict."""
    return mapping(about.get(key))


def verdict_of(about: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    level, lead = (section(about, "verdict").get(key) for key in ("level", "lead"))
    leading = (
        f
        for f in dicts(about.get("findings"))
        if lead is not None and f.get("id") == lead
    )
    return level if isinstance(level, str) else "unjudged", next(leading, None)


def earlier_report(path: str | Path) -> Earlier | None:
    """Open an earlier report, or raise; return None if the path may contain logs instead."""
    with _readable_report(str(path)):
        report = _open(path)
        if report is None:
            return None
        about, read = report
        data = read(PATH)
    if data is None:
        raise UnusableInputError(
            f"{path}: the report has no {PATH}; build it again, or give logs"
        )
    return Earlier(str(path), about, unpacked(data, str(path)), read)


def report_about(path: str | Path) -> dict[str, Any] | None:
    """Return a report's parsed ``report.json``, or raise; None if the path may contain logs."""
    with _readable_report(str(path)):
        report = _open(path)
        return report and report[0]


@contextmanager
def _readable_report(name: str) -> Iterator[None]:
    """Convert exceptions raised while a broken report is read to UnreadableReportError."""
    try:
        yield
    except LimitError as error:
        raise UnreadableReportError(f"{name}: is a broken report: {error}") from None
    except PermissionError as error:
        raise UnreadableReportError(f"{name}: {error.strerror}") from None
    except UNREADABLE as error:
        raise UnreadableReportError(
            f"{name}: is a broken report; build it again"
        ) from error


def _open(path: str | Path) -> tuple[dict[str, Any], ReadPart] | None:
    read = _reader(Path(path))
    raw = read(REPORT) if read else None
    if read is None or raw is None:
        return None
    about: Any = load_json(raw)
    generator = section(about, "generator") if isinstance(about, dict) else {}
    if generator.get("name") != "rlreport":
        raise UnusableInputError(f"{path}: is not a report of rlreport")
    if (schema := about.get("schema")) != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        advice = "update rlreport" if newer else "build it again"
        raise UnreadableReportError(
            f"{path}: is a report of another version of rlreport ({generator.get('version')}), "
            f"with schema {schema} instead of {SCHEMA}; {advice}, or give its logs"
        )
    return about, read


def _reader(path: Path) -> ReadPart | None:
    if path.is_dir():
        page = path / "index.html"
        if not (path / REPORT).exists() and page.is_file():
            head = _head(page)
            if (
                _GENERATOR in head and TEXTS.encode() in head
            ):  # neither an index nor a comparison
                raise UnreadableReportError(
                    f"{path}: is a broken report without {REPORT}"
                )
        return lambda part: (
            read_bounded(path / part, _limit(part)) if (path / part).is_file() else None
        )
    if not path.is_file():
        return None
    if zipfile.is_zipfile(path):
        return partial(_read_from_zip, path)
    if path.suffix.lower() == ".zip" and _head(path).startswith(b"PK\x03\x04"):
        raise UnreadableReportError(
            f"{path}: is a broken .zip, cut off or damaged; build it again"
        )
    if path.suffix.lower() not in (".html", ".htm"):
        return None
    if _GENERATOR not in _head(path):
        raise UnusableInputError(f"{path}: is not a report of rlreport")
    text = read_bounded(path, MAX_DATA).decode("utf-8", "replace")
    names = {PATH: "responses-data", REPORT: "report-json", TEXTS: "texts-data"}
    nodes = {part: _node(text, name) for part, name in names.items()}
    if nodes[REPORT] is None and not text.rstrip().endswith("</html>"):
        raise UnreadableReportError(
            f"{path}: is a broken report, cut off; build it again"
        )
    return partial(_read_from_nodes, nodes)


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(4096)


def _texts_of_step(step: int, packed: str) -> dict[ResponseId, tuple[str, str]]:
    data = load_json(_unpacked(packed))
    prompts, responses = (
        map(safe_text, data["texts"][key]) for key in ("prompt", "response")
    )
    texts = zip(prompts, responses, strict=True)
    return {(step, int(n)): pair for n, pair in zip(data["n"], texts, strict=True)}


def _limit(part: str) -> int:
    return MAX_DATA if part in (PATH, TEXTS) else MAX_PART


def _read_from_zip(file: Path, part: str) -> bytes | None:
    with open_zip(file) as archive:
        if part not in archive.namelist():
            return None
        with archive.open(part) as stream:
            return read_stream(stream, _limit(part))


def _read_from_nodes(nodes: Mapping[str, str | None], part: str) -> bytes | None:
    if not (content := nodes.get(part)):
        return None
    if part == TEXTS:
        return f"= {content}".encode()
    return (
        base64.b64decode(content, validate=True) if part == PATH else _unpacked(content)
    )


def _unpacked(text: str) -> bytes:
    with gzip.open(io.BytesIO(base64.b64decode(text))) as stream:
        return read_stream(stream, MAX_PART)


def _node(text: str, name: str) -> str | None:
    """Return the content of the first ``script`` element with this class, None if there is none."""
    start = re.search(_NODE.format(name=name), text)
    end = text.find("</script>", start.end()) if start else -1
    return text[start.end() : end] if start and end >= 0 else None


def name_without_seed(name: str) -> str:
    """Return a name without its seed, SEEDS if nothing else is left, "" if it has no seed."""
    shared = _SEED.sub("", name).strip("-_. ")
    return "" if shared == name else shared or SEEDS


def settings_without_seed(settings: Mapping[str, object]) -> str:
    """Return settings without seeds and bookkeeping as a text, "" if there is no seed."""
    names = [key for key in settings if not BOOKKEEPING.search(key)]
    rest = [
        (key, str(settings[key])) for key in sorted(names) if "seed" not in key.lower()
    ]
    return repr(rest) if len(rest) < len(names) else ""


def seeds_at(path: str | Path) -> list[str | Path]:
    """Return the runs in a folder if they differ only in their seed, else the path itself."""
    folder = Path(path)
    if is_url(str(path)) or not folder.is_dir() or (folder / REPORT).is_file():
        return [path]
    children = [
        child for child in sorted(folder.iterdir()) if not child.name.startswith(".")
    ]
    runs = [
        child
        for child in children
        if child.is_dir() or child.suffix in (".html", ".zip")
    ]
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
