"""Earlier reports as sides of a comparison."""

from __future__ import annotations

import base64
import gzip
import io
import re
import zipfile
from collections import defaultdict
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
from rlreport.comparison.saved_tokens import SCRIPT, rollouts_of
from rlreport.errors import RlreportError, UnreadableReportError, UnusableInputError
from rlreport.formats.logged import dicts, mapping
from rlreport.read.listing import is_url
from rlreport.read.rollouts import Rollout
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
    r"version|commit|host|(^|[._])(do_)?(eval|test|val)(uation)?_(steps|strategy|freq\w*|interval|every)$|"
    r"(^|[._])(dir|path|name|run|id|project|entity|port)$|_(dir|id)$|"
    r"(run|experiment)_name|wandb|logg|save|output|timestamp|device|num_workers|report_to|push_to"
)


# Maximum decompressed size in bytes of ``report.json`` and each page of a report
MAX_PART = 64_000_000

TEXTS = "data/texts.js"  # Path of the script with the texts that the pages show
# Maximum number of table cells in ``data/tokens.csv``, read as texts
MAX_TOKEN_CELLS = 2_000_000
# (step, n) of a response, where n is its number in the step
ResponseId = tuple[int, int]
# Reads a file of a report, given its path in the report folder; None if there is none
ReadPart = Callable[[str], bytes | None]

