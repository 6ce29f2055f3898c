"""Builds pages from made-up views: hostile texts, many rows, long responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from rlreport.columns import TOKEN_FIGURES
from rlreport.figures.tokens import TokenFigures
from rlreport.pages.lists import responses_view
from rlreport.pages.step import STATIC_ROWS, conversation_data, figures_present, pack_tokens
from rlreport.pages.templates import (
    FOLDER_POLICY,
    Addresses,
    assets,
    environment,
    packed_json,
    script_json,
)
from rlreport.pages.views import Cell, ColumnView, Link, RowView, Shell, TableView
from rlreport.read.rollouts import Rollout, Turn
from rlreport.text.language import ENGLISH
from rlreport.text.numbers import exact, written

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "</SCRIPT><img src=x onerror=alert(1)>",
    "<!-- <b>not bold</b> &lt;",
    "line\u2028separator\u2029 and \x00 NUL",
    "\u202eright to left\u202c مرحبا بالعالم",
    "春风又绿江南岸，明月何时照我还。",
    "🎉👩‍👩‍👧‍👦 emoji",
)
TOKEN_METRICS = [
    {"key": f.name, "label": f.label, "unit": f.unit, "signed": f.signed, "help": f.label}
    for f in TOKEN_FIGURES
    if f.name != "sampler_logp"
]
_LISTED = ("prompt", "response")


@dataclass(frozen=True)
class Made:
    """A step page made up: how many responses, columns and tokens it has."""

    responses: int = 16
    columns: int = 6
    tokens: int = 40
    with_tokens: int = 16
    static_rows: int = STATIC_ROWS
    words: Sequence[str] = (
        *(" the", " cat", " sat", ".", "\n", "\t", "  ", " 猫", "", "🎉"),
        "<|im_end|>",
    )
    nan: bool = False
    """Whether a token's logp is NaN, and every value."""
    turns: int = 0
    """Turns of each response with tokens, by policy and tool in turn."""
    logged: Mapping[str, str] = field(default_factory=dict)
    """How words are logged that are not logged as they read."""


