"""The page of one step: key figures, charts, the response list, and the data of its panel.

``docs/page-data.md`` specifies the data that its scripts read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import Finding
from rlreport.choose import COMPACT
from rlreport.columns import TOKEN_FIGURES
from rlreport.draw.chart import Chart, finite_or_none
from rlreport.draw.step import CHARTED, step_charts
from rlreport.figures.ragged import Floats, spans
from rlreport.options import GaeOptions
from rlreport.pages.overview import finding_view, step_figures
from rlreport.pages.templates import Addresses, canonical_json, gzip_base64, packed_json
from rlreport.pages.views import (
    SAMPLED_FIGURE,
    Cell,
    Columns,
    ColumnView,
    Link,
    PageContext,
    RunContext,
    StepJob,
    TableView,
    findings_of_responses,
    list_filters,
    listed_prompt,
    name_cell,
    number_cell,
    reading_order,
    table,
)
from rlreport.read.rollouts import Rollout, Turn
from rlreport.summarise.steps import NO_VARIANCE
from rlreport.tables import IN_BRANCH, counted_in_all, length_column
from rlreport.text.messages import Joined, message, plural
from rlreport.text.numbers import NumberKind

# Maximum characters of a turn in a page; longer turns keep their beginning and end
MOST_CHARS = 40_000

# Maximum members of a group to list, in log order; shown responses are listed in addition
MOST_SIBLINGS = 64

REWARD_DIGITS = 4  # Significant digits of the rewards of group members that the page does not show
_END = MOST_CHARS // 4
_BASE64 = re.compile(r"(?:data:[\w.+/-]{1,80};base64,)?[A-Za-z0-9+/_-]{512,}={0,2}")
_LETTERS = re.compile(r"(.)\1{15}")


def conversation_data(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return {"conversation", "given": spans of unsampled tokens, "errors"} by n, if not empty."""
    parts: dict[str, dict[str, Any]] = {"conversation": {}, "given": {}, "errors": {}}
    for rollout in rollouts:
        n = str(rollout.n)
        parts["conversation"][n] = [_turn(turn) for turn in rollout.conversation]
        if rollout.sampled is not None and rollout.raw_tokens:
            parts["given"][n] = spans(~rollout.sampled).tolist()
        parts["errors"][n] = [_short(error) for error in rollout.errors]
    filled = {key: {n: value for n, value in part.items() if value} for key, part in parts.items()}
    return {key: part for key, part in filled.items() if part}


def _turn(turn: Turn) -> dict[str, Any]:
    parts = {
        "sampled": turn.sampled,
        "thinking": _short(turn.thinking or ""),
        "calls": [[name, _short(arguments)] for name, arguments in turn.calls],
        "tool": turn.tool,
        "error": _short(turn.error or ""),
    }
    numbers = {"tokens": turn.tokens, "seconds": turn.seconds, "reward": turn.reward}
    return {
        "role": turn.role,
        "text": _short(turn.text),
        **{key: value for key, value in parts.items() if value},
        **{key: value for key, value in numbers.items() if value is not None},
    }


def _short(text: str) -> str:
    """Replace base64 data by its size, and cut the middle of texts longer than MOST_CHARS."""
    if len(text) >= 512:
        text = _BASE64.sub(_size, text)
    if len(text) <= MOST_CHARS:
        return text
    left = len(text) - MOST_CHARS
    cut = plural("[{count} character left out]", "[{count} characters left out]", left)
    return Joined("\n", [text[: MOST_CHARS - _END], cut, text[-_END:]])


def _size(match: re.Match[str]) -> str:
    text = match[0]
    # A line of dashes, or of one repeated letter, is not base64.
    if not text.startswith("data:") and _LETTERS.search(text[:64]):
        return text
    size = len(text.rpartition(",")[2].rstrip("=")) * 3 // 4
    size_text = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    return f"[base64, {size_text}]"


# Columns that the response list has only if responses have groups
GROUP_COLUMNS = (
    ColumnView(
        "group", message("Group no."), help=message("the same for all responses of a group"),
        hidden=True, written="count",
    ),
    ColumnView(
        "group_mean", message("Group mean"), help=message("mean reward of the group"), hidden=True
    ),
    ColumnView(
        "group_std", message("Group std"), help=message("population std of the group's rewards"),
        hidden=True,
    ),
    ColumnView(
        "group_advantage", message("Advantage in group"), message("computed"),
        help=message("(reward − group mean) / group std, computed from the rewards"), hidden=True,
    ),
)  # fmt: skip


