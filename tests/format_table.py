"""What each log format gives, measured on its dumps, as the tables of ``docs/frameworks.md``.

``python -m tests.format_table`` writes them into the page. The dumps are those that the
frameworks' own code wrote (``tests/data/frameworks``), and others (``tests/data/runs/written``).
"""

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlreport.formats.containers import container_of, read_objects
from rlreport.formats.registry import RowError, RowReader, Where, detect, formats
from rlreport.system.stores import zstd
from rlreport.writer import RolloutWriter
from tests.net import DUMPS, WRITTEN

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "frameworks.md"
BEGIN = "<!-- formats: python -m tests.format_table -->"
END = "<!-- end of formats -->"
NOTHING = "–"

Row = dict[str, Any]

TURN = {
    "role": "assistant",
    "text": "4",
    "sampled": True,
    "tokens": [0, 1],
    "seconds": 0.5,
}
NATIVE: Row = {
    "step": 3,
    "prompt": "2+2?",
    "response": "4",
    "reward": 1.0,
    "response_tokens": ["4", "."],
    "response_mask": [1, 0],
    "logprobs": [-0.5, -0.5],
    "sampler_logprobs": [-0.5, -0.5],
    "old_logprobs": [-0.5, -0.5],
    "advantages": [1.0, 0.0],
    "reward_parts": {"right": 1.0},
    "group_id": "g",
    "split": "train",
    "turns": [TURN],
    "errors": ["timeout"],
    "agent": "solver",
    "policy_version": 2,
    "seconds": 0.5,
    "finish_reason": "stop",
}
"""A row of ``RolloutWriter``, with what a training loop may know."""


def objects_of(path: Path) -> list[Row]:
    if container_of(path.name) == "lines":
        with path.open("rb") as file:
            is_packed = path.suffix == ".zst"
            data = zstd.ZstdFile(file).read() if is_packed else file.read()
        return [json.loads(line) for line in data.splitlines()]
    return list(read_objects(path.open("rb"), container_of(path.name) or ""))


def rows_in(root: Path) -> Iterator[tuple[str, Row]]:
    """Yield format and row of every row under ``root``."""
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    for path in paths:
        name = path.relative_to(root).as_posix()
        container = container_of(path.name)
        if container is None:
            continue
        try:
            objects = objects_of(path)
        except RowError:
            continue  # without torch; what it holds lies beside as lines, too
        found = detect(name, objects)
        form = found and found.format.with_siblings(path, frozenset(paths))
        if not form or isinstance(form, str):
            continue
        reader = RowReader(form)
        for i, obj in enumerate(objects):
            for row in reader(obj, Where(name, i + 1, i)):
                yield form.id, row


def evidence() -> dict[str, list[Row]]:
    """Return the rows of each format's dumps, by the format's id."""
    rows: dict[str, list[Row]] = {identity: [] for identity in formats()}
    with tempfile.TemporaryDirectory() as scratch:
        with RolloutWriter(scratch) as writer:
            writer.write(**NATIVE)
        folders = [
            path for path in (*DUMPS.iterdir(), *WRITTEN.iterdir()) if path.is_dir()
        ]
        for folder in (*sorted(folders), Path(scratch)):
            for identity, row in rows_in(folder):
                rows[identity].append(row)
    return rows


def _logged(name: str, rows: list[Row]) -> bool:
    return any(row.get(name) not in (None, [], "") for row in rows)


def _text(name: str, ids: str) -> Callable[[list[Row]], str]:
    def cell(rows: list[Row]) -> str:
        kinds = {
            "ids" if ids in row and str(row[name]).startswith("#") else "text"
            for row in rows
            if row.get(name)
        }
        return " or ".join(sorted(kinds, reverse=True)) or NOTHING

    return cell


def _any(
    name: str, said: str = "yes", other: str = NOTHING
) -> Callable[[list[Row]], str]:
    def cell(rows: list[Row]) -> str:
        return said if _logged(name, rows) else other

    return cell


def _recognised(rows: list[Row]) -> str:
    return "yes" if rows else NOTHING


def _step(rows: list[Row]) -> str:
    return "yes" if any(row["step"] for row in rows) else "0"


def _reward(rows: list[Row]) -> str:
    if not any(math.isfinite(row["reward"]) for row in rows):
        return NOTHING
    return "total, parts" if _logged("reward_parts", rows) else "total"


