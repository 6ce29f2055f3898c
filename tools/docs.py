"""Generate documentation from the code, and rewrite its files: ``python -m tools.docs``."""

from __future__ import annotations

import csv
import inspect
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

import click

from rlreport.check.check import Check
from rlreport.check.registry import CHECKS, LIMITS
from rlreport.check.settings import FRAMEWORKS, OTHER, SettingKey, SettingKind
from rlreport.cli.main import main
from rlreport.columns import (
    PROMPT_COLUMNS,
    RESPONSE_COLUMNS,
    STEP_COLUMNS,
    TOKEN_COLUMNS,
    TOKEN_FIGURES,
    Column,
)
from rlreport.definitions import METRICS, TEXTS, WORDS, Meaning, meaning_of
from rlreport.fields import FIELDS
from rlreport.metrics.roles import known_keys
from rlreport.text.messages import listed

SOURCES = Path(__file__).with_name("frameworks.csv")
"""File with the source of each framework's keys, and how many keys it writes."""

BEGIN = "<!-- Made by `python -m tools.docs` from {}: -->\n"
END = "<!-- to here. -->\n"
_SCHEMAS = ("findings", "report", "compare")

_COLUMNS_HEAD = """# Columns

<!-- Made by `python -m tools.docs`; change rlreport/columns.py or rlreport/definitions.py, not this
file. -->

Names of figures on pages and in exports. The KL of a response is the sum of its log-ratios (k1,
`objective/kl` in TRL), and that of a token its log-ratio; `kl` and `kl_k3` are another estimate of
the same. Columns are empty (NaN) if the log lacks the fields they need.

The page "What the figures mean" of a report has those of its run, with the limits that apply to it.
In formulas r is a log-ratio; i counts responses, t tokens, g groups. Limits are thresholds of
[checks](checks.md) that judge the figure.
"""

_COMMANDS_HEAD = """# Command line

<!-- Made by `python -m tools.docs`;
change rlreport/cli/ and rlreport/options.py, not this file. -->

Every command and option, as `rlreport COMMAND --help-all` lists them. How the important ones work
together: [important options](usage.md).
"""

_TABLES: tuple[tuple[str, str, tuple[Column, ...]], ...] = (
    ("Steps", "`data/steps.csv`, `steps` of `data/report.json`: one row per step.", STEP_COLUMNS),
    ("Prompts", "`data/prompts.csv`: one row per prompt.", PROMPT_COLUMNS),
    ("Tokens", "`data/tokens.csv`: one row per token string.", TOKEN_COLUMNS),
    ("Responses", "The response table: one row per response; pages list columns with a label.",
     RESPONSE_COLUMNS),
    ("Figures of a token", "What the token view offers.", TOKEN_FIGURES),
    ("Texts that spread", "What the page of texts lists.", TEXTS),
    ("Metrics of the trainer", "What only trainers know; others measure a figure of steps: "
     "[their names](metrics.md).", METRICS),
    ("Words", "Of the verdict, of charts and of tables.", WORDS),
)  # fmt: skip

_TYPES = {
    "number": "float", "text": "str", "texts": "list[str]", "strings": "list[str], T",
    "ids": "list[int], T", "floats": "list[float], T", "mask": "list[bool or 0/1], T",
    "object": "object of floats", "turns": "list", "id": "str or int", "range": "int or [int, int]",
}  # fmt: skip


def columns_page() -> str:
    """Return the text of ``docs/columns.md``."""
    parts = [_COLUMNS_HEAD]
    for name, caption, columns in _TABLES:
        heads = ("column", "label", "unit", "meaning", "formula", "limits")
        parts.append(
            f"## {name}\n\n{caption}\n\n{_table(heads, map(_column_row, columns))}"
        )
    return "\n".join(parts)


def _column_row(column: Column) -> tuple[str, ...]:
    meaning = meaning_of(column.term) if column.label else Meaning()
    text = f"{column.help}. {meaning.tells}" if meaning.tells else column.help
    formula = f"`{meaning.formula}`" if meaning.formula else ""
    limits = _code(meaning.limits)
    return f"`{column.name}`", column.label, column.unit, text, formula, limits


