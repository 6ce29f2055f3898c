"""Builds pages of made-up runs: hostile texts, many rows, long responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.check.finding import Example, Finding, LogText, Verdict
from rlreport.pages.lists import responses_view
from rlreport.pages.templates import (
    FOLDER_POLICY,
    Addresses,
    assets,
    environment,
    packed_json,
    script_json,
)
from rlreport.pages.views import ColumnView, Link, Shell
from rlreport.text.language import ENGLISH
from tests.reading import row, write

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "</SCRIPT><img src=x onerror=alert(1)>",
    "<!-- <b>not bold</b> &lt;",
    "line\u2028separator\u2029 and \x00 NUL",
    "\u202eright to left\u202c مرحبا بالعالم",
    "春风又绿江南岸，明月何时照我还。",
    "🎉👩‍👩‍👧‍👦 emoji",
)
_LISTED = ("prompt", "response")


# Byte-level strings: blanks, a tag, a byte of a character that nothing ends, and all of an emoji.
WORDS = ("Ġthe", "Ġcat", "Ġsat", ".", "Ċ", "ĉ", "ĠĠ", "ĠçĮ«", "<|im_end|>", "ðŁİ", "ī")


@dataclass(frozen=True)
class Made:
    """A run of step 100 alone: how many responses, further numbers and tokens it has."""

    responses: int = 16
    columns: int = 0
    tokens: int = 40
    with_tokens: int = 16
    words: Sequence[str] = WORDS
    nan: bool = False
    """Whether a token's logp is NaN in the first response, and every value."""


FOUND = Finding(
    *("mixed_runs", "critical", "cause", {"text": LogText("made up")}),
    evidence=(Example(100, 1, token=3),),
    texts=("more",),
)


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


def write_step(folder: Path, made: Made, *others: str) -> Path:
    """Builds ``report``, and other files; returns the path of the folder's step."""
    log, options = write(folder / "rank_0.jsonl", rows(made)), {"title": "made up", "workers": 1}
    with pytest.MonkeyPatch.context() as patch:
        found = Verdict("critical", "mixed_runs", findings=[FOUND] if made.responses > 1 else [])
        patch.setattr("rlreport.pipeline.judge", lambda *_, **__: found)
        for out in ("report", *others):
            rlreport.build(log, folder / out, max_responses=made.responses, **options)
    return folder / "report" / "steps" / "100.html"


def rows(made: Made) -> list[dict[str, Any]]:
    """Rows in descending order of reward."""
    random, made_up = np.random.default_rng(0), []
    for n, reward in enumerate(np.sort(random.normal(size=made.responses))[::-1]):
        text = f"answer {n} {HOSTILE[(n + 3) % len(HOSTILE)]}\nand more"
        one = row(100, prompt=HOSTILE[n % len(HOSTILE)], response=text, reward=reward.round(6))
        one |= {"ref_response": f"answer {n} of the reference", "style": random.normal()}
        one |= {f"m{k}": random.normal() for k in range(made.columns)}
        if n == 0:
            one["prompt_turns"] = [["system", "Be brief."], ["user", "Hello?"]]
        made_up.append(one | token_arrays(n, made, random) if n < made.with_tokens else one)
    return made_up


def token_arrays(n: int, made: Made, random: np.random.Generator) -> dict[str, Any]:
    """The first token is far likelier than under the reference."""
    count = max(made.tokens - len(made.words), 0)
    others = random.integers(0, len(made.words), count).tolist()
    logp = -0.9 - random.exponential(1, made.tokens)
    ratio, reward, value = random.normal(0, 0.3, (3, made.tokens))
    ratio = np.clip(ratio, -0.9, 0.9)
    ratio[0] = 50
    if made.nan and n == 0:
        logp[3], value = np.nan, np.full(made.tokens, np.nan)
    figures = {"logprobs": logp, "ref_logprobs": logp - ratio, "token_rewards": reward}
    return {
        "response_tokens": [*made.words, *(made.words[i] for i in others)][: made.tokens],
        **{name: values.tolist() for name, values in {**figures, "values": value}.items()},
    }