_LOGPROBS = {
    "logprobs": "policy",
    "sampler_logprobs": "sampler",
    "ref_logprobs": "reference",
    "old_logprobs": "old",
}
_ALSO = {
    "finish_reason": "finish reason",
    "ground_truth": "label",
    "advantages": "advantages",
    "advantage": "advantages",
    "agent": "agent",
    "policy_version": "policy version",
    "seconds": "seconds",
}


def _names(names: dict[str, str]) -> Callable[[list[Row]], str]:
    def cell(rows: list[Row]) -> str:
        found = [said for name, said in names.items() if _logged(name, rows)]
        return ", ".join(dict.fromkeys(found)) or NOTHING

    return cell


def _turns(rows: list[Row]) -> str:
    turns = []
    fields = set()
    for row in rows:
        turns += row.get("turns", [])
    for turn in turns:
        fields.update(turn)
    if not turns:
        return NOTHING
    parts = {
        "calls": "calls",
        "thinking": "thinking",
        "seconds": "seconds",
        "reward": "rewards",
    }
    found = [word for field, word in parts.items() if field in fields]
    return "yes" + (f": {', '.join(found)}" if found else "")


CELLS: dict[str, Callable[[list[Row]], str]] = {
    "recognised": _recognised,
    "step": _step,
    "prompt": _text("prompt", "prompt_token_ids"),
    "response": _text("response", "token_ids"),
    "reward": _reward,
    "group": _any("group_id", "logged", "equal prompts"),
    "split": _any("split"),
    "logprobs": _names(_LOGPROBS),
    "turns": _turns,
    "mask": _any("response_mask"),
    "errors": _any("errors"),
    "also": _names(_ALSO),
}
"""Column to what stands in it, from the rows of a format's dumps."""


SETTINGS = {
    "rlboard": "`rlreport.RolloutWriter` in your own loop",
    "trl": "`GRPOConfig(log_completions=True, logging_steps=1)`",
    "verl": "`trainer.rollout_data_dir=DIR trainer.validation_data_dir=DIR`",
    "nemo_rl": "`logger.log_dir=LOGS`",
    "nemo_gym": "`gym eval run --output rollouts.jsonl`",
    "skyrl": "`trainer.dump_eval_results=true`",
    "verifiers": "prime-rl: none; give the run's `output_dir`",
    "agilerl": "`CompletionLoggingConfig(jsonl_path=FILE)`",
    "swift": "`--log_completions true`",
    "open_instruct": "`--save_traces`",
    "slime": "`--save-debug-rollout-data rollouts/{rollout_id}.pt`",
    "tinker": "`log_path=LOGS`",
    "trackio": '`report_to="trackio"`',
    "lm_eval": "`--log_samples`",
    "inspect": "none: `.eval` logs are always written",
}
"""What makes a framework log rollouts, where it is one known setting."""


def tested() -> dict[str, str]:
    """Return the framework and version of each format's dump, from the dumps' README."""
    found: dict[str, list[str]] = {}
    for line in (DUMPS / "README.md").read_text().splitlines():
        match = re.fullmatch(r"\| `([\w/]+)` \| ([^|]+?) \| .*", line)
        if match is not None:
            folder = match[1].split("/")[0].removesuffix("_branches")
            identity = {
                "prime_rl": "verifiers",
                "miles": "slime",
                "slime_export": "slime",
                "trl_async": "trackio",
                "verl_v1": "verl",
            }.get(folder, folder)
            found.setdefault(identity, []).append(match[2])
    return {
        identity: "; ".join(dict.fromkeys(names)) for identity, names in found.items()
    }


def tables() -> str:
    """Return the tables: what the formats are, how they are logged, and what each gives."""
    found = evidence()
    versions = tested()
    lines = ["| id | what it is | files |", "|---|---|---|"]
    for form in formats().values():
        files = ", ".join(f"`{name}`" for name in form.files)
        lines.append(f"| `{form.id}` | {form.description} | {files} |")
    lines += ["", "| id | setting that logs rollouts | tested with |", "|---|---|---|"]
    for identity in formats():
        if identity in SETTINGS or identity in versions:
            setting = SETTINGS.get(identity, NOTHING)
            version = versions.get(identity, NOTHING)
            lines.append(f"| `{identity}` | {setting} | {version} |")
    lines += ["", f"| id | {' | '.join(CELLS)} |", "|---" * (len(CELLS) + 1) + "|"]
    for identity, rows in found.items():
        lines.append(
            f"| `{identity}` | {' | '.join(cell(rows) for cell in CELLS.values())} |"
        )
    return "\n".join(lines)


def page() -> str:
    """Return the page with its tables made anew."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{tables()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page())
