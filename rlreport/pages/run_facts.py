"""What a run was: its model, when it ran and how long, and its commit, for the overview's head."""

from __future__ import annotations

from typing import NamedTuple

from rlreport.about.identity import commit_of, model_of, short_commit, short_model
from rlreport.pages.context import JudgedRun
from rlreport.pages.times_view import times_in_words
from rlreport.text.messages import message


class RunFact(NamedTuple):
    """A fact about a run, such as "Model" and "Qwen/Qwen3-1.7B"."""

    label: str
    text: str
    exact: str = ""  # the whole value, on hover


def run_facts(run: JudgedRun) -> list[RunFact]:
    """Return the facts that the log and the configuration tell, without those they do not."""
    entries = run.card.entries
    times = run.tables.times
    model = model_of(entries)
    commit = commit_of(entries)
    facts = []
    if model:
        facts.append(RunFact(message("Model"), short_model(model), model))
    when = times_in_words(times)
    if when:
        label = message("Duration") if times.start is None else message("Date")
        facts.append(RunFact(label, when))
    if commit:
        shown = short_commit(commit)
        if entries.get("git.dirty") is True:
            shown = message("{commit} with changes", commit=shown)
        facts.append(RunFact(message("Commit"), shown, commit))
    return facts
