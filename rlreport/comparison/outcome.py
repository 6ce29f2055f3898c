"""All that a comparison says: effects, findings, texts, and whether the gate passes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.comparison.compare import Comparison, compare_runs
from rlreport.comparison.earlier import Place, Texts
from rlreport.comparison.figures import Flip, distinctive_texts, tokens_of_kl, without_collapse
from rlreport.comparison.run import ComparedRun, Found
from rlreport.text.messages import message

MOST_READ = 512
"""Responses a side whose words are counted: a seeded sample of the window."""


FAIL_ON = ("worse", "guardrail", "new-critical", "any")
PASSED, FAILED, INCONCLUSIVE = 0, 1, 3


class Gate(NamedTuple):
    """What the gate was asked, what failed (``worse``, ``guardrail:ID``), and the exit status."""

    fail_on: tuple[str, ...]
    failed: tuple[str, ...]
    exit: int


class Changed(NamedTuple):
    """Findings that are new, fixed, or still there; and those critical in NEW alone."""

    new: list[Found]
    fixed: list[Found]
    still: list[Found]
    critical: list[Found]


def changed(base: Mapping[str, Found], new: Mapping[str, Found]) -> Changed:
    """Return which findings are new, fixed, still there, and critical only now."""
    already = {name for name, found in base.items() if found.severity == "critical"}
    return Changed(
        [found for name, found in new.items() if name not in base],
        [found for name, found in base.items() if name not in new],
        [found for name, found in new.items() if name in base],
        [f for name, f in new.items() if f.severity == "critical" and name not in already],
    )


def gate(
    comparison: Comparison,
    findings: Changed,
    fail_on: Collection[str],
    margin: float,
    *,
    require_evidence: bool,
) -> Gate:
    """Decide: ``worse`` needs an interval wholly below −margin.

    With ``require_evidence`` a comparison that shows nothing either way is inconclusive.
    """
    wanted = set(FAIL_ON) if "any" in fail_on else set(fail_on)
    failed = []
    # NaN, of runs that cannot be compared, is not below anything.
    if "worse" in wanted and comparison.effect.high < -margin:
        failed.append("worse")
    if "guardrail" in wanted:
        failed += [f"guardrail:{g.id}" for g in comparison.guardrails if g.level == "worse"]
    if "new-critical" in wanted:
        failed += [f"new-critical:{found.id}" for found in findings.critical]
    shown = comparison.level in ("better", "worse")
    status = PASSED if shown or not require_evidence else INCONCLUSIVE
    return Gate(tuple(sorted(wanted)), tuple(failed), FAILED if failed else status)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A comparison with its runs, texts, findings and the gate's answer.

    Attributes:
        changed: findings of NEW against those of the first BASE.
        flips: those of the comparison, with their texts.
        ngrams: what NEW says more, see ``distinctive_texts``.
        counted: responses whose words were counted, of BASE and of NEW.
        tokens: see ``tokens_of_kl``.
        redact: texts are left out.
    """

    bases: Sequence[ComparedRun]
    new: ComparedRun
    comparison: Comparison
    changed: Changed
    gate: Gate
    flips: Sequence[Flip] = ()
    ngrams: pd.DataFrame = field(default_factory=pd.DataFrame)
    counted: tuple[int, int] = (0, 0)
    tokens: pd.DataFrame = field(default_factory=pd.DataFrame)
    redact: bool = False

    @property
    def one_each(self) -> bool:
        """Whether BASE is one run: the pair differs, whatever made the difference."""
        return len(self.bases) == 1

    @property
    def broken(self) -> list[tuple[str, ComparedRun]]:
        """The runs whose verdict is critical, each with what it is called here."""
        bases = [
            ("BASE" if self.one_each else message("BASE ({run})", run=run.name), run)
            for run in self.bases
        ]
        return [(name, run) for name, run in (*bases, ("NEW", self.new)) if run.broken]

    @property
    def base(self) -> ComparedRun:
        """The first run of BASE: curves, guardrails, findings and flips are of it."""
        return self.bases[0]


def outcome_of(
    bases: Sequence[ComparedRun],
    new: ComparedRun,
    *,
    seed: int = 0,
    fail_on: Collection[str] = (),
    margin: float = 0.0,
    require_evidence: bool = False,
    redact: bool = False,
) -> Outcome:
    """Compare runs, and read back what is shown of them."""
    base = bases[0]
    comparison = compare_runs([run.side for run in bases], new.side, seed=seed)
    judged = without_collapse(comparison.guardrails, base=base.collapsed, new=new.collapsed)
    comparison = replace(comparison, guardrails=judged)
    findings = changed(base.findings, new.findings)
    windows = (comparison.windows.base, comparison.windows.new)
    texts, words = [], []
    for run, window, flipped in (
        (base, windows[0], [flip.base_response for flip in comparison.flips]),
        (new, windows[1], [flip.new_response for flip in comparison.flips]),
    ):
        counted = _counted(run, window, seed)
        known = {} if redact else run.texts({*counted, *flipped})
        texts.append(known)
        words.append([known[place][1] for place in sorted(counted) if place in known][:MOST_READ])
    return Outcome(
        bases,
        new,
        comparison,
        findings,
        gate(comparison, findings, set(fail_on), margin, require_evidence=require_evidence),
        _with_texts(comparison.flips, texts[0], texts[1], new),
        distinctive_texts(words[0], words[1]),
        (len(words[0]), len(words[1])),
        tokens_of_kl(None, None) if redact else tokens_of_kl(base.tokens, new.tokens),
        redact,
    )


def _counted(run: ComparedRun, window: tuple[int, int], seed: int) -> set[Place]:
    """Return the responses of a window whose words are counted.

    Of a report all are asked for, as it keeps the texts of some only.
    """
    inside = run.side.responses[run.side.responses["step"].between(*window)]
    if run.from_logs and len(inside) > MOST_READ:
        inside = inside.iloc[np.random.default_rng(seed).permutation(len(inside))[:MOST_READ]]
    return set(zip(inside["step"].tolist(), inside["n"].tolist(), strict=True))


def _with_texts(
    flips: Sequence[Flip], base: dict[Place, Texts], new: dict[Place, Texts], run: ComparedRun
) -> list[Flip]:
    numbers = run.side.responses.drop_duplicates("pair").set_index("pair")["prompt_id"]
    shown = []
    for flip in flips:
        base_prompt, base_text = base.get(flip.base_response, (None, None))
        new_prompt, new_text = new.get(flip.new_response, (None, None))
        prompt = base_prompt if new_prompt is None else new_prompt
        number = int(numbers[flip.pair]) + 1
        named = replace(flip, number=number, prompt=prompt)
        shown.append(replace(named, base_text=base_text, new_text=new_text))
    return shown
