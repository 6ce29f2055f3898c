"""The prompts page: every prompt over the steps, and its responses side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rlreport.bake.addresses import PROMPTS, Addresses, link
from rlreport.bake.overview_page import snippet
from rlreport.bake.run_texts import RunTexts
from rlreport.bake.views import (
    Cell,
    ColumnView,
    TableView,
    name_cell,
    number,
    number_column,
    table,
)
from rlreport.columns import PROMPT, STEP
from rlreport.draw.chart import Chart
from rlreport.draw.series import sparkline
from rlreport.figures.ragged import Floats
from rlreport.summarise.grouped import Grouped
from rlreport.tables import Tables
from rlreport.text.chat import spoken, turns
from rlreport.text.messages import marked, message, sentences

_SHOWN = (
    *("responses", "reward_first", "reward_last", "reward_gain", "reward_min", "reward_max"),
    *("ref_reward_mean", "win_rate", "losing_streak", "kl_k1_mean", "group_std_mean"),
)
_WHICH = {"best": marked("Best:"), "worst": marked("Worst:"), "latest": marked("Latest:")}
_OF_GROUPS = ("groups", "group_best_mean", "reward_mean", "group_std_mean", "zero_variance_groups")


def prompts_view(
    tables: Tables,
    texts: RunTexts,
    charts: Sequence[Chart],
    addresses: Addresses,
) -> dict[str, Any]:
    """Return the view of the prompts page.

    Args:
        tables: all tables.
        texts: the prompts that are listed, and the responses of those that open.
        charts: charts of the page.
        addresses: addresses as seen from the page.
    """
    return {
        "table": _prompts(tables, texts, addresses),
        "groups": _groups(tables, addresses),
        "charts": charts,
        "details": [
            {
                "prompt_id": prompt_id,
                "prompt": spoken(opened[0][1].turns) or opened[0][1].prompt,
                "responses": [
                    (
                        link(
                            message("step {step}, response {n}", step=r.step, n=r.n),
                            addresses.response(r.step, r.n),
                        ),
                        message(_WHICH[which]),
                        number(reward),
                        r.response,
                    )
                    for which, r, reward in opened
                ],
            }
            for prompt_id, opened in texts.opened.items()
        ],
    }


def _prompts(tables: Tables, texts: RunTexts, addresses: Addresses) -> TableView:
    shown = texts.listed
    ids = shown["prompt_id"].tolist()
    paths = reward_paths(tables.responses, ids)
    columns = [PROMPT[name] for name in _SHOWN if shown[name].notna().any()]
    prompts = [snippet(spoken(turns(text)) or text) for text in shown["prompt"].astype(str)]
    lines = zip(ids, shown["reward_last"].tolist(), strict=True)
    note = ""
    if len(shown) < len(tables.prompts):
        note = message(
            "{some:count} of {all:count} prompts listed, those that never beat the reference "
            "and the longest losing streaks first.",
            some=len(shown),
            all=len(tables.prompts),
        )
        if addresses.file(PROMPTS):
            note = sentences([note, message("{file} has all of them.", file=PROMPTS)])
    return table(
        "prompts",
        message("Prompts over the steps"),
        [
            ColumnView("prompt", message("Prompt"), kind="text"),
            ColumnView("path", message("Reward over steps"), kind="path"),
            *map(number_column, columns),
        ],
        {
            **{c.name: shown[c.name].astype(float) for c in columns},
            "prompt": [Cell(text, text[:80]) for text in prompts],
            "path": [Cell(sparkline(paths[one]), float(last)) for one, last in lines],
        },
        ids=[f"prompt-{one}" for one in ids],
        hrefs=[addresses.prompt(one) if one in texts.opened else None for one in ids],
        badges=[[message("never won")] if never else [] for never in shown["never_won"]],
        note=note,
    )


def _groups(tables: Tables, addresses: Addresses) -> TableView | None:
    """Return groups by step; None when no group has two responses."""
    steps = tables.steps[tables.steps["groups"] > 0]
    if steps.empty:
        return None
    columns = [STEP[name] for name in _OF_GROUPS]
    names = steps["step"].tolist()
    return table(
        "groups",
        message("Groups by step"),
        [ColumnView("step", message("Step"), kind="link"), *map(number_column, columns)],
        {
            **{c.name: steps[c.name].astype(float) for c in columns},
            "step": [name_cell(step, addresses.step(step)) for step in names],
        },
        ids=names,
    )


def reward_paths(responses: pd.DataFrame, prompt_ids: Sequence[int]) -> dict[int, Floats]:
    """Mean reward per step of each prompt, float64 in the order of its steps."""
    wanted = responses[["prompt_id", "step", "reward"]]
    wanted = wanted[wanted["prompt_id"].isin(prompt_ids)]
    order = np.argsort(wanted["prompt_id"].to_numpy(), kind="stable")
    prompt_id, step = (wanted[name].to_numpy()[order] for name in ("prompt_id", "step"))
    seen = Grouped.by(prompt_id, step)
    means = seen.mean(wanted["reward"].to_numpy()[order])
    owners = seen.first(prompt_id)
    prompts = Grouped.by(owners)
    parts = np.split(means, prompts.starts[1:])
    return dict(zip(prompts.first(owners).tolist(), parts, strict=True))
