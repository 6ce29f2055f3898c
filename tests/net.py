"""What reports say and what is read from logs, as kept texts: the net under large changes.

``python -m tests.net`` shows what differs from ``tests/data/net``, ``--accept`` keeps it
(``make written`` does, with all else that is generated).
"""

import difflib
import gzip
import hashlib
import html
import io
import json
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import mailparser
import numpy as np
import pandas as pd

import rlreport
from rlreport.errors import RlreportError
from rlreport.metrics.find import find_and_read
from rlreport.metrics.roles import roles_of
from rlreport.read.rollouts import Rollout, Turn
from tests.conftest import unpack_runs
from tests.forms import views
from tests.hostile import hostile_rows, write_log
from tests.output_texts import without_drawings
from tests.pages_reading import node, packed_in_one_file, packed_tokens, unpack
from tests.reading import read

DATA = Path(__file__).parent / "data"
KEPT = DATA / "net"
DUMPS = DATA / "frameworks"
RUNS = DATA / "runs"
WRITTEN = RUNS / "written"
LINES = 500
ROWS = 16
CUT = 200
"""Most lines kept of a page or table, rows of a log, and characters of a value."""

FLOAT = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+))(?![\w.])")
VERSION = re.compile(r"\b\d+\.\d+\.\d+[\w.+]*|0\+unknown")
OF_VERSION = ("generator", "versions")
"""Fields of exported files that change with the version."""

ELSEWHERE = (*OF_VERSION, "steps", "not_run", "passed", "muted")
"""Fields of report.json that change with the version, or stand in other files."""

LISTS_CHECKS = "healthy"
"""The only kept report with the list of all checks: a new check changes one, not ten."""

CHECK_LISTS = ("passed", "not_run")
"""Fields of findings.json that name each check that found nothing or could not run."""

CHECKS_PART = re.compile(
    r'<section class="list[^">]*"\s*data-table="checks">.*?</section>', re.DOTALL
)
"""The table of a data page that names them."""

CHECKS_COUNTED = re.compile(
    r"^\d+ (?:checks? found nothing|项检查未发现).*$", re.MULTILINE
)
"""The line that counts them."""

Texts = dict[str, str]


def report(name: str, root: Path) -> Path:
    out = root / name
    if name == "comparison":
        rlreport.compare(
            root / "runs" / "ppo_healthy", root / "runs" / "ppo_reward_hacking", out
        )
    elif name == "index.html":
        first = list(REPORTS)[:3]
        rlreport.index([report(each, root) for each in first], out, lang="zh")
    elif not out.exists():
        lang, logs = REPORTS[name]
        rlreport.build(root / logs, out, lang=lang, workers=1)
    return out


REPORTS = {
    "healthy": ("en", Path("runs", "ppo_healthy")),
    "hacking": ("en", Path("runs", "ppo_reward_hacking")),
    "agents": ("zh", RUNS / "agents"),
    "word.md": ("zh", RUNS / "hacking"),
    "kl": ("en", RUNS / "kl"),
    "collapse": ("en", RUNS / "collapse"),
    "trl": ("en", DUMPS / "trl"),
    "prime_rl.html": ("zh", DUMPS / "prime_rl" / "stream"),
    "inspect.eml": ("en", DUMPS / "inspect"),
    "metrics": ("en", RUNS / "metrics"),
}
"""Folder or file to the language and the logs."""

SUMMARIZED = ("hacking", "kl", "collapse", "trl", "metrics")
"""Reports of which only the files of ``SUMMARY`` are kept; the others show the same pages."""

SUMMARY = ("index.html", "findings.json")

NAMES = (*REPORTS, "comparison", "index.html", "rows", "trainer")


def texts_of(out: Path) -> Texts:
    """Return what is kept of a report, by name of file; no drawings, no versions."""
    lists_checks = out.stem == LISTS_CHECKS
    found: Texts = {}
    if out.suffix == ".html":
        content = out.read_text("utf-8")
        documents = {"document.html": content, **views(content.encode())}
        found = dict(pages(documents, packed_in_one_file(content), lists_checks))
    elif out.suffix == ".md":
        found["document.md"] = capped(out.read_text("utf-8").splitlines())
    elif out.suffix == ".eml":
        mail = mailparser.parse_from_string(out.read_text("utf-8"))
        found["mail"] = "\n".join(
            [mail.subject, *mail.text_plain, *map(visible, mail.text_html)]
        )
    else:
        files = sorted(out.rglob("*.html"))
        documents = {
            path.relative_to(out).as_posix(): path.read_text("utf-8") for path in files
        }
        tokens = {path.stem: packed_tokens(path) for path in out.glob("steps/*")}
        found = dict(pages(documents, tokens, lists_checks))
        found |= data_texts(out / "data", lists_checks)
    if out.name in SUMMARIZED:
        found = {name: found[name] for name in SUMMARY}
    if not lists_checks:
        found = {
            name: CHECKS_COUNTED.sub("(checks)", text) for name, text in found.items()
        }
    return {
        f"{name}.txt": VERSION.sub("VERSION", rounded(text))
        for name, text in found.items()
    }


