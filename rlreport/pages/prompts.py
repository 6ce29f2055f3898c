"""The page of prompts."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from rlreport.columns import PROMPT, STEP
from rlreport.draw.curves import sparkline
from rlreport.pages.context import RunContext
from rlreport.pages.listed import PROMPT_TEXT, REWARD_PATH, STEP_LINK, PromptText
from rlreport.pages.overview import SNIPPET_CHARS
from rlreport.pages.page import PROMPTS, Addresses
from rlreport.pages.plan import Extreme, extremes
from rlreport.pages.redact import redacted, response_numbers
from rlreport.pages.table import Cell, TableView, name_cell, number_columns_of, table
from rlreport.read.rollouts import Rollout
from rlreport.tables import RowRole, Tables
from rlreport.text.chat import turns, turns_as_text
from rlreport.text.messages import message, sentences

PROMPTS_LISTED = 300

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


def extreme_responses(run: RunContext) -> list[tuple[Extreme, Rollout]]:
    ends = extremes(run.tables.responses)
    rows = sorted({extreme.row for extreme in ends})
    texts = run.chosen.read(rows)
    if run.options.redact:
        responses = run.tables.responses
        prompts = responses["prompt_id"].to_numpy()
        numbers = response_numbers(responses)
        texts = list(
            map(redacted, texts, prompts[rows].tolist(), numbers[rows].tolist())
        )
    rollouts = dict(zip(rows, texts, strict=True))
    return [(extreme, rollouts[extreme.row]) for extreme in ends]


def prompts_view(
    context: RunContext, addresses: Addresses, shown: Container[int]
) -> dict[str, Any]:
    """Return {"table": prompts, "groups": by step or None}; link prompts that are ``shown``."""
    return {
        "table": _prompts(context, addresses, shown),
        "groups": _groups(context.tables, addresses),
    }


def _prompts(
    context: RunContext, addresses: Addresses, shown: Container[int]
) -> TableView:
    tables = context.tables
    judged = tables.prompts[tables.prompts["validation"] != RowRole.BRANCH]
    prompts = judged.sort_values(
        ["never_won", "losing_streak", "reward_gain", "prompt_id"],
        ascending=[False, False, True, True],
    ).head(PROMPTS_LISTED)
    ids = prompts["prompt_id"].tolist()
    rows = tables.responses[tables.responses["prompt_id"].isin(ids)]
    means = rows.groupby(["prompt_id", "step"])["reward"].mean()
    recurs = means.index.get_level_values("prompt_id").has_duplicates
    hidden = set() if recurs else set(_OVER_STEPS)
    if prompts["win_rate"].isna().all():
        hidden.add("losing_streak")
    names = [name for name in _SHOWN if name not in hidden]
    columns = [PROMPT[name] for name in names if prompts[name].notna().any()]
    paths = (
        Cell(sparkline(means[prompt_id].to_numpy()), float(last))
        for prompt_id, last in zip(ids, prompts["reward_last"], strict=True)
    )
    questions = [
        PromptText(turns_as_text(turns(text)) or text, context.prefixes, SNIPPET_CHARS)
        for text in prompts["prompt"].astype(str)
    ]
    absent = message("the report shows no response to this prompt")
    note = ""
    if any(prompt_id not in shown for prompt_id in ids):
        note = message("A prompt without a link has no response in this report.")
    if len(prompts) < len(judged):
        listed = message(
            "{some:count} of {all:count} prompts listed: first those that never beat the "
            "reference, then by losing streak and loss of reward.",
            some=len(prompts),
            all=len(judged),
        )
        whole = message("{file} lists all prompts.", file=PROMPTS)
        note = sentences([listed, whole if addresses.file(PROMPTS) else "", note])
    return table(
        "prompts",
        message("Prompts over the steps"),
        {
            PROMPT_TEXT: [
                Cell(text, text.rest[:80], "" if prompt_id in shown else absent)
                for prompt_id, text in zip(ids, questions, strict=True)
            ],
            **({REWARD_PATH: paths} if recurs else {}),
            **number_columns_of(prompts, columns),
        },
        ids=[f"prompt-{prompt_id}" for prompt_id in ids],
        hrefs=[
            addresses.prompt(prompt_id) if prompt_id in shown else None
            for prompt_id in ids
        ],
        badges=[
            [message("never won")] if never else [] for never in prompts["never_won"]
        ],
        note=note,
    )


def _groups(tables: Tables, addresses: Addresses) -> TableView | None:
    """Return a table with statistics of groups by step, None if no group has two responses."""
    steps = tables.steps[tables.steps["groups"] > 0]
    if steps.empty:
        return None
    names = steps["step"].tolist()
    links = [name_cell(step, addresses.step(step)) for step in names]
    columns = number_columns_of(steps, [STEP[name] for name in _OF_GROUPS])
    return table(
        "groups", message("Groups by step"), {STEP_LINK: links, **columns}, ids=names
    )