def group_figures(responses: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return the values of GROUP_COLUMNS of all responses: column key -> float64 (rows,).

    NaN rewards are ignored; all columns are NaN for groups with fewer than two non-NaN rewards.
    The advantage is that of GRPO (Shao et al. 2024) without ε, NaN if the std is below NO_VARIANCE.
    """
    of_group = responses.groupby(["step", "group"])["reward"]
    several = of_group.transform("count") > 1
    mean = of_group.transform("mean").where(several)
    std = of_group.transform("std", ddof=0).where(several)
    advantage = ((responses["reward"] - mean) / std).where(std >= NO_VARIANCE)
    parts = (responses["group"].where(several), mean, std, advantage)
    return {
        column.key: part.to_numpy(np.float64)
        for column, part in zip(GROUP_COLUMNS, parts, strict=True)
    }


def group_data(
    columns: Mapping[str, NDArray[Any]], shown_rows: NDArray[np.int64]
) -> dict[str, Any]:
    """Return ``groups``, ``siblings``, ``right`` (docs/page-data.md); {} if no group is shown."""
    n = columns["n"]
    group = columns["group"]
    rewards = columns["reward"]
    correctness = None if np.isnan(columns["correct"]).all() else columns["correct"]
    lengths = columns[length_column(columns)]
    is_shown = np.zeros(len(n), bool)
    is_shown[shown_rows] = True
    groups: list[list[int]] = []
    siblings: dict[str, list[float | None]] = {}
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    for members in np.split(order, cuts):
        if len(members) < 2 or not is_shown[members].any():
            continue
        entries = members[is_shown[members] | (np.arange(len(members)) < MOST_SIBLINGS)]
        groups.append(n[entries].tolist())
        for row in entries[~is_shown[entries]].tolist():
            reward = float(f"{rewards[row]:.{REWARD_DIGITS}g}")
            values = [reward, lengths[row], *([] if correctness is None else [correctness[row]])]
            siblings[str(n[row])] = [None if v != v else float(v) for v in values]
    if not groups:
        return {}
    result: dict[str, Any] = {"groups": groups, "siblings": siblings}
    if correctness is not None:
        result["right"] = [None if v != v else int(v) for v in correctness[shown_rows].tolist()]
    return result


def branch_data(
    columns: Mapping[str, NDArray[Any]], shown_rows: NDArray[np.int64]
) -> dict[str, list[list[int]]]:
    """Return {"branches": for each rollout of several rows, their n, trained first}, or {}."""
    shown = pd.DataFrame(
        {name: columns[name][shown_rows] for name in ("rollout", "validation", "n")}
    )
    rollouts = shown.dropna().sort_values(["validation", "n"]).groupby("rollout")["n"]
    branches = [members.tolist() for _, members in rollouts if len(members) > 1]
    return {"branches": branches} if branches else {}


# Token figures stored in the page; its scripts compute all other figures from them
SHIPPED = (
    "logp",
    "ref_logp",
    "log_ratio",
    "token_reward",
    "value",
    "advantage",
    "return",
    "sampler_logp",
)

MISSING_EXPONENT = -128  # marks NaN, see ``decimal``
_MOST_EXPONENT = 120
_POWERS = 10.0 ** np.arange(_MOST_EXPONENT + 1)


def pack_tokens(rollouts: Sequence[Rollout], digits: int) -> str:
    """Encode tokens and their figures as gzipped base64 text; "" if no rollout has tokens."""
    rollouts = [r for r in rollouts if r.raw_tokens]
    if not rollouts:
        return ""
    # Looking up a new pair (text, logged string) assigns it the next number.
    vocabulary: defaultdict[tuple[str, str], int] = defaultdict(count().__next__)
    pairs = chain.from_iterable(zip(r.tokens, r.raw_tokens, strict=True) for r in rollouts)
    ids = np.fromiter(map(vocabulary.__getitem__, pairs), np.uint32)
    texts, raw = zip(*vocabulary, strict=True)
    columns = {name: _column(rollouts, name) for name in SHIPPED}
    columns = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    # The page computes ref_logp as logp − log_ratio, unless a log_ratio is missing.
    if {"ref_logp", "log_ratio"} <= columns.keys() and np.array_equal(
        np.isnan(columns["log_ratio"]), np.isnan(columns["ref_logp"])
    ):
        del columns["ref_logp"]
    if digits <= COMPACT and {"value", "advantage", "return"} <= columns.keys():
        computed = columns["value"] + columns["advantage"]
        scale = np.nanmax(np.abs(computed), initial=0.0)
        if np.allclose(computed, columns["return"], 0.0, 1e-6 * scale, equal_nan=True):
            del columns["return"]
    header = canonical_json(
        {
            "digits": digits,
            "n": [r.n for r in rollouts],
            "lengths": [len(r.raw_tokens) for r in rollouts],
            "text": texts,
            "raw": [None if a == b else a for a, b in zip(raw, texts, strict=True)],
            "columns": list(columns),
        }
    )
    parts = [np.uint32(len(header)).tobytes(), header, _planes(ids)]
    for values in columns.values():
        mantissa, exponent = decimal(values, digits)
        zigzag = ((mantissa << 1) ^ (mantissa >> 63)).astype(np.uint32)
        parts += [_planes(zigzag), exponent.tobytes()]
    return gzip_base64(b"".join(parts))


def token_metrics(
    present: Mapping[str, bool], gae: GaeOptions, *, advantages_logged: bool
) -> list[dict[str, Any]]:
    """Return a dict (key, label, unit, signed, help) for each figure that is ``present``."""
    by_gae = message(
        "computed from token rewards and values: GAE with γ = {gamma}, λ = {lam}",
        gamma=gae.gamma,
        lam=gae.lam,
    )
    computed = {"return": message("value + advantage; {how}", how=by_gae)}
    computed["advantage"] = message("as logged") if advantages_logged else by_gae
    return [
        {
            "key": f.name,
            "label": f.label,
            "unit": f.unit,
            "signed": f.signed,
            "help": computed.get(f.name, f.help),
        }
        for f in TOKEN_FIGURES
        if present.get(f.name)
    ]


def figures_present(rollouts: Sequence[Rollout]) -> dict[str, bool]:
    """Return name -> whether any value is not NaN, of the token figures that a rollout has."""
    result = {}
    for name in (figure.name for figure in TOKEN_FIGURES):
        arrays = [_figure(rollout, name) for rollout in rollouts if rollout.raw_tokens]
        if logged_arrays := [values for values in arrays if values is not None]:
            result[name] = any(not np.isnan(values).all() for values in logged_arrays)
    return result


def _figure(rollout: Rollout, name: str) -> Floats | None:
    values: Floats | None = getattr(rollout.figures, "return_" if name == "return" else name)
    return values


def _column(rollouts: Sequence[Rollout], name: str) -> NDArray[np.float64]:
    """Return a figure of all tokens, concatenated; NaN for responses that do not have it."""
    figures = [(rollout, _figure(rollout, name)) for rollout in rollouts]
    return np.concatenate(
        [np.full(len(r.raw_tokens), np.nan) if values is None else values for r, values in figures]
    )


def decimal(values: NDArray[np.float64], digits: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Return (mantissas, exponents): values rounded to ``digits`` digits are m × 10^e.

    Mantissas have no trailing zeros; NaN has exponent -128. Values must be in float32's range.
    """
    missing = np.isnan(values)
    numbers = np.where(missing, 0.0, values)
    magnitude = np.where(numbers == 0, 1.0, np.abs(numbers))
    exponent = np.floor(np.log10(magnitude)).astype(np.int64) - (digits - 1)
    exponent = np.clip(exponent, -_MOST_EXPONENT, _MOST_EXPONENT)
    # Multiplying by an exact power of ten keeps decimals such as 0.1 exact.
    power = _POWERS[np.abs(exponent)]
    mantissa = np.rint(np.where(exponent < 0, numbers * power, numbers / power)).astype(np.int64)
    ending_in_0 = np.flatnonzero((mantissa % 10 == 0) & (mantissa != 0))
    while len(ending_in_0):
        mantissa[ending_in_0] //= 10
        exponent[ending_in_0] += 1
        ending_in_0 = ending_in_0[mantissa[ending_in_0] % 10 == 0]
    exponent[mantissa == 0] = 0
    exponent[missing] = MISSING_EXPONENT
    return mantissa, exponent.astype(np.int8)


def _planes(values: NDArray[np.uint32]) -> bytes:
    return values.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes()


# Maximum table rows that are written as HTML; further rows are in the page's data only
STATIC_ROWS = 50

NUMBERED = ColumnView("n", "#", help=message("position in the step, in log order"), written="count")

# Keys of a step's page data that the responses page loads, too; see docs/page-data.md
_OF_TEXTS = (
    "step",
    "total",
    "n",
    "texts",
    "turns",
    "where",
    "badges",
    "highlights",
    "prompts",
    "conversation",
    "errors",
    "groups",
    "siblings",
    "right",
    "branches",
)

LEAST_CHARTED = 8  # Minimum number of responses for a step to have charts


@dataclass(frozen=True, slots=True)
class StepRows:
    """The columns of a step, computed once, and the responses that its page lists."""

    rollouts: list[Rollout]  # listed responses: highest reward first, NaN last; ties in log order
    with_tokens: list[Rollout]  # those whose token values the page has
    places: NDArray[np.int64]  # positions of ``rollouts`` in the columns
    # numeric columns of the list, of all responses of the step, and of those listed
    values: dict[str, Floats]
    listed: dict[str, Floats]
    texts: dict[str, list[str | None]]  # text columns of the listed responses


def step_rows(job: StepJob, shown: Sequence[Rollout], context: PageContext) -> StepRows:
    """Compute the columns of a step; ``shown`` are its responses in the order of ``job.shown``."""
    columns = job.columns
    places = job.shown
    order = np.lexsort((columns["n"][places], -columns["reward"][places]))
    places, rollouts = places[order], [shown[i] for i in order.tolist()]
    keys = [*(column.key for column in context.columns), "prompt_id"]
    values = {key: columns[key].astype(np.float64, copy=False) for key in keys}
    return StepRows(
        rollouts,
        [shown[i] for i in order.tolist() if i < job.plan.with_tokens],
        places,
        values,
        {key: column[places] for key, column in values.items()},
        {
            # A prompt is shown without chat template tags.
            c.key: [
                listed_prompt(r, context.prefixes) if c.key == "prompt" else getattr(r, c.key)
                for r in rollouts
            ]
            for c in context.text_columns
        },
    )


def step_view(
    job: StepJob, rows: StepRows, context: PageContext, addresses: Addresses
) -> dict[str, Any]:
    plan = job.plan
    linked = job.linked
    overview = addresses.page("overview")
    index = linked.index(plan.step)
    all_steps = [Link(message("all steps"), overview)]
    data = _data(job, rows, context)
    # Training responses are judged; if there are none, those of validation.
    training = job.columns["validation"] == 0
    judged = training if training.any() else ~training
    charts: list[Chart] = []
    if np.count_nonzero(judged) >= LEAST_CHARTED:
        first = context.first_rewards[: 0 if plan.step == context.first_step else None]
        charted = {name: job.columns[name][judged].astype(np.float64) for name in CHARTED}
        charts = step_charts(charted, first, context.options.language)
    return {
        "step": str(plan.step),
        "previous": _step_link(linked[index - 1], addresses) if index else None,
        "next": _step_link(linked[index + 1], addresses) if index + 1 < len(linked) else None,
        "first": _step_link(linked[0], addresses),
        "all": Link(message("All steps"), overview + ("" if context.one_file else "#steps")),
        "figures": step_figures(context, job),
        "charts": charts,
        "findings": [{**finding_view(f, addresses), "steps": all_steps} for f in job.findings],
        "responses": _table(job, rows, context, addresses),
        "data": data | {"texts": {key: _not_in_table(texts) for key, texts in rows.texts.items()}},
        "texts": packed_json(
            context.options.language.of({key: data[key] for key in _OF_TEXTS if key in data})
        ),
        "tokens": pack_tokens(rows.with_tokens, plan.digits),
        "incomplete": job.figures["incomplete"][-1],
        "in_progress": job.in_progress,
    }


def _table(job: StepJob, rows: StepRows, context: PageContext, addresses: Addresses) -> TableView:
    step = job.plan.step
    count = len(rows.rollouts)
    total = len(job.columns["n"])
    values: Columns = {
        c: rows.texts[c.key][:STATIC_ROWS]
        if c.key in rows.texts
        else number_cells(c.written, rows.listed[c.key])
        for c in reading_order(context.columns, context.text_columns)
    }
    names = [rollout.n for rollout in rows.rollouts[:STATIC_ROWS]]
    findings = findings_of_responses(job.findings, step)
    note = ""
    if count < total:
        note = message(
            "{some:count} of {all} shown: those cited by findings, the extremes of every metric, "
            "and a random sample of the rest.",
            some=count,
            all=counted_in_all(job.columns["validation"]),
        )
    return table(
        "responses",
        message("Responses of step {step}", step=step),
        {NUMBERED: map(name_cell, names), **values},
        ids=names,
        hrefs=[addresses.response(step, n) if context.one_file else f"#r={n}" for n in names],
        badges=[findings.get(n, []) for n in names],
        note=note,
    )


def _data(job: StepJob, rows: StepRows, context: PageContext) -> dict[str, Any]:
    rollouts = rows.rollouts
    keys = [column.key for column in context.columns]
    present = figures_present(rollouts)
    logged = job.columns["advantage_logged_mean"]
    ranked = job.columns["validation"] != IN_BRANCH
    return {
        "run": context.run,
        "step": str(job.plan.step),
        "total": len(job.columns["n"]),
        "n": [rollout.n for rollout in rollouts],
        "columns": [c.data() for c in (*context.columns, *context.string_columns)],
        "values": {key: rows.listed[key] for key in keys},
        "strings": strings_of(job, rows.places, context),
        "texts": rows.texts,
        **({"prefixes": context.prefixes} if context.prefixes else {}),
        **list_filters(context),
        **({"advantage": "logged"} if np.isfinite(logged).any() else {}),
        "turns": {str(r.n): r.turns for r in rollouts if r.turns},
        "ranks": {
            key: [None] * len(rollouts)
            if context.sampled and key == SAMPLED_FIGURE
            else _ranks(rows.values[key][ranked], rows.listed[key])
            for key in keys
        },
        "where": [f"{r.file}:{r.line}" for r in rollouts],
        "badges": _badges(job.findings, job.plan.step),
        "highlights": sorted({text for finding in job.findings for text in finding.texts}),
        "metrics": token_metrics(
            present, context.options, advantages_logged=context.advantages_logged
        ),
        "nan": [figure.label for figure in TOKEN_FIGURES if present.get(figure.name) is False],
        "prompts": job.columns["prompt_id"][rows.places],
        **conversation_data(rollouts),
        **group_data(job.columns, rows.places),
        **branch_data(job.columns, rows.places),
    }


def _not_in_table(texts: Sequence[str | None]) -> list[str | None]:
    return [
        None if i < STATIC_ROWS and "\r" not in (text or "") else text
        for i, text in enumerate(texts)
    ]


def _ranks(values: Floats, listed: Floats) -> list[int | None]:
    """Return the rank among ``values`` of each listed value: 1 = largest, None for NaN."""
    ascending = np.sort(values[~np.isnan(values)])
    ranks = len(ascending) + 1 - np.searchsorted(ascending, listed, side="right")
    return [rank or None for rank in np.where(np.isnan(listed), 0, ranks).tolist()]


def _badges(findings: Sequence[Finding], step: int) -> dict[str, list[dict[str, Any]]]:
    badges: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        facts = {key: getattr(finding, key) for key in ("id", "severity", "name", "title")}
        for ref in finding.evidence:
            if ref.step == step:
                badges.setdefault(str(ref.n), []).append({**facts, "token": ref.token})
    return badges


def strings_of(
    job: StepJob, places: NDArray[np.int64], context: PageContext
) -> dict[str, list[str | None]]:
    """Return key -> texts (None if missing) at ``places``, for each of ``string_columns``."""
    return {
        c.key: [v if isinstance(v, str) else None for v in job.columns[c.key][places]]
        for c in context.string_columns
    }


def number_cells(kind: NumberKind, values: NDArray[np.float64]) -> list[Cell]:
    """Return the first STATIC_ROWS cells of a column, bars scaled to its largest magnitude."""
    size = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = float(size.max(initial=0.0)) or 1.0
    # Divide first, like the scripts of the page: a product may exceed 20 or overflow.
    bars = np.ceil(20 * (size / scale)).astype(np.int64)
    static = zip(values[:STATIC_ROWS].tolist(), bars.tolist(), strict=False)
    return [number_cell(value, kind, bar=bar) for value, bar in static]


def _step_link(step: int, addresses: Addresses) -> Link:
    return Link(message("Step {step}", step=step), addresses.step(step))


def steps_data(context: RunContext, prompts: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the data about the whole run that each step's page loads; see docs/page-data.md."""
    steps = context.tables.steps.set_index("step").loc[context.shown_steps]
    titles = {finding.id: finding.title for finding in context.verdict.findings}
    addresses = Addresses(root="../", one_file=context.one_file)
    return {
        "steps": context.shown_steps,
        "findings": context.options.language.of(titles),
        "rewards": [finite_or_none(value) for value in steps["reward_mean"].tolist()],
        "prompts": prompts,
        "href": addresses.any_step("{step}"),
        "prompt": addresses.prompt("{prompt}"),
    }
