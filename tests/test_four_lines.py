"""The verdict in four lines: what, course, evidence and next, in the same order in every form."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import rlreport as package
from rlreport.check.finding import (
    Close,
    Example,
    NotRun,
    Onset,
    Rank,
    Severity,
    ToldFinding,
)
from rlreport.check.four_lines import (
    aligned,
    evidence_text,
    four_lines,
    shown_example,
    why_no_example,
)
from rlreport.check.registry import CHECKS
from rlreport.check.verdict import Muted, ShownExample, Verdict
from rlreport.cli.terminal import MOST_LINES, short_verdict_lines, verdict_lines
from rlreport.pages.findings import verdict_view
from rlreport.pages.html import environment
from rlreport.pages.page import Addresses
from rlreport.text.language import ENGLISH
from tests.browser import box_of, serious, visiting
from tests.reading import row, write
from tests.running import build, rlreport

LABELS = ["What", "Course", "Evidence", "Next"]
BEFORE = Example(2, 7, excerpt="fine", value=1.0, unit="tokens")
AFTER = Example(9, 4, excerpt="a\x1b[1m", value=3.0, unit="tokens", before=BEFORE)


def told(check: str, severity: Severity, **fields: Any) -> ToldFinding:
    finding = ToldFinding(check, severity, Rank.CAUSE, onset=Onset(8, 8, 8))
    texts: dict[str, Any] = {
        "title": f"{check} was found.",
        "name": check,
        "suggestion": f"Do {check}",
    }
    return replace(finding, **texts | fields)


LEAD = told("kl_explosion", Severity.CRITICAL, evidence=(AFTER, BEFORE))
CAUSE = told("garbled", Severity.WARNING)
EFFECT = told("missing_eos", Severity.CRITICAL, explained_by="kl_explosion")
NOTE = told("spreading_text", Severity.INFO)

VERDICT = Verdict(
    "critical",
    "kl_explosion",
    findings=[LEAD, EFFECT, CAUSE, NOTE],
    close=(Close("length_collapse", "Length is near.", 1.0, 2.0, ""),),
    passed=["no_updates"],
    not_run=[NotRun("tool_errors", "tool calls"), NotRun("late_calls", "tool calls")],
    not_observed=("gradient norms",),
    muted=[Muted(told("loops", Severity.WARNING), "known")],
    response_count=80,
    what="Broken: it broke.",
    course_sentence="It rose.",
    evidence=ShownExample("kl_explosion", 0),
    next="Mend it.",
)


def test_the_lines_are_in_the_same_order_and_one_without_text_is_left_out() -> None:
    assert [line.label for line in four_lines(VERDICT)] == LABELS
    without = four_lines(replace(VERDICT, course_sentence=""))
    assert [line.label for line in without] == ["What", "Evidence", "Next"]
    starts = {
        len(line) - len(line.split(maxsplit=1)[1])
        for line in aligned(four_lines(VERDICT))
    }
    assert len(starts) == 1, "the texts begin below each other"


def test_the_evidence_has_the_pair_and_counts_the_other_examples() -> None:
    text = evidence_text(VERDICT)
    assert text.startswith("step 2, response 7: 'fine' → step 9, response 4: ")
    assert "\x1b" not in text, "an excerpt is a literal"
    assert text.endswith("(1 more example)")


def test_a_run_without_a_finding_to_show_has_a_pair_of_its_own() -> None:
    healthy = Verdict("healthy", response_count=8, pair=AFTER, what="Healthy.")
    assert shown_example(healthy) == AFTER
    assert evidence_text(healthy).startswith("step 2, response 7: 'fine' → step 9")
    view = verdict_view(healthy, Addresses(steps=frozenset({2, 9})))
    assert view.evidence.example is not None
    assert view.evidence.example.link.href == "steps/9.html#r=4"
    assert view.evidence.more is None


def test_without_an_example_the_reason_is_said() -> None:
    no_example = replace(LEAD, evidence=())
    unseen = replace(VERDICT, findings=[replace(no_example, unseen=8)], evidence=None)
    assert "8 logged responses" in why_no_example(unseen)
    of_steps = replace(unseen, findings=[no_example])
    without_responses = replace(of_steps, response_count=0)
    reasons = {why_no_example(one) for one in (unseen, of_steps, without_responses)}
    assert len(reasons) == 3 and "" not in reasons
    assert why_no_example(Verdict("healthy", response_count=8))


def rendered(verdict: Verdict) -> str:
    template = environment(ENGLISH).from_string(
        '{% from "macros/findings.html" import verdict with context %}{{ verdict(view) }}'
    )
    return template.render(view=verdict_view(verdict, Addresses(frozenset({2, 9}))))


def test_the_card_begins_with_the_four_lines_and_its_heading_is_what_happened() -> None:
    html = rendered(VERDICT)
    assert re.findall("<dt>(.*?)</dt>", html) == LABELS
    (heading,) = re.findall("<h2.*?>(.*?)</h2>", html, re.DOTALL)
    assert re.sub("<[^>]*>", "", heading) == f"✕ {VERDICT.what}"
    assert html.index("</dl>") < html.index("<details")
    shown = html[html.index("<dl") : html.index("</dl>")]
    assert re.findall('href="(.*?)"', shown) == [
        "steps/2.html#r=7",
        "steps/9.html#r=4",
        "#finding=kl_explosion",
    ]


def test_below_the_card_are_causes_then_effects_then_notes_then_what_is_not_found() -> (
    None
):
    html = rendered(VERDICT)
    order = [
        'id="finding=kl_explosion"',
        'id="finding=garbled"',
        'id="finding=missing_eos"',
        'id="finding=spreading_text"',
        "Muted: known",
        "Close to a limit",
        "Not logged: gradient norms",
        "1 check found nothing",
    ]
    places = [html.index(text) for text in order]
    assert places == sorted(places)
    # Another cause has its own advice, an effect has it folded.
    visible = re.sub("</summary>.*?</details>", "", html, flags=re.DOTALL)
    assert "Do garbled" in visible and "Do missing_eos" not in visible
    assert "missing_eos" not in visible, "effects are in one folded block"
    assert not any(check.needs in html for check in VERDICT.not_run)


def test_the_terminal_gets_ten_lines_at_most_with_causes_first() -> None:
    lines = short_verdict_lines(VERDICT)
    assert len(lines) <= MOST_LINES
    assert [line.split()[0] for line in lines[:4]] == LABELS
    printed = "\n".join(lines)
    assert printed.index("garbled:") < printed.index("missing_eos:")
    assert lines[-1].startswith("2 checks need")
    assert "1 close to a limit, 1 muted" in lines[-2]
    findings = [LEAD, *(replace(CAUSE, id=check.id) for check in CHECKS)]
    many = short_verdict_lines(replace(VERDICT, findings=findings))
    assert len(many) == MOST_LINES
    shown = [line for line in many if " was found." in line]
    assert f"+ {len(findings) - len(shown)} more" in many[-2]


def test_the_line_of_what_is_not_printed_counts_notes_apart() -> None:
    noted = [
        replace(CAUSE, id=check.id, severity=Severity.INFO) for check in CHECKS[:9]
    ]
    lines = short_verdict_lines(replace(VERDICT, findings=[LEAD, *noted]))
    shown = [line for line in lines if " was found." in line]
    assert f"+ {10 - len(shown)} notes, " in lines[-2]
    assert "more" not in lines[-2]


def test_a_quiet_check_prints_the_first_line_of_the_verdict_alone(tmp_path) -> None:
    logs = write(tmp_path / "log.jsonl", [row(step) for step in range(12)])
    quiet = rlreport("check", logs, "-q")
    (line,) = quiet.stdout.splitlines()
    assert rlreport("check", logs).stdout.splitlines()[0].endswith(line)
    assert line.startswith("Unclear: ")
    assert (quiet.stderr, quiet.returncode) == ("", 0)


def test_a_check_warns_of_what_was_read_as_a_build_does(tmp_path) -> None:
    steps = [*range(30), *range(30), *range(20)]
    prompts = ("a", "b", "c", "d")
    rows = [row(step, prompt=text) for step, text in product(steps, prompts)]
    logs = write(tmp_path / "log.jsonl", rows)
    checked = rlreport("check", logs).stderr
    built = rlreport("build", logs, "-o", tmp_path / "report").stderr
    warnings = [line for line in built.splitlines() if line.startswith("warning: ")]
    assert any("3 starts in one log" in line for line in warnings)
    assert [line for line in checked.splitlines() if "warning: " in line] == warnings


def test_all_lines_have_all_outcomes_but_what_passed() -> None:
    printed = "\n".join(verdict_lines(VERDICT))
    assert [line.split()[0] for line in printed.splitlines()[:4]] == LABELS
    for text in ("missing_eos", "close    length_collapse", "known", "not run"):
        assert text in printed
    assert printed.count("→") == 2, "the line of the evidence, and the finding's"


@pytest.mark.parametrize("command", ["check", "build"])
def test_a_command_prints_ten_lines_and_all_of_them_if_asked(command, tmp_path) -> None:
    logs = write(tmp_path / "log.jsonl", [row(step) for step in range(12)])
    out = ["-o", tmp_path / "report"] if command == "build" else []
    short = rlreport(command, logs, *out).stdout.splitlines()
    assert len(short) <= MOST_LINES
    assert short[0].startswith("What ")
    for option in ("-v", "--verbose"):
        long = rlreport(command, logs, *out, option).stdout.splitlines()
        assert len(long) > 2 * MOST_LINES
        assert long[0] == short[0]


def test_what_a_report_leaves_out_is_within_the_ten_lines(tmp_path) -> None:
    rows = [row(number // 9, response=f"text {number}") for number in range(108)]
    logs = write(tmp_path / "log.jsonl", rows)
    done = build(logs, tmp_path / "run.zip", "--max-responses", 2)
    lines = done.stdout.splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[0].startswith("What ")
    assert "24 of 108 responses" in lines[-2]


def test_the_data_page_lists_every_check_with_its_outcome(hacking: Path) -> None:
    html = (hacking / "data.html").read_text("utf-8")
    table = html.partition('data-table="checks"')[2].partition("</table>")[0]
    assert re.findall('<tr data-n="(.*?)"', table) != []
    assert set(re.findall('<tr data-n="(.*?)"', table)) == {c.id for c in CHECKS}
    overview = (hacking / "index.html").read_text("utf-8")
    assert "needs" not in overview.partition('class="not-found"')[2][:400]


@pytest.mark.untraced
@pytest.mark.parametrize("width", [390, 800, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_card_is_read_on_any_screen(browser, hacking, width, scheme) -> None:
    viewport = {"width": width, "height": 900}
    page_of = visiting(
        browser, hacking / "index.html", viewport=viewport, color_scheme=scheme
    )
    with page_of as page:
        what = page.get_by_role("heading", level=2).first
        assert "Broken" in (what.text_content() or "")
        label = box_of(page.locator(".four-lines dt").last)
        text = box_of(page.locator(".four-lines dd").last)
        is_above = label["y"] + label["height"] <= text["y"] + 1
        assert is_above == (width == 390)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(page) == []


@pytest.mark.untraced
def test_the_link_to_further_examples_opens_them(browser, hacking) -> None:
    with visiting(browser, hacking / "index.html") as page:
        examples = page.locator(".leading .examples li")
        assert not examples.first.is_visible()
        link = page.locator(".more-examples a")
        link.click()
        examples.first.wait_for(state="visible")
        # The one that is shown is not repeated.
        assert (link.text_content() or "").startswith(f"{examples.count()} ")


@pytest.mark.untraced
def test_the_link_to_further_examples_opens_them_in_one_file(
    browser, shared_data, tmp_path
) -> None:
    out = tmp_path / "run.html"
    package.build(shared_data / "ppo_reward_hacking", out, workers=1)
    with visiting(browser, out) as page:
        page.click(".more-examples a")
        page.locator(".leading .examples li").first.wait_for(state="visible")
        page.click(".four-lines .quote.after a")
        page.wait_for_selector(".page.step")


def test_a_row_of_the_index_links_the_evidence(hacking, tmp_path) -> None:
    package.index(hacking, tmp_path / "index.html")
    html = (tmp_path / "index.html").read_text("utf-8")
    links = re.findall('href="([^"]*steps/[^"]*)"', html)
    assert len(links) == 1
    page, _, state = links[0].partition("#")
    assert (tmp_path / page).is_file() and state.startswith("r=")
    advice = re.search('<td class="text" data-key="next".*?</td>', html, re.DOTALL)
    assert advice is not None and "checkpoint" in advice[0]
