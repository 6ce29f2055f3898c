"""Every exported figure of the sample runs is what it was: ``python -m tests.figures`` updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests import figures

RTOL = 1e-9
"""Processors round exponentials differently in the last digit."""


def differences(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in sorted(found.keys() | wanted.keys()):
            if name in found and name in wanted:
                yield from differences(found[name], wanted[name], f"{path}.{name}")
            else:
                yield f"{path}.{name} is {'new' if name in found else 'gone'}"
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for i, (left, right) in enumerate(zip(found, wanted, strict=True)):
            yield from differences(left, right, f"{path}[{i}]")
    elif isinstance(found, float) and isinstance(wanted, int | float):
        if found != pytest.approx(wanted, rel=RTOL, abs=1e-12):
            yield f"{path}: {found}, was {wanted}"
    elif found != wanted:
        yield f"{path}: {found}, was {wanted}"


@pytest.mark.parametrize("run", figures.RUNS)
def test_a_report_exports_the_figures_that_are_kept(
    run: str, real_report: Callable[[str], Path]
) -> None:
    found, wanted = figures.report_figures(real_report(run)), figures.read(figures.KEPT / run)
    assert found.keys() == wanted.keys()
    for name, kept in wanted.items():
        if isinstance(kept, pd.DataFrame):
            # Figures of tokens are sums of float32.
            rtol, atol = (1e-6, 1e-7) if name == "tokens" else (RTOL, 1e-12)
            pd.testing.assert_frame_equal(
                found[name], kept, check_dtype=False, rtol=rtol, atol=atol
            )
        else:
            assert list(differences(found[name], kept)) == []


def test_a_comparison_exports_the_figures_that_are_kept(shared_data: Path, tmp_path: Path) -> None:
    found = figures.comparison_figures(shared_data, tmp_path / "compare")
    assert list(differences(found["compare"], figures.read(figures.KEPT)["compare"])) == []


def test_an_index_lists_the_figures_that_are_kept(
    real_report: Callable[[str], Path], tmp_path: Path
) -> None:
    reports = [real_report(run) for run in figures.RUNS]
    found = figures.index_figures(reports, tmp_path / "index.html")
    assert list(differences(found["index"], figures.read(figures.KEPT)["index"])) == []


def test_differences_are_found_at_any_depth() -> None:
    kept = {"a": [1.0, {"b": "x"}], "c": 1}
    assert list(differences(kept, kept)) == []
    assert list(differences({"a": [1.1, {"b": "y"}], "d": 1}, kept)) == [
        ".a[0]: 1.1, was 1.0", ".a[1].b: y, was x", ".c is gone", ".d is new",
    ]  # fmt: skip
    assert list(differences({"a": [1.0 + 1e-15, {"b": "x"}], "c": 1}, kept)) == []