_NODE = r'<script type="application/[a-z-]+" class="{name}">'
_TOKENS_NODE = re.compile(
    rb'<script type="application/octet-stream" class="tokens-data" data-step="(-?[0-9]+)">'
)
_GENERATOR = b'<meta name="generator" content="rlreport '
# Exceptions raised if a value in a report has an unexpected type
_UNEXPECTED = (ArithmeticError, AttributeError, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class EarlierReport:
    """An earlier report: ``about`` is the parsed ``report.json``, ``read`` returns other files."""

    name: str
    about: Mapping[str, Any]
    responses: pd.DataFrame
    read: ReadPart

    def texts(self, wanted: Iterable[ResponseId]) -> dict[ResponseId, tuple[str, str]]:
        """Return id -> (prompt, response) of the wanted responses; those not shown are left out."""
        ids = set(wanted)
        texts_by_id = {}
        with suppress(*UNREADABLE, *_UNEXPECTED):
            # The script assigns the texts of each step, compressed, to a variable: "… = {…};".
            script = self.read(TEXTS) or b""
            packed_by_step = load_json(script.partition(b"= ")[2].rstrip(b";\n"))
            for step in {str(step) for step, _ in ids} & packed_by_step.keys():
                # A broken step does not hide the texts of the others.
                with suppress(*UNREADABLE, *_UNEXPECTED):
                    texts = _texts_of_step(int(step), packed_by_step[step])
                    for id in ids & texts.keys():
                        texts_by_id[id] = texts[id]
        return texts_by_id

    def rollouts(
        self, wanted: Iterable[ResponseId], longest: int
    ) -> dict[ResponseId, Rollout]:
        """Return id -> tokens of the wanted responses, without those that the report leaves out.

        ``longest`` is the maximum number of tokens of a response. A redacted report has none.
        """
        if section(self.about, "settings").get("redact"):
            return {}
        by_step: defaultdict[int, set[int]] = defaultdict(set)
        for step, n in wanted:
            by_step[step].add(n)
        rollouts = {}
        for step, numbers in sorted(by_step.items()):
            # A broken file costs the tokens of its step only.
            with suppress(*UNREADABLE, *_UNEXPECTED):
                script = self.read(SCRIPT.format(step=step)) or b""
                # The script assigns base64 to an entry of an object: ``… = "…";``.
                packed = script.rpartition(b'= "')[2].rstrip(b'";\n')
                if packed:
                    content = _decoded(packed.decode("ascii"))
                    for n, rollout in rollouts_of(
                        content, step, numbers, longest
                    ).items():
                        rollouts[(step, n)] = rollout
        return rollouts

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
            tokens = table["token"].map(unescape)
            shares = pd.to_numeric(table["kl_share"], errors="coerce")
            return pd.DataFrame({"token": tokens, "kl_share": shares})
        except (*UNREADABLE, LookupError):
            return None


def section(about: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the dict under a key of ``report.json``, {} if it is missing or not a dict."""
    return mapping(about.get(key))


def verdict_of(about: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    """Return the verdict's level and its main finding in ``report.json``, None without one."""
    verdict = section(about, "verdict")
    level = verdict.get("level")
    if not isinstance(level, str):
        level = "unjudged"
    lead_id = verdict.get("lead")
    if lead_id is not None:
        for finding in dicts(about.get("findings")):
            if finding.get("id") == lead_id:
                return level, finding
    return level, None


def earlier_report(path: str | Path) -> EarlierReport | None:
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
    return EarlierReport(str(path), about, unpacked(data, str(path)), read)


def report_about(path: str | Path) -> dict[str, Any] | None:
    """Return a report's parsed ``report.json``, or raise; None if the path may contain logs."""
    with _readable_report(str(path)):
        report = _open(path)
    if report is None:
        return None
    about, _ = report
    return about


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
    """Return a report's parsed ``report.json`` and a reader of its files; None if it is no report.

    Raises:
        UnusableInputError: a ``report.json`` or a page that rlreport did not write.
        UnreadableReportError: a report of another version of rlreport.
    """
    read = _reader(Path(path))
    content = read(REPORT) if read else None
    if read is None or content is None:
        return None
    about: Any = load_json(content)
    generator = section(about, "generator") if isinstance(about, dict) else {}
    if generator.get("name") != "rlreport":
        raise UnusableInputError(f"{path}: is not a report of rlreport")
    schema = about.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        advice = "update rlreport" if newer else "build it again"
        raise UnreadableReportError(
            f"{path}: is a report of another version of rlreport ({generator.get('version')}), "
            f"with schema {schema} instead of {SCHEMA}; {advice}, or give its logs"
        )
    return about, read


def _reader(path: Path) -> ReadPart | None:
    """Return a reader of the report's files, None if there is no report; raise if it is broken.

    A report is a folder, a .zip or one HTML file.
    """
    if path.is_dir():
        _check_folder(path)
        return partial(_read_from_folder, path)
    if not path.is_file():
        return None
    if zipfile.is_zipfile(path):
        return partial(_read_from_zip, path)
    suffix = path.suffix.lower()
    # ``is_zipfile`` looks for the directory at the end of a zip, which a cut one lacks.
    if suffix == ".zip" and _head(path).startswith(b"PK\x03\x04"):
        raise UnreadableReportError(
            f"{path}: is a broken .zip, cut off or damaged; build it again"
        )
    if suffix not in (".html", ".htm"):
        return None
    if _GENERATOR not in _head(path):
        raise UnusableInputError(f"{path}: is not a report of rlreport")
    content = read_bounded(path, MAX_DATA)
    text = content.decode("utf-8", "replace")
    # The file contains the files of a report as the texts of script elements.
    nodes = {
        PATH: _node(text, "responses-data"),
        REPORT: _node(text, "report-json"),
        TEXTS: _node(text, "texts-data"),
    }
    if nodes[REPORT] is None and not text.rstrip().endswith("</html>"):
        raise UnreadableReportError(
            f"{path}: is a broken report, cut off; build it again"
        )
    # Those of tokens stay in the file, as they may be large and few are read.
    return partial(_read_from_nodes, nodes, path, _places_of_tokens(content))


def _places_of_tokens(content: bytes) -> dict[str, tuple[int, int]]:
    """Return path in a folder -> start and end of the tokens of a step in a one-file report."""
    places = {}
    for opening in _TOKENS_NODE.finditer(content):
        end = content.find(b"</script>", opening.end())
        if end >= 0:
            part = SCRIPT.format(step=opening[1].decode("ascii"))
            places[part] = (opening.end(), end)
    return places


def _check_folder(path: Path) -> None:
    """Raise if a folder has the page of a report, but not its data."""
    page = path / "index.html"
    if (path / REPORT).exists() or not page.is_file():
        return
    head = _head(page)
    # The page of a report loads its texts; those of an index or a comparison have none.
    if _GENERATOR in head and TEXTS.encode() in head:
        raise UnreadableReportError(f"{path}: is a broken report without {REPORT}")


def _head(path: Path) -> bytes:
    """Return the start of a file, in which a page of rlreport names its generator."""
    with path.open("rb") as stream:
        return stream.read(4096)


def _texts_of_step(step: int, packed: str) -> dict[ResponseId, tuple[str, str]]:
    """Return id -> (prompt, response) of the responses whose texts the page of a step shows."""
    data = load_json(_decoded(packed))
    prompts = map(safe_text, data["texts"]["prompt"])
    responses = map(safe_text, data["texts"]["response"])
    texts = {}
    for n, prompt, response in zip(data["n"], prompts, responses, strict=True):
        texts[(step, int(n))] = (prompt, response)
    return texts


def _limit(part: str) -> int:
    return MAX_DATA if part in (PATH, TEXTS) else MAX_PART


def _read_from_folder(folder: Path, part: str) -> bytes | None:
    path = folder / part
    return read_bounded(path, _limit(part)) if path.is_file() else None


def _read_from_zip(file: Path, part: str) -> bytes | None:
    with open_zip(file) as archive:
        if part not in archive.namelist():
            return None
        with archive.open(part) as stream:
            return read_stream(stream, _limit(part))


def _read_from_nodes(
    nodes: Mapping[str, str | None],
    path: Path,
    tokens: Mapping[str, tuple[int, int]],
    part: str,
) -> bytes | None:
    """Return a file of a report that is one HTML file, at ``path``.

    ``nodes``: path in the report -> text of its ``script`` element, None if there is none.
    ``tokens``: path in the report -> where its tokens start and end in the file.
    """
    if part in tokens:
        start, end = tokens[part]
        with path.open("rb") as stream:
            stream.seek(start)
            return b'= "%s";' % stream.read(end - start)  # as in the script of a folder
    content = nodes.get(part)
    if not content:
        return None
    if part == TEXTS:
        return f"= {content}".encode()  # as in the script of a folder
    if part == PATH:
        return base64.b64decode(content, validate=True)
    return _decoded(content)


def _decoded(text: str) -> bytes:
    """Return the data that a page contains as gzip in base64."""
    with gzip.open(io.BytesIO(base64.b64decode(text))) as stream:
        return read_stream(stream, MAX_PART)


def _node(text: str, name: str) -> str | None:
    """Return the content of the first ``script`` element with this class, None if there is none."""
    opening = re.search(_NODE.format(name=name), text)
    if opening is None:
        return None
    start = opening.end()
    end = text.find("</script>", start)
    return text[start:end] if end >= 0 else None


def name_without_seed(name: str) -> str:
    """Return a name without its seed, SEEDS if nothing else is left, "" if it has no seed."""
    shared = _SEED.sub("", name).strip("-_. ")
    if shared == name:
        return ""
    return shared or SEEDS


def settings_without_seed(settings: Mapping[str, object]) -> str:
    """Return settings without seeds and bookkeeping as a text, "" if there is no seed."""
    names = sorted(key for key in settings if not BOOKKEEPING.search(key))
    others = [key for key in names if "seed" not in key.lower()]
    if len(others) == len(names):
        return ""
    return repr([(key, str(settings[key])) for key in others])


def seeds_at(path: str | Path) -> list[str | Path]:
    """Return the runs in a folder if they differ only in their seed, else the path itself."""
    folder = Path(path)
    if is_url(str(path)) or not folder.is_dir():
        return [path]
    if (folder / REPORT).is_file():  # the report of one run
        return [path]
    runs = [child for child in sorted(folder.iterdir()) if _may_be_run(child)]
    if len(runs) < 2:
        return [path]
    group = _group_of(runs[0])  # "" if it has no seed
    if group and all(_group_of(run) == group for run in runs[1:]):
        return [*runs]
    return [path]


def _may_be_run(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    return path.is_dir() or path.suffix in (".html", ".zip")


def _group_of(run: Path) -> str:
    """Return what runs that differ only in their seed have in common, "" if it has no seed."""
    name = name_without_seed(run.stem if run.is_file() else run.name)
    return name or settings_without_seed(_settings(run))


def _settings(run: Path) -> Mapping[str, object]:
    """Return a run's own configuration, not that of the folder that contains it."""
    try:
        about = report_about(run)
        if about:
            return card_texts(section(section(about, "card"), "entries"))
        return card_texts(run_card([], configs=configured(run)).entries)
    except RlreportError:  # for example an HTML file that is not a report
        return {}
