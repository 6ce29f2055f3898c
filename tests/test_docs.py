"""The documentation is current: pages made from the code, examples, quotes, links, the site."""

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from rlreport import RolloutWriter
from rlreport.check.judges import sampler
from rlreport.check.run import Run
from rlreport.columns import RESPONSE_COLUMNS, STEP
from rlreport.formats import registry
from rlreport.pages.listed import TILES
from rlreport.pages.overview import STEPS_SHOWN
from rlreport.read.logs import read_logs
from tests import judged_runs, site
from tests.conftest import ROOT
from tests.format_table import PAGE, evidence, page
from tests.reading import token_figures
from tests.running import rlreport
from tools.docs import (
    advice_page,
    columns_page,
    commands_page,
    data_page,
    log_format_page,
)

DOCS = ROOT / "docs"
RENEW = "make written"


def test_pages_and_tables_made_from_the_code_are_current():
    fields, data = (
        (DOCS / name).read_text("utf-8") for name in ("log-format.md", "data.md")
    )
    assert (DOCS / "command-line.md").read_text("utf-8") == commands_page(), RENEW
    assert (DOCS / "columns.md").read_text("utf-8") == columns_page(), RENEW
    assert (DOCS / "advice.md").read_text("utf-8") == advice_page(), RENEW
    assert fields == log_format_page(fields), RENEW
    assert data == data_page(data), RENEW
    assert data.count("| key | what |") == 3
    assert PAGE.read_text() == page(), RENEW
    assert [identity for identity, rows in evidence().items() if not rows] == []


def test_shown_columns_are_named_and_no_two_of_a_list_look_alike():
    shown = [STEP[name] for name in (*TILES, *STEPS_SHOWN)]
    shown += [column for column in RESPONSE_COLUMNS if column.listed]
    assert all(column.label and column.help for column in shown)
    for columns in ([STEP[name] for name in STEPS_SHOWN], RESPONSE_COLUMNS):
        titles = [column.title for column in columns if column.label]
        assert len(titles) == len(set(titles))


def example():
    """The conversation of docs/log-format.md."""
    text = (ROOT / "docs" / "log-format.md").read_text("utf-8")
    (found,) = re.findall(
        r"```json\n(.*?)```", text.split("## A conversation with tools")[1], re.S
    )
    return json.loads(found)


def check_figures(logs):
    (row,) = read_logs([logs]).responses.to_dict("records")
    ratio = np.array(example()["logprobs"]) - np.array(example()["ref_logprobs"])
    sampled = np.array(example()["response_mask"], dtype=bool)
    assert row["kl_k1"] == pytest.approx(ratio[sampled].sum())
    assert row["response_tokens"] == sampled.sum()
    assert row["env_tokens"] == 2
    assert row["tool_calls"] == 1


def test_the_conversation_with_tools_counts_what_the_policy_sampled_and_can_be_written(
    tmp_path,
):
    (tmp_path / "log.jsonl").write_text(json.dumps(example()))
    check_figures(tmp_path / "log.jsonl")
    with RolloutWriter(tmp_path / "written") as writer:
        writer.write(**example())
    check_figures(tmp_path / "written")


def test_the_script_of_the_data_page_prints_verdict_and_extremes(
    real_report, tmp_path, monkeypatch, capsys
):
    (tmp_path / "report").symlink_to(real_report("ppo_reward_hacking"))
    monkeypatch.chdir(tmp_path)
    (script,) = re.findall(
        r"```python\n(.*?)```", (DOCS / "data.md").read_text("utf-8"), re.S
    )
    exec(script, {})
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Broken: “🎉” appears in 98% of responses")
    largest = [float(line.split()[-1]) for line in said[2:]]
    assert len(largest) == 5
    assert largest == sorted(largest, reverse=True)


def test_the_files_that_the_data_page_names_are_in_a_report(real_report):
    report = real_report("ppo_reward_hacking")
    rows = re.findall(
        r"^\|[^|]*\| `([^`<]+)`[^|]*\|([^|]*)\|$",
        (DOCS / "data.md").read_text("utf-8"),
        re.M,
    )
    assert len(rows) > 8
    for name, where in rows:
        if name in (
            "compare.json",
            "metrics.csv",
        ):  # of a comparison, of a run with metrics
            continue
        assert (report / "data" / name).is_file(), name
        if name.endswith(".csv"):
            head = (report / "data" / name).read_text("utf-8").partition("\n")[0]
            assert all(
                f'"{column}"' in head for column in re.findall(r"`(\w+)`", where)
            ), where
        elif name.endswith(".json"):
            text = (report / "data" / name).read_text("utf-8")
            for key in re.findall(r"`([\w.\[\]]+)`", where):
                last = re.split(r"[.\]]+", key.rstrip("[]"))[-1]
                level = last in (
                    "healthy",
                    "unclear",
                    "warning",
                    "critical",
                    "unjudged",
                )
                assert level or f'"{last}"' in text, key


