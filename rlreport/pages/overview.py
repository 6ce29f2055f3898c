"""The overview: verdict, findings, key figures, charts, extremes, turns and the table of steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from rlreport.about.card import card_view
from rlreport.about.several_runs import SEVERAL_RUNS
from rlreport.check.course import course_of
from rlreport.check.finding import (
    REFERENCE_REWARD,
    Course,
    Example,
    Finding,
    Met,
    Quantity,
    Verdict,
)
from rlreport.check.registry import BY_ID
from rlreport.check.sentence import NAMES, is_percentage
from rlreport.check.series import Series
from rlreport.choose import TOOL_ERRORS, Extreme, evenly
from rlreport.columns import RESPONSE, STEP, Column
from rlreport.draw.chart import Chart
from rlreport.draw.curves import sparkline
from rlreport.draw.run_charts import not_drawn, tool_label
from rlreport.figures.metadata import ERROR_KINDS, ToolCounts
from rlreport.metrics.roles import logging_advice, roles_of
from rlreport.pages.templates import Addresses
from rlreport.pages.views import (
    PROMPT_TEXT,
    RESPONSE_TEXT,
    REWARD_PATH,
    RUN_TILES,
    STEP_LINK,
    TOOLS,
    Cell,
    Change,
    ColumnView,
    KeyFigure,
    Link,
    PageContext,
    RunContext,
    StepJob,
    TableView,
    columns_with_data,
    listed_prompt,
    name_cell,
    number_cell,
    number_columns_of,
    table,
)
from rlreport.read.changed import changes_in_words
from rlreport.read.notes import NO_STEP
from rlreport.read.rollouts import Rollout
from rlreport.summarise.steps import environment_steps, environments_of, most_common
from rlreport.tables import Tables, counted_responses, length_column, listed_tool
from rlreport.text.clean import shortened
from rlreport.text.messages import (
    figure,
    format_message,
    listed,
    message,
    percent,
    plural,
    sentences,
    span,
    translatable,
    whole,
    with_unit,
)
from rlreport.text.numbers import MINUS, NumberKind, exact, written

MOST_STEP_LINKS = 12


def verdict_view(verdict: Verdict, addresses: Addresses) -> dict[str, Any]:
    """Return the verdict for templates; findings that another explains are in its ``folded``."""
    top = [
        finding_view(f, addresses, verdict.effects_of(f))
        for f in verdict.findings
        if not f.explained_by
    ]
    lead = [f for f in top if f["id"] == verdict.lead][:1]
    others = [f for f in top if f not in lead and f["severity"] != "info"]
    notes = [f for f in top if f not in lead and f["severity"] == "info"]
    passed = [message(BY_ID[name].name) for name in verdict.passed if name in BY_ID]
    return {
        "level": verdict.level,
        "headline": verdict.headline,
        "course": verdict.course_text,
        "lead": lead[0] if lead else None,
        "others": others,
        "notes": notes,
        "findings": [*lead, *others, *notes],
        "muted": verdict.muted,
        "close": [one.title for one in verdict.close],
        "not_observed": listed(verdict.not_observed),
        "passed": passed,
        "not_run": [
            (message(BY_ID[c.id].name) if c.id in BY_ID else c.id, c.needs) for c in verdict.not_run
        ],
        "checks_run": message(
            "{passed}, {not_run:count} not applicable to this log",
            passed=plural("{count} check passed", "{count} checks passed", len(passed)),
            not_run=len(verdict.not_run),
        ),
    }


def finding_view(
    finding: Finding, addresses: Addresses, folded: Sequence[Finding] = ()
) -> dict[str, Any]:
    """Return a finding for templates, with its effects ``folded`` and links to up to 12 steps."""
    onset = finding.onset
    steps = [finding.steps[index] for index in evenly(len(finding.steps), MOST_STEP_LINKS)]
    since = onset and Link(message("step {step}", step=onset.step), addresses.step(onset.step))
    return {item.name: getattr(finding, item.name) for item in fields(finding)} | {
        "why": sentences([finding.why, finding.sample]),
        "since": since,
        "interval": f"{onset.low}–{onset.high}" if onset and onset.low < onset.high else "",
        "limits": [_limit(finding.id, met) for met in finding.thresholds],
        "steps": [Link(str(step), addresses.step(step)) for step in steps],
        "examples": [_example(example, addresses) for example in finding.evidence],
        "unseen": finding.unseen
        and plural(
            "Not visible in the {count} response read from its steps.",
            "Not visible in the {count} responses read from its steps.",
            finding.unseen,
        ),
        "folded": [finding_view(other, addresses) for other in folded],
        "related": plural("{count} related finding", "{count} related findings", len(folded)),
    }


# Unit in the plural -> in the singular, for the value 1
_ONE = {
    "tokens": translatable("token"),
    "steps": translatable("step"),
    "calls": translatable("call"),
    "times in its step": translatable("time in its step"),
    "occurrences": translatable("occurrence"),
}


def _limit(check: str, met: Met) -> str:
    declared = BY_ID[check].limits.declared() if check in BY_ID else {}
    if met.unit.startswith("of "):  # a share
        value = percent(met.value)
        limit = percent(met.limit)
    else:
        value = with_unit(figure(met.value), message(met.unit))
        limit = figure(met.limit)
    meaning = message(declared[met.name].meaning if met.name in declared else met.name)
    facts = {"meaning": meaning, "value": value, "limit": limit}
    if met.op.startswith("<"):
        return message("{meaning}: {value} (threshold: below {limit})", **facts)
    return message("{meaning}: {value} (threshold {limit})", **facts)


def _example(example: Example, addresses: Addresses) -> dict[str, Any]:
    value = ""
    if example.value is not None and example.unit:  # readers cannot interpret other values
        number = whole(example.value) if example.value.is_integer() else figure(example.value)
        if example.unit.startswith("of "):  # a share
            number = percent(example.value)
        if example.unit == "reward":
            value = message("reward {reward}", reward=number)
        elif example.unit == REFERENCE_REWARD:
            value = message("reward of the reference {reward}", reward=number)
        else:
            unit = _ONE.get(example.unit, example.unit) if example.value == 1 else example.unit
            value = with_unit(number, message(unit))
    address = addresses.response(example.step, example.n, token=example.token, turn=example.turn)
    return {
        "link": Link(message("step {step}, response {n}", step=example.step, n=example.n), address),
        "excerpt": example.excerpt,
        "value": value,
        "before": _example(example.before, addresses) if example.before else None,
    }


MOST_TOOLS = 20  # Maximum number of tools in the table, those with the most answers


class _Turns(NamedTuple):
    """A row of the table: all turns of the policy, of one tool, or of other roles in training."""

    name: str
    turns: float  # number of turns, NaN if unknown
    size: float  # total length of these turns in tokens, or in characters if no tokens are logged
    sized: float  # number of turns included in ``size``
    tool: str | None = None  # the tool's name in ``tools_used``, None for turns of others
    # error rates of the tool over all, over the first and over the last steps
    errors: tuple[float, ...] = (np.nan, np.nan, np.nan)
    kind: str = ""  # kind of most of its errors
    empty: float = np.nan  # share of its answers without text


_WHO = ColumnView("who", message("Turns of"), kind="link")
_TURNS = ColumnView("turns", message("Turns"), written="count")
_PER_RESPONSE = ColumnView("per_response", message("Turns per response"))


def turns_table(context: RunContext, addresses: Addresses) -> TableView | None:
    """Return the table of turns in training responses, None if no tools were called."""
    tools = context.tables.tools
    training = context.tables.training().responses
    rollouts = training[training["turns"].notna()]
    if tools.empty or rollouts.empty:
        return None
    in_tokens = bool(rollouts["env_tokens"].notna().any() and tools["ranges"].any())
    rows = list(_rows(context, rollouts, in_tokens))
    total = sum(row.size for row in rows)
    unit = message("tokens") if in_tokens else message("characters")
    first, last = context.windows
    size = ColumnView("size", message("Length of a turn"), unit, help=message("mean over turns"))
    share = ColumnView("share", message("Share of all"), unit, written="share")
    errors = [
        ColumnView("errors", message("Error rate"), written="share",
                   help=message("share of a tool's answers that are errors")),
        ColumnView("errors_first", message("Error rate at first"), span(first), written="share"),
        ColumnView("errors_last", message("Error rate at last"), span(last), written="share"),
    ]  # fmt: skip
    kind = ColumnView("kind", message("Most errors"), kind="text")
    empty = ColumnView("empty", message("Empty answers"), written="share")
    left_out = tools["tool"].nunique() - MOST_TOOLS
    return table(
        "turns",
        message("Turns and tools"),
        {
            _WHO: [Cell(row.name, row.name) for row in rows],
            _TURNS: [row.turns for row in rows],
            _PER_RESPONSE: [row.turns / len(rollouts) for row in rows],
            size: [row.size / row.sized if row.sized else np.nan for row in rows],
            share: [row.size / total if total else np.nan for row in rows],
            **{
                column: [_error_rate(row, i, addresses) for row in rows]
                for i, column in enumerate(errors if first < last else errors[:1])
            },
            **({kind: [row.kind for row in rows]} if any(row.kind for row in rows) else {}),
            **({empty: [row.empty for row in rows]} if tools["empty"].any() else {}),
        },
        hrefs=[row.tool and addresses.responses(_filter_by(row.tool)) for row in rows],
        note=plural(
            "{count} tool that is called less often is not listed.",
            "{count} tools that are called less often are not listed.",
            left_out,
        )
        if left_out > 0
        else "",
    )


def _rows(context: RunContext, rollouts: pd.DataFrame, in_tokens: bool) -> Iterator[_Turns]:
    tools = context.tables.tools
    turns = float(rollouts["turns"].sum())
    of_policy = rollouts["response_tokens" if in_tokens else "response_chars"]
    yield _Turns(message("the policy"), turns, float(of_policy.sum()), turns)
    sums = tools.groupby("tool")[list(ToolCounts._fields)].sum()
    sums = sums.sort_values("answers", ascending=False, kind="stable")
    windows = [(tools["step"].min(), tools["step"].max()), *context.windows]
    shares = [_error_shares(tools[tools["step"].between(*window)]) for window in windows]
    for name, totals in sums.iloc[:MOST_TOOLS].iterrows():
        yield _Turns(
            tool_label(name),
            totals["answers"],
            totals["tokens" if in_tokens else "chars"],
            totals["ranges" if in_tokens else "answers"],
            listed_tool(name),
            tuple(float(share.get(name, np.nan)) for share in shares),
            _most_errors(totals),
            totals["empty"] / totals["answers"],
        )
    rest = float(rollouts["env_tokens"].sum() - sums["tokens"].sum()) if in_tokens else 0.0
    if rest > 0:
        yield _Turns(message("others (user, template)"), np.nan, rest, 0.0)


def _filter_by(tool: str) -> str:
    """Return the state of a list of the responses in which a tool answered, with errors first."""
    return urlencode({f"has.{TOOLS.key}": tool, "sort": f"-{TOOL_ERRORS}"})


def _error_rate(row: _Turns, window: int, addresses: Addresses) -> Cell:
    """Return an error rate; that over all steps links to the tool's responses with errors."""
    cell = number_cell(row.errors[window], "share", message("no answers"))
    if window == 0 and row.tool and row.errors[0] > 0:
        state = f"{_filter_by(row.tool)}&min.{TOOL_ERRORS}=1"
        return cell._replace(href=addresses.responses(state))
    return cell


