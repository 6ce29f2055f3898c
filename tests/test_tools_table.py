"""Turns and tools on the overview: turns, tokens and error rates equal those of the log."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlreport
from rlreport.pages.agents import MOST_TOOLS
from tests.browser import visiting
from tests.hostile import STRINGS, write_log

STEPS = 20
EACH = 6
TOOLS = ("python", "search", "read")


def rollouts(
    tools: tuple[str, ...] = TOOLS, ranges: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield rows of agents that call tools; from step 12 on the last one fails often."""
    rng = random.Random(0)
    for step, n in product(range(STEPS), range(EACH)):
        said: list[tuple[int, dict[str, Any]]] = []  # tokens of a turn, and the turn
        for _ in range(rng.randint(1, 4)):
            tool = rng.choice(tools)
            call = {"role": "assistant", "calls": [{"name": tool}]}
            said.append((rng.randint(2, 9), call))
            answer = {"role": "tool", "tool": tool}
            if tool == tools[-1] and step >= 12 and rng.random() < 0.7:
                answer["error"] = "FileNotFoundError"
            said.append((rng.randint(1, 40), answer))
        said.append((3, {"role": "user"}))
        said.append((rng.randint(2, 9), {"role": "assistant"}))
        turns: list[dict[str, Any]] = []
        mask: list[int] = []
        tokens: list[str] = []
        for length, turn in said:
            sampled = turn["role"] == "assistant"
            start = len(mask)
            place = {"tokens": [start, start + length]} if ranges else {}
            turns.append(
                {"text": "x" * 3 * length, "sampled": sampled, **place, **turn}
            )
            mask += [int(sampled)] * length
            tokens += [f" t{i}" for i in range(length)]
        row = {
            "step": step,
            "prompt": f"Task {n}",
            "reward": rng.random(),
            "turns": turns,
        }
        row["response"] = "\n".join(turn["text"] for turn in turns if turn["sampled"])
        if ranges:
            row |= {"response_tokens": tokens, "response_mask": mask}
            row["logprobs"] = [-0.5] * len(mask)
        yield row


def table_of(out: Path) -> dict[str, list[float | None]]:
    """Return the exact values of the table of turns, by who spoke."""
    page = (out / "index.html").read_text()
    (body,) = re.findall(
        r'<section class="list[^>]* data-table="turns">.*?</table>', page, re.S
    )
    rows = {}
    for row in re.findall(r"<tr data-n=.*?</tr>", body, re.S):
        name, *cells = re.findall(r"<td.*?</td>", row, re.S)
        texts = [re.findall(r'title="(-?[0-9.e+-]+)"', cell) for cell in cells]
        speaker = unescape(re.sub("<[^>]+>", "", name))
        rows[speaker] = [float(text[0]) if text else None for text in texts]
    return rows


def expected(
    rows: list[dict[str, Any]], tool: str, size: Callable[[Any], int]
) -> list[float]:
    turns = []
    for row in rows:
        turns += [(row["step"], turn) for turn in row["turns"]]
    own = [(step, turn) for step, turn in turns if turn.get("tool") == tool]
    total = sum(size(turn) for _, turn in turns)

    def error_rate(first: int, last: int) -> float:
        answers = [turn for step, turn in own if first <= step <= last]
        return float(np.mean(["error" in turn for turn in answers]))

    lengths = [size(turn) for _, turn in own]
    windows = [(0, STEPS), (0, 3), (16, 19)]
    shares = [error_rate(*window) for window in windows]
    count = len(own)
    return [
        count,
        count / len(rows),
        float(np.mean(lengths)),
        sum(lengths) / total,
        *shares,
    ]


def tokens_of(turn: dict[str, Any]) -> int:
    start, end = turn["tokens"]
    return end - start


def test_turns_tokens_and_errors_are_those_of_the_log_and_a_failed_call_is_two_actions_away(
    browser, tmp_path
):
    rows = list(rollouts())
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    table = table_of(tmp_path / "out")
    assert next(iter(table)) == "the policy"
    for tool in TOOLS:
        assert table[tool][:7] == pytest.approx(expected(rows, tool, tokens_of))
    assert sum(row[3] or 0 for row in table.values()) == pytest.approx(1)
    policy = []
    for row in rows:
        policy += [turn for turn in row["turns"] if turn["sampled"]]
    counts = [len(policy), len(policy) / len(rows)]
    assert table["the policy"][:2] == pytest.approx(counts)
    charts = tmp_path / "out" / "data" / "charts"
    assert (charts / "turn_tokens.vl.json").exists()
    spec = json.loads((charts / "tool_errors.vl.json").read_text())
    assert all(f"tool_{tool}" in json.dumps(spec) for tool in TOOLS)
    with visiting(browser, tmp_path / "out" / "index.html") as page:
        cells = page.locator("[data-table=turns] td[data-key=kind]")
        kinds = [text.strip() for text in cells.all_inner_texts()]
        assert [kind for kind in kinds if kind] == ["not found"]
        page.click("[data-table=turns] a")
        page.wait_for_selector(".list-tools .count")
        page.click("tbody tr[data-n] td.text")
        page.wait_for_selector(".response h2")
        page.keyboard.press("e")
        at = page.locator(".spine li.at")
        assert "FileNotFoundError" in at.inner_text()


