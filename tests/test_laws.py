"""Relations between fields: blocks, onsets, and the power and false alarms of each relation."""

from itertools import chain

import numpy as np
import pytest

from rlreport.check.laws import Figure, blocks, figures_by_block
from rlreport.check.run import Run
from rlreport.check.windows import Window
from rlreport.figures.significance import holm
from tests.law_cases import CASES
from tests.law_families import Case, Shape

LOGS = 12


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.check)
def test_a_strong_fault_is_found(case: Case) -> None:
    assert case.found(case.strengths[-1], LOGS) >= 0.9


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.check)
def test_a_correct_log_is_not_called_faulty(case: Case) -> None:
    assert case.found(0.0, LOGS) == 0


def run_of(steps: int, responses: int) -> Run:
    return Run(Shape(steps, responses, 1).log(reward=1.0))


def test_blocks_hold_all_steps_once_in_order() -> None:
    windows = blocks(run_of(25, 16))
    steps = chain.from_iterable(window.steps for window in windows)
    assert list(steps) == [*range(1, 26)]
    assert len(windows) == 10


def test_no_block_has_fewer_than_32_responses() -> None:
    for count in range(2, 40):
        for window in blocks(run_of(count, 13)):
            assert window.rows.stop - window.rows.start >= 32


def test_too_few_responses_make_no_block() -> None:
    assert blocks(run_of(3, 10)) == ()


# The first wrong step, and its interval
ONSETS = [
    (1, 1, 1),
    (3, 1, 4),
    (21, 17, 24),
]


@pytest.mark.parametrize(("step", "low", "high"), ONSETS)
def test_the_onset_is_an_interval_that_holds_the_first_wrong_step(
    step: int, low: int, high: int
) -> None:
    run = run_of(40, 16)
    is_wrong = run.responses["step"].to_numpy() >= step

    def wrong(window: Window) -> Figure:
        share = float(is_wrong[window.rows].mean())
        return Figure(share, share >= 0.5)

    onset = figures_by_block(run, wrong).onset
    assert (onset.low, onset.high) == (low, high)


def test_what_ended_has_a_last_step() -> None:
    run = run_of(40, 16)
    is_wrong = run.responses["step"].to_numpy() <= 20

    def wrong(window: Window) -> Figure:
        share = float(is_wrong[window.rows].mean())
        return Figure(share, share > 0.5)

    assert figures_by_block(run, wrong).until == 20


def test_holm_rejects_step_by_step() -> None:
    corrected = np.array(holm([0.012, 0.03, 0.9, 0.001]))
    assert (corrected <= 0.05).tolist() == [True, False, False, True]