def _most_errors(totals: pd.Series) -> str:
    """Return the kind of more than half of a tool's errors, "" if none is that common."""
    kind = max(ERROR_KINDS, key=lambda kind: float(totals[kind]))
    return message(ERROR_KINDS[kind]) if totals[kind] > totals["errors"] / 2 else ""


def _error_shares(tools: pd.DataFrame) -> pd.Series:
    sums = tools.groupby("tool")[["answers", "errors"]].sum()
    return sums["errors"] / sums["answers"]


_ENVIRONMENT = ColumnView("environment", message("Environment"), kind="link")
_SHARE = ColumnView("share", message("Share of responses"), written="share")
_FINISHED = ColumnView("finished", message("Finished"), written="share")


def environments_table(context: RunContext, addresses: Addresses) -> TableView | None:
    """Return the table of environments in training responses, None if there are not several."""
    tables = context.tables.without_step_in_progress().training()
    if (environments := environments_of(tables)) is None:
        return None
    steps = environment_steps(tables, environments)
    parts = [steps[steps["environment"] == i] for i in sorted(steps["environment"].unique())]
    sizes = np.array([part["responses"].sum() for part in parts])
    names = environments.labels[: len(parts)]
    unit = STEP[f"{length_column(tables.responses)}_mean"].unit
    first, best, last = zip(*(_ends(part, "reward") for part in parts), strict=True)
    length_first, _, length_last = zip(*(_ends(part, "length") for part in parts), strict=True)
    not_above = message("not above the last by more than chance")
    finished = tables.responses["finished"].groupby(environments.index).mean()
    return table(
        "environments",
        message("By environment"),
        {
            _ENVIRONMENT: [Cell(name, name) for name in names],
            _SHARE: sizes / sizes.sum(),
            REWARD_PATH: [Cell(sparkline(part["reward"].to_numpy(np.float64))) for part in parts],
            ColumnView("reward_first", message("First reward")): first,
            ColumnView("reward_best", message("Best reward")): [
                number_cell(value, why_missing=not_above) for value in best
            ],
            ColumnView("reward_last", message("Last reward")): last,
            ColumnView("length_first", message("First length"), unit): length_first,
            ColumnView("length_last", message("Last length"), unit): length_last,
            _FINISHED: finished.drop(-1, errors="ignore"),
        },
        hrefs=[
            addresses.responses(urlencode({f"has.{context.environment}": name}))
            if context.environment and name in environments.names
            else None
            for name in names
        ],
    )


