"""Words that several texts of a comparison use: names of runs and checks, steps, numbers."""

from __future__ import annotations

from rlreport.check.registry import BY_ID
from rlreport.check.verdict import FIRST_WORDS
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import ComparedRun
from rlreport.text.messages import figure, listed, message, short_figure, span


def signed(value: float) -> str:
    """Format a difference with its sign: "+0.31", "−0.2"."""
    return with_sign(figure(value), value)


def with_sign(text: str, value: float) -> str:
    """Return a number's text with a plus sign if the number is positive."""
    return f"+{text}" if value > 0 and not text.startswith("+") else text


def short_signed(value: float) -> str:
    """Format a difference with its sign and two digits, as people say it."""
    return with_sign(short_figure(value), value)


def run_verdict(run: ComparedRun) -> str:
    level = message(FIRST_WORDS.get(run.level, run.level))
    if run.lead is None:
        return level
    return message("{level}: {reason}", level=level, reason=lead_of(run))


def lead_of(run: ComparedRun) -> str:
    """Return the name of a run's main finding, and the step at which it began if that is known."""
    lead = run.findings.get(run.lead or "")
    name = check_name(run.lead) if run.lead else message("critical findings")
    if lead is None or lead.onset is None:
        return name
    return message("{name} since step {step}", name=name, step=lead.onset.step)


def check_name(check: str) -> str:
    return message(BY_ID[check].name) if check in BY_ID else check.replace("_", " ")


def window(outcome: Outcome) -> str:
    """Return the compared steps: "steps 41–50", or those of each side."""
    windows = outcome.comparison.windows
    if set(windows.bases) == {windows.new}:
        return span(windows.new)
    labels = outcome.labels
    return message(
        "{base} of {base_name} against {new} of {new_name}",
        base=listed(map(span, dict.fromkeys(windows.bases))),
        base_name=labels.base,
        new=span(windows.new),
        new_name=labels.new,
    )
