"""Pages come out in order, wherever they are baked, and a killed helper is one clear error."""

from __future__ import annotations

import os
import signal

import pytest

from rlreport.bake.oven import LEAST_FOR_HELPERS, Oven
from rlreport.errors import RlreportError
from tests.baking import PARENT, fail_at, named, suicide, where

ENDLESS = 100_000
"""Pages that would take half an hour: a helper has time to start, however slow the machine."""


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 7, LEAST_FOR_HELPERS + 12])
def test_pages_come_in_the_order_of_their_jobs(workers, count):
    with Oven(workers) as oven:
        pages = list(oven.start(named, range(count), "page", count=count))
    assert pages == [f"page {i}" for i in range(count)]


def test_many_pages_are_baked_by_other_processes_too():
    with Oven(2) as oven:
        processes = iter(oven.start(where, range(ENDLESS), 0.02, count=ENDLESS))
        first = next(processes)
        assert any(process != first for process in processes)


def test_an_oven_can_be_used_again_after_a_batch_was_given_up():
    count = LEAST_FOR_HELPERS
    with Oven(2) as oven:
        given_up = iter(oven.start(named, range(count), "first", count=count))
        assert next(given_up) == "first 0"
        given_up.close()
        again = list(oven.start(named, range(count), "second", count=count))
    assert again == [f"second {i}" for i in range(count)]


@pytest.mark.parametrize("count", [10, LEAST_FOR_HELPERS + 10])
def test_an_error_of_ours_reaches_the_caller(count):
    with Oven(2) as oven, pytest.raises(RlreportError, match="job 9"):
        list(oven.start(fail_at, range(count), 9, count=count))


def test_a_killed_helper_is_one_clear_error():
    os.environ[PARENT] = str(os.getpid())
    try:
        with Oven(2) as oven, pytest.raises(RlreportError, match="killed"):
            list(oven.start(suicide, range(ENDLESS), signal.SIGKILL, count=ENDLESS))
    finally:
        del os.environ[PARENT]


def test_no_process_is_left_when_the_oven_is_closed():
    count = LEAST_FOR_HELPERS
    with Oven(3) as oven:
        batch = iter(oven.start(named, range(count), "page", count=count))
        next(batch)
        helpers = list(oven._helpers)
    assert len(helpers) == 2
    assert all(helper.process.poll() is not None for helper in helpers)