def _ends(part: pd.DataFrame, column: str) -> tuple[float, ...]:
    """Return the means of the first, best and last window; NaN for a best not above the last."""
    series = Series(part["step"].to_numpy(np.int64), part[column].to_numpy(np.float64))
    course = course_of(series, column)
    if course is None:
        return (np.nan,) * 3
    best = course.best.value if course.lost else np.nan
    return course.first.value, best, course.last.value


SNIPPET_CHARS = 400
MOST_ROWS = 1_000  # Maximum steps in the table of a run that logs trainer metrics but no responses
MOST_OPEN = 8  # Maximum number of charts that are visible before further ones are unfolded
MOST_NAMED = 3  # Maximum number of trainer metrics files the summary names; the data page lists all
# Columns of the overview's table of steps; columns without data are left out
STEPS_SHOWN = (
    "responses",
    "failed_rollouts",
    "reward_mean",
    "reward_std",
    "ref_reward_mean",
    "win_rate",
    "lose_rate",
    "valid_reward_mean",
    "kl_k1_mean",
    "kl_k3_mean",
    "log_ratio_mean",
    "response_tokens_mean",
    "response_chars_mean",
    "surprisal_mean",
    "eos_rate",
    "distinct_2",
    "explained_variance",
    "zero_variance_groups",
)

