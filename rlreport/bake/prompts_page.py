"""The prompts page: every prompt over the steps, and its responses side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlreport.bake.addresses import Addresses, link
from rlreport.bake.numbers import number
from rlreport.bake.overview_page import snippet
from rlreport.bake.run_texts import RunTexts
from rlreport.bake.views import (
    Cell,
    ColumnView,
    PromptDetail,
    PromptsView,
    RowView,
    TableView,
)
from rlreport.draw.chart import Chart
from rlreport.draw.sparkline import sparkline
from rlreport.summarise.grouped import Floats, Grouped
from rlreport.tables import Tables
from rlreport.text.numbers import Kind

_COLUMNS = (
    ColumnView("responses", "Responses"),
    ColumnView("reward_first", "First reward", help="mean in its first step"),
    ColumnView("reward_last", "Last reward", help="mean in its last step"),
    ColumnView("reward_gain", "Gain", help="last − first", signed=True),
    ColumnView("reward_min", "Worst", help="smallest reward"),
    ColumnView("reward_max", "Best", help="largest reward"),
    ColumnView("ref_reward_mean", "Reference reward"),
    ColumnView("win_rate", "Win rate"),
    ColumnView("losing_streak", "Not won since", "responses"),
    ColumnView("kl_k1_mean", "KL, k1", "nats"),
    ColumnView("group_std_mean", "Group std", help="mean std of the reward inside its groups"),
)

_KINDS: dict[str, Kind] = {
    "responses": "count",
    "losing_streak": "count",
    "groups": "count",
    "win_rate": "share",
    "zero_variance_groups": "share",
}


def prompts_view(
    tables: Tables,
    texts: RunTexts,
    charts: Sequence[Chart],
    addresses: Addresses,
) -> PromptsView:
    """Builds the view of the prompts page.

    Args:
        tables: all tables.
        texts: the prompts that are listed, and the responses of those that open.
        charts: charts of the page.
        addresses: addresses as seen from the page.
    """
    shown, details = texts.listed, texts.opened
    paths = reward_paths(tables.responses, shown["prompt_id"].tolist())
    fed = [c for c in _COLUMNS if shown[c.key].notna().any()]
    columns = [
        ColumnView("prompt", "Prompt", kind="text"),
        ColumnView("path", "Reward over steps", kind="path"),
        *(ColumnView(c.key, c.label, c.unit, "number", c.help, c.signed) for c in fed),
    ]
    rows = []
    for record in shown.to_dict("records"):
        prompt_id = int(record["prompt_id"])
        cells = [Cell(snippet(str(record["prompt"])), str(record["prompt"])[:80])]
        cells.append(Cell(sparkline(paths[prompt_id]), float(record["reward_last"])))
        for column in fed:
            kind = _KINDS.get(column.key, "number")
            value = number(float(record[column.key]), kind)
            cells.append(Cell(value.text, value.value, value.exact))
        badges = ["never won"] if record["never_won"] else []
        href = addresses.prompt(prompt_id) if prompt_id in details else None
        rows.append(RowView(f"prompt-{prompt_id}", cells, href, badges))
    note = ""
    if len(shown) < len(tables.prompts):
        note = (
            f"{len(shown):,} of {len(tables.prompts):,} prompts listed, those that never beat the "
            "reference and the longest losing streaks first. data/prompts.csv has all of them."
        )
    return PromptsView(
        table=TableView("prompts", "Prompts over the steps", columns, rows, note),
        groups=_groups(tables, addresses),
        charts=list(charts),
        details=[
            PromptDetail(
                str(prompt_id),
                opened[0][1].prompt,
                [
                    (
                        link(f"step {r.step}, response {r.n}", addresses.response(r.step, r.n)),
                        which,
                        number(reward),
                        r.response,
                    )
                    for which, r, reward in opened
                ],
            )
            for prompt_id, opened in details.items()
        ],
        note="",
    )


def _groups(tables: Tables, addresses: Addresses) -> TableView | None:
    """Groups by step; None when no group has two responses."""
    steps = tables.steps[tables.steps["groups"] > 0]
    if steps.empty:
        return None
    columns = [
        ColumnView("step", "Step", kind="link"),
        ColumnView("groups", "Groups"),
        ColumnView("group_best_mean", "Best of group", help="mean over groups of the best reward"),
        ColumnView("reward_mean", "Mean reward"),
        ColumnView("group_std_mean", "Std in group", help="mean over groups"),
        ColumnView("zero_variance_groups", "Zero variance", help="share with std < 1e-6"),
    ]
    rows = []
    for record in steps.to_dict("records"):
        step = int(record["step"])
        cells = [Cell(str(step), float(step), href=addresses.step(step))]
        for column in columns[1:]:
            kind = _KINDS.get(column.key, "number")
            value = number(float(record[column.key]), kind)
            cells.append(Cell(value.text, value.value, value.exact))
        rows.append(RowView(str(step), cells))
    return TableView("groups", "Groups by step", columns, rows)


def reward_paths(responses: pd.DataFrame, prompt_ids: Sequence[int]) -> dict[int, Floats]:
    """Mean reward per step of each prompt, float64 in the order of its steps."""
    wanted = responses[responses["prompt_id"].isin(prompt_ids)]
    order = np.argsort(wanted["prompt_id"].to_numpy(), kind="stable")
    prompt_id, step = (wanted[name].to_numpy()[order] for name in ("prompt_id", "step"))
    seen = Grouped.by(prompt_id, step)
    means = seen.mean(wanted["reward"].to_numpy()[order])
    owners = seen.first(prompt_id)
    prompts = Grouped.by(owners)
    parts = np.split(means, prompts.starts[1:])
    return dict(zip(prompts.first(owners).tolist(), parts, strict=True))
