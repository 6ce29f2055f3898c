"""The boxes of all texts on all pages: none lies over another, is cut, or is outside the window."""

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import rlreport
from benchmarks.lab import agents
from tests.browser import rest, serious, visiting
from tests.reading import row, write
from tests.running import in_ci

pytestmark = pytest.mark.untraced

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_logs"
MEASURE = (ROOT / "tests" / "boxes.js").read_text("utf-8")
WIDTHS = (1400, 800, 390)


def odd_rows() -> list[dict[str, Any]]:
    """Return rows of unbroken, Chinese and right-to-left texts with many columns."""
    chance = random.Random(0)
    texts = [
        "Donaudampfschifffahrtsgesellschaftskapitän" * 6,
        "请把下面这段话翻译成英文，并解释其中的成语。" * 12,
        "مرحبا بالعالم، هذا نص طويل من اليمين إلى اليسار. " * 8,
        "שלום עולם 123 (abc) " * 12,
        "https://example.org/" + "a/" * 150,
    ]
    rows = []
    for step, n in product(range(8), range(10)):
        logged = {
            f"a_logged_column_of_a_long_name_{k}": chance.random() for k in range(24)
        }
        one = row(
            step,
            prompt=f"{texts[(n + 1) % 5]} {n % 4}",
            response=f"{texts[n % 5]} {chance.random()}",
            reward=None if n == 0 else 1e6 * chance.random() - 5e5,
            ground_truth=texts[n % 5],
            data_source="a_collection/questions-with-a-rather-long-name-of-its-own",
            **logged,
        )
        rows.append(one)
    return rows


def metrics_rows() -> list[dict[str, float]]:
    chance = random.Random(1)
    rows = []
    for step in range(40):
        parts = {
            f"rewards/part_with_a_long_name_{k}/mean": chance.random() for k in range(8)
        }
        figures = {
            "step": step,
            "reward": step / 40 + chance.gauss(0, 0.05),
            "kl": 0.01 * step,
            "entropy": 2 - step / 50,
            "completions/mean_length": 200 + 3 * step,
            "grad_norm": 1 + chance.random(),
        }
        rows.append(figures | parts)
    return rows


def build(name: str, folder: Path) -> Path:
    """Build a report by its name; return its folder."""
    out = folder / "out"
    if name == "metrics":
        log = folder / "run" / "metrics.jsonl"
        log.parent.mkdir()
        log.write_text(
            "".join(json.dumps(one) + "\n" for one in metrics_rows()), "utf-8"
        )
        rlreport.build(log.parent, out, workers=1)
    elif name == "agents":
        agents.write(folder / "lab", seed=0)
        rlreport.build(folder / "lab" / "planted" / "all", out, workers=1)
    elif name == "odd texts":
        rlreport.build(write(folder / "log.jsonl", odd_rows()), out, workers=1)
    elif name == "compare":
        rlreport.compare(SAMPLES / "healthy", SAMPLES / "reward_hacking", out)
    elif name == "index":
        for run in ("first", "second-run-with-a-long-name-" * 3, "第三次运行"):
            rows = [row(step, reward=step / 9) for step in range(10)]
            log = write(folder / "logs" / f"{run}.jsonl", rows)
            rlreport.build(log, folder / "out" / run, workers=1)
        rlreport.index([out], out / "index.html")
    else:
        rlreport.build(SAMPLES / name, out, workers=1)
    return out


def pages(report: Path) -> list[tuple[Path, str]]:
    """Return the pages of a report, those of the first and last step only, and an open response."""
    pages_of_steps = (report / "steps").glob("*.html")
    steps = sorted(pages_of_steps, key=lambda page: int(page.stem))
    found = [(page, "") for page in sorted(report.glob("*.html"))]
    found += [(page, "") for page in steps[:1]]
    return found + [(page, "#r=0") for page in steps[-1:]]


REPORTS = (
    "odd texts",
    *in_ci("healthy", "reward_hacking", "metrics", "agents", "compare", "index"),
)


@pytest.mark.parametrize("name", REPORTS)
def test_no_text_is_over_another_or_cut_or_outside_at_any_width(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    faults = []
    for file, address in pages(build(name, tmp_path)):
        with visiting(browser, file, address, reduced_motion="reduce") as page:
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                rest(page, 300)  # charts are drawn anew
                faults += [
                    f"{file.name}{address} at {width}: {fault}"
                    for fault in page.evaluate(MEASURE)
                ]
            faults += [f"{file.name}{address}: axe {one}" for one in serious(page)]
    assert not faults, "\n" + "\n".join(faults)


AT = "position:absolute"
NARROW = "width:20px;white-space:nowrap"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            f'<p style="{AT};top:0">over</p><p style="{AT};top:4px">it</p>',
            "one over",
        ),
        (
            f'<div style="{NARROW};overflow:hidden">a long line of text</div>',
            "at its side",
        ),
        ('<div style="height:9px;overflow:hidden">one line</div>', "at its end"),
        (
            '<div style="position:absolute;left:2000px">far</div>',
            "outside of the window",
        ),
        ('<div style="width:3000px">wide</div>', "3008 pixels wide"),
        (
            "<svg><text y='20'>one</text><text y='22' x='3'>two</text></svg>",
            "one label over",
        ),
        (
            f'<div style="{NARROW};overflow:hidden;text-overflow:ellipsis">a line</div>',
            None,
        ),
        (
            f'<div style="{NARROW};overflow:auto">a long line of text</div>',
            None,
        ),
        ("<p>one</p><p>two <b>three</b></p>", None),
    ],
)
def test_each_fault_is_found(browser: Browser, content: str, fault: str | None) -> None:
    page = browser.new_page(viewport={"width": 800, "height": 600})
    page.set_content(f"<body style='margin:8px'>{content}</body>")
    found = page.evaluate(MEASURE)
    page.close()
    if fault is None:
        assert found == []
    else:
        assert any(fault in one for one in found), found