def data_texts(data: Path, lists_checks: bool) -> Texts:
    """Return what is kept of a report's exported files."""
    found = {"charts": "\n".join(map(chart, sorted(data.rglob("*.vl.json"))))}
    for path in sorted(data.glob("*.*")):
        raw = path.read_bytes()
        if path.name == "manifest.json":
            continue
        if path.suffix == ".json":
            kept = json.loads(raw)
            for key in left_out_of(path.stem, lists_checks):
                kept.pop(key, None)
            found[path.name] = json.dumps(kept, indent=1, ensure_ascii=False)
        elif ".csv" in path.name:
            raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
            columns = sums(pd.read_csv(io.BytesIO(raw)))
            found[path.name] = "\n".join(
                [capped(raw.decode().splitlines(), 75), *columns]
            )
    return found


def left_out_of(name: str, lists_checks: bool) -> tuple[str, ...]:
    """Return the fields of an exported JSON file that are not kept."""
    if name == "report":
        return ELSEWHERE
    return OF_VERSION if lists_checks else (*OF_VERSION, *CHECK_LISTS)


def pages(
    addressed: Texts, tokens: Texts, lists_checks: bool
) -> Iterator[tuple[str, str]]:
    """Yield the texts of pages by name; of steps, only the first and the last."""
    steps = [name for name in addressed if "steps/" in name]
    steps.sort(key=lambda name: int(Path(name).stem))
    for name, page in addressed.items():
        if name not in steps[1:-1]:
            yield name, visible(page if lists_checks else CHECKS_PART.sub("", page))
        if name in (*steps[:1], *steps[-1:]):
            yield f"{name}.data", carried(page, tokens.get(Path(name).stem, ""))


def visible(page: str) -> str:
    """Return the texts of a page, a line each; those of a table's row in one line."""
    page = re.sub(r"(?s)<(script|style|template)\b.*?</\1>", "", page)
    page = without_drawings(page)
    page = re.sub(
        r"(?s)<tr\b.*?</tr>", lambda row: f"<i>{' | '.join(parts(row[0]))}</i>", page
    )
    return html.unescape(
        capped(parts(page), 60 if 'data-kind="responses' in page else LINES)
    )


def parts(page: str) -> list[str]:
    page = page.replace("<wbr>", "")  # where a name may be broken
    texts = [" ".join(text.split()) for text in re.split(r"<[^>]*>", page)]
    return [text for text in texts if text]


def carried(page: str, tokens: str) -> str:
    """Return what scripts read of a step: of its packed tokens, counts and sums."""
    lines = []
    for key, value in json.loads(node(page, "rows-data")).items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        lines += [f"{key} {name}: {cut(one)}" for name, one in inner]
    if tokens:
        header, ids, columns = unpack(tokens)
        for key in ("metrics", "nan", "given"):
            lines += [f"{key}: {cut(header[key])}"] if key in header else []
        lines.append(f"tokens {len(ids)}, {cut(header['n'])}, {cut(header['text'])}")
        lines += [f"{name}: {array(values)}" for name, values in columns.items()]
    return capped(lines)


def chart(path: Path) -> str:
    objects: list[dict[str, Any]] = []

    def collect(one: dict[str, Any]) -> dict[str, Any]:
        objects.append(one)
        return one

    json.loads(path.read_text("utf-8"), object_hook=collect)
    names = {
        str(one[key])
        for one, key in product(objects, ("title", "field"))
        if one.get(key)
    }
    lines = [f"{path.stem}: {sorted(names)}"]
    for one in objects:
        rows = one.get("values")
        if isinstance(rows, list) and isinstance(rows[0], dict):
            lines += [f"{len(rows)} rows", *sums(pd.DataFrame(rows))]
    return "\n".join(lines)


def sums(frame: pd.DataFrame) -> list[str]:
    known = frame.select_dtypes("number").dropna(axis="columns", how="all")
    return [f"all {name}: {array(values)}" for name, values in known.items()]


def array(values: Any) -> str:
    """Return count, missing ones, sum, first and last of numbers."""
    values = np.asarray(values, float)
    missing = f" ({np.isnan(values).sum()} missing)" if np.isnan(values).any() else ""
    some = [np.nansum(values), *values[:1], *values[-1:]]
    return f"{len(values)}{missing} " + " ".join(f"{value:.6g}" for value in some)


