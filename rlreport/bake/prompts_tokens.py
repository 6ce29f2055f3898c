"""The pages of prompts and of tokens.

The page of prompts shows each prompt over the steps, with representative responses. The page of
tokens shows the tokens with the most KL, those that rose or fell, and the texts that spread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rlreport.bake.context import RunContext
from rlreport.bake.overview_page import snippet
from rlreport.bake.pages import PROMPTS, Addresses, link
from rlreport.bake.redact import redacted, response_numbers
from rlreport.bake.views import (
    Cell,
    ColumnView,
    TableView,
    name_cell,
    number_cell,
    number_column,
    table,
)
from rlreport.choose import Extreme, extremes
from rlreport.columns import PROMPT, STEP, TOKEN
from rlreport.display import fetch
from rlreport.draw.chart import Chart
from rlreport.draw.series import sparkline
from rlreport.figures.ragged import Floats
from rlreport.read.readback import RowLocations
from rlreport.read.sample_parts import EDGE
from rlreport.rollout import Rollout
from rlreport.tables import Tables
from rlreport.text.chat import spoken, turns
from rlreport.text.messages import marked, message, plural, sentences, span

PROMPTS_LISTED = 300
PROMPTS_OPENED = 40

_SHOWN = (
    *("responses", "reward_first", "reward_last", "reward_gain", "reward_min", "reward_max"),
    *("ref_reward_mean", "win_rate", "losing_streak", "kl_k1_mean", "group_std_mean"),
)
_OF_GROUPS = ("groups", "group_best_mean", "reward_mean", "group_std_mean", "zero_variance_groups")
_WHICH = {"best": marked("Best:"), "worst": marked("Worst:"), "latest": marked("Latest:")}

TOKENS_SHOWN = 40
LEAST_SUPPORT = 20
"""Minimum number of occurrences for the mean of a token to be listed."""

Windows = tuple[tuple[int, int], tuple[int, int]]

_RANKINGS = (
    ("kl-share", message("Tokens by share of the KL, k3"), ("kl_share", "kl_mean")),
    (
        "log-ratio",
        message("Tokens furthest from the reference"),
        ("abs_log_ratio_mean", "log_ratio_mean"),
    ),
    (
        "rising",
        message("Tokens whose probability changed most"),
        ("prob_first", "prob_last", "prob_change"),
    ),
    ("value-error", message("Tokens by the critic's error"), ("abs_value_error_mean",)),
)
"""Name, caption and columns of each list of tokens."""

_TOKEN = ColumnView("token", message("Token"), kind="token")
_NGRAM = ColumnView("ngram", message("Text"), kind="token")
_SEEN_IN = ColumnView(
    "example", message("Seen in"), kind="link", help=message("a response that contains it")
)


@dataclass(frozen=True, slots=True)
class RunTexts:
    """Responses read back for the overview and the prompts page.

    Attributes:
        extremes: the run's extreme responses.
        listed: rows of the prompt table that its page lists, in order.
        opened: prompt_id -> (which, response, reward) of its representative responses.
    """

    extremes: list[tuple[Extreme, Rollout]]
    listed: pd.DataFrame
    opened: dict[int, list[tuple[str, Rollout, float]]]


def run_texts(locations: RowLocations, context: RunContext) -> RunTexts:
    """Read back the responses that the run's pages show."""
    responses = context.tables.responses
    # Prompts that never beat the reference first, then the longest losing streaks.
    prompts = context.tables.prompts.sort_values(
        ["never_won", "losing_streak", "reward_gain", "prompt_id"],
        ascending=[False, False, True, True],
    ).head(PROMPTS_LISTED)
    named = {
        prompt_id: _representative_responses(responses, prompt_id)
        for prompt_id in prompts["prompt_id"].head(PROMPTS_OPENED).tolist()
    }
    ends = extremes(responses)
    rows = sorted({extreme.row for extreme in ends}.union(*named.values()))
    rollouts = dict(zip(rows, fetch(locations, rows, context.read, context.figures), strict=True))
    locations.close()
    if context.report.redact:
        prompt_ids, numbers = responses["prompt_id"].tolist(), response_numbers(responses)
        for row, rollout in rollouts.items():
            rollouts[row] = redacted(rollout, prompt_ids[row], int(numbers[row]))
    reward = responses["reward"].tolist()
    opened = {
        prompt_id: [(which, rollouts[row], reward[row]) for row, which in chosen.items()]
        for prompt_id, chosen in named.items()
    }
    return RunTexts([(extreme, rollouts[extreme.row]) for extreme in ends], prompts, opened)


def _representative_responses(responses: pd.DataFrame, prompt_id: int) -> dict[int, str]:
    """Return the best, the worst and the latest response of a prompt: row -> which."""
    rows = np.flatnonzero(responses["prompt_id"].to_numpy() == prompt_id)
    reward = responses["reward"].to_numpy()[rows]
    names: dict[int, str] = {}
    if not np.isnan(reward).all():
        names[int(rows[np.nanargmax(reward)])] = "best"
        names.setdefault(int(rows[np.nanargmin(reward)]), "worst")
    names.setdefault(int(rows[-1]), "latest")
    return names


