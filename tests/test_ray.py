"""Ray: a report made on three nodes is the local report, also when nodes die on the way."""

import os
import platform
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from rlreport.api import build
from rlreport.errors import RlreportError, UsageError
from rlreport.flows.build import build_report
from rlreport.options import BuildOptions
from rlreport.read import logs
from rlreport.read.limits import ReadLimits
from rlreport.read.listing import find_sources
from rlreport.system import ray_executor
from rlreport.system.workers import Progress, Workers
from tests import jobs
from tests.forms import files_below
from tests.running import rlreport
from tests.store import BUCKET, long_log

pytestmark = pytest.mark.ci
NODES = 3
STORE_BYTES = 150 << 20


@pytest.fixture(scope="module")
def nodes(store):  # whose address the nodes inherit
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    # A node of a busy machine may answer late; a killed one refuses the connection at once.
    config = {"health_check_timeout_ms": 60_000}
    cluster = Cluster(
        initialize_head=True, head_node_args={**size, "_system_config": config}
    )
    for _ in range(NODES - 1):
        cluster.add_node(**size)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return long_log(tmp_path_factory.mktemp("log") / "run" / "a.jsonl", rows=320)


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte ranges of 256 KiB, a task each."""
    monkeypatch.setattr(logs, "LIMITS", ReadLimits(range_bytes=256 << 10))


class Killing(Progress):
    """Kills a node in each phase after its second result; another node joins instead."""

    def __init__(self, nodes, phases: list[str]) -> None:
        super().__init__()
        self.nodes = nodes
        self.phases = phases

    def phase(self, name: str, total: float, unit: str):
        progress = self
        calls = 0

        def advance(amount: float) -> None:
            nonlocal calls
            calls += 1
            if name in progress.phases and calls == 2:
                progress.phases.remove(name)
                node = next(iter(progress.nodes.worker_nodes))
                progress.nodes.remove_node(node, allow_graceful=False)
                progress.nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES)

        return nullcontext(advance)


def test_a_report_from_a_store_on_a_cluster_is_the_local_report_though_nodes_die(  # noqa: PLR0917
    store,
    nodes,
    log: Path,
    tmp_path: Path,
    many_tasks: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.put_folder(log.parent, "cluster/run")
    url = f"s3://{BUCKET}/cluster/run"
    out = f"s3://{BUCKET}/cluster/report"
    build(log.parent, tmp_path / "local", workers=1)
    wanted = files_below(tmp_path / "local")
    assert len([name for name in wanted if name.startswith("steps/")]) == 20
    build(url, tmp_path / "whole", ray=nodes.address)
    assert files_below(tmp_path / "whole") == wanted
    killing = Killing(nodes, ["reading", "rendering"])
    with Workers(ray=nodes.address) as workers:
        options = BuildOptions(ray=nodes.address)
        build_report([url], out, options, progress=killing, workers=workers)
    assert not killing.phases
    assert store.files("cluster/report") == wanted


def test_what_tasks_share_is_sent_once(nodes, log, tmp_path):
    import ray

    cluster = ray_executor.RayCluster
    ask = cluster.on_each_node
    with (
        patch.object(cluster, "map", autospec=True, side_effect=cluster.map) as maps,
        patch.object(cluster, "on_each_node", autospec=True, side_effect=ask) as asks,
        patch.object(ray, "put", wraps=ray.put) as puts,
    ):
        build(log, tmp_path / "report", ray=nodes.address)
    assert 0 < maps.call_count <= 4
    assert asks.call_count == 1
    assert puts.call_count == maps.call_count + 1


def test_a_node_that_has_just_died_takes_no_part(
    nodes, log: Path, tmp_path: Path
) -> None:
    node = next(iter(nodes.worker_nodes))
    nodes.remove_node(node, allow_graceful=False)
    try:
        build(log, tmp_path / "report", ray=nodes.address)
    finally:
        nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    assert (tmp_path / "report" / "index.html").exists()


def test_logs_on_a_disk_that_all_nodes_share_are_read_there(
    nodes, shared_data, tmp_path
):
    logs = shared_data / "grpo_math"
    build(logs, tmp_path / "local.html")
    options = ["-o", tmp_path / "ray.html", "--ray", nodes.address]
    done = rlreport("build", logs.name, *options, cwd=logs.parent)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ray.html").read_bytes() == (
        tmp_path / "local.html"
    ).read_bytes()


def test_nodes_that_are_not_as_this_one_are_named(nodes, log, tmp_path, monkeypatch):
    own = ray_executor._versions()
    monkeypatch.setattr(ray_executor, "_versions", lambda: {**own, "NumPy": "0.1"})
    with pytest.raises(UsageError, match=f"has NumPy {own['NumPy']}, this machine 0.1"):
        build(log, tmp_path / "report", ray=nodes.address)
    monkeypatch.undo()
    find = find_sources

    def find_larger(paths):  # nodes on this machine see its files, which are smaller
        listing = find(paths)
        listing.sources = [
            replace(source, size=source.size + 1) for source in listing.sources
        ]
        return listing

    monkeypatch.setattr(logs, "find_sources", find_larger)
    with pytest.raises(
        UsageError, match=r"has only .* bytes of .*a\.jsonl \(as on 2 of 2"
    ):
        build(log, tmp_path / "report", ray=nodes.address)
    assert not (tmp_path / "report").exists()


def test_jobs_on_a_cluster_are_done_elsewhere_in_order_and_raise_what_they_raise(
    nodes,
) -> None:
    with Workers(ray=nodes.address) as workers:
        assert list(workers.map(jobs.named, range(20), "page")) == [
            f"page {i}" for i in range(20)
        ]
        processes = set(workers.map(jobs.where, range(20), 0.0))
        assert os.getpid() not in processes
        with pytest.raises(RlreportError, match=r"^job 3 cannot be done$"):
            list(workers.map(jobs.fail_at, range(9), 3))


def test_results_that_wait_for_an_earlier_one_are_a_few(nodes, tmp_path) -> None:
    with Workers(ray=nodes.address) as workers:
        list(workers.map(jobs.where, range(9), 0.0))  # the processes have started
        work = [(number, 0.1) for number in range(60)]
        work[0] = (0, 5.0)
        counts = list(workers.map(jobs.written_after, work, tmp_path))
    # Others are done while the first takes long, but not all 60.
    assert NODES <= counts[0] <= 2 * NODES + 1
    assert len(list(tmp_path.iterdir())) == 60


def test_jobs_whose_results_nobody_takes_are_cancelled(nodes, tmp_path) -> None:
    with Workers(ray=nodes.address) as workers:
        list(workers.map(jobs.where, range(9), 0.0))
        quick = [(number, 0.2) for number in range(60)]
        results = workers.map(jobs.written_after, quick, tmp_path)
        next(results)
        results.close()
        time.sleep(2)  # in which all that were submitted would be done
        assert len(list(tmp_path.iterdir())) <= 2 * NODES
        assert list(workers.map(jobs.named, range(3), "page"))[2] == "page 2"


def test_all_nodes_are_asked_at_once_also_while_they_are_busy(
    nodes, tmp_path, monkeypatch
) -> None:
    with Workers(ray=nodes.address) as workers:
        assert workers.on_each_node(jobs.node_asleep, 0.0) == [platform.node()] * NODES
        work = [(number, 15.0) for number in range(2 * NODES + 1)]
        work[0] = (0, 0.0)
        busy = workers.map(jobs.written_after, work, tmp_path)
        next(busy)
        workers.on_each_node(jobs.node_asleep, 0.0)
        assert len(list(tmp_path.iterdir())) == 1  # the other jobs are not done
        busy.close()
        monkeypatch.setattr(ray_executor, "_ANSWER_SECONDS", 1.0)
        wanted = f"^--ray: node {platform.node()} does not answer within 1 seconds"
        with pytest.raises(UsageError, match=wanted):
            workers.on_each_node(jobs.node_asleep, 60.0)
    assert Workers(1).on_each_node(jobs.node_asleep, 0.0) == []


def test_ctrl_c_ends_a_build_on_a_cluster_and_leaves_nothing(nodes, log, tmp_path):
    hostile = tmp_path / "here"
    hostile.mkdir()
    for name in ("pickle.py", "types.py", "numpy.py"):
        (hostile / name).write_text(
            "raise SystemExit('imported from the current folder')"
        )
    options = ["-o", tmp_path / "report", "--ray", nodes.address]
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "rlreport", "build", log, *options],
        cwd=hostile,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr
    read = started.stderr.readline()
    assert read.endswith(" MB\n"), read
    started.send_signal(signal.SIGINT)
    said = started.communicate(timeout=60)[1]
    assert started.returncode == 130, said
    assert "Traceback" not in said
    assert "imported from" not in said
    assert [file.name for file in tmp_path.iterdir()] == ["here"]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "--ray 127.0.0.1:1"),
        ("local", "does not start a cluster"),
        ("ray://127.0.0.1:10001", "does not support ray:// addresses"),
    ],
)
def test_a_cluster_that_is_not_there_is_told_in_a_line(log, tmp_path, address, reason):
    done = rlreport(
        "build", log, "-o", tmp_path / "report", "--ray", address, cwd=tmp_path
    )
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.strip().count("\n") == 0, done.stderr


def test_without_ray_the_extra_is_named(log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = rlreport("build", log, "-o", tmp_path / "report", "--ray", "auto")
    assert done.returncode == 2
    assert (
        done.stderr.strip() == "rlreport: --ray needs Ray: pip install 'rlreport[ray]'"
    )
