"""The pages of prompts, of tokens and of all responses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.choose import Extreme, StepPlan, extremes
from rlreport.columns import PROMPT, RESPONSE, STEP, TOKEN
from rlreport.draw.chart import Chart
from rlreport.draw.curves import sparkline
from rlreport.figures.ragged import Floats
from rlreport.pages.overview import SNIPPET_CHARS
from rlreport.pages.redact import redacted, response_numbers
from rlreport.pages.step import NUMBERED, STATIC_ROWS, number_cells, strings_of
from rlreport.pages.templates import PROMPTS, Addresses, packed_json
from rlreport.pages.views import (
    PROMPT_TEXT,
    REWARD_PATH,
    STEP_LINK,
    Cell,
    ColumnView,
    PageContext,
    PromptText,
    RunContext,
    StepJob,
    TableView,
    findings_of_responses,
    list_filters,
    listed_prompt,
    name_cell,
    number_columns_of,
    reading_order,
    table,
)
from rlreport.read.rollouts import EDGE, Rollout
from rlreport.tables import IN_BRANCH, Tables, counted_in_all, counted_responses
from rlreport.text.chat import turns, turns_as_text
from rlreport.text.clean import shortened
from rlreport.text.messages import listed, message, plural, sentences, span

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
_OF_GROUPS = ("groups", "group_best_mean", "reward_mean", "group_std_mean", "zero_variance_groups")

TOKENS_SHOWN = 40
# Minimum number of times a token must occur for a table of token means to list it
LEAST_SUPPORT = 20

Windows = tuple[tuple[int, int], tuple[int, int]]

# Id, caption and columns of each table of tokens
_RANKINGS = (
    ("kl-share", message("Tokens with the largest share of the KL"), ("kl_share", "kl_mean")),
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

_TOKEN = ColumnView("token", message("Token"), kind="token")
_NGRAM = ColumnView("ngram", message("Text"), kind="token")
_SHARE = message("share of responses that contain it")
_SPREAD = (
    ColumnView("share_first", message("First steps"), help=_SHARE, written="share"),
    ColumnView("share_last", message("Last steps"), help=_SHARE, written="share"),
    ColumnView("z", "z", help=message("significance of the rise of its share, in standard errors")),
    ColumnView("reward_lift", message("Reward lift"), help=message("gain over others in the step")),
)
_SEEN_IN = ColumnView(
    "example", message("Seen in"), kind="link", help=message("a response that contains it")
)


def extreme_responses(run: RunContext) -> list[tuple[Extreme, Rollout]]:
    ends = extremes(run.tables.responses)
    rows = sorted({extreme.row for extreme in ends})
    texts = run.chosen.read(rows)
    if run.options.redact:
        responses = run.tables.responses
        prompts = responses["prompt_id"].to_numpy()
        numbers = response_numbers(responses)
        texts = list(map(redacted, texts, prompts[rows].tolist(), numbers[rows].tolist()))
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


def _prompts(context: RunContext, addresses: Addresses, shown: Container[int]) -> TableView:
    tables = context.tables
    judged = tables.prompts[tables.prompts["validation"] != IN_BRANCH]
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
        hrefs=[addresses.prompt(prompt_id) if prompt_id in shown else None for prompt_id in ids],
        badges=[[message("never won")] if never else [] for never in prompts["never_won"]],
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
    return table("groups", message("Groups by step"), {STEP_LINK: links, **columns}, ids=names)


def tokens_view(
    context: RunContext, charts: Sequence[Chart], addresses: Addresses
) -> dict[str, Any]:
    tables = context.tables
    spreading = context.spreading.table
    missing = message("The log has no token strings (response_tokens).")
    return {
        "tables": list(_rankings(tables.tokens, context.windows, addresses)),
        "ngrams": _spreading(spreading, addresses) if len(spreading) else None,
        "charts": charts,
        "summary": sentences(["" if len(tables.tokens) else missing, sampling(tables)]),
    }


def _rankings(tokens: pd.DataFrame, windows: Windows, addresses: Addresses) -> Iterator[TableView]:
    if tokens.empty:
        return
    least = min(LEAST_SUPPORT, int(tokens["count"].max()))
    supported = tokens[tokens["count"] >= least]
    in_both = supported[(supported["count_first"] > 0) & (supported["count_last"] > 0)]
    support = plural("Tokens seen at least once.", "Tokens seen at least {count} times.", least)
    first, last = map(span, windows)
    means = message("Mean probability within {first} and within {last}.", first=first, last=last)
    for name, caption, figure_names in _RANKINGS:
        rows = {"kl-share": tokens, "rising": in_both}.get(name, supported)
        note = {"kl-share": "", "rising": sentences([support, means])}.get(name, support)
        size = rows["prob_change" if name == "rising" else figure_names[0]].abs()
        if not size.max() > 0:
            continue
        ranked = rows.assign(_size=size)[size.notna()]
        top = ranked.sort_values(["_size", "raw"], ascending=[False, True]).head(TOKENS_SHOWN)
        columns = [TOKEN[column] for column in ("count", *figure_names)]
        examples = zip(top["example_step"], top["example_n"], top["example_position"], strict=True)
        yield table(
            name,
            caption,
            {
                _TOKEN: map(Cell, top["token"].astype(str), top["raw"], top["raw"]),
                **number_columns_of(top, columns),
                _SEEN_IN: [_example(addresses, *example) for example in examples],
            },
            ids=[f"{name}-{rank}" for rank in range(len(top))],
            note=note,
        )


def _example(addresses: Addresses, step: float, n: float, token: float | None = None) -> Cell:
    if pd.isna(step):
        return Cell("–", None, message("in none of the sampled responses"))
    position = None if token is None or pd.isna(token) else int(token)
    text = message("step {step}, response {n}", step=int(step), n=int(n))
    return Cell(text, float(step), href=addresses.response(int(step), int(n), token=position))


def sampling(tables: Tables) -> str:
    """Return a note if figures of texts use a sample, or cut long responses; "" otherwise."""
    sample = message("{one:capital}.", one=tables.sample_note) if tables.sample_note else ""
    cut = message(
        "Of responses over {most:count} tokens, only the first and the last {edge:count} are used.",
        most=2 * EDGE,
        edge=EDGE,
    )
    longest = tables.responses["response_tokens"].max()
    return sentences([sample, cut if longest > 2 * EDGE else ""])


def _spreading(spreading: pd.DataFrame, addresses: Addresses) -> TableView:
    examples = [
        _example(addresses, *references[0]) if references else Cell("–")
        for references in map(list, spreading["examples"])
    ]
    texts = [Cell(text, text) for text in spreading["ngram"].astype(str)]
    return table(
        "ngrams",
        message("Texts that spread through the responses"),
        {_NGRAM: texts, **{c: spreading[c.key] for c in _SPREAD}, _SEEN_IN: examples},
    )


# Maximum rows of the responses page's table, so that browsers sort and search it quickly
MOST_LISTED = 20_000

# Fraction of a report's bytes that the responses table may take; approximate bytes of a row
LISTED_SHARE, LISTED_BYTES = 0.15, 200

LISTED_DIGITS = 6  # Significant digits of numbers in the responses page's table
LISTED_CHARS = 120  # Maximum characters of a prompt or response in it
_TEXTS = ("prompt", "response")
_ORDER = message(
    "negative: cited by a finding; 0: an extreme of the run; positive: rank within its step"
)
_STEP = ColumnView("step", message("Step"), help=RESPONSE["step"].help, written="count")
_INTEREST = ColumnView("worth", message("Interest"), help=_ORDER, hidden=True, written="count")
_SAME_PROMPT = message("the same for all responses to a prompt")
_PROMPT = ColumnView(
    "prompt_id", message("Prompt no."), help=_SAME_PROMPT, hidden=True, written="count"
)
_POINTING = message("findings that cite the response")
_FINDING = ColumnView("finding", message("Finding"), kind="text", help=_POINTING)

# Rows of the responses page's table from one step, the most interesting first. ``step`` -> the
# step, any other column key -> list of one value per row (NaN for missing numbers)
ListedRows = dict[str, Any]


def rows_listed(plans: Sequence[StepPlan], limit: float) -> int:
    """Return how many responses per step the responses page of a ``limit``-byte report may list."""
    room = min(MOST_LISTED, int(LISTED_SHARE * limit / LISTED_BYTES))
    counts = np.array([len(plan.rows) for plan in plans])
    most = range(int(counts.max(initial=0)) + 1)
    return bisect_right(most, room, key=lambda each: int(np.minimum(counts, each).sum())) - 1


def listed_rows(
    job: StepJob, rollouts: Sequence[Rollout], values: Mapping[str, Floats], context: PageContext
) -> ListedRows:
    """Return a step's rows of the responses page, without the columns of ``with_interest``."""
    return {
        "step": job.plan.step,
        "n": [r.n for r in rollouts],
        **{
            key: [float(f"{value:.{LISTED_DIGITS}g}") for value in column[job.shown].tolist()]
            for key, column in values.items()
        },
        **strings_of(job, job.shown, context),
        "prompt": [
            shortened(_question(r, context.prefixes).lstrip(), LISTED_CHARS) for r in rollouts
        ],
        "response": [shortened(r.response.lstrip(), LISTED_CHARS) for r in rollouts],
    }