# Kinds of trainer metrics that the table of steps lists if no responses are logged
ROLES_SHOWN = ("validation", "kl", "kl_token", "entropy")


def overview_view(
    context: RunContext,
    addresses: Addresses,
    charts: Sequence[Chart],
    extremes: Sequence[tuple[Extreme, Rollout]],
    figures: Sequence[KeyFigure],
) -> dict[str, Any]:
    return {
        "verdict": verdict_view(context.verdict, addresses),
        "figures": figures,
        "windows": windows_in_words(context),
        "logged": _logged_part(context),
        **charts_by_place(charts),
        "extremes": _extremes(extremes, context.prefixes, addresses),
        "turns": turns_table(context, addresses),
        "environments": environments_table(context, addresses),
        "steps": _steps(context, addresses),
        "summary": _summary(context.tables),
        "left_out": context.left_out,
        "not_drawn": not_drawn(context.tables),
        "card": card_view(context.card),
        "warnings": _warnings(context),
        "advice": logging_advice(map(str, context.tables.metrics.columns[1:]))
        if context.tables.responses.empty
        else None,
    }


def _warnings(context: RunContext) -> str:
    """Return what readers must know of the logs before they read the verdict."""
    tables = context.tables
    several_runs_lead = context.verdict.level == "unjudged" and context.verdict.lead
    texts = []
    for note in tables.notes:
        if note.kind == NO_STEP:
            texts.append(message("{one:capital}.", one=note.text))
        elif note.kind == SEVERAL_RUNS and not several_runs_lead:
            texts.append(note.text)
    return sentences([*texts, changes_in_words(tables.notes, tables.judged_before)])