def in_full(values: Any) -> str:
    """Return the values of a few tokens, by which a mask is checked, or what ``array`` does."""
    return array(values) if len(values) > 8 else str(values.tolist())


def rounded(text: str, digits: int = 9) -> str:
    return FLOAT.sub(lambda found: f"{float(found[1]):.{digits}g}", text)


def capped(lines: list[str], most: int = LINES) -> str:
    more = [f"… {len(lines) - most} lines more"] if len(lines) > most else []
    return "\n".join([*lines[:most], *more])


def cut(value: object, most: int = CUT) -> str:
    """Return a value as JSON: of a long one its start, and a hash; of many numbers their sum."""
    if (
        isinstance(value, list)
        and value[4:]
        and all(isinstance(one, int | float) for one in value)
    ):
        return array(value)
    if isinstance(value, list) and value and isinstance(value[0], Turn):
        value = [fields_of(turn) for turn in value]
    text = rounded(json.dumps(value, ensure_ascii=False, default=str))
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return text if len(text) <= most else f"{text[:most]}…{len(text)}~{digest}"


def fields_of(turn: Turn) -> dict[str, Any]:
    """Return the fields that a turn has."""
    fields = {name: getattr(turn, name) for name in Turn.__slots__}
    return {name: value for name, value in fields.items() if value}


SPLIT = {"rllm", "swift", "prime_rl", "miles", "verifiers", "trackio"}
"""Folders of several dumps."""

PICKLED = {"slime", "miles-rollout_data"}
"""Dumps that only torch reads, which not every environment has; ``slime_export`` has the same."""

INNER = (
    "has_texts",
    "file",
    "line",
    "offset",
    "prompt_hash",
    "group_hash",
    "response_hash",
)
TEXTS = (
    "prompt",
    "response",
    "ref_response",
    "ground_truth",
    "errors",
    "turns",
    "conversation",
    "raw_tokens",
    "tokens",
)


TOKEN_FIGURES = (
    "logp",
    "ref_logp",
    "log_ratio",
    "kl",
    "prob",
    "ref_prob",
    "surprisal",
    "token_reward",
    "value",
    "advantage",
    "return",
    "value_error",
    "sampler_logp",
)


def dumps() -> dict[str, Path]:
    """Return the logs of frameworks by name: those that their own code wrote, and others."""
    found = {f"written-{folder.name}": folder for folder in WRITTEN.iterdir()}
    for folder in filter(Path.is_dir, DUMPS.iterdir()):
        for path in folder.iterdir() if folder.name in SPLIT else [folder]:
            found[path.relative_to(DUMPS).as_posix().replace("/", "-")] = path
    return found


def logs(root: Path) -> dict[str, Path]:
    """Return all logs whose rows are kept, by name; write the one that tests make."""
    hostile = root / "hostile"
    hostile.mkdir()
    write_log(hostile / "rank_0.jsonl", hostile_rows(2))
    found = {
        run.name: run
        for run in [*(root / "runs").iterdir(), RUNS / "agents", RUNS / "odd"]
    }
    found |= {f"quirks-{folder.name}": folder for folder in (RUNS / "quirks").iterdir()}
    found |= {"written-hostile": hostile, **dumps()}
    return {name: path for name, path in sorted(found.items()) if name not in PICKLED}


def read_text(path: Path) -> str:
    """Return what is read from logs: files, remarks, sums, and the values of the first rows."""
    try:
        scan = read(path)
    except RlreportError as error:
        return f"{type(error).__name__}: {error}".replace(str(path), "LOGS")
    lines = [
        f"file {f.name}: {f.format}, {f.rows}, {f.bad}, {f.why}" for f in scan.files
    ]
    for bad in scan.bad_lines:
        torn = " torn" if bad.torn else ""
        lines.append(f"bad {bad.file}:{bad.line}: {bad.reason}{torn}")
    for note in scan.notes:
        where = f"{note.file}:{note.line}"
        lines.append(f"note {note.kind}: {note.text} ({note.count}) {where}")
    lines += [f"field {name} = {rows}" for name, rows in scan.fields.items()]
    lines += [f"part {name}" for name in scan.reward_parts]
    for step, count in scan.failed.items():
        lines.append(f"failed of step {step} = {count}")
    for tool in scan.tools.to_dict("records"):
        lines += [f"tool {tool.pop('tool')}", *named(tool)]
    logged = scan.extras.add_prefix("extra:")
    table = scan.responses.drop(columns=[*INNER]).join(logged)
    lines += sums(table)
    first = table[:ROWS].to_dict("records")
    rollouts = scan.rollouts.read(range(len(first)))
    for figures, rollout in zip(first, rollouts, strict=True):
        lines.append(f"row {rollout.file}:{rollout.line}")
        lines += texts_and_tokens(rollout)
        lines += named(figures)
    return "\n".join(map(printable, lines))


