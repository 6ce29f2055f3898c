"""Response data for comparisons: write and parse its file format, and read earlier reports.

Reports are untrusted, like logs: their content is checked, and only the parts that a comparison
needs are decompressed. Those that differ only in the seed are found by name or configuration.
"""

from __future__ import annotations

import base64
import gzip
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd
from pandas.api.types import is_numeric_dtype

from rlreport.about.card import card_texts, configured, run_card
from rlreport.check.finding import SCHEMA
from rlreport.check.run import has
from rlreport.columns import RESPONSE_COLUMNS
from rlreport.errors import RlreportError, UnreadableReportError, UnusableInputError
from rlreport.figures.ragged import Ints
from rlreport.figures.tokens import is_cut_off
from rlreport.formats.logged import dicts, mapping
from rlreport.metrics.roles import in_unit_of, roles_of
from rlreport.read.files import is_url
from rlreport.summarise.steps import passes_of
from rlreport.system.documents import (
    LimitError,
    load_csv,
    load_json,
    open_zip,
    read_bounded,
    read_stream,
)
from rlreport.system.gzipped import gzipped
from rlreport.tables import Tables
from rlreport.text.clean import escape, safe_text, unescape, without_controls

REPORT = "data/report.json"
# Paths in a report's folder or zip: the run's metadata and figures, and the response data
PATH = "data/responses.csv.gz"

PART = "part:"  # Prefix of the columns and guardrail ids of reward parts (components of the reward)
EXTRA = "extra:"  # Prefix of the columns of logged fields that are not reward parts
# Rows per gzip member; to save space, members with the first steps are dropped as a whole
ROWS_TOGETHER = 10_000

COMPRESSION = 4  # Level of gzip; level 6 takes three times as long and saves only 5%
# Maximum size in bytes of the response data, compressed or not, and of a one-file report
MAX_DATA = 500_000_000
MAX_CELLS = 50_000_000  # Maximum number of cells of each of a report's tables
_LISTED = [c.name for c in RESPONSE_COLUMNS if c.dtype == "float64" and c.listed]
_FIGURES = dict.fromkeys([*_LISTED, "response_chars", "mismatch_k3"])
# Value of ``split`` in rows with the trainer's means of a step, not figures of one response
METRICS = "metrics"

_TRAINER_FIGURES = ("reward", "kl_k1", "response_tokens")
TRAINER = "trainer:"  # Prefix of the columns of the trainer's metrics, before their role
METRICS_FILE = "data/metrics.csv"  # Path of the exported trainer metrics
_NUMBERS = ("step", "n", "prompt_id")
_HASHES = ("prompt", "group_hash")

SEEDS = "seeds"  # Name of a group whose runs are named by their seed alone
# Matches the seed in a name, such as ``_s1`` or ``seed_2``
_SEED = re.compile(r"(?:^|[-_. ])(?:seed[-_.= ]?|s)\d+(?=$|[-_. ])", re.IGNORECASE)
# Matches names of package versions, paths, ids and other settings that do not affect training
BOOKKEEPING = re.compile(
    r"version|commit|host|(^|[._])(dir|path|name|run|id|project|entity|port)$|_(dir|id)$|"
    r"(run|experiment)_name|wandb|logg|save|output|timestamp|device|num_workers|report_to|push_to"
)


def response_data(tables: Tables, *, redact: bool = False) -> pd.DataFrame:
    """Return a row per response with figures and prompt ids; without any, see ``trainer_data``.

    Texts have no control characters, whether the table is packed or not, so that a run and its
    report have the same ids.
    """
    if tables.responses.empty:
        return trainer_data(tables.steps)
    responses = tables.responses
    extras = tables.extras
    columns: dict[str, object] = {
        "step": responses["step"],
        "n": responses["n"],
        "split": "train",
        "prompt_id": responses["prompt_id"],
        "group": responses["group"],
    }
    if not redact:  # a hash would confirm a guessed prompt
        columns["prompt"] = responses["prompt_hash"]
        if responses["group_hash"].any():
            columns["group_hash"] = responses["group_hash"]
    columns |= {name: responses[name].to_numpy(np.float64) for name in _FIGURES}
    columns["cut_off"] = is_cut_off(*(responses[n].to_numpy() for n in ("finished", "ending")))
    columns["duplicate"] = responses.duplicated(["step", "response_hash"], keep=False).astype(float)
    rewards = responses.groupby("group", sort=False)["reward"]
    spread = rewards.transform("max") - rewards.transform("min")
    alike = (spread < 1e-6).astype(np.float64)
    columns["zero_variance"] = alike.where(rewards.transform("count") > 1)
    splits = [split for _, split in responses.groupby("validation")]  # k may differ
    passes = pd.concat([pd.Series(passes_of(split).at_k, split.index) for split in splits])
    of_groups = passes.sort_index().groupby(responses["group"]).transform("first")
    columns["pass_at_k"] = of_groups.where(responses["correct"].notna())
    for name in extras.columns:
        values = extras[name]
        key = without_controls(f"{PART if name in tables.reward_parts else EXTRA}{name}")
        if is_numeric_dtype(values):
            columns[key] = values.to_numpy(np.float64)
        elif name == "split":
            columns["split"] = values.fillna("train").map(without_controls)
        elif not redact:
            named = values.where(values != "")  # an empty string identifies nothing
            columns[key] = named.map(without_controls, na_action="ignore")
    table = pd.DataFrame(columns, copy=False)
    empty = [name for name in table if name != "reward" and table[name].isna().all()]
    return table.drop(columns=empty)


