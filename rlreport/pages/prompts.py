"""The page of prompts."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.check.run import has
from rlreport.columns import PROMPT, STEP
from rlreport.draw.sparkline import sparkline
from rlreport.pages.context import RunReport
from rlreport.pages.extremes import SNIPPET_CHARS
from rlreport.pages.html import packed_json
from rlreport.pages.listed import PROMPT_TEXT, REWARD_PATH, STEP_LINK, PromptText
from rlreport.pages.listed_steps import listed_steps
from rlreport.pages.page import PROMPTS, Addresses, Page, has_responses
from rlreport.pages.prompt_data import prompts_data
from rlreport.pages.prompt_map_view import (
    PromptCoursesView,
    course_labels,
    prompt_courses_view,
)
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    TableView,
    name_cell,
    number_columns_of,
    table,
)
from rlreport.summarise.prompt_courses import PromptCourse
from rlreport.tables import RowRole, Tables
from rlreport.text.chat import turns, turns_as_text
from rlreport.text.messages import message, sentences

PROMPTS_LISTED = 300
# If there are more, those of each course that changed most come first
_OF_A_COURSE = 50

_COURSE = ColumnView(
    "course",
    message("Course"),
    kind="flag",
    help=message(
        "the last third of its steps against the first one, with an allowance for noise"
    ),
)

_SHOWN = (
    "responses",
    "reward_first",
    "reward_last",
    "reward_gain",
    "reward_min",
    "reward_max",
    "ref_reward_mean",
    "win_rate",
    "losing_streak",
    "kl_k1_mean",
    "group_std_mean",
)
# Columns that compare the steps of a prompt
_OVER_STEPS = frozenset({"reward_first", "reward_gain", "reward_min", "reward_max"})
_OF_GROUPS = (
    "groups",
    "group_best_mean",
    "reward_mean",
    "group_std_mean",
    "zero_variance_groups",
)


@dataclass(frozen=True, slots=True)
class PromptsView:
    """What the page of prompts shows."""

    courses: PromptCoursesView
    table: TableView
    packed: str  # ``PromptsData``, for the script
    groups: TableView | None  # by step


def prompts_view(report: RunReport, addresses: Addresses) -> PromptsView:
    language = report.run.options.language
    return PromptsView(
        courses=prompt_courses_view(report, addresses),
        table=_prompts_table(report, addresses),
        packed=packed_json(language.of(prompts_data(report, addresses))),
        groups=_groups_table(report.run.tables, addresses),
    )


PAGE = Page("prompts", message("Prompts"), prompts_view, has_responses)


def _prompts_table(report: RunReport, addresses: Addresses) -> TableView:
    """Return the table of prompts, those that the policy does worst on first."""
    tables = report.run.tables
    shown = report.listed_prompts  # ids of prompts of which the report shows a response
    judged = tables.prompts[tables.prompts["validation"] != RowRole.BRANCH]
    prompts = _listed(judged)
    ids = prompts["prompt_id"].tolist()
    paths = _reward_paths(tables.responses, prompts)
    absent = message("the report shows no response to this prompt")
    texts = []
    for prompt_id, prompt in zip(ids, prompts["prompt"].astype(str), strict=True):
        whole = turns_as_text(turns(prompt)) or prompt
        text = PromptText(whole, report.shared.prefixes, SNIPPET_CHARS)
        why_no_link = "" if prompt_id in shown else absent
        # Readers sort prompts by what follows a shared beginning.
        texts.append(Cell(text, value=text.rest[:80], exact=why_no_link))
    columns: Columns = {PROMPT_TEXT: texts}
    if paths:
        columns[REWARD_PATH] = paths
    if (prompts["course"] != PromptCourse.NONE).any():
        columns[_COURSE] = course_labels(prompts["course"])
    names = _shown_columns(prompts, recurs=bool(paths))
    columns |= number_columns_of(prompts, [PROMPT[name] for name in names])
    hrefs = [
        addresses.prompt(prompt_id) if prompt_id in shown else None for prompt_id in ids
    ]
    never_won = message("never won")
    return table(
        "prompts",
        message("Prompts over the steps"),
        columns,
        ids=ids,
        hrefs=hrefs,
        badges=[[never_won] if never else [] for never in prompts["never_won"]],
        note=_note(prompts, len(judged), shown, addresses),
    )


def _reward_paths(responses: pd.DataFrame, prompts: pd.DataFrame) -> list[Cell]:
    """Return the mean reward of each prompt over its steps, [] if none is at several steps."""
    ids = prompts["prompt_id"].to_numpy()
    is_listed = responses["prompt_id"].isin(ids)
    # Only these columns, as all rows are selected if there are few prompts
    rows = responses.loc[is_listed, ["prompt_id", "step", "reward"]]
    means = rows.groupby(["prompt_id", "step"])["reward"].mean()
    # The means of a prompt follow each other.
    rewards = means.to_numpy()
    prompt = means.index.get_level_values("prompt_id").to_numpy()
    if not (prompt[1:] == prompt[:-1]).any():
        return []
    starts = np.searchsorted(prompt, ids, "left").tolist()
    stops = np.searchsorted(prompt, ids, "right").tolist()
    last = prompts["reward_last"].tolist()
    return [
        Cell(sparkline(rewards[start:stop]), value)
        for start, stop, value in zip(starts, stops, last, strict=True)
    ]


def _listed(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return up to PROMPTS_LISTED prompts, those that the policy does worst on first.

    Each course has some, so that the counts above the list select some, too.
    """
    ordered = prompts.sort_values(
        ["never_won", "losing_streak", "reward_gain", "prompt_id"],
        ascending=[False, False, True, True],
    )
    if len(ordered) <= PROMPTS_LISTED:
        return ordered
    change = (ordered["late"] - ordered["early"]).abs().fillna(0.0)
    by_change = ordered.assign(change=change).sort_values(
        "change", ascending=False, kind="stable"
    )
    chosen = set[int]()
    for course, some in by_change.groupby("course"):
        if course != PromptCourse.NONE:
            chosen.update(some["prompt_id"].head(_OF_A_COURSE).tolist())
    others = ordered.loc[~ordered["prompt_id"].isin(chosen), "prompt_id"]
    chosen.update(others.head(PROMPTS_LISTED - len(chosen)).tolist())
    return ordered[ordered["prompt_id"].isin(chosen)]