def with_interest(rows: ListedRows, context: RunContext, pinned: int) -> ListedRows:
    """Return the first ``context.listed`` rows with step, interest (``_ORDER``) and findings."""
    step = rows["step"]
    n = rows["n"][: context.listed]
    findings = context.verdict.findings
    names = [finding.name for finding in findings]
    of_response = findings_of_responses(findings, step)
    interest = [0.0 if rank <= pinned else float(rank) for rank in range(1, len(n) + 1)]
    for row, response_n in enumerate(n):
        if response_n in of_response:
            interest[row] = float(names.index(of_response[response_n][0]) - len(names))
    return {
        **{key: values[: len(n)] for key, values in rows.items() if key != "step"},
        "step": [float(step)] * len(n),
        _INTEREST.key: interest,
        _FINDING.key: [
            listed(of_response[response_n]) if response_n in of_response else None
            for response_n in n
        ],
    }


def _question(rollout: Rollout, prefixes: Sequence[str]) -> str:
    prompt = listed_prompt(rollout, prefixes)
    if prompt.shared:
        return prompt.brief
    turns = [turn for turn in rollout.turns if turn[0] != "system"]
    return turns_as_text(turns) or rollout.prompt


def responses_view(
    steps: Sequence[ListedRows], context: RunContext, addresses: Addresses, shown: int
) -> dict[str, Any]:
    numeric = (*context.columns, _PROMPT, _INTEREST)
    strings = [*(column.key for column in context.string_columns), _FINDING.key]
    numbers = ["step", *(column.key for column in numeric)]
    rows = {
        key: [value for step in steps for value in step[key]]
        for key in ("n", *numbers, *strings, *_TEXTS)
    }
    texts = [column for column in context.text_columns if column.key in _TEXTS]
    findings = [_FINDING] if any(rows[_FINDING.key]) else []
    columns = [_STEP, NUMBERED, *reading_order(context.columns, [*texts, *findings])]
    values = {key: np.array(rows[key], np.float64) for key in numbers}
    described = [
        *(replace(c, kind="number") for c in columns if c.key in values),
        *(c for c in numeric if c.hidden),
        *context.string_columns,
    ]
    data = {
        "run": context.run,
        "total": len(context.tables.responses),
        "n": rows["n"],
        "columns": [column.data() for column in described],
        "values": values,
        "strings": {key: rows[key] for key in strings},
        "texts": {key: rows[key] for key in _TEXTS},
        **list_filters(context),
        "address": addresses.any_response("{step}", "{n}"),
        "prompt": addresses.prompt("{prompt}"),
    }
    return {
        "table": _table(rows, values, columns, addresses),
        "packed": packed_json(context.options.language.of(data)),
        "summary": _summary(len(rows["n"]), shown, context.tables.responses["validation"]),
    }


