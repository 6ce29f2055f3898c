"""Builds pages of made-up runs: hostile texts, many rows, long responses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlreport
from rlreport.check.finding import Example, Finding, LogText, Rank, Severity
from rlreport.check.verdict import Judged
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
    "mixed_runs",
    Severity.CRITICAL,
    Rank.CAUSE,
    {"kind": "runs", "text": LogText("made up")},
    evidence=(Example(100, 1, token=3),),
    texts=("more",),
)


def write_list(folder: Path, steps: int, each: int) -> Path:
    """Builds the report of a run whose every step has an example at response 3; returns its list.

    Whole texts end in ``(STEP/N)``, which the list does not show.
    """
    random = np.random.default_rng(0)
    plain = (
        "answer",
        "several",
        "further",
        "another",
        "between",
        "nothing",
        "whether",
        "猫",
    )
    words = np.array([*plain * 3, HOSTILE[0], HOSTILE[5]])

    def text(step: int, n: int) -> str:
        return f"{' '.join(random.choice(words, 22))} ({step}/{n})"

    made = []
    for step, n in product(range(steps), range(each)):
        prompt = text(step, n)
        response = text(step, n)
        reward = random.normal()
        made.append(row(step, prompt=prompt, response=response, reward=reward))
    examples = tuple(Example(step, 3) for step in range(steps))
    _build(folder, made, [replace(FOUND, evidence=examples)], "report")
    return folder / "report" / "responses.html"


def write_step(folder: Path, made: Made, *others: str) -> Path:
    """Builds ``report``, and other files; returns the path of the folder's step."""
    options = {"title": "made up", "max_responses": made.responses}
    findings = [FOUND] if made.responses > 1 else []
    _build(folder, rows(made), findings, "report", *others, **options)
    return folder / "report" / "steps" / "100.html"


def _build(
    folder: Path,
    made: list[dict[str, Any]],
    found: list[Finding],
    *outs: str,
    **options: Any,
) -> None:
    """Builds reports of rows in which these findings are found."""
    log = write(folder / "rank_0.jsonl", made)
    with pytest.MonkeyPatch.context() as patch:
        verdict = Judged("critical", "mixed_runs", findings=found)
        patch.setattr("rlreport.flows.build.judge", lambda *_, **__: verdict)
        for out in outs:
            rlreport.build(log, folder / out, workers=1, **options)


def rows(made: Made) -> list[dict[str, Any]]:
    """Rows in descending order of reward."""
    random = np.random.default_rng(0)
    made_up = []
    rewards = np.sort(random.normal(size=made.responses))[::-1]
    for n, reward in enumerate(rewards.round(6)):
        prompt = HOSTILE[n % len(HOSTILE)]
        hostile = HOSTILE[(n + 3) % len(HOSTILE)]
        text = f"answer {n} {hostile}\nand more"
        one = row(100, prompt=prompt, response=text, reward=reward)
        one["ref_response"] = f"answer {n} of the reference"
        one["style"] = random.normal()
        for k in range(made.columns):
            one[f"m{k}"] = random.normal()
        if n == 0:
            one["prompt_turns"] = [["system", "Be brief."], ["user", "Hello?"]]
        if n < made.with_tokens:
            one |= token_arrays(n, made, random)
        made_up.append(one)
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
        logp[3] = np.nan
        value = np.full(made.tokens, np.nan)
    figures = {"logprobs": logp, "ref_logprobs": logp - ratio, "token_rewards": reward}
    return {
        "response_tokens": [*made.words, *(made.words[i] for i in others)][
            : made.tokens
        ],
        **{
            name: values.tolist()
            for name, values in {**figures, "values": value}.items()
        },
    }
