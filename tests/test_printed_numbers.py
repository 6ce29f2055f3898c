"""Every output prints the same number for the same thing, of twelve runs.

The truth are the courses of findings.json, whose levels are recomputed from the exported tables.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

import rlreport
from tests.conftest import once
from tests.number_runs import RUNS
from tests.output_texts import (
    Tile,
    charts_of_markdown,
    events_of_page,
    labels_of_charts,
    lines_of_mail,
    lines_of_markdown,
    lines_of_page,
    mail_of,
    page_of,
    rows_of_table,
    tables_of_markdown,
    tiles_of_page,
)
from tests.printed_numbers import (
    Claim,
    Truth,
    claims,
    is_printed,
    steps_named,
    whole,
)
from tests.running import in_ci
from tests.running import rlreport as command

# Key figure -> its quantity
QUANTITIES = {
    "reward_mean": "reward",
    "validation_reward_mean": "validation",
    "valid_reward_mean": "second_reward",
    "kl_k1_mean": "kl",
    "response_tokens_mean": "length",
    "response_chars_mean": "length",
    "surprisal_mean": "entropy",
}
# Its name in tables
NAMES = {
    "Reward": "reward",
    "Validation": "validation",
    "accuracy": "accuracy",
    "KL": "kl",
    "Length": "length",
    "Entropy": "entropy",
}
UNITS = {
    "length": {"tokens", "characters"},
    "kl": {"nats per response", "nats per token"},
    "entropy": {"nats per token"},
    "validation": {"", "%"},
}
# Chart -> the quantity of its first curve
CHARTS = {"reward": "reward", "kl": "kl", "length": "length", "surprisal": "entropy"}
# What a label of a chart says -> kinds of events
LABELS = {
    "fell at": "fall",
    "rose at": "climb",
    "valley": "valley",
    "hump": "hump",
    "dead from": "dead",
    "above the limit": "above",
}
CHINESE = ("validation_falls", "metrics_alone", "dead", "recovered")


@dataclass(frozen=True)
class Outputs:
    """The outputs of a run in a language."""

    name: str
    folder: Path  # that contains all of them
    language: str
    printed: str  # the representation of the report in Python

    @property
    def report(self) -> Path:
        return self.folder / "report"

    @property
    def markdown(self) -> str:
        return (self.folder / "report.md").read_text("utf-8")


def make(name: str, folder: Path, language: str) -> Outputs:
    """Build all outputs of a run, once."""
    RUNS[name](folder / "logs")
    report = None
    for out in ("report", "report.html", "report.md", "report.eml"):
        if language == "zh" and out == "report.html":
            continue
        built = rlreport.build(
            folder / "logs", folder / out, workers=1, quiet=True, lang=language
        )
        report = report or built
    printed = repr(report)
    (folder / "repr.txt").write_text(printed, "utf-8")
    return Outputs(name, folder, language, printed)


def made_once(factory: pytest.TempPathFactory, name: str, language: str = "en") -> Path:
    """Return the folder with all outputs of a run, which are built once a session."""

    def build(folder: Path) -> None:
        make(name, folder, language)

    return once(factory, f"numbers_{name}_{language}", build)


FAST = ("validation_falls", "dead", "parts", "metrics_alone-zh")
ALL = (*RUNS, *(f"{name}-zh" for name in CHINESE))
IN_CI = [name for name in ALL if name not in FAST]


@pytest.fixture(scope="module", params=[*FAST, *in_ci(*IN_CI)])
def outputs(request, tmp_path_factory) -> Outputs:
    name, _, chinese = request.param.partition("-")
    language = chinese or "en"
    folder = made_once(tmp_path_factory, name, language)
    return Outputs(name, folder, language, (folder / "repr.txt").read_text("utf-8"))


@pytest.fixture(scope="module")
def truth(outputs) -> Truth:
    return Truth(outputs.report)


# The levels themselves


def test_levels_are_means_of_the_exported_columns(truth):
    for quantity in truth.courses:
        for name, level in truth.levels(quantity).items():
            low, high = level["steps"]
            again = truth.mean(quantity, (low, high), level.get("without", ()))
            place = (quantity, name)
            assert level["value"] == pytest.approx(again, rel=1e-8, abs=1e-9), place


# Texts


def lines_by_output(outputs: Outputs) -> Iterator[tuple[str, list[str]]]:
    """Yield (output, its lines) of all outputs that have texts."""
    yield "folder", lines_of_page(page_of(outputs.report))
    if outputs.language == "en":
        yield "one file", lines_of_page(page_of(outputs.folder / "report.html"))
    yield "Markdown", lines_of_markdown(outputs.markdown)
    plain, html = mail_of(outputs.folder / "report.eml")
    yield "mail, plain", lines_of_mail(plain)[0]
    yield "mail, HTML", lines_of_page(html)
    checked = command("check", outputs.folder / "logs", "-v")
    lines = checked.stdout.splitlines()
    # What checks need, and how many of them, says nothing of the run.
    yield "check", [line for line in lines if not line.strip().startswith("not run")]
    yield "repr", outputs.printed.splitlines()
    findings = json.loads((outputs.report / "data" / "findings.json").read_bytes())
    verdict = findings["verdict"]
    titles = [finding["title"] for finding in findings["findings"]]
    texts = [verdict["what"], verdict["course_sentence"], verdict["next"]]
    yield "findings.json", [*texts, verdict["sentence"], *titles]


# Lines that do not tell of a course: examples and extremes of single responses, sources, advice,
# what charts show (values of steps, which another test compares), how much is logged
_OTHER_LINES = re.compile(
    r"^\W*(?:Source|Why it matters|Steps \d|before |after |see |See |More about|来源|步 \d)"
    r"|^\W*(?:此前|此后|另见|见|Evidence|证据)"
    r"|\bover [\d,]+ steps\b|\d 步（"
    r"|· step \d|· 第 \d"
    r"|\d%? at step \d.*(?:lowest|highest)|最低.*最高|From reward|奖励从.*nat，第"
    r"|\b(?:shaded|marked): |阴影|标出：|are shown\."
)
_THRESHOLD = re.compile(r"[(（](?:threshold|阈值)")
_OF_KL = re.compile(r"\bKL per \w+ |每(?:条|个)\w+的 KL")


def told(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that tell of courses; of thresholds those of the KL, which have steps."""
    for line in lines:
        is_other_threshold = _THRESHOLD.search(line) and not _OF_KL.search(line)
        if not is_other_threshold and not _OTHER_LINES.search(line):
            yield line


