"""Thresholds come from the checks: read from TOML, documented from themselves."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlreport.check import load_thresholds, run_checks
from rlreport.check.judges.kl import KlExplosion
from rlreport.check.judges.length import MissingEos
from rlreport.check.limits import Limits
from rlreport.check.registry import CHECKS, LIMITS
from rlreport.check.subjects import CHART_OF_ROLE
from rlreport.check.windows import Trend
from rlreport.draw.catalogue import OVERVIEW, CurveChart
from rlreport.errors import UsageError
from tests.tables_builder import tables
from tools.docs import checks_page

DOCS = Path(__file__).resolve().parents[1] / "docs" / "checks.md"


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "thresholds.toml"


def test_a_file_changes_what_it_names_and_nothing_else(toml: Path) -> None:
    toml.write_text(
        "[kl_explosion]\nwarn = 20\n[trend]\nleast_steps = 4\n", encoding="utf-8"
    )
    changed = load_thresholds(toml)
    assert changed[KlExplosion].warn == 20
    assert changed[Trend].least_steps == 4
    assert changed[KlExplosion].critical == KlExplosion.critical.default
    assert changed[MissingEos].rise == MissingEos.rise.default


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ("kl_explosion", "warn = 20"),
        ("reward_collapse", "lost = 0.95"),
        ("reward_collapse", "z = 1e3"),
    ],
)
def test_a_changed_threshold_changes_the_verdict(
    check: str, text: str, toml: Path
) -> None:
    steps = np.arange(40)
    trend = np.interp(steps, [0, 20, 40], [0.2, 0.8, 0.4])
    reward = trend + 0.02 * (-1.0) ** steps
    metrics = pd.DataFrame({"step": steps, "train/reward": reward})
    run = replace(tables(kl_k1=15.0), metrics=metrics)
    found = {finding.id for finding in run_checks(run).findings}
    assert {"kl_explosion", "reward_collapse"} <= found
    toml.write_text(f"[{check}]\n{text}\n", encoding="utf-8")
    verdict = run_checks(run, load_thresholds(toml))
    assert check in [*verdict.passed, *(one.id for one in verdict.close)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[kl_explosions]\nwarn = 1\n", "unknown section [kl_explosions]"),
        ("[kl_explosion]\nwarm = 1\n", "'warm'"),
        ('[kl_explosion]\nwarn = "high"\n', "must be a number"),
        ("[kl_explosion]\nwarn = true\n", "must be a number"),
        ("[kl_explosion]\nwarn = nan\n", "must be finite"),
        ("[trend]\nleast_steps = 3.5\n", "must be an integer"),
        ("kl_explosion = 3\n", "must be a table"),
        ("[kl_explosion\n", "not valid TOML"),
        ("[kl_explosion]\nwarn = 1" + "0" * 400, "must be finite"),
        ("[kl_explosion]\nwarn = 1" + "0" * 9000, "not valid TOML"),
        ("x = " + "[" * 100_000, "nested too deep"),
        ("#" * 1_000_001, "must be a TOML file of at most"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_cause(
    toml: Path, text: str, said: str
) -> None:
    toml.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        load_thresholds(toml)
    assert said in str(error.value)
    assert toml.name in str(error.value)


def test_a_missing_file_a_pipe_or_a_device_is_refused_and_not_waited_for(
    toml: Path,
) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load_thresholds(toml)
    os.mkfifo(toml)
    for endless in (toml, "/dev/zero"):
        with pytest.raises(UsageError, match="must be a TOML file of at most"):
            load_thresholds(endless)


def test_every_class_of_thresholds_is_that_of_a_check_and_has_a_name_of_its_own() -> (
    None
):
    def with_subclasses(kind: type[Limits]) -> list[type[Limits]]:
        kinds = [kind]
        for child in kind.__subclasses__():
            kinds += with_subclasses(child)
        return kinds

    declared = set()
    for kind in with_subclasses(Limits):
        if kind.__module__.startswith("rlreport.") and kind.declared():
            declared.add(kind)
    assert declared == set(LIMITS.values())
    assert len({kind.__name__ for kind in LIMITS.values()}) == len(LIMITS)


def test_checks_have_names_of_their_own_and_speak_of_known_charts() -> None:
    charts = {chart.name for chart in OVERVIEW if isinstance(chart, CurveChart)}
    charts |= {
        "reward_distribution",
        "reward_kl_frontier",
        "reward_environments",
        "reward_parts",
    }
    charts |= {*CHART_OF_ROLE.values()}  # of functions
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert all(set(check.charts) <= charts for check in CHECKS)


def test_the_page_is_made_from_the_checks_and_names_methods_which_no_finding_does() -> (
    None
):
    page = DOCS.read_text(encoding="utf-8")
    assert checks_page(page) == page
    assert "Dirichlet" in page
    for kind in LIMITS.values():
        for limit in kind.declared().values():
            assert limit.meaning
            assert limit.source
            assert np.isfinite(limit.default)
            assert "Dirichlet" not in limit.meaning


def test_the_verdict_can_say_every_kind_of_finding() -> None:
    for check in CHECKS:
        if isinstance(check.title, dict) and isinstance(check.statement, dict):
            assert check.statement.keys() == check.title.keys(), check.id