def charts_by_place(charts: Sequence[Chart]) -> dict[str, Any]:
    """Return {"lead", "reward": chart or None, "charts": the visible ones, "more": collapsed}."""
    single_charts = {c.place: c for c in charts if c.place in ("lead", "reward")}
    room = MOST_OPEN - len(single_charts)
    first = [c for c in charts if c.place == "open"]
    more = first[room:] + [c for c in charts if c.place == "more"]
    groups = list(dict.fromkeys(["", *(chart.group for chart in more)]))  # one heading per group
    return {
        "lead": single_charts.get("lead"),
        "reward": single_charts.get("reward"),
        "charts": first[:room],
        "more": sorted(more, key=lambda chart: groups.index(chart.group)),
    }


def _summary(tables: Tables) -> str:
    steps = tables.steps["step"].tolist()
    names = [file.name for file in tables.metrics_files]
    few = len(names) <= MOST_NAMED
    metrics_files = listed(names) if few else plural("{count} file", "{count} files", len(names))
    places = {"low": steps[0], "high": steps[-1], "steps": len(steps)}
    if tables.responses.empty:
        metrics = len(tables.metrics.columns) - 1
        return message(
            "{metrics} of the trainer over {steps:count} steps ({low}–{high}), from {files}. No "
            "rollouts are logged.",
            metrics=plural("{count} metric", "{count} metrics", metrics),
            files=metrics_files,
            **places,
        )
    places["responses"] = counted_responses(tables.responses["validation"])
    places["files"] = plural("{count} file", "{count} files", len(tables.files))
    if len(steps) == 1:
        logs = format_message("{responses} at step {low}, from {files}.", places)
    else:
        logs = format_message(
            "{responses} over {steps:count} steps ({low}–{high}), from {files}.", places
        )
    sample = tables.sample_note
    texts = message("Counts of texts and tokens come {sample}.", sample=sample) if sample else ""
    metrics_note = message("Trainer metrics from {names}.", names=metrics_files)
    return sentences([logs, texts, metrics_note if names else ""])


_WHICH = ColumnView("which", message("Which"), kind="link")