def claims_of(lines: Iterable[str], output: str) -> list[Claim]:
    """Return the numbers of some lines that belong to a quantity."""
    found: list[Claim] = []
    for line in lines:
        found += claims(line, output)
    return found


def of_other_figure(line: str) -> bool:
    """Return whether a line describes the small chart of another figure than a quantity."""
    name = re.match(r"([^:：]+)[:：].*(?:; lowest|；最低)", line)
    return name is not None and name[1].partition(" (")[0] not in NAMES


def test_each_number_in_a_text_is_a_level_of_its_course(outputs, truth):
    problems = []
    counts = {}
    for output, lines in lines_by_output(outputs):
        found = claims_of(told(lines), output)
        counts[output] = len(found)
        problems += [text for text in map(truth.problem, found) if text]
    assert not problems, "\n".join(problems)
    assert min(counts.values()) >= 1, counts


def test_each_step_in_a_text_is_one_of_a_level_an_event_or_a_finding(outputs, truth):
    known = truth.known_steps()
    unknown = []
    for output, lines in lines_by_output(outputs):
        for line in told(lines):
            if _THRESHOLD.search(line) or of_other_figure(line):
                continue  # of a threshold, the mean over these steps is compared
            unknown += [
                (output, step, line) for step in steps_named(line) if step not in known
            ]
    assert not unknown


def test_the_checkpoint_and_the_dates_of_findings_are_those_of_findings_json(
    outputs, truth
):
    if outputs.language != "en":
        pytest.skip("the patterns are English")
    keep = truth.content["verdict"]["keep_step"]
    dated = 0
    for output, lines in lines_by_output(outputs):
        text = " ".join(" ".join(lines).split())
        for step in re.findall(r"Keep step ([\d,]+)", text):
            assert whole(step) == keep, (output, step)
        for finding in truth.content["findings"]:
            pattern = (
                re.escape(finding["title"].rstrip(".")) + r"\W+[Ss]ince step ([\d,]+)"
            )
            for step in re.findall(pattern, text):
                assert whole(step) == finding["onset"]["step"], (output, finding["id"])
                dated += 1
    has_dates = any(finding["onset"] for finding in truth.content["findings"])
    assert dated >= 4 or not has_dates


def test_the_name_of_validation_is_validation(outputs):
    for output, lines in lines_by_output(outputs):
        for line in lines:
            words = line.lower().replace("watched_reward_fall", "")
            assert "watched" not in words, (output, line)


# Key figures


def expected_tile(truth: Truth, quantity: str, tile: Tile) -> bool:
    """Return whether a tile prints a level, with its steps and its exact value."""
    for level in truth.levels(quantity).values():
        low, high = level["steps"]
        named = [f"steps {low}–{high}", f"第 {low}–{high} 步"]
        if low == high:
            named = [f"step {low}", f"第 {low} 步"]
        is_exact = tile.exact and float(tile.exact) == pytest.approx(level["value"])
        if is_exact and tile.steps in named and is_printed(level["value"], tile.text):
            return True
    return False


