"""All that a comparison says: effects, findings, texts, and whether the gate passes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from rlreport.comparison.compare import Comparison, compare_runs
from rlreport.comparison.earlier import Place, Texts
from rlreport.comparison.flips import Flip
from rlreport.comparison.guardrails import beside_collapse
from rlreport.comparison.run import ComparedRun, Found
from rlreport.comparison.says_more import says_more, tokens_of_kl
from rlreport.comparison.side import within
from rlreport.text.messages import message

MOST_READ = 512
"""Responses a side whose words are counted: a seeded sample of the window."""


FAIL_ON = ("worse", "guardrail", "new-critical", "any")
PASSED, FAILED, INCONCLUSIVE = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Gate:
    """What the gate was asked, what failed (``worse``, ``guardrail:ID``), and the exit status."""

    fail_on: tuple[str, ...]
    failed: tuple[str, ...]
    exit: int


@dataclass(frozen=True, slots=True)
class Changed:
    """Findings of NEW against those of BASE.

    Attributes:
        new, fixed, still: by their ids; of those still there as NEW has them.
        critical: critical in NEW and not in BASE, new or still there.
    """

    new: tuple[Found, ...]
    fixed: tuple[Found, ...]
    still: tuple[Found, ...]
    critical: tuple[Found, ...]


def changed(base: Mapping[str, Found], new: Mapping[str, Found]) -> Changed:
    """Return which findings are new, fixed, still there, and critical only now."""
    already = {name for name, found in base.items() if found.severity == "critical"}
    return Changed(
        tuple(found for name, found in new.items() if name not in base),
        tuple(found for name, found in base.items() if name not in new),
        tuple(found for name, found in new.items() if name in base),
        tuple(f for name, f in new.items() if f.severity == "critical" and name not in already),
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
        ngrams: what NEW says more, see ``says_more``.
        counted: responses whose words were counted, of BASE and of NEW.
        tokens: see ``tokens_of_kl``.
        redact: texts are left out.
    """

    bases: Sequence[ComparedRun]
    new: ComparedRun
    comparison: Comparison
    changed: Changed
    gate: Gate
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
    judged = beside_collapse(comparison.guardrails, base=base.collapsed, new=new.collapsed)
    comparison = replace(comparison, guardrails=judged)
    findings = changed(base.findings, new.findings)
    read_base, read_new = _counted(comparison, base, new, seed)
    found = [
        run.texts({*read, *shown}) if not redact else {}
        for run, read, shown in (
            (base, read_base, [flip.base_response for flip in comparison.flips]),
            (new, read_new, [flip.new_response for flip in comparison.flips]),
        )
    ]
    words = [
        [texts[place][1] for place in sorted(read) if place in texts][:MOST_READ]
        for texts, read in zip(found, (read_base, read_new), strict=True)
    ]
    flips = _with_texts(comparison.flips, found[0], found[1], new)
    return Outcome(
        bases,
        new,
        replace(comparison, flips=flips),
        findings,
        gate(comparison, findings, set(fail_on), margin, require_evidence=require_evidence),
        says_more(words[0], words[1]),
        (len(words[0]), len(words[1])),
        tokens_of_kl(None, None) if redact else tokens_of_kl(base.tokens, new.tokens),
        redact,
    )


def _counted(
    comparison: Comparison, base: ComparedRun, new: ComparedRun, seed: int
) -> tuple[set[Place], set[Place]]:
    """Return the responses of the windows whose words are counted.

    Of a report all are asked for, as it keeps the texts of some only.
    """
    places = []
    for run, window in ((base, comparison.windows.base), (new, comparison.windows.new)):
        inside = within(run.side.responses, window)
        rows = np.arange(len(inside))
        if run.from_logs and len(rows) > MOST_READ:
            rows = np.sort(np.random.default_rng(seed).permutation(len(rows))[:MOST_READ])
        step, n = (inside[name].to_numpy(np.int64)[rows].tolist() for name in ("step", "n"))
        places.append(set(zip(step, n, strict=True)))
    return places[0], places[1]


def _with_texts(
    flips: Sequence[Flip], base: dict[Place, Texts], new: dict[Place, Texts], run: ComparedRun
) -> list[Flip]:
    first = run.side.responses.drop_duplicates("pair")
    numbers = dict(zip(first["pair"].tolist(), first["prompt_id"].tolist(), strict=True))
    found = []
    for flip in flips:
        base_prompt, base_text = base.get(flip.base_response, (None, None))
        new_prompt, new_text = new.get(flip.new_response, (None, None))
        prompt = base_prompt if new_prompt is None else new_prompt
        texts = replace(flip, prompt=prompt, base_text=base_text, new_text=new_text)
        found.append(replace(texts, number=int(numbers[flip.pair]) + 1))
    return found