def checks_page(page: str) -> str:
    """Return ``page``, the text of ``docs/checks.md``, with thresholds and checks regenerated."""
    parts = [_limits("trend"), *map(_check, CHECKS)]
    return _replace_section(
        page, "rlreport/check", "\n\n".join(part.strip() for part in parts) + "\n"
    )


def _check(check: Check) -> str:
    explains = ", ".join(f"`{name}`" for name in check.explains)
    needs = [
        text
        for text in (*(need.words for need in check.needs), check.needs_also)
        if text
    ]
    needs_words = listed(needs or ["nothing beyond the log"])
    if check.trend:
        needs_words += "; a run with at least five steps"
    lines = [
        f"## `{check.id}`",
        f"Looks for: {check.name}. Rank: {check.rank}. Needs: {needs_words}. "
        f"Source: {check.source}.",
        f"Why it matters: {check.why}",
        f"What to try: {check.suggestion}",
        *([f"Can explain: {explains}."] if explains else []),
    ]
    return "\n\n".join(filter(None, [*lines, _limits(check.id)]))


def _limits(group: str) -> str:
    """Return a Markdown table of the thresholds in a group, such as a check; "" for none."""
    if group not in LIMITS:
        return ""
    rows = (
        (f"`{key}`", f"{limit.default:g}", limit.unit, limit.meaning, limit.source)
        for key, limit in LIMITS[group].declared().items()
    )
    return _table((f"`[{group}]`", "value", "unit", "meaning", "source"), rows).rstrip()


def commands_page() -> str:
    """Return the text of ``docs/command-line.md``."""
    group = click.Context(main, info_name="rlreport", **main.context_settings)
    parts = [_COMMANDS_HEAD]
    build = set[tuple[str, str]]()
    for name in main.list_commands(group):
        command = main.get_command(group, name)
        assert command is not None
        context = click.Context(command, group, name)
        records = (
            option.get_help_record(context) for option in command.get_params(context)
        )
        options = [
            (f"`{flags}`", text) for flags, text in filter(None, records) if text
        ]
        if name == "build":
            build = set(options)
        elif "Takes the options of" in (command.help or ""):
            options = [option for option in options if option not in build]
        usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
        parts += [
            f"## `rlreport {name}`\n",
            f"```\n{usage}\n```\n",
            _help(command.help or ""),
        ]
        parts.append(_table(("option", "meaning"), options))
    return "\n".join(parts)


def _help(text: str) -> str:
    """Return a command's help as Markdown, with the paragraphs that click does not wrap as code."""
    paragraphs = (
        f"```\n{part[2:]}\n```" if part.startswith("\b\n") else part
        for part in inspect.cleandoc(text).split("\n\n")
    )
    return "\n\n".join(paragraphs) + "\n"


def fields_table() -> str:
    """Return the Markdown table of log fields in ``docs/log-format.md``."""
    heads = ("field", "type", "needed", "meaning", "where to find it in a trainer",
             "what it feeds")  # fmt: skip
    rows = [
        (
            f"`{field.name}`",
            _TYPES.get(field.kind, field.kind),
            "yes" if field.required else "no",
            field.meaning,
            field.at_hand,
            field.feeds,
        )
        for field in FIELDS
    ]
    return _table(heads, rows)


def log_format_page(page: str) -> str:
    """Return ``page``, the text of ``docs/log-format.md``, with its table regenerated."""
    return _replace_section(page, "rlreport/fields.py", fields_table())


def data_page(page: str) -> str:
    """Return ``page``, the text of ``docs/data.md``, with the tables of JSON keys regenerated."""
    for name in _SCHEMAS:
        file = f"rlreport/schemas/{name}.schema.json"
        text = (files("rlreport") / "schemas" / f"{name}.schema.json").read_text(
            "utf-8"
        )
        keys = json.loads(text)["properties"].items()
        page = _replace_section(
            page,
            file,
            _table(("key", "what"), ((f"`{k}`", v["description"]) for k, v in keys)),
        )
    return page


