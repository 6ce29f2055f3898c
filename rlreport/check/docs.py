"""The checks' documentation, made from the checks themselves.

``python -m rlreport.check.docs > docs/checks.md`` writes it.
"""

from __future__ import annotations

from rlreport.check.check import Check
from rlreport.check.registry import CHECKS
from rlreport.check.thresholds import ThresholdRow, describe

HEAD = """# Health checks

<!-- Made by `python -m rlreport.check.docs`; change the checks, not this file. -->

Each check reads the tables of the run and yields at most one finding. Trends compare the
first window of steps with the last: a difference must be large enough *and* more than
chance, judged by the larger of two standard errors, one over responses (clustered by
prompt) and one over step means. A check whose fields are absent is listed as not run.

Any threshold can be set in a TOML file given with `--thresholds`, under the name of its
check:

```toml
[kl_explosion]
warn = 20
```
"""


def markdown() -> str:
    """Return the whole page: every check with its needs, thresholds, meaning and remedy."""
    rows = describe()
    parts = [HEAD, "## Windows\n", _table([row for row in rows if row.group == "trend"], "trend")]
    for check in CHECKS:
        parts.append(_section(check, [row for row in rows if row.group == check.id]))
    return "\n".join(parts)


def _section(check: Check, rows: list[ThresholdRow]) -> str:
    words = [*(need.words for need in check.needs), check.needs_also]
    needs = ", ".join(filter(None, words)) or "nothing beyond the log"
    steps = "; a run with at least five steps" if check.trend else ""
    lines = [
        f"## `{check.id}`\n",
        f"Looks for: {check.looks_for}. Needs: {needs}{steps}. Source: {check.source}.\n",
        f"Why it matters: {check.why}\n",
        f"What to try: {check.suggestion}\n",
    ]
    return "\n".join([*lines, _table(rows, check.id)] if rows else lines)


def _table(rows: list[ThresholdRow], group: str) -> str:
    lines = [f"| `[{group}]` | value | unit | meaning | source |", "|---|---|---|---|---|"]
    for row in rows:
        cells = (f"`{row.key}`", f"{row.value:g}", row.unit, row.meaning, row.source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