def test_the_chart_of_a_tools_errors_shows_their_share_of_its_answers(tmp_path):
    rows = list(rollouts(("search", "")))
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out", workers=1)
    assert "tool without a name" in table_of(tmp_path / "out")
    chart = tmp_path / "out" / "data" / "charts" / "tool_errors.vl.json"
    drawn = json.loads(chart.read_text("utf-8"))["data"]["values"]
    nameless = [one for one in drawn if one["series"] == "tool_tool_without_a_name"]
    for one in nameless:
        turns = []
        for row in rows:
            if row["step"] == one["step"]:
                turns += row["turns"]
        failed = ["error" in turn for turn in turns if turn.get("tool") == ""]
        assert one["value"] == pytest.approx(np.mean(failed), rel=1e-4)
    assert max(one["value"] for one in nameless) > 0.5


# The second name has the first in it, and is one that an address has to escape.
NAMES = ("read", "read & write=50%")


@pytest.mark.parametrize("redact", [False, True])
def test_the_link_on_a_tool_lists_the_responses_that_it_answered(
    browser, tmp_path, redact
):
    rows = list(rollouts((*NAMES, "search")))
    log = write_log(tmp_path / "log.jsonl", rows)
    rlreport.build(log, tmp_path / "out", redact=redact)
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update({turn["tool"] for turn in row["turns"] if "tool" in turn})
    assert set(counts) == {*NAMES, "search"}
    assert len(set(counts.values())) == 3
    assert max(counts.values()) < len(rows)
    listed = set()
    with visiting(browser, tmp_path / "out" / "index.html") as page:
        links = page.locator("[data-table=turns] td:first-child a")
        names = links.all_inner_texts()
        addresses = links.evaluate_all("all => all.map(a => a.href)")
        assert redact or set(names) == set(counts)
        for name, address in zip(names, addresses, strict=True):
            page.goto("about:blank")
            page.goto(address)
            page.wait_for_selector(".list-tools .count")
            shown, _, everything = page.inner_text(".list-tools .count").split()
            assert int(everything) == len(rows)
            assert redact or int(shown) == counts[name]
            listed.add(int(shown))
            assert page.input_value('select[aria-label="Tools"]') == name
    assert listed == set(counts.values())


def test_the_link_on_an_error_rate_lists_the_errors_of_that_tool(browser, tmp_path):
    rows = list(rollouts())
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    expected = 0
    for row in rows:
        has_error = any("error" in turn for turn in row["turns"])
        tools = {turn.get("tool") for turn in row["turns"]}
        if has_error and TOOLS[-1] in tools:
            expected += 1
    with visiting(browser, tmp_path / "out" / "index.html") as page:
        row_of_tool = page.locator("[data-table=turns] tbody tr", has_text=TOOLS[-1])
        links = row_of_tool.locator("td a")
        assert links.count() == 2  # the name, and the rate
        links.nth(1).click()
        page.wait_for_selector(".list-tools .count")
        assert page.inner_text(".list-tools .count").split()[0] == str(expected)


def test_without_tokens_lengths_are_in_characters(tmp_path):
    rows = list(rollouts(ranges=False))
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), tmp_path / "out")
    table = table_of(tmp_path / "out")
    for tool in TOOLS:
        length = expected(rows, tool, lambda turn: len(turn["text"]))[2]
        assert table[tool][2] == pytest.approx(length)
    assert "others (user, template)" not in table


def test_many_tools_with_any_names_are_bounded_and_redacted(tmp_path):
    hostile = [text[:60] for text in STRINGS]
    numbered = [f"tool-{i}" for i in range(90)]
    log = write_log(tmp_path / "log.jsonl", rollouts((*hostile, *numbered)))
    rlreport.build(log, tmp_path / "out")
    table = table_of(tmp_path / "out")
    assert len(table) == 1 + MOST_TOOLS + 1
    overview = (tmp_path / "out" / "index.html").read_text()
    assert "tools that are called less often are not listed" in overview
    rlreport.build(log, tmp_path / "redacted", redact=True)
    replaced = re.compile(r"tool \d+|the policy|others \(user, template\)")
    assert all(replaced.fullmatch(name) for name in table_of(tmp_path / "redacted"))