def write_assets(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Writes the assets that pages need; returns them."""
    files = assets(ENGLISH).files
    for name, content in files.values():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return files


def write_list(folder: Path, steps: int, each: int, columns: int = 12) -> Path:
    """Writes ``responses.html`` of ``steps * each`` rows and its files; returns its path.

    Whole texts end in ``(STEP/N)``, which the list does not show.
    """
    random = np.random.default_rng(0)
    shown = [
        ColumnView("reward", "Reward"),
        ColumnView("kl_k1", "KL", "nats"),
        *(
            ColumnView(f"extra:m{k}", f"M{k}", group="Parts of the reward")
            for k in range(columns - 2)
        ),
    ]
    context: Any = SimpleNamespace(
        options=SimpleNamespace(language=ENGLISH),
        tables=SimpleNamespace(responses=pd.DataFrame({"validation": [0] * (steps * each)})),
        run="made up",
        environment="",
        columns=shown,
        string_columns=[],
        text_columns=[ColumnView(key, key.capitalize(), kind="text") for key in _LISTED],
    )
    words = np.array([*"abcdefghijklmnopqrst", "answer", "猫", HOSTILE[0], HOSTILE[5]])

    texts = {
        step: {
            key: [f"{' '.join(random.choice(words, 60))} ({step}/{n})" for n in range(each)]
            for key in _LISTED
        }
        for step in range(steps)
    }
    empty: dict[str, Any] = {"turns": {}, "badges": {}, "highlights": []}
    packed = {
        step: packed_json(
            {
                **empty,
                "step": str(step),
                "total": each,
                "n": list(range(each)),
                "texts": texts[step],
                "where": [f"run.jsonl:{n}" for n in range(each)],
                "prompts": [n // 4 for n in range(each)],
            }
        )
        for step in range(steps)
    }
    rows = [
        {
            "step": [float(step)] * each,
            "n": list(range(each)),
            "prompt_id": [float(n // 4) for n in range(each)],
            "worth": [n + 1.0 for n in range(each)],
            **{column.key: random.normal(size=each).round(5) for column in shown},
            "finding": ["Reward hacking" if n == 3 else None for n in range(each)],
            **{key: [text[:120] for text in texts[step][key]] for key in _LISTED},
        }
        for step in range(steps)
    ]
    view = responses_view(rows, context, Addresses(frozenset(range(steps))), steps * each)
    shell = Shell(
        title="Responses · made up",
        run="made up",
        kind="responses",
        root="",
        nav=[("responses", Link("Responses", "responses.html"))],
        assets={key: path for key, (path, _) in write_assets(folder).items()}
        | {"texts": "texts.js"},
        csp=FOLDER_POLICY,
    )
    script = f"globalThis.rlreportTexts = {script_json(packed)};"
    (folder / "texts.js").write_text(script, "utf-8")
    page = folder / "responses.html"
    page.write_text(
        environment(ENGLISH).get_template("page.html").render(shell=shell, view=view), "utf-8"
    )
    return page


def write_step(folder: Path, made: Made) -> Path:
    """Writes ``steps/100.html`` and the assets it needs; returns the page's path."""
    files = write_assets(folder)
    shell = Shell(
        title="Step 100 · made up",
        run="made up",
        kind="step",
        root="../",
        nav=[("overview", Link("Overview", "../index.html"))],
        assets={key: f"../{path}" for key, (path, _) in files.items()},
        csp=FOLDER_POLICY,
    )
    page = folder / "steps" / "100.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    template = environment(ENGLISH).get_template("page.html")
    page.write_text(template.render(shell=shell, view=step_view(made)), "utf-8")
    return page


def step_view(made: Made) -> dict[str, Any]:
    """A step's view with ``made.responses`` responses in descending order of reward."""
    random = np.random.default_rng(0)
    keys = ["reward", "kl_k1", *(f"extra:m{k}" for k in range(made.columns - 2))]
    values = {key: random.normal(size=made.responses).round(6) for key in keys}
    values["reward"] = np.sort(values["reward"])[::-1]
    columns = [
        ColumnView(key, key.removeprefix("extra:"), "nats" if key == "kl_k1" else "")
        for key in keys
    ]
    texts = {
        "prompt": [HOSTILE[n % len(HOSTILE)] for n in range(made.responses)],
        "response": [
            f"answer {n} {HOSTILE[(n + 3) % len(HOSTILE)]}\nand more" for n in range(made.responses)
        ],
        "ref_response": [f"answer {n} of the reference" for n in range(made.responses)],
    }
    text_columns = [ColumnView(key, key.capitalize(), kind="text") for key in texts]
    rows = [
        RowView(
            str(n),
            [Cell(str(n), float(n))]
            + [Cell(texts[column.key][n]) for column in text_columns]
            + [_cell(float(values[key][n])) for key in keys],
            href=f"#r={n}",
        )
        for n in range(min(made.responses, made.static_rows))
    ]
    carried = {
        key: [None if n < made.static_rows else text for n, text in enumerate(listed)]
        for key, listed in texts.items()
    }
    data: dict[str, Any] = {
        "run": "made up",
        "step": "100",
        "total": made.responses,
        "n": list(range(made.responses)),
        "columns": [
            {
                key: getattr(column, key)
                for key in ("key", "label", "unit", "kind", "help", "hidden")
            }
            for column in columns
        ],
        "values": values,
        "strings": {},
        "texts": carried,
        "turns": {"0": [["system", "Be brief."], ["user", "Hello?"]]},
        "ranks": {key: (np.argsort(np.argsort(-v)) + 1).tolist() for key, v in values.items()},
        "where": [f"rank_0.jsonl:{n + 1}" for n in range(made.responses)],
        "badges": {
            "1": [{"id": "kl", "severity": "critical", "name": "KL", "title": "KL", "token": 3}]
        },
        "highlights": ["more"],
        "metrics": TOKEN_METRICS,
    }
    rollouts = [_rollout(n, made, random) for n in range(made.with_tokens)]
    present = figures_present(rollouts)
    data["nan"] = [f.label for f in TOKEN_FIGURES if present.get(f.name) is False]
    data |= conversation_data(rollouts)
    table = TableView(
        "responses", "Responses of step 100", [ColumnView("n", "#"), *text_columns, *columns], rows
    )
    return {
        "incomplete": False,
        "in_progress": False,
        "sample_note": "",
        "step": "100",
        "previous": None,
        "next": None,
        "first": None,
        "all": Link("All steps", "../index.html#steps"),
        "figures": [],
        "charts": [],
        "findings": [],
        "responses": table,
        "data": data,
        "tokens": pack_tokens(rollouts, 4),
    }


def _rollout(n: int, made: Made, random: np.random.Generator) -> Rollout:
    tokens = [made.words[i] for i in random.integers(0, len(made.words), made.tokens)]
    logp = -random.exponential(1.0, made.tokens)
    log_ratio = random.normal(0, 0.3, made.tokens)
    log_ratio[0] = 50.0
    figures = TokenFigures(
        logp=logp,
        log_ratio=log_ratio,
        token_reward=random.normal(size=made.tokens),
        value=random.normal(size=made.tokens),
        advantage=random.normal(size=made.tokens),
    )
    figures.return_ = random.normal(size=made.tokens)
    if made.nan:
        logp[3] = np.nan
        figures.value = np.full(made.tokens, np.nan)
        figures.advantage = figures.return_ = None
    raw = [made.logged.get(token, token) or "Ģ" for token in tokens]
    made_up = Rollout(
        100, n, "rank_0.jsonl", n + 1, "", "", raw_tokens=raw, tokens=tokens, figures=figures
    )
    if made.turns:
        converse(made_up, made.turns)
    return made_up


def converse(rollout: Rollout, count: int) -> None:
    """Cuts a response into turns of the policy and of a tool, of which the fourth fails."""
    ends = np.linspace(0, len(rollout.tokens), count + 1).astype(int).tolist()
    rollout.sampled = np.ones(len(rollout.tokens), bool)
    for k, (start, stop) in enumerate(pairwise(ends)):
        text = "".join(rollout.tokens[start:stop])
        if k % 2 == 0:
            call = ("search", '{"query": "cats", "n": [1, 2]}')
            thinking = "<think>let me look</think>\n\n"
            turn = Turn(
                "assistant", thinking + text, sampled=True, tokens=(start, stop), calls=(call,)
            )
        else:
            rollout.sampled[start:stop] = False
            error = "<b>timeout</b>" if k == 3 else None
            text += "\ndata:image/png;base64," + "QUJD" * 300
            turn = Turn(
                "tool",
                text,
                sampled=False,
                tokens=(start, stop),
                tool="search",
                error=error,
                seconds=1.5,
                reward=0.25,
            )
        rollout.conversation.append(turn)
    rollout.figures = rollout.figures.between(0, len(rollout.tokens))
    for name in ("logp", "log_ratio", "token_reward", "value", "advantage", "return_"):
        getattr(rollout.figures, name)[~rollout.sampled] = np.nan


def _cell(value: float) -> Cell:
    return Cell(written(value), value, exact(value), bar=min(20, round(6 * abs(value))))