def texts_and_tokens(rollout: Rollout) -> list[str]:
    """Return the lines of a row's texts and of the figures of its tokens, those it has."""
    lines = []
    for name in TEXTS:
        text = getattr(rollout, name)
        if text:
            # "turns" is also a figure of the response
            shown = "prompt_turns" if name == "turns" else name
            lines.append(f"  {shown} = {cut(text, 120)}")
    arrays: dict[str, Any] = {name: rollout.figures.get(name) for name in TOKEN_FIGURES}
    arrays["sampled"] = rollout.sampled
    for name, values in arrays.items():
        if values is not None:
            lines.append(f"  {name} of tokens = {in_full(values)}")
    return lines


def named(figures: dict[Any, Any]) -> list[str]:
    """Return a line for each figure that is known."""
    known = {name: one for name, one in figures.items() if not pd.isna(one)}
    return [f"  {name} = {cut(one, 80)}" for name, one in known.items()]


def printable(line: str) -> str:
    """Return a line with what breaks lines, or cannot be seen or written, as escapes."""
    if line.isprintable():
        return line
    letters = [
        letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line
    ]
    return "".join(letters)


def read_metrics(path: Path) -> str:
    """Return what is read of trainer metrics: remarks, and the table of each run."""
    first = find_and_read([path])
    lines = [f"file {file.name}: {file.steps} steps" for file in first.files]
    lines += [
        f"note {note.text} ({note.count}) {note.file}:{note.line}"
        for note in first.notes
    ]
    for run in first.runs or [""]:
        found = find_and_read([path], run=run)
        table = "" if found.table.empty else found.table.to_csv(index=False)
        lines += [f"run {run}, not finite {found.broken}", *table.splitlines()]
    for name in first.table.columns[1:]:
        role = "".join(roles_of([name]))
        if role:
            lines.append(f"role of {name}: {role}")
    return "\n".join(lines)


def found(name: str, root: Path) -> Texts:
    """Return the texts of a report, the rows of all logs, or trainer metrics."""
    if name == "trainer":
        return {
            f"{one.name}.txt": read_metrics(one) for one in (RUNS / "trainer").iterdir()
        }
    if name != "rows":
        return texts_of(report(name, root))
    return {
        f"{log}.txt": rounded(read_text(path), 6) for log, path in logs(root).items()
    }


def read_kept(name: str) -> Texts:
    folder = KEPT / name
    return {
        p.relative_to(folder).as_posix(): p.read_text("utf-8")
        for p in folder.rglob("*.txt")
    }


def difference(name: str, texts: Texts, kept: Texts) -> str:
    """Return a unified diff of what is kept and what is found; "" without any."""
    lines: list[str] = []
    for file in sorted(texts.keys() | kept.keys()):
        old = kept.get(file, "").splitlines()
        new = texts.get(file, "").splitlines()
        # Figures of tokens are sums of float32.
        tolerance = 1e-6 if file.startswith("tokens.csv") else 1.01e-8
        if len(old) == len(new):
            pairs = zip(old, new, strict=True)
            new = [
                one if same(one, other, tolerance) else other for one, other in pairs
            ]
        title = f"{name}/{file}"
        lines += difflib.unified_diff(
            old, new, f"{title}, kept", title, n=1, lineterm=""
        )
    return "".join(f"{line}\n" for line in lines)


def same(old: str, new: str, tolerance: float) -> bool:
    """Return whether lines differ only in the last digits of numbers, which processors round."""
    left = FLOAT.split(old)
    right = FLOAT.split(new)  # every second part is a number
    if left[::2] != right[::2]:
        return False
    for one, other in zip(left[1::2], right[1::2], strict=True):
        if not math.isclose(float(one), float(other), rel_tol=tolerance):
            return False
    return True


def main(accept: bool) -> int:
    """Print what differs, and keep it if ``accept`` says so; return the status to exit with."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        shown = ""
        (root / "runs").mkdir()
        unpack_runs(root / "runs")
        for name in NAMES:
            texts = found(name, root)
            shown += difference(name, texts, read_kept(name))
            if accept:
                shutil.rmtree(KEPT / name, ignore_errors=True)
                for file, text in texts.items():
                    path = KEPT / name / file
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(f"{text}\n", "utf-8")
    print(shown, end="")
    return int(shown != "" and not accept)


if __name__ == "__main__":
    sys.exit(main(accept="--accept" in sys.argv))