def _shown_columns(prompts: pd.DataFrame, *, recurs: bool) -> list[str]:
    """Return the columns with data; those over steps only if a prompt recurs at another step."""
    hidden = set() if recurs else set(_OVER_STEPS)
    if prompts["win_rate"].isna().all():
        hidden.add("losing_streak")
    return [name for name in _SHOWN if name not in hidden and has(prompts, name)]


def _note(
    prompts: pd.DataFrame, count: int, shown: Container[int], addresses: Addresses
) -> str:
    """Return which of ``count`` prompts are listed, and that some have no link.

    ``shown``: ids of the prompts that have one.
    """
    parts = []
    if len(prompts) < count:
        listed = message(
            "{some:count} of {all:count} prompts listed: of each course those that changed most, "
            "then those that never beat the reference, by losing streak and loss of reward.",
            some=len(prompts),
            all=count,
        )
        parts.append(listed)
        if addresses.file(PROMPTS):
            parts.append(message("{file} lists all prompts.", file=PROMPTS))
    if any(prompt_id not in shown for prompt_id in prompts["prompt_id"].tolist()):
        text = message("A prompt without a link has no response in this report.")
        parts.append(text)
    return sentences(parts)


def _groups_table(tables: Tables, addresses: Addresses) -> TableView | None:
    """Return a table with statistics of groups by step, None if no group has two responses."""
    with_groups = tables.steps[tables.steps["groups"] > 0]
    if with_groups.empty:
        return None
    steps, note = listed_steps(with_groups, addresses)
    names = steps["step"].tolist()
    links = [name_cell(step, addresses.step(step)) for step in names]
    columns = number_columns_of(steps, [STEP[name] for name in _OF_GROUPS])
    return table(
        "groups",
        message("Groups by step"),
        {STEP_LINK: links, **columns},
        ids=names,
        note=note,
    )