def test_key_figures_are_levels_with_their_steps(outputs, truth):
    pages = [page_of(outputs.report)]
    if outputs.language == "en":
        pages.append(page_of(outputs.folder / "report.html"))
    for page in pages:
        seen: dict[str, list[Tile]] = {}
        for tile in tiles_of_page(page):
            quantity = QUANTITIES.get(tile.figure)
            if quantity is None or _is_of_other_column(tile, truth, quantity):
                continue
            is_accuracy = quantity == "validation" and quantity not in truth.courses
            quantity = "accuracy" if is_accuracy else quantity
            assert expected_tile(truth, quantity, tile), (quantity, tile)
            seen.setdefault(quantity, []).append(tile)
        for quantity, tiles in seen.items():
            levels = truth.levels(quantity)
            values = [float(tile.exact) for tile in tiles]
            assert values[-1] == pytest.approx(levels["last"]["value"]), quantity
            if len(values) > 1:
                assert values[0] == pytest.approx(levels["first"]["value"]), quantity
            if len(values) > 2:
                assert values[1] == pytest.approx(levels["best"]["value"]), quantity
        assert set(seen) == set(truth.courses), set(truth.courses) - set(seen)


def _is_of_other_column(tile: Tile, truth: Truth, quantity: str) -> bool:
    """Return whether it is a length in characters besides that in tokens."""
    if quantity != "length":
        return False
    column = truth.courses["length"]["series"]["column"]
    return tile.figure == "response_chars_mean" and column != "response_chars_mean"


