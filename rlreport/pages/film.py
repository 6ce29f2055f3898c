"""Which answers a film strip shows: about six steps of a prompt, or of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rlreport.check.finding import Example
from rlreport.check.verdict import Verdict
from rlreport.figures.ragged import Floats, Ints
from rlreport.tables import RowRole, Tables

MOST_ROWS = 6  # Maximum number of answers in a strip
_CITED_FIRST = 2  # so many cited steps come before those next to the onset


class Citation(NamedTuple):
    """Why the verdict cites a response."""

    finding: str  # name of the finding, "" for an example to compare with
    token: int | None  # index of the token to look at


Place = tuple[int, int]  # step and n of a response
Citations = Mapping[Place, Citation]


def citations_of(verdict: Verdict) -> Citations:
    """Return the responses that the verdict cites, in the order of their weight."""
    cited: dict[Place, Citation] = {}
    for name, example in _examples(verdict):
        cited.setdefault((example.step, example.n), Citation(name, example.token))
    return cited


def _examples(verdict: Verdict) -> Iterator[tuple[str, Example]]:
    """Yield the examples of the verdict, that of its card first, with names of findings."""
    shown = verdict.evidence
    for finding in verdict.findings:
        if shown is not None and finding.id == shown.finding:
            yield finding.name, finding.evidence[shown.item]
    for finding in verdict.findings:
        for example in finding.evidence:
            yield finding.name, example
    if verdict.pair is not None:
        yield "", verdict.pair
    for finding in verdict.findings:
        for example in finding.evidence:
            if example.before is not None:
                yield "", example.before
    if verdict.pair is not None and verdict.pair.before is not None:
        yield "", verdict.pair.before


class Answers(NamedTuple):
    """Responses of which a strip may show some, ascending by step and n; int64 or float64 (R,)."""

    rows: Ints  # of the response table
    steps: Ints
    numbers: Ints  # n of each in its step
    rewards: Floats
    usual: Floats  # mean reward of those that it is compared with at its step

    def take(self, places: Ints | slice) -> Answers:
        return Answers(
            self.rows[places],
            self.steps[places],
            self.numbers[places],
            self.rewards[places],
            self.usual[places],
        )


def answers_of(tables: Tables, rows: Ints, by: Sequence[str]) -> Answers:
    """Return the responses in ``rows`` without branches.

    ``by``: the columns that the responses have in common with which each is compared.
    """
    responses = tables.responses
    is_trained = responses["validation"].to_numpy() != RowRole.BRANCH
    rows = rows[is_trained[rows]]
    steps = responses["step"].to_numpy()[rows]
    numbers = responses["n"].to_numpy()[rows]
    order = np.lexsort((numbers, steps))
    trained = responses[is_trained]
    means = trained.groupby(list(by))["reward"].transform("mean")
    usual = np.full(len(responses), np.nan)
    usual[is_trained] = means.to_numpy(np.float64)
    rewards = responses["reward"].to_numpy(np.float64)
    chosen = rows[order]
    return Answers(chosen, steps[order], numbers[order], rewards[chosen], usual[chosen])


class Shown(NamedTuple):
    """An answer of a strip: its place in the answers, and which one of its step it is."""

    place: int
    which: str = ""  # "worst", "median" or "best"


def film_answers(
    answers: Answers, citations: Citations, onset: int | None
) -> list[Shown]:
    """Return up to MOST_ROWS answers at different steps; of a single step worst, median, best."""
    if not len(answers.rows):
        return []
    steps = np.unique(answers.steps)
    cited = _cited(answers, citations)
    if len(steps) == 1:
        return _of_one_step(answers)
    chosen = film_steps(steps, list(dict.fromkeys(cited.values())), onset)
    return [Shown(_answer_at(answers, step, cited)) for step in chosen]


def _cited(answers: Answers, citations: Citations) -> dict[int, int]:
    """Return index of a cited answer -> its step, in the order of the citations."""
    places = zip(answers.steps.tolist(), answers.numbers.tolist(), strict=True)
    index_of = {place: index for index, place in enumerate(places)}
    return {index_of[place]: place[0] for place in citations if place in index_of}


def film_steps(steps: Ints, cited: Sequence[int], onset: int | None) -> list[int]:
    """Choose up to MOST_ROWS of the steps, which ascend, all different.

    These are the first and the last, the cited ones, those next to the onset, and then always
    the one that is furthest from all so far.
    """
    wanted = steps[[0, -1]].tolist()
    wanted += cited[:_CITED_FIRST]
    if onset is not None:
        after = int(np.searchsorted(steps, onset))
        wanted += steps[max(0, after - 1) : after + 1].tolist()
    wanted += cited[_CITED_FIRST:]
    chosen = list(dict.fromkeys(wanted))[:MOST_ROWS]
    apart = np.abs(np.subtract.outer(steps, chosen))
    distance = apart.min(axis=1)
    while len(chosen) < min(MOST_ROWS, len(steps)):
        step = int(steps[distance.argmax()])
        chosen.append(step)
        distance = np.minimum(distance, np.abs(steps - step))
    return sorted(chosen)


def _answer_at(answers: Answers, step: int, cited: Mapping[int, int]) -> int:
    """Return the cited answer of a step, else the one whose reward is nearest to the mean."""
    for index, its_step in cited.items():
        if its_step == step:
            return index
    start, stop = np.searchsorted(answers.steps, (step, step + 1)).tolist()
    distance = np.abs(answers.rewards[start:stop] - answers.usual[start:stop])
    nearest = int(np.nan_to_num(distance, nan=np.inf).argmin())
    return int(start + nearest)


def _of_one_step(answers: Answers) -> list[Shown]:
    """Return the answers with the lowest, the median and the highest reward, if they differ."""
    order = np.argsort(answers.rewards, kind="stable")  # NaN come last
    known = order[np.isfinite(answers.rewards[order])].tolist()
    rewards = set(answers.rewards[known].tolist())
    if len(rewards) < 2:
        return [Shown(index) for index in range(min(3, len(answers.rows)))]
    worst = known[0]
    median = known[(len(known) - 1) // 2]
    best = known[-1]
    found = {worst: "worst", best: "best"}
    if len(known) > 2:
        found = {worst: "worst", median: "median", best: "best"}
    return [Shown(index, which) for index, which in found.items()]
