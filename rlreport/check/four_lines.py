"""The verdict in four lines of text: what happened, its course, the evidence, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rlreport.check.finding import REFERENCE_REWARD, Example, Finding
from rlreport.check.verdict import Verdict
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import (
    figure,
    message,
    percent,
    plural,
    translatable,
    whole,
    with_unit,
)

WHAT = message("What")
COURSE = message("Course")
EVIDENCE = message("Evidence")
NEXT = message("Next")

# Unit in the plural -> in the singular, for the value 1
_ONE = {
    "tokens": translatable("token"),
    "steps": translatable("step"),
    "calls": translatable("call"),
    "times in its step": translatable("time in its step"),
    "occurrences": translatable("occurrence"),
}


class Line(NamedTuple):
    """A line of the verdict, such as "Next" and "Keep the last checkpoint."."""

    label: str
    text: str


def four_lines(verdict: Verdict) -> list[Line]:
    """Return the four lines of a verdict, without a line that has no text."""
    lines = (
        Line(WHAT, verdict.what),
        Line(COURSE, verdict.course_sentence),
        Line(EVIDENCE, evidence_text(verdict)),
        Line(NEXT, verdict.next),
    )
    return [line for line in lines if line.text]


def aligned(lines: Sequence[Line], language: Language = ENGLISH) -> list[str]:
    """Return lines for a terminal in a language: the texts begin below each other."""
    # Labels in Chinese have the same number of wide characters, so that counting is enough.
    labels = [language.of(label) for label in (WHAT, COURSE, EVIDENCE, NEXT)]
    width = max(map(len, labels)) + 2
    translated = language.of(list(lines))
    return [f"{line.label:{width}}{line.text}" for line in translated]


def shown_example(verdict: Verdict) -> Example | None:
    """Return the response that shows what the verdict says, None without one.

    It is an example of a finding or, of a run without a finding to show, a response from its end
    with one from its start as ``before``.
    """
    finding = finding_shown(verdict)
    if finding is None or verdict.evidence is None:
        return verdict.pair
    return finding.evidence[verdict.evidence.item]


def finding_shown(verdict: Verdict) -> Finding | None:
    """Return the finding that the shown example is of, None without one."""
    for finding in verdict.findings:
        if verdict.evidence is not None and finding.id == verdict.evidence.finding:
            return finding
    return None


def other_examples(verdict: Verdict) -> str:
    """Return how many further examples that finding has ("2 more examples"), "" without any."""
    finding = finding_shown(verdict)
    count = len(finding.evidence) - 1 if finding else 0
    if not count:
        return ""
    return plural("{count} more example", "{count} more examples", count)


def why_no_example(verdict: Verdict) -> str:
    """Return why the verdict has no example to show."""
    lead = verdict.leading
    if lead and lead.unseen:
        return lead.unseen_text
    if not verdict.response_count:
        return message("No responses are logged.")
    if lead:
        return message("This is visible only in the means of steps.")
    return message("No two logged responses to one prompt show it.")


def found_nothing_text(verdict: Verdict) -> str:
    """Return how many checks found nothing, also not nearly."""
    return plural(
        "{count} check found nothing",
        "{count} checks found nothing",
        len(verdict.passed),
    )


def not_logged_text(verdict: Verdict) -> str:
    """Return how many checks could not run, "" if all could."""
    count = len(verdict.not_run)
    if not count:
        return ""
    return plural(
        "{count} needs what is not logged", "{count} need what is not logged", count
    )


def evidence_text(verdict: Verdict) -> str:
    """Return the shown example as a line of text, or why there is none."""
    example = shown_example(verdict)
    if example is None:
        return why_no_example(verdict)
    text = example_text(example)
    others = other_examples(verdict)
    return message("{text} ({others})", text=text, others=others) if others else text


def example_text(example: Example) -> str:
    """Return a line such as ``step 12, response 3: 'aaaa'``, excerpts as literals.

    If there is a response from before the onset, it comes first, followed by an arrow. Without an
    excerpt, as of a redacted run, the line ends with the value for which the response was chosen.
    """
    where = place_text(example)
    if example.excerpt is None:
        value = example_value(example)
        return message("{where}: {text}", where=where, text=value) if value else where
    shown = message("{where}: {text}", where=where, text=repr(example.excerpt))
    if example.before is None or example.before.excerpt is None:
        return shown
    before = example_text(replace(example.before, before=None))
    return message("{before} → {after}", before=before, after=shown)


def place_text(example: Example) -> str:
    """Return where an example is, such as "step 12, response 3"."""
    return message("step {step}, response {n}", step=example.step, n=example.n)


def example_value(example: Example) -> str:
    """Return an example's value in words; "" without a unit, as readers cannot interpret it."""
    value = example.value
    unit = example.unit
    if value is None or not unit:
        return ""
    if unit.startswith("of "):  # a share
        return with_unit(percent(value), message(unit))
    number = whole(value) if value.is_integer() else figure(value)
    if unit == "reward":
        return message("reward {reward}", reward=number)
    if unit == REFERENCE_REWARD:
        return message("reward of the reference {reward}", reward=number)
    if value == 1:
        unit = _ONE.get(unit, unit)
    return with_unit(number, message(unit))