def prompts_view(
    tables: Tables, texts: RunTexts, charts: Sequence[Chart], addresses: Addresses
) -> dict[str, Any]:
    """Return the view of the prompts page."""
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
                        number_cell(reward),
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
    paths = _reward_paths(tables.responses, ids)
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
    """Return a table with statistics of groups by step, None if no group has two responses."""
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


def _reward_paths(responses: pd.DataFrame, prompt_ids: Sequence[int]) -> dict[int, Floats]:
    """Return the mean reward by step of each prompt, float64, for the steps that contain it."""
    rows = responses.loc[responses["prompt_id"].isin(prompt_ids), ["prompt_id", "step", "reward"]]
    with np.errstate(over="ignore"):
        means = rows.groupby(["prompt_id", "step"])["reward"].mean()
    return {prompt_id: means[prompt_id].to_numpy() for prompt_id in prompt_ids}


def tokens_view(
    tables: Tables,
    spreading: pd.DataFrame,
    charts: Sequence[Chart],
    windows: Windows,
    addresses: Addresses,
) -> dict[str, Any]:
    """Return the view of the tokens page.

    Args:
        tables: all tables.
        spreading: n-grams that spread, see ``SpreadingTexts.table``.
        charts: charts of the page.
        windows: first and last step of the run's first window and of its last.
        addresses: addresses as seen from the page.
    """
    missing = message("The log has no token strings (response_tokens).")
    rankings = list(_rankings(tables.tokens, windows, addresses)) if len(tables.tokens) else []
    return {
        "tables": rankings,
        "ngrams": _spreading(spreading, addresses) if len(spreading) else None,
        "charts": charts,
        "summary": sentences(["" if len(tables.tokens) else missing, sampling(tables)]),
    }


def _rankings(tokens: pd.DataFrame, windows: Windows, addresses: Addresses) -> Iterator[TableView]:
    least = min(LEAST_SUPPORT, int(tokens["count"].max()))
    supported = tokens[tokens["count"] >= least]
    in_both = supported[(supported["count_first"] > 0) & (supported["count_last"] > 0)]
    support = plural("Tokens seen at least once.", "Tokens seen at least {count} times.", least)
    first, last = map(span, windows)
    means = message("Mean probability within {first} and within {last}.", first=first, last=last)
    for name, caption, shown in _RANKINGS:
        rows = {"kl-share": tokens, "rising": in_both}.get(name, supported)
        note = {"kl-share": "", "rising": sentences([support, means])}.get(name, support)
        size = rows["prob_change" if name == "rising" else shown[0]].abs()
        if not size.max() > 0:
            continue
        ranked = rows.assign(_size=size)[size.notna()]
        top = ranked.sort_values(["_size", "raw"], ascending=[False, True]).head(TOKENS_SHOWN)
        columns = [TOKEN[column] for column in ("count", *shown)]
        places = zip(top["example_step"], top["example_n"], top["example_position"], strict=True)
        yield table(
            name,
            caption,
            [_TOKEN, *map(number_column, columns), _SEEN_IN],
            {
                **top[[c.name for c in columns]].astype(float),
                "token": map(Cell, top["token"].astype(str), top["raw"], top["raw"]),
                "example": [_example(addresses, *place) for place in places],
            },
            ids=[f"{name}-{place}" for place in range(len(top))],
            note=note,
        )


def _example(addresses: Addresses, step: float, n: float, token: float | None = None) -> Cell:
    if pd.isna(step):
        return Cell("–", None, message("in none of the sampled responses"))
    position = None if token is None or pd.isna(token) else int(token)
    text = message("step {step}, response {n}", step=int(step), n=int(n))
    return Cell(text, float(step), href=addresses.response(int(step), int(n), position))


def sampling(tables: Tables) -> str:
    """Return which responses the figures of texts and tokens come from, "" if all of them."""
    sample = message("{one:capital}.", one=tables.sample_note) if tables.sample_note else ""
    cut = message("Of a longer response the first and the last {count:count} tokens.", count=EDGE)
    longest = tables.responses["response_tokens"].max()
    return sentences([sample, cut if longest > 2 * EDGE else ""])


def _spreading(spreading: pd.DataFrame, addresses: Addresses) -> TableView:
    held = message("share of responses that contain it")
    columns = [
        _NGRAM,
        ColumnView("share_first", message("First steps"), help=held, written="share"),
        ColumnView("share_last", message("Last steps"), help=held, written="share"),
        ColumnView("z", "z", help=message("how clearly its share rose, in standard errors")),
        ColumnView("reward_lift", message("Reward lift"), help=message("inside a step")),
        _SEEN_IN,
    ]
    examples = [
        _example(addresses, *places[0]) if places else Cell("–")
        for places in map(list, spreading["examples"])
    ]
    texts = [Cell(text, text) for text in spreading["ngram"].astype(str)]
    return table(
        "ngrams",
        message("Texts that spread through the responses"),
        columns,
        {**spreading, "ngram": texts, "example": examples},
        ids=range(len(spreading)),
    )