def named_figures(outputs: Outputs) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (output, name, numbers) of the key figures in Markdown and mail."""
    for name, cells in tables_of_markdown(outputs.markdown):
        yield "Markdown", name, [cell for cell in cells if cell]
    plain, _ = mail_of(outputs.folder / "report.eml")
    for name, numbers in lines_of_mail(plain)[1].items():
        yield "mail", name, numbers


def test_key_figures_of_markdown_and_mail_are_those_levels(outputs, truth):
    if outputs.language != "en":
        pytest.skip("names of figures are those of the English edition")
    seen: dict[str, set[str]] = {}
    for output, name, numbers in named_figures(outputs):
        label, _, unit = name.removesuffix(")").partition(" (")
        quantity = NAMES.get(label)
        if quantity is None:
            continue
        levels = truth.levels(quantity)
        assert is_printed(levels["last"]["value"], numbers[-1]), (output, name, numbers)
        if len(numbers) > 1:
            first = levels["first"]["value"]
            assert is_printed(first, numbers[0]), (output, name, numbers)
        if len(numbers) > 2:
            best = levels["best"]["value"]
            assert is_printed(best, numbers[1]), (output, name, numbers)
        assert unit in UNITS.get(quantity, {""}), (output, name)
        seen.setdefault(output, set()).add(quantity)
    assert seen == {output: set(truth.courses) for output in ("Markdown", "mail")}


# Charts and tables


def test_labels_of_charts_are_onsets_of_events(outputs, truth):
    page = page_of(outputs.report)
    for chart, label, step in events_of_page(page):
        name, _, words = label.rpartition(": ")
        quantity = CHARTS.get(chart)
        if "validation" in name or "验证" in name:
            quantity = "validation"
        if quantity not in truth.courses:
            continue
        events = truth.events(quantity)
        if outputs.language == "en":
            kind = next(
                kind for start, kind in LABELS.items() if words.startswith(start)
            )
            events = [event for event in events if event["kind"] == kind]
        numbers = [whole(number) for number in re.findall(r"\d[\d,]*", words)]
        assert any(
            # A rule may stand between two values.
            event["onset"] - step in (0, 0.5)
            and numbers == [event["onset"], event["until"]][: len(numbers)]
            for event in events
        ), (chart, label, step, events)


def test_descriptions_of_charts_have_the_values_of_steps(outputs, truth):
    if outputs.language != "en":
        pytest.skip("the pattern is English")
    compared = 0
    for chart, label in labels_of_charts(page_of(outputs.report)):
        quantity = CHARTS.get(chart)
        if quantity not in truth.courses:
            continue
        source = truth.courses[quantity]["series"]
        curve = re.match(
            r"(policy|KL|reward|trainer|logged)[^:]*: ([^.]*(?:\.\d[^.]*)*)\.", label
        )
        if not curve or source["file"] != "steps.csv":
            continue
        for value, step in re.findall(
            r"([−-]?\d[\d.,e−]*) at step (\d[\d,]*)", curve[2]
        ):
            assert is_printed(truth.series[quantity][whole(step)], value), (
                chart,
                label,
            )
            compared += 1
    assert compared or all(
        course["series"]["file"] != "steps.csv" for course in truth.courses.values()
    )


def test_charts_of_markdown_have_the_values_of_steps(outputs, truth):
    drawn = 0
    for title, steps, values in charts_of_markdown(outputs.markdown):
        name = re.split(r" ?[(（]", title)[0]
        names = {
            **NAMES,
            "奖励": "reward",
            "验证集": "validation",
            "验证": "validation",
            "长度": "length",
        }
        quantity = names[name]
        for step, value in zip(steps, values, strict=True):
            logged = truth.series[quantity][step]
            assert value == pytest.approx(logged, rel=6e-4, abs=5e-7), (title, step)
        drawn += 1
    assert drawn


def test_the_table_of_steps_has_the_values_of_the_exported_table(outputs):
    steps = pd.read_csv(outputs.report / "data" / "steps.csv").set_index("step")
    for row in rows_of_table(page_of(outputs.report), "reward_mean"):
        step = whole(row["step"].split()[0])
        for column in QUANTITIES:
            if column in row and re.search(r"\d", row[column]):
                value = float(steps[column][step])
                assert is_printed(value, row[column]), (step, column)


# Index and comparison


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> tuple[Path, dict[str, Path]]:
    """An index of all runs, and their reports."""
    reports = {}
    for name in RUNS:
        folder = made_once(tmp_path_factory, name)
        reports[name] = folder / "report"
    place = tmp_path_factory.mktemp("index") / "index.html"
    rlreport.index(list(reports.values()), place)
    return place, reports


def truth_of_row(name: str, reports: Iterable[Path]) -> Truth:
    """Return the truth of a row; runs of one name have the path of their report below it."""
    ends = {"/".join(report.parts[-2:]): report for report in reports}
    (report,) = [report for end, report in ends.items() if name.endswith(end)]
    return Truth(report)


def test_the_index_has_the_levels_of_the_reports(listed):
    place, reports = listed
    page = place.read_text("utf-8")
    rows = list(rows_of_table(page, "last"))
    assert len(rows) == len(reports)
    for row in rows:
        truth = truth_of_row(row["run"], reports.values())
        for level in ("first", "best", "last"):
            text = row[level]
            if re.search(r"\d", text):
                value = truth.levels("reward")[level]["value"]
                assert is_printed(value, text), (row["run"], level, text)
                is_percent = truth.courses["reward"]["unit"] == "%"
                assert text.endswith("%") == is_percent, (row["run"], level, text)
        lead = truth.content["verdict"]["lead"]
        finding = [f for f in truth.content["findings"] if f["id"] == lead]
        onset = finding[0]["onset"] if finding else None
        assert row["since"] == (f"{onset['step']:,}" if onset else "–")
        problems = [truth.problem(c) for c in claims(row["sentence"], "index")]
        assert not any(problems), problems


def test_metrics_of_choice_of_the_index_have_the_levels_of_the_reports(listed):
    place, reports = listed
    page = place.read_text("utf-8")
    names = [row["run"] for row in rows_of_table(page, "last")]
    truths = [truth_of_row(name, reports.values()) for name in names]
    packed = re.search('class="metrics-data">(.*?)</script>', page)
    assert packed
    metrics = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    compared = 0
    for metric in metrics:
        for row, name in enumerate(names):
            levels = truths[row].courses.get(metric["key"])
            # A curve that the verdict does not read, or one in another unit, listed apart
            if levels is None or metric["last"][row] is None:
                continue
            # Of other metrics, the column in between has the highest value.
            is_score = metric["key"] in ("reward", "validation")
            for level in ("first", "best", "last") if is_score else ("first", "last"):
                assert metric[level][row] == levels[level]["value"], (name, level)
                compared += 1
    assert {"reward", "validation"} <= {metric["key"] for metric in metrics}
    assert compared >= 3 * len(names)


def test_a_comparison_repeats_the_titles_of_both_reports(listed, tmp_path):
    _, reports = listed
    base = reports["shorter"]
    new = reports["dead"]
    rlreport.compare(base, new, tmp_path / "comparison.md", quiet=True)
    text = (tmp_path / "comparison.md").read_text("utf-8")
    truth = Truth(new)
    lines = [line for line in lines_of_markdown(text) if line.startswith("New")]
    found = claims_of(lines, "comparison")
    assert len(found) >= 4
    problems = [text for text in map(truth.problem, found) if text]
    assert not problems