def _extremes(
    extremes: Sequence[tuple[Extreme, Rollout]], prefixes: Sequence[str], addresses: Addresses
) -> TableView:
    rollouts = [rollout for _, rollout in extremes]
    return table(
        "extremes",
        message("Extreme responses of the run"),
        {
            _WHICH: [Cell(extreme.label, extreme.label) for extreme, _ in extremes],
            ColumnView("value", message("Extreme")): [_extreme_cell(e) for e, _ in extremes],
            ColumnView("step", message("Step")): [name_cell(r.step) for r in rollouts],
            PROMPT_TEXT: [listed_prompt(r, prefixes, SNIPPET_CHARS) for r in rollouts],
            RESPONSE_TEXT: [
                shortened(r.response, SNIPPET_CHARS) or message("(empty)") for r in rollouts
            ],
        },
        ids=[f"{r.step}-{r.n}-{extreme.metric}" for extreme, r in extremes],
        hrefs=[
            addresses.response(
                r.step,
                r.n,
                token=extreme.token,
                turn="error" if extreme.metric == TOOL_ERRORS else None,
            )
            for extreme, r in extremes
        ],
    )


def extreme_number(extreme: Extreme) -> Cell:
    return number_cell(extreme.value, RESPONSE[extreme.metric].kind)


def _extreme_cell(extreme: Extreme) -> Cell:
    value = extreme_number(extreme)
    unit = RESPONSE[extreme.metric].unit
    if value.text == "1" and unit == "tokens":
        return value._replace(text=plural("{count} token", "{count} tokens", 1))
    return value._replace(text=with_unit(value.text, unit))


def _steps(context: RunContext, addresses: Addresses) -> TableView:
    steps = context.tables.steps
    note = ""
    columns = [STEP[name] for name in columns_with_data(steps, STEPS_SHOWN)]
    if not context.has_rollouts and len(steps) > MOST_ROWS:
        note = message("{some:count} of {all:count} steps.", some=MOST_ROWS, all=len(steps))
        steps = steps.iloc[evenly(len(steps), MOST_ROWS)]
    for name in ("failed_rollouts", "responses"):
        if not steps[name].any():
            columns = [c for c in columns if c.name != name]
    names = steps["step"].tolist()
    trainer = pd.DataFrame()
    if not context.has_rollouts:
        metrics = context.tables.metrics.set_index("step").reindex(names)
        roles = roles_of(map(str, metrics.columns))
        trainer = metrics[[roles[role] for role in ROLES_SHOWN if role in roles]]
    return table(
        "steps",
        message("Steps"),
        {
            STEP_LINK: map(name_cell, names),
            **number_columns_of(steps, columns),
            **{ColumnView(f"metric:{name}", str(name)): trainer[name] for name in trainer},
        },
        ids=names,
        hrefs=[addresses.step(step) for step in names],
        badges=[
            _step_badges(context, step, incomplete)
            for step, incomplete in zip(names, steps["incomplete"].tolist(), strict=True)
        ],
        note=note,
    )


def _step_badges(context: RunContext, step: int, incomplete: bool) -> list[str]:
    verdict = context.verdict
    badges = [message("incomplete")] if incomplete else []
    if step == context.tables.in_progress:
        badges.append(message("in progress"))
    return badges + [f.name for f in verdict.findings if f.id == verdict.lead and step in f.steps]


# Key figure -> (the quantity whose course it shows, its label if it is a metric of the trainer)
_QUANTITIES: dict[str, tuple[Quantity, str]] = {
    "reward_mean": ("reward", translatable("Reward")),
    "validation_reward_mean": ("watched_reward", translatable("Validation")),
    "kl_k1_mean": ("kl", translatable("KL")),
    "response_tokens_mean": ("length", translatable("Length")),
    "surprisal_mean": ("entropy", translatable("Entropy")),
}


def run_courses(context: RunContext) -> list[tuple[Column, Course]]:
    """Return (column, course) of the run's key figures; a course has the means by window."""
    steps = context.tables.without_step_in_progress().training().steps
    courses = context.verdict.courses
    per_token = roles_of(map(str, context.tables.metrics.columns[1:])).get("kl_token")
    result = []
    for name in RUN_TILES:
        quantity, label = _QUANTITIES.get(name, (None, ""))
        column = STEP[name]
        course = courses.get(quantity) if quantity else None
        if quantity is None and name in context.tile_names:
            values = steps[name].to_numpy(np.float64)
            course = course_of(Series(steps["step"].to_numpy(np.int64), values), name)
        if course and course.source == "metrics":
            column = replace(
                column,
                label=label,
                unit=translatable("nats per token") if course.column == per_token else column.unit,
                help=message("“{metric}”, from the trainer's metrics", metric=course.column),
            )
        if course:
            result.append((STEP[course.column] if course.source == "rollouts" else column, course))
    return result


