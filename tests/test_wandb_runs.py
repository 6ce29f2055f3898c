"""Runs of W&B are read by name; W&B's client speaks to a stand-in on this machine."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rlreport
from rlreport.errors import MissingExtraError, UnusableInputError, UsageError
from rlreport.system import wandb_runs
from rlreport.system.wandb_runs import WandbPath, local_copies
from tests.wandb_service import Run, Service, wandb_service

KEY = "0123456789abcdef" * 2 + "01234567"
TABLE = "media/table/completions_1_a.table.json"


def rows(count: int = 30) -> list[dict[str, Any]]:
    """Return the history of a run whose reward rises."""
    return [
        {
            "train/global_step": step + 1,
            "train/reward": 0.2 + 0.02 * step,
            "train/kl": 0.01,
            "_timestamp": 1.7e9 + 10 * step,
        }
        for step in range(count)
    ]


def table() -> str:
    columns = ["step", "prompt", "completion", "accuracy_reward", "advantage"]
    data = [
        [1 + i // 4, f"q{i // 4}", f"answer {i}", float(i % 2), i % 2 - 0.5]
        for i in range(8)
    ]
    return json.dumps({"columns": columns, "data": data})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Service]:
    pytest.importorskip("wandb")
    with_table = rows()
    with_table[-1]["completions"] = {"_type": "table-file", "path": TABLE, "nrows": 8}
    runs = [
        Run(
            "a1b2c3d4",
            with_table,
            {"learning_rate": 1e-6, "api_key": "sk-secret"},
            {TABLE: table()},
        ),
        Run("e5f6a7b8", rows(), name="calm-sea-4"),
    ]
    with wandb_service(runs, KEY) as service:
        monkeypatch.setenv("WANDB_BASE_URL", service.address)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setenv("WANDB_DIR", str(tmp_path))
        monkeypatch.setenv("HOME", str(tmp_path))
        yield service


@pytest.mark.parametrize(
    "url",
    [
        "wandb://",
        "wandb://team",
        "wandb://a/b/c/d",
        "wandb://team/../x/",
        "wandb://a/b%2fc/d",
    ],
)
def test_a_name_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="wandb://ENTITY/PROJECT/RUN"):
        WandbPath.of(url)


def test_without_its_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"rlreport\[wandb\]"):
        rlreport.build("wandb://team/project/run")


def test_a_long_name_in_any_script_is_that_of_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = SimpleNamespace(
        name="强化学习" * 30, id="a1b2", config={}, scan_history=lambda **_: rows(3)
    )
    client = SimpleNamespace(run=lambda _: run)
    monkeypatch.setattr(wandb_runs, "_client", lambda: client)
    copy = wandb_runs.copy_run(WandbPath("team", "project", "a1b2"), tmp_path)
    assert copy.name == "强化学习" * 8 + "强-a1b2"
    assert len((copy / "history.jsonl").read_text().splitlines()) == 3


@pytest.mark.ci
def test_a_run_is_read_by_name_with_history_configuration_and_tables(
    service: Service, tmp_path: Path
) -> None:
    report = rlreport.build("wandb://team/project/a1b2c3d4", tmp_path / "r", quiet=True)
    assert len(report.tables.responses) == 8  # those of the table
    assert len(report.tables.metrics) == 30
    page = (tmp_path / "r" / "index.html").read_text("utf-8")
    assert "swift-fox-3-a1b2c3d4" in page
    assert "learning_rate" in page
    everything = b"".join(
        p.read_bytes() for p in (tmp_path / "r").rglob("*") if p.is_file()
    )
    for hidden in (
        b"sk-secret",
        KEY.encode(),
        b"rlreport-wandb-",
        service.address.encode(),
    ):
        assert hidden not in everything
    assert "HistoryPage" in service.queries


@pytest.mark.ci
def test_a_project_becomes_an_index_with_a_report_of_each_run(
    service: Service, tmp_path: Path
) -> None:
    index = rlreport.index("wandb://team/project", tmp_path / "index.html")
    assert index.reports == 2
    assert index.unread == []
    reports = tmp_path / "index-reports"
    assert sorted(path.name for path in reports.iterdir()) == [
        "calm-sea-4-e5f6a7b8",
        "swift-fox-3-a1b2c3d4",
    ]
    page = (tmp_path / "index.html").read_text()
    assert "./index-reports/calm-sea-4-e5f6a7b8/index.html" in page
    everything = b"".join(
        path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()
    )
    for hidden in (KEY.encode(), b"rlreport-wandb-", service.address.encode()):
        assert hidden not in everything


@pytest.mark.ci
def test_a_run_that_ended_is_copied_again_only_if_the_server_says_that_it_changed(
    service: Service, tmp_path: Path
) -> None:
    first, second = service.runs.values()
    second.state = "running"

    def built() -> tuple[int, int]:
        service.queries.clear()
        index = rlreport.index("wandb://team/project", tmp_path / "index.html")
        assert index.unread == []
        assert ("HistoryPage" in service.queries) == (index.built > 0)
        return index.built, index.kept

    assert built() == (2, 0)
    assert built() == (1, 1)  # it goes on
    second.state = "finished"
    assert built() == (1, 1)
    assert built() == (0, 2)
    first.rows.append({**first.rows[-1], "_step": 99, "train/global_step": 100})
    assert built() == (1, 1)
    second.summary = {"train/reward": 0.9}
    assert built() == (1, 1)
    assert built() == (0, 2)


@pytest.mark.ci
def test_a_run_that_the_server_does_not_give_is_a_row(
    service: Service, tmp_path: Path
) -> None:
    service.runs["e5f6a7b8"].is_lost = True
    index = rlreport.index("wandb://team/project", tmp_path / "index.html")
    assert (index.built, index.reports) == (1, 2)
    ((place, reason),) = index.unread
    assert place == "index-reports/calm-sea-4-e5f6a7b8"
    assert reason.startswith("wandb://team/project/e5f6a7b8: W&B's server")


@pytest.mark.ci
def test_of_a_project_no_more_runs_than_the_limit_are_copied(
    service: Service, tmp_path: Path
) -> None:
    index = rlreport.index("wandb://team/project", tmp_path / "index.html", limit=1)
    assert index.reports == 1


@pytest.mark.ci
def test_a_run_that_is_not_there_is_said_by_its_name(
    service: Service, tmp_path: Path
) -> None:
    with pytest.raises(UnusableInputError, match="wandb://team/project/nothing: "):
        rlreport.build("wandb://team/project/nothing", tmp_path / "r", quiet=True)
    assert not (tmp_path / "r").exists()


@pytest.mark.ci
def test_a_table_that_the_server_lost_is_said_and_the_metrics_are_read(
    service: Service, tmp_path: Path
) -> None:
    service.runs["a1b2c3d4"].tables.clear()
    with pytest.warns(UserWarning, match=r"completions_1_a\.table\.json' not read"):
        report = rlreport.build(
            "wandb://team/project/a1b2c3d4", tmp_path / "r", quiet=True
        )
    assert len(report.tables.metrics) == 30


@pytest.mark.ci
def test_no_key_is_asked_for(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    with pytest.raises(UnusableInputError, match="set WANDB_API_KEY"):
        rlreport.build("wandb://team/project/a1b2c3d4", tmp_path / "r", quiet=True)


@pytest.mark.ci
def test_the_key_that_wandb_login_stored_is_used(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login user password {KEY}\n")
    netrc.chmod(0o600)
    with local_copies({"logs": ["wandb://team/project/e5f6a7b8"]}) as paths:
        (copy,) = paths["logs"]
        assert len((Path(copy) / "history.jsonl").read_text().splitlines()) == 30
    assert not Path(copy).exists()


@pytest.mark.ci
def test_a_server_that_is_not_there_is_no_traceback(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setattr("rlreport.system.wandb_runs._TIMEOUT", 2)
    with pytest.raises(UnusableInputError, match="W&B's server does not give this run"):
        rlreport.build("wandb://team/project/a1b2c3d4", tmp_path / "r", quiet=True)