def trainer_data(steps: pd.DataFrame) -> pd.DataFrame:
    """Return a table of one row per step with the trainer's means, for a run without responses.

    ``split`` is METRICS. ``prompt_id`` is the number of a block of adjacent steps, as these are
    correlated like responses to one prompt. With S steps in the last fifth of the run, a block has
    about √S steps.
    """
    block = _blocks(len(steps))
    ids = {"step": steps["step"], "n": 0, "split": METRICS, "prompt_id": block, "group": block}
    names = [name for name in _TRAINER_FIGURES if name == "reward" or has(steps, f"{name}_mean")]
    return pd.DataFrame(ids | {name: steps[f"{name}_mean"] for name in names})


def _blocks(steps: int) -> Ints:
    size = max(1, min(round((steps / 5) ** 0.5), steps // 15))
    return np.repeat(np.arange(steps, dtype=np.int64), size)[:steps]


def trainer_rows(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the trainer's metrics by step, in columns by role; ``pair`` is a block of steps."""
    if "step" not in metrics:
        return pd.DataFrame({"step": [], "pair": []})
    roles = roles_of(map(str, metrics.columns[1:]))
    columns = {
        f"{TRAINER}{role}": in_unit_of(role, name, metrics[name].to_numpy(np.float64))
        for role, name in roles.items()
    }
    return pd.DataFrame({"step": metrics["step"], "pair": _blocks(len(metrics)), **columns})


def pack_table(table: pd.DataFrame, most: int) -> tuple[bytes, int]:
    """Return at most ``most`` bytes of gzipped CSV with the last rows, and how many these are."""
    names = ",".join(_quoted(str(name)) for name in table)
    head = gzipped(f"{names}\n".encode(), 9)
    parts: list[bytes] = []
    rows = 0
    size = len(head)
    for stop in range(len(table), 0, -ROWS_TOGETHER):
        block = table.iloc[max(0, stop - ROWS_TOGETHER) : stop]
        columns = [_cells(str(name), block[name]) for name in block]
        lines = b"".join(b",".join(row) + b"\n" for row in zip(*columns, strict=True))
        part = gzipped(lines, COMPRESSION)
        if size + len(part) > most:
            break
        parts.append(part)
        rows, size = rows + len(block), size + len(part)
    return head + b"".join(reversed(parts)), rows


def _cells(name: str, values: pd.Series) -> list[bytes]:
    if name in _HASHES:
        return [b"%016x" % value for value in values.tolist()]
    if not is_numeric_dtype(values):
        numbers, distinct = pd.factorize(values.map(str, na_action="ignore"))  # -1 is missing
        texts = [*(_quoted(escape(text)).encode() for text in distinct), b""]
        return [texts[number] for number in numbers.tolist()]
    array = values.to_numpy()
    if array.dtype.kind == "f":
        array = np.where(np.isfinite(array), array, np.nan)
    encoded = orjson.dumps(np.ascontiguousarray(array), option=orjson.OPT_SERIALIZE_NUMPY)
    return encoded[1:-1].replace(b"null", b"").split(b",")


def _quoted(text: str) -> str:
    return '"' + safe_text(text).replace('"', '""') + '"'


def unpacked(data: bytes, name: str) -> pd.DataFrame:
    """Parse response data that ``pack_table`` wrote; raise UnusableInputError if it is broken."""
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            text = read_stream(stream, MAX_DATA)
        with warnings.catch_warnings():
            # Pandas from 3.1 on warns that float_precision is not needed; every version warns if
            # only some ids of a column look like numbers.
            warnings.simplefilter("ignore")
            table = load_csv(
                text,
                MAX_CELLS,
                dtype={"split": str, **dict.fromkeys(_HASHES, str)},
                keep_default_na=False,
                na_values=[""],
                float_precision="round_trip",
            )
        if not {*_NUMBERS, "split", "reward"} <= set(table) or table.empty:
            raise ValueError("no responses")
        table = table.astype(dict.fromkeys(_NUMBERS, np.int64))
        for column in set(map(str, table)) - set(_NUMBERS):
            values = table[column]
            is_text = column.startswith((EXTRA, PART)) and not is_numeric_dtype(values)
            if column in _HASHES:
                table[column] = np.array([int(text, 16) for text in values], np.uint64)
            elif column == "split" or is_text:
                table[column] = values.map(
                    lambda cell: unescape(cell) if isinstance(cell, str) else cell
                )
            else:
                table[column] = values.astype(np.float64)
    except LimitError as error:
        raise UnusableInputError(f"{name}: its {PATH} is broken: {error}") from None
    except (*_UNREADABLE, TypeError, OverflowError, MemoryError) as error:
        raise UnusableInputError(f"{name}: its {PATH} is broken; build the report again") from error
    table["split"] = table["split"].fillna("train")
    return table.sort_values(["step", "n"], kind="stable", ignore_index=True)


# Maximum decompressed size in bytes of ``report.json`` and each page of a report
MAX_PART = 64_000_000

TEXTS = "data/texts.js"  # Path of the script with the texts that the pages show
MAX_TOKEN_CELLS = 2_000_000  # Maximum number of table cells in ``data/tokens.csv``, read as texts
ResponseId = tuple[int, int]  # (step, n) of a response, where n is its number in the step
# Reads a file of a report, given its path in the report folder; None if there is none
ReadPart = Callable[[str], bytes | None]

_NODE = r'<script type="application/[a-z-]+" class="{name}">'
_GENERATOR = b'<meta name="generator" content="rlreport '

_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, RuntimeError)
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
        with suppress(*_UNREADABLE, *_UNEXPECTED):
            packed = load_json((self.read(TEXTS) or b"").partition(b"= ")[2].rstrip(b";\n"))
            for step in {str(step) for step, _ in responses} & packed.keys():
                with suppress(*_UNREADABLE, *_UNEXPECTED):
                    texts_by_id.update(_texts_of_step(int(step), packed[step]))
                    texts_by_id = {id: texts_by_id[id] for id in responses & texts_by_id.keys()}
        return texts_by_id

    def metrics(self) -> pd.DataFrame:
        """Return the trainer's metrics by step; empty if they are missing or unreadable."""
        try:
            table = load_csv(self.read(METRICS_FILE) or b"", MAX_CELLS)
            numbers: pd.DataFrame = table.apply(pd.to_numeric, errors="coerce")
            return numbers.astype({"step": np.int64})
        except (*_UNREADABLE, LookupError, TypeError):
            return pd.DataFrame()

    def tokens(self) -> pd.DataFrame | None:
        """Return ``token`` and ``kl_share``, None if they are missing, unreadable or redacted."""
        if section(self.about, "settings").get("redact"):
            return None
        try:
            content = self.read("data/tokens.csv") or b""
            table = load_csv(content, MAX_TOKEN_CELLS, dtype=str, keep_default_na=False)
            shares = pd.to_numeric(table["kl_share"], errors="coerce")
            return pd.DataFrame({"token": table["token"].map(unescape), "kl_share": shares})
        except (*_UNREADABLE, LookupError):
            return None


def section(about: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the dict under a key of ``report.json``, {} if it is missing or not a dict."""
    return mapping(about.get(key))


def verdict_of(about: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    level, lead = (section(about, "verdict").get(key) for key in ("level", "lead"))
    leading = (f for f in dicts(about.get("findings")) if lead is not None and f.get("id") == lead)
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
        raise UnusableInputError(f"{path}: the report has no {PATH}; build it again, or give logs")
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
    except _UNREADABLE as error:
        raise UnreadableReportError(f"{name}: is a broken report; build it again") from error


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
            if _GENERATOR in head and TEXTS.encode() in head:  # neither an index nor a comparison
                raise UnreadableReportError(f"{path}: is a broken report without {REPORT}")
        return lambda part: (
            read_bounded(path / part, _limit(part)) if (path / part).is_file() else None
        )
    if not path.is_file():
        return None
    if zipfile.is_zipfile(path):
        return partial(_read_from_zip, path)
    if path.suffix.lower() == ".zip" and _head(path).startswith(b"PK\x03\x04"):
        raise UnreadableReportError(f"{path}: is a broken .zip, cut off or damaged; build it again")
    if path.suffix.lower() not in (".html", ".htm"):
        return None
    if _GENERATOR not in _head(path):
        raise UnusableInputError(f"{path}: is not a report of rlreport")
    text = read_bounded(path, MAX_DATA).decode("utf-8", "replace")
    names = {PATH: "responses-data", REPORT: "report-json", TEXTS: "texts-data"}
    nodes = {part: _node(text, name) for part, name in names.items()}
    if nodes[REPORT] is None and not text.rstrip().endswith("</html>"):
        raise UnreadableReportError(f"{path}: is a broken report, cut off; build it again")
    return partial(_read_from_nodes, nodes)


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(4096)


def _texts_of_step(step: int, packed: str) -> dict[ResponseId, tuple[str, str]]:
    data = load_json(_unpacked(packed))
    prompts, responses = (map(safe_text, data["texts"][key]) for key in ("prompt", "response"))
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
    return base64.b64decode(content, validate=True) if part == PATH else _unpacked(content)


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
