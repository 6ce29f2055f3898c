"""What the page of a comparison shows: its order, what differs, why, for which tasks, and print."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.check import Thresholds
from rlreport.check.finding import Rank, Severity, ToldFinding
from rlreport.comparison.headline import evidence, result
from rlreport.comparison.outcome import Outcome, outcome_of
from rlreport.draw.comparison import comparison_charts
from rlreport.draw.side_map import MOST_PROMPTS, SideMap, cells_on_page, side_map
from rlreport.flows.compare import compared_run
from rlreport.options import CompareOptions
from rlreport.pages.compare.flips import END_CHARS, flips_table
from rlreport.pages.compare.guardrails import guardrails_table
from rlreport.pages.compare.settings import settings_view
from rlreport.pages.compare.side_map import side_map_view
from rlreport.pages.compare.tasks import task_tables
from rlreport.pages.compare.texts import ngrams_table, tokens_table
from rlreport.pages.compare.view import comparison_view
from rlreport.pages.compare.why import property_table
from rlreport.pages.table import TableView
from rlreport.system.workers import Progress
from rlreport.text.language import ENGLISH
from tests.browser import serious, visiting
from tests.comparisons import PROMPTS, write_pair
from tests.hostile import MARK, STRINGS, hostile_rows, write_log
from tests.reading import write

JS = Path(__file__).parents[1] / "static" / "js"


def outcome_between(base: Path, new: Path) -> Outcome:
    options = CompareOptions()
    runs = [
        compared_run(path, options, Thresholds(), Progress()) for path in (base, new)
    ]
    return outcome_of([runs[0]], [runs[1]], options)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def outcome(pair) -> Outcome:
    return outcome_between(*pair)


@pytest.fixture(scope="module")
def folder(pair, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("made") / "out"
    rlreport.compare(pair[0], pair[1], out)
    return out


def page_of(folder: Path) -> str:
    return (folder / "compare.html").read_text("utf-8")


def headings(page: str) -> list[str]:
    return re.findall(r"<h2[^>]*>([^<]*)</h2>", page)


def heads(view: TableView) -> list[tuple[str, str]]:
    return [(column.label, column.unit) for column in view.columns]


def cells(view: TableView, row: int) -> list[str]:
    return [cell.text for cell in view.rows[row].cells]


def test_the_page_says_what_changed_before_why_and_for_which_tasks(folder):
    sentence, *rest = headings(page_of(folder))
    assert sentence.startswith("group_size 4 is worse than 8 by ")
    assert rest == [
        "What differs",
        "Reward over the steps",
        "Why",
        "For which tasks",
        "Prompts won and lost",
        "Guardrails",
        "Findings",
        "Texts more frequent in NEW",
    ]


def test_the_setting_that_differs_stands_beside_what_came_of_each_run(outcome):
    view = settings_view(outcome)
    assert view.family is not None
    labels = [label for label, _ in heads(view.family)]
    assert labels[:3] == ["Run", "group_size", "Verdict"]
    assert "Reward, last" in labels
    first = [row.cells[0] for row in view.family.rows]
    runs = [(cell.text, cell.note) for cell in first]
    assert runs == [("base", "BASE"), ("new", "NEW")]
    sizes = [cells(view.family, row)[1] for row in (0, 1)]
    assert sizes == ["8", "4"]
    # The table says it all: nothing is folded.
    assert not view.is_cut


def test_many_settings_are_folded_and_counted(tmp_path):
    for run, value in (("base", 1), ("new", 2)):
        write_log(tmp_path / run / "log.jsonl", hostile_rows(steps=3))
        settings = ", ".join(f'"batch_size_{i}": {value}' for i in range(12))
        (tmp_path / run / "config.json").write_text(f"{{{settings}}}")
    rlreport.compare(tmp_path / "base", tmp_path / "new", tmp_path / "out")
    page = page_of(tmp_path / "out")
    family = page[page.index('data-table="family"') :]
    family = family[: family.index("</table>")]
    assert family.count("batch_size_</") + family.count(">batch_") <= 16
    assert len(re.findall(r'<th [^>]*data-key="card:', family)) == 8
    assert "<summary>All settings that differ (12)</summary>" in page


def test_the_part_of_the_difference_that_goes_with_the_format_is_marked(outcome):
    view = property_table(outcome)
    assert view is not None
    assert heads(view)[1:4] == [
        ("Part of the difference", ""),
        ("Responses with it, group_size 8", "BASE"),
        ("Responses with it, group_size 4", "NEW"),
    ]
    name, part, base, new, with_it, without, result = cells(view, 0)
    assert name == "Marks its answer: ####"
    # All of BASE; of NEW, the 4 prompts of one outcome and half of the other 36
    assert (base, new) == ("100%", "55.0%")
    assert part.startswith("−0.2")
    assert result == "the share is lower"
    assert view.rows[0].badges == ["main part"]
    assert "→" in with_it
    assert without == "– → 0"


def test_tables_name_the_sides_by_their_setting_above_base_and_new(outcome):
    sides = [("group_size 8", "BASE"), ("group_size 4", "NEW")]
    (difficulties,) = task_tables(outcome)
    assert heads(difficulties)[2:4] == sides
    guardrails = guardrails_table(outcome)
    assert heads(guardrails) == [
        ("Figure", ""),
        *sides,
        ("Difference", ""),
        ("95% interval", ""),
        ("Result", ""),
    ]
    assert heads(flips_table(outcome.flips, outcome))[2:4] == sides


def test_an_interval_is_one_column_sorted_by_its_lower_end(outcome):
    guardrails = outcome.comparison.guardrails
    shown = {row.id: row.cells[4] for row in guardrails_table(outcome).rows}
    for guardrail in guardrails:
        if guardrail.level == "missing":
            assert guardrail.id not in shown
        else:
            assert shown[guardrail.id].value == guardrail.effect.low
            assert " to " in shown[guardrail.id].text


def test_a_row_of_a_prompt_won_or_lost_shows_how_both_answers_end(outcome):
    view = flips_table(outcome.flips, outcome)
    labels = [label for label, _ in heads(view)]
    assert labels[-2:] == ["Response of group_size 8", "Response of group_size 4"]
    for row, flip in zip(view.rows, outcome.flips, strict=True):
        base, new = row.cells[-2:]
        for cell, text in ((base, flip.base_text), (new, flip.new_text)):
            assert cell.text + cell.end == text
            assert len(cell.end) == END_CHARS
    badges = [row.badges for row in view.rows]
    assert sorted(filter(None, badges)) == [["improved"], ["regressed"]]


def test_the_list_and_its_script_show_ends_of_one_length():
    script = (JS / "list" / "text-parts.js").read_text("utf-8")
    assert f"END_ONLY = {{ head: 0, end: {END_CHARS} }}" in script


def test_prompts_are_counted_by_what_became_of_them(outcome):
    view = side_map_view(outcome, outcome.flips, ENGLISH)
    assert view is not None
    assert view.counts == [
        ("Improved", 1),
        ("Regressed", 1),
        ("Not clearly changed (36 lower)", PROMPTS - 4),
        ("Always solved", 1),
        ("Never solved", 1),
    ]
    assert "With 8 responses per prompt and side" in view.rule


def changes_of(base: list[float], new: list[float], change: list[str]) -> pd.DataFrame:
    table = pd.DataFrame({"base": base, "new": new, "change": change})
    return table.assign(
        pair=np.arange(len(base), dtype=np.uint64),
        delta=table["new"] - table["base"],
        base_count=4,
        new_count=4,
    )


def drawn_of(table: pd.DataFrame) -> SideMap:
    drawn = side_map(table)
    assert drawn is not None
    return drawn


def test_the_map_is_sorted_by_the_difference_and_marks_only_what_is_clear():
    table = changes_of(
        [0.5, 1.0, 0.0, 0.5],
        [0.75, 0.0, 1.0, 0.5],
        ["same", "regressed", "improved", "same"],
    )
    drawn = drawn_of(table)
    assert drawn.pairs == [1, 3, 0, 2]
    svg = cells_on_page(drawn, "a map", ENGLISH)
    # A row of cells each: the third and the fourth row are the bars.
    assert '<path stroke="var(--healthy)" d="M0 .5m3 0h1"/>' in svg
    assert '<path stroke="var(--critical)" d="M0 .5m0 1h1"/>' in svg
    assert re.findall(r"<text [^>]*>([^<]*)</text>", svg) == ["−1.00", "+1.00", "0"]


def test_of_very_many_prompts_some_are_drawn_and_that_is_said(outcome):
    count = 3 * MOST_PROMPTS
    levels = (np.arange(count) / count).tolist()
    drawn = drawn_of(changes_of([0.0] * count, levels, ["same"] * count))
    assert len(drawn.pairs) == MOST_PROMPTS
    assert drawn.delta[0] == levels[0]
    assert drawn.delta[-1] == levels[-1]
    assert drawn.of == count
    assert len(cells_on_page(drawn, "a map", ENGLISH)) < 20_000


@pytest.mark.parametrize("worst", [-np.inf, -1e300, np.nan])
def test_extreme_rewards_do_not_break_the_map(worst):
    base = [0.0, worst, 1.0]
    table = changes_of(base, [1.0, 0.5, 2.0], ["same"] * 3)
    svg = cells_on_page(drawn_of(table), "a map", ENGLISH)
    assert "nan" not in svg.lower()
    assert "inf" not in svg.lower()


def test_without_prompts_in_pairs_there_is_no_map():
    assert side_map(changes_of([], [], [])) is None


def test_both_charts_show_the_compared_steps_and_where_each_run_broke(outcome):
    reward, difference = comparison_charts(outcome)
    for chart in (reward, difference):
        text = str(chart.spec)
        assert "compared: step 4" in text
        assert not chart.wide
        assert "interval" in text
    names = {entry.title for entry in reward.key}
    names |= set(re.findall(r"'label': '([^']*)'", str(reward.spec)))
    assert {"group_size 8", "group_size 4"} <= names
    assert difference.title.endswith("group_size 4 − group_size 8")


def test_empty_tables_are_not_drawn(folder, outcome):
    assert tokens_table(outcome) is None
    assert ngrams_table(outcome) is not None
    page = page_of(folder)
    assert "Nothing to list." not in page
    assert "Tokens whose share" not in page


def test_runs_of_metrics_alone_have_the_same_page_without_prompts(tmp_path):
    for run, gain in (("base", 0.0), ("new", 0.01)):
        rows = [
            {"step": step, "reward": 0.2 + gain * step + 0.05 * (step % 3), "kl": 0.1}
            for step in range(40)
        ]
        write(tmp_path / run / "metrics.jsonl", rows)
    rlreport.compare(tmp_path / "base", tmp_path / "new", tmp_path / "out")
    page = page_of(tmp_path / "out")
    found = headings(page)
    assert found[0].startswith("new ")
    assert "Reward over the steps" in found
    assert not {"Why", "For which tasks", "Prompts won and lost"} & set(found)
    assert "Nothing to list." not in page


def test_hostile_texts_stay_texts(tmp_path, browser):
    for run, shift in (("base", 0), ("new", 1)):
        rows = hostile_rows(steps=6)
        for row in rows:
            row["reward"] = float((row["reward"] + shift) % 3 > 1)
        write_log(tmp_path / run / "log.jsonl", rows)
        value = "</script><b>" if shift else "{{ 7*7 }}"
        (tmp_path / run / "config.json").write_text(f'{{"model": "{value}"}}')
    rlreport.compare(tmp_path / "base", tmp_path / "new", tmp_path / "out")
    with visiting(browser, tmp_path / "out" / "compare.html") as page:
        assert page.locator(".side-map svg").count()
        assert MARK not in page.title()
        assert page.locator("main b:not(.summary b), main img").count() == 0
        shown = page.locator(".side-map").inner_text()
        assert "{{ 7*7 }}" in shown
        assert "</script><b>" in shown
        assert serious(page) == []
    assert STRINGS[0] not in page_of(tmp_path / "out")


def test_the_card_has_the_short_result_then_its_evidence_then_what_reports_say(outcome):
    ill = replace(outcome.new, level="warning", what="Emojis fill <b>the answers</b>.")
    view = shown(replace(outcome, news=[ill]))
    assert view.result == result(outcome)
    assert view.evidence == evidence(outcome)
    assert view.run_lines == [f"{outcome.labels.new} · Emojis fill <b>the answers</b>."]


def test_findings_still_there_have_the_titles_of_both_runs(outcome):
    def kl(title):
        return ToldFinding(
            id="kl_explosion",
            severity=Severity.CRITICAL,
            rank=Rank.NOTE,
            onset=None,
            title=title,
        )

    def still(base_title, new_title):
        base = replace(outcome.base, findings={"kl_explosion": kl(base_title)})
        new = kl(new_title)
        changed = {**outcome.changed, "still": [new]}
        view = shown(replace(outcome, bases=[base], changed=changed))
        return next(found for label, found in view.findings if label == "Still there")

    base = outcome.labels.base
    new = outcome.labels.new
    assert still("KL is 36.", "KL is 103.") == [
        (Severity.CRITICAL, f"{base}: KL is 36. {new}: KL is 103.")
    ]
    assert still("KL is 36.", "KL is 36.") == [(Severity.CRITICAL, "KL is 36.")]
    assert still("", "KL is 36.") == [(Severity.CRITICAL, "KL is 36.")]


def shown(outcome):
    return ENGLISH.of(comparison_view(outcome, [], 5, [], ENGLISH))