def test_the_format_of_the_extending_page_reads_its_files(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "extending.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(from collections.*?)```", text, re.S)
    space: dict[str, Any] = {}
    exec(code, space)
    monkeypatch.setattr(registry, "_FORMATS", (*registry._FORMATS, space["Lumen"]))
    registry.formats.cache_clear()
    tokens = {
        "tok": [5, 6],
        "pieces": ["▁4", 7],
        "logp": [-1.0, -0.5],
        "logp_ref": [-1.5, -1.0],
    }
    completions = [
        {"text": "4", "score": 1.0, "adv": 0.5, "tries": 2, **tokens},
        {"text": "5", "score": None, "adv": -0.5, "tries": 1, **tokens},
    ]
    for step in (3, 4):
        episodes = [{"prompt": f"{n}+2?", "completions": completions} for n in range(2)]
        log = {"lumen_version": "0.4", "iteration": step, "episodes": episodes}
        (tmp_path / f"iter_{step}.json").write_text(json.dumps(log))
    try:
        scan = read_logs([tmp_path])
    finally:
        registry.formats.cache_clear()
    assert {str(file.why) for file in scan.files} == {
        "has `iteration`, `episodes`: Lumen 0.4"
    }
    assert scan.responses["step"].tolist() == [3] * 4 + [4] * 4
    assert scan.responses["reward"].sum() == 4.0
    assert (scan.responses["missing_grade"] > 0).sum() == 4
    assert scan.responses["kl_k1"].tolist() == pytest.approx([1.0] * 8)
    assert scan.responses["group"].nunique() == 4
    assert list(scan.extras.columns) == ["tries"]
    assert set(token_figures(scan).index) == {"▁4", "7"}
    assert not any("unrecognized" in note.text for note in scan.notes)


def test_the_check_of_the_contributing_page_finds_its_run_and_says_since_when():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    code, entry = map(dedent, re.findall(r"```python\n(.*?)```", text, re.S))
    space = {**vars(sampler), **vars(judged_runs)}
    exec(code, space)
    make, check, (low, high) = eval(f"{{{entry}}}", space)["slow rollouts"]
    found = space[check].run(Run(make(0))).finding
    assert 20 < found.facts["first"] < 25
    assert 100 < found.facts["last"] < 150
    assert low <= found.onset.step <= high


def test_every_page_is_in_the_menu_and_links_fit_or_lead_to_the_repository(tmp_path):
    site.gather(tmp_path, tmp_path / "reports")
    menu = re.findall(r'= "([^"]+\.md)"', site.SITE.read_text("utf-8"))
    assert sorted(menu) == sorted(page.name for page in tmp_path.glob("*.md"))
    text = (tmp_path / "index.md").read_text("utf-8")
    assert "](log-format.md)" in text
    assert "](decisions.md#figures)" in text
    assert 'src="pictures/overview-light.webp"' in text
    assert re.search(r"\]\(https://github\.com/[\w/]+/blob/main/sample_logs\)", text)
    assert "](security.md)" in text
    assert "](index.md)" not in text


def test_the_gallery_shows_each_sample_report_with_its_verdict(tmp_path):
    for sample in site.SAMPLES:
        if sample.data:
            path = tmp_path / sample.data
            path.parent.mkdir(parents=True)
            path.write_text(
                json.dumps({"verdict": {"what": f"Is *{sample.picture}*."}})
            )
        else:
            page = '<meta name="description" content="It&#39;s worse.">'
            (tmp_path / sample.page).write_text(page)
    text = site.samples_page(tmp_path)
    assert len(site.SAMPLES) == 4
    for sample in site.SAMPLES:
        assert f"](reports/{sample.page})" in text
        for theme in ("light", "dark"):
            name = f"pictures/sample-{sample.picture}-{theme}.webp"
            assert f'"{name}"' in text
            picture = (ROOT / "docs" / name).read_bytes()
            assert picture[8:12] == b"WEBP"
            assert len(picture) < 150_000, "make pictures"
        if sample.data:
            assert f"Is \\*{sample.picture}\\*." in text
    assert "It's worse." in text


@pytest.mark.ci
def test_the_site_builds_strictly_without_a_foreign_request(tmp_path):
    pytest.importorskip("zensical")
    reports = tmp_path / "reports"
    names = ("index", "compare", "healthy/index", "reward_hacking/index")
    for name in (*names, "reward_hacking/steps/59", "reward_hacking_zh/index"):
        place = reports / f"{name}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("a report stands here", "utf-8")
    site.build(reports, tmp_path / "site")
    for made in (tmp_path / "site").rglob("index.html"):
        used = re.findall(
            r'<(?:script|link|img|iframe)[^>]* (?:src|href)="?(https?:[^"> ]+)',
            made.read_text("utf-8"),
        )
        assert not [
            address for address in used if "rlreport.github.io" not in address
        ], made


ALL_PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob(".github/**/*.md"),
]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("page", "mark"),
    [
        ("README.md", ""),
        ("README.zh.md", "zh-"),
    ],
)
def test_the_picture_is_there_and_light(page: str, mark: str, theme: str) -> None:
    name = f"docs/pictures/overview-{mark}{theme}.webp"
    assert f'"{name}"' in (ROOT / page).read_text("utf-8")
    picture = (ROOT / name).read_bytes()
    assert picture[8:12] == b"WEBP"
    assert len(picture) < 300_000, "make pictures"


@pytest.mark.parametrize(
    ("page", "lang"), [("README.md", "en"), ("README.zh.md", "zh")]
)
def test_the_four_lines_quoted_are_those_of_the_sample_logs(
    page: str, lang: str
) -> None:
    text = (ROOT / page).read_text("utf-8")
    (quoted,) = re.findall("^```text\n(.*?)^```$", text, re.M | re.DOTALL)
    said = rlreport(
        "check", ROOT / "sample_logs" / "reward_hacking", "--lang", lang
    ).stdout
    assert said.splitlines()[:4] == quoted.splitlines()


@pytest.mark.parametrize(
    "page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.S)
    for found in LINK.findall(text):
        place, _, heading = "".join(found).partition("#")
        if place.startswith(("https://", "mailto:")):
            continue
        target = page.parent / place if place else page
        assert target.exists(), place
        if heading:  # as GitHub makes them
            said = re.findall(r"^#+ (.*)$", target.read_text("utf-8").lower(), re.M)
            there = [re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in said]
            assert heading in there, f"{place}#{heading}"