def metrics_page(page: str) -> str:
    """Return ``page``, the text of ``docs/metrics.md``, with its tables of keys regenerated."""
    sources = csv.DictReader(SOURCES.read_text("utf-8").splitlines())
    known = Counter(key.framework for key in known_keys())
    summary = _table(
        ("framework", "repository", "commit", "keys with a role", "keys written, about"),
        ((s["framework"], s["repository"], s["commit"], f"{known[s['framework']]}", s["written"])
         for s in sources),
    )  # fmt: skip
    groups: dict[tuple[str, ...], list[str]] = {}
    for framework, name, *rest in known_keys():
        groups.setdefault((framework, *rest), []).append(f"`{name}`")
    keys = _table(
        ("framework", "role", "unit", "per", "better", "keys, most preferred first"),
        ((*group, ", ".join(names)) for group, names in groups.items()),
    )
    return _replace_section(page, "rlreport/metrics/keys.csv", f"{summary}\n{keys}")


_ADVICE_HEAD = """# Settings that advice names

<!-- Made by `python -m tools.docs`; change rlreport/check/settings.csv, not this file. -->

What a finding advises, and the line "Next" of the verdict, name the setting of the framework that
trained the run, and the value that it has in the run's [configuration](usage.md): "Lower
`actor_rollout_ref.actor.ppo_epochs` (8 here)." The format of the logs, names in the configuration
or names of metrics tell the framework. If they are those of two, or of none in this table, only
settings are named that the configuration has by a name that is common to many trainers, and else
advice is in plain words. A setting whose value leaves nothing to do (one epoch per batch, a filter
that is on) is passed over for the next. How to add a framework: [extending](extending.md).

Names were read from these sources. A kind that a row lacks has no setting there.
"""


def advice_page() -> str:
    """Return the text of ``docs/advice.md``."""
    versions = _table(
        ("framework", "version", "read from"),
        (
            (one.name, one.version, f"{_code(one.source)}")
            for one in FRAMEWORKS.values()
        ),
    )
    parts = [_ADVICE_HEAD, versions]
    for framework in (*FRAMEWORKS.values(), OTHER):
        rows = (
            (kind.value, _setting_names(framework.keys[kind]))
            for kind in SettingKind
            if kind in framework.keys
        )
        parts.append(f"## {framework.name}\n\n{_table(('kind', 'settings'), rows)}")
    return "\n".join(parts)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _setting_names(keys: Iterable[SettingKey]) -> str:
    names = []
    for key in keys:
        switches = " or ".join(f"`{switch}`" for switch in key.switches)
        names.append(f"`{key.name}`" + (f" with {switches}" if switches else ""))
    return ", ".join(names)


def write(folder: Path) -> None:
    """Write all pages in ``folder`` that are generated, entirely or in part."""
    log_format, data, metrics, checks = (
        folder / f"{name}.md" for name in ("log-format", "data", "metrics", "checks")
    )
    (folder / "advice.md").write_text(advice_page(), "utf-8")
    (folder / "columns.md").write_text(columns_page(), "utf-8")
    checks.write_text(checks_page(checks.read_text("utf-8")), "utf-8")
    (folder / "command-line.md").write_text(commands_page(), "utf-8")
    log_format.write_text(log_format_page(log_format.read_text("utf-8")), "utf-8")
    data.write_text(data_page(data.read_text("utf-8")), "utf-8")
    metrics.write_text(metrics_page(metrics.read_text("utf-8")), "utf-8")


def _replace_section(page: str, source: str, content: str) -> str:
    """Replace the text generated from ``source`` (between its markers); unchanged without them."""
    before, begin, rest = page.partition(BEGIN.format(source))
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{content}\n{end}{after}" if begin and end else page


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    escaped = ((cell.replace("|", "\\|") for cell in line) for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


if __name__ == "__main__":
    write(Path(__file__).resolve().parents[1] / "docs")