def _table(
    rows: Mapping[str, Sequence[Any]],
    values: Mapping[str, NDArray[np.float64]],
    columns: Sequence[ColumnView],
    addresses: Addresses,
) -> TableView:
    order = np.argsort(values[_INTEREST.key], kind="stable")
    first = order[:STATIC_ROWS].tolist()
    names = [(int(rows["step"][row]), rows["n"][row]) for row in first]
    return table(
        "run-responses",
        message("Responses of the run"),
        {
            **{
                c: number_cells(c.written, values[c.key][order])
                if c.key in values
                else [rows[c.key][row] for row in first]
                for c in columns
            },
            _STEP: [name_cell(step) for step, _ in names],
            NUMBERED: [name_cell(n) for _, n in names],
        },
        ids=[f"{step}-{n}" for step, n in names],
        hrefs=[addresses.response(step, n) for step, n in names],
    )


def _summary(count: int, shown: int, splits: pd.Series) -> str:
    in_all = message("{responses}.", responses=counted_responses(splits))
    if count < len(splits):
        in_all = message(
            "{some:count} of {all} of the run.", some=count, all=counted_in_all(splits)
        )
    order = message(
        "Most interesting first: responses cited by findings and the extremes of the run, then the "
        "extremes of each step, then a sample."
    )
    texts = message("The pages of steps have the texts of {count:count} of these.", count=shown)
    branches = message("Those of branches are listed only if the filter of splits selects them.")
    has_branches = bool((splits == IN_BRANCH).any())
    return sentences(
        [in_all, order, texts if count < shown else "", branches if has_branches else ""]
    )
