"""Reports say what is kept of them, and logs are read as kept: ``make written`` keeps anew."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import net


@pytest.fixture(scope="module")
def root(
    shared_data: Path, real_report: Callable[[str], Path], tmp_path_factory
) -> Path:
    root = tmp_path_factory.mktemp("net")
    (root / "runs").symlink_to(shared_data)
    shutil.copytree(real_report("ppo_healthy"), root / "healthy")
    shutil.copytree(real_report("ppo_reward_hacking"), root / "hacking")
    return root


@pytest.mark.parametrize("name", net.NAMES)
def test_what_is_kept_is_found_again(name: str, root: Path) -> None:
    difference = net.difference(name, net.found(name, root), net.read_kept(name))
    if difference:
        pytest.fail(f"{difference}make written", pytrace=False)


def test_only_one_kept_report_lists_all_checks() -> None:
    check = "advantage_mismatch"
    listing = [
        path for path in net.KEPT.rglob("*.txt") if check in path.read_text("utf-8")
    ]
    assert {path.relative_to(net.KEPT).parts[0] for path in listing} == {
        net.LISTS_CHECKS
    }


def test_a_difference_shows_lines_but_for_the_last_digit_of_long_numbers() -> None:
    kept = {"a": "kl 0.123456789\nreward 1.5", "b": "gone"}
    assert (
        net.difference("run", {**kept, "a": "kl 0.123456788\nreward 1.5"}, kept) == ""
    )
    shown = net.difference("run", {"a": "kl 0.12345679\nreward 1.6"}, kept)
    assert [line for line in shown.splitlines() if "@" not in line] == [
        "--- run/a, kept",
        "+++ run/a",
        " kl 0.123456789",
        "-reward 1.5",
        "+reward 1.6",
        "--- run/b, kept",
        "+++ run/b",
        "-gone",
    ]