def run_figures(context: RunContext) -> list[KeyFigure]:
    """Return the run's key figures: means of the first, best and last window, a sparkline."""
    scores = [context.verdict.courses.get(quantity) for quantity in NAMES]
    return [
        _run_figure(column, course, is_score=any(course is score for score in scores))
        for column, course in run_courses(context)
    ]


def _run_figure(column: Column, course: Course, *, is_score: bool) -> KeyFigure:
    first, best, last = (
        number_cell(part.value, column.kind)._replace(
            exact=message("{value}, {steps}", value=exact(part.value), steps=span(part.steps))
        )
        for part in (course.first, course.best, course.last)
    )
    is_lower = course.lost or course.slipped  # beyond noise
    return KeyFigure(
        column.name,
        column.label,
        "%" if is_percentage(course) else column.unit,
        last,
        first if course.first != course.last else None,
        best if is_score and is_lower and course.best != course.first else None,
        sparkline=sparkline(course.values, course.steps),
        help=column.help,
    )


def windows_in_words(context: RunContext) -> str:
    windows = (course.window for course in context.verdict.courses.values())
    return plural(
        "First → last, or first → best → last.",
        "First → last, or first → best → last: means of up to {count} consecutive values.",
        max(windows, default=1),
    )


def _logged_part(context: RunContext) -> str:
    """Return a note if the bold reward line is the trainer's, over all rollouts; "" otherwise."""
    reward = context.verdict.courses.get("reward")
    counts = context.tables.training().steps["responses"].to_numpy()
    count = most_common(counts[counts > 0])
    if reward is None or reward.source == "rollouts" or not count:
        return ""
    return plural(
        "The bold line is the trainer's mean over all rollouts; {count} per step is logged.",
        "The bold line is the trainer's mean over all rollouts; {count} per step are logged.",
        count,
    )


def step_figures(context: PageContext, job: StepJob) -> list[KeyFigure]:
    """Return the key figures of a step with changes since the previous and the first step."""
    steps = job.figures["step"]
    last = len(job.figures["step"]) - 1
    earlier = dict.fromkeys(i for i in (last - 1, 0) if 0 <= i < last)
    result = []
    for name in context.tile_names:
        figure = STEP[name]
        values = job.figures[name]
        changes = (
            change(values[last], values[i], message("step {step}", step=steps[i]), figure.kind)
            for i in earlier
        )
        result.append(
            KeyFigure(
                name,
                figure.label,
                figure.unit,
                number_cell(values[last], figure.kind, message("not in this step")),
                changes=[item for item in changes if item],
                help=figure.help,
            )
        )
    return result


ROUNDING = 1e-12  # Largest relative difference of two means that still counts as no change


def change(now: float, then: float, since: str, kind: NumberKind = "number") -> Change | None:
    if math.isnan(now) or math.isnan(then):
        return None
    delta = now - then
    size = written(abs(delta), kind)
    # Rounding errors, as between two equal means, are no change.
    rounding = abs(delta) <= ROUNDING * max(abs(now), abs(then))
    flat = rounding or not any(c in "123456789∞" for c in size.split("e")[0])
    direction = "flat" if flat else ("up" if delta > 0 else "down")
    signed = f"{'+' if delta > 0 else MINUS}{size}"
    if kind == "share":  # changes of shares are in percentage points
        signed = message("{number} points", number=signed.removesuffix("%"))
    return Change(since, Cell("±0" if flat else signed, delta, exact(delta)), direction)
