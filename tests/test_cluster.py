"""Ray: a report made on three nodes is the local report, also when nodes die on the way."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlreport import cluster as clusters
from rlreport.api import build
from rlreport.errors import RlreportError, UsageError
from rlreport.options import FigureOptions, ReadOptions, ReportOptions
from rlreport.pipeline import build_report
from rlreport.pool import Pool
from rlreport.progress import Silent
from rlreport.read import logs as reading
from rlreport.read.splits import plan_splits
from tests import jobs
from tests.running import rlreport
from tests.store import BUCKET, local_files, long_log

pytestmark = pytest.mark.ci
NODES = 3


@pytest.fixture(scope="module")
def nodes(store):  # whose address the nodes inherit
    from ray.cluster_utils import Cluster

    memory = 150 << 20
    found = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": memory}
    )
    for _ in range(NODES - 1):
        found.add_node(num_cpus=1, object_store_memory=memory)
    found.wait_for_nodes()
    yield found
    found.shutdown()


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return long_log(tmp_path_factory.mktemp("log") / "run" / "a.jsonl")


@pytest.fixture
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits of 2 MiB, a task each; the driver alone plans them."""
    defaults = plan_splits.__kwdefaults__
    assert defaults
    monkeypatch.setitem(defaults, "split_bytes", 2 << 20)
    monkeypatch.setattr(reading, "CLUSTER_TASK_BYTES", 1)


class Killing(Silent):
    """Lets a node die when a phase has come so far."""

    def __init__(self, nodes, phases: list[str]) -> None:
        self.nodes, self.phases = nodes, phases

    def phase(self, name: str, total: float, unit: str):
        progress = self

        class Phase:
            advanced = 0

            def advance(self, amount: float) -> None:
                self.advanced += 1
                if name in progress.phases and self.advanced == 3:
                    progress.phases.remove(name)
                    gone = next(iter(progress.nodes.worker_nodes))
                    progress.nodes.remove_node(gone, allow_graceful=False)

            def __enter__(self):
                return self

            def __exit__(self, *error: object) -> None: ...

        return Phase()


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What tasks sent to this process."""
    found = []
    own = clusters.RayExecutor._future

    def future(self, ref, settle):
        def counted(result):
            found.append(pickle.dumps(result))
            return settle(result)

        return own(self, ref, counted)

    monkeypatch.setattr(clusters.RayExecutor, "_future", future)
    return found


def is_page(data: bytes) -> bool:
    return b"<!doctype html" in data.lower()


def test_a_report_of_logs_in_a_store_made_on_a_cluster_is_the_local_report_though_nodes_die(
    store, nodes, log: Path, tmp_path: Path, many_tasks: None, arrived: list[bytes]
) -> None:
    store.put_folder(log.parent, "cluster/run")
    url, out = f"s3://{BUCKET}/cluster/run", f"s3://{BUCKET}/cluster/report"
    build(log.parent, tmp_path / "local", workers=1)
    wanted = local_files(tmp_path / "local")
    build(url, tmp_path / "whole", ray=nodes.address)
    assert local_files(tmp_path / "whole") == wanted
    killing = Killing(nodes, ["reading", "pages"])
    with Pool(ray=nodes.address) as pool:
        build_report(
            [url],
            out,
            read=ReadOptions(ray=nodes.address),
            figures=FigureOptions(),
            report=ReportOptions(),
            progress=killing,
            pool=pool,
        )
    assert not killing.phases
    for _ in range(NODES - 1):
        nodes.add_node(num_cpus=1, object_store_memory=150 << 20)
    nodes.wait_for_nodes()
    assert store.files("cluster/report") == wanted
    # Pages went from where they were baked to the store, or to the disk that all nodes see.
    assert sum(is_page(data) for data in wanted.values()) > 20
    assert arrived
    assert not any(map(is_page, arrived))


def test_pages_come_back_where_not_all_nodes_see_the_place(
    nodes, log: Path, tmp_path: Path, arrived: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    build(log, tmp_path / "local")
    monkeypatch.setattr(clusters.RayExecutor, "everywhere", lambda *_: ["did not answer"])
    build(log, tmp_path / "report", ray=nodes.address)
    assert local_files(tmp_path / "report") == local_files(tmp_path / "local")
    assert any(map(is_page, arrived))


def test_pages_are_baked_in_ranges_and_what_they_share_is_sent_once(
    nodes, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, ranges = [], []
    share, submit = clusters.RayExecutor.share, clusters.RayExecutor.submit

    def sharing(self, packed):
        shared.append(packed)
        return share(self, packed)

    def submitting(self, function, job, *args):
        if isinstance(job, list):
            ranges.append(len(job))
        return submit(self, function, job, *args)

    monkeypatch.setattr(clusters.RayExecutor, "share", sharing)
    monkeypatch.setattr(clusters.RayExecutor, "submit", submitting)
    build(log, tmp_path / "report", ray=nodes.address)
    assert sum(ranges) >= 20
    assert len(ranges) <= 8
    assert sum(b"bake_range" in data for data in shared) == 1


def test_a_cluster_without_a_free_cpu_is_told_once(
    nodes, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    import ray

    monkeypatch.setattr(clusters, "_IDLE", 2.0)

    def busy():
        time.sleep(15)

    ray.init(address=nodes.address, log_to_driver=False)
    try:
        count = int(ray.cluster_resources()["CPU"])
        held = [ray.remote(num_cpus=1)(busy).remote() for _ in range(count)]
        time.sleep(3)
        build(log, tmp_path / "report", ray=nodes.address, quiet=False)
        del held
    finally:
        ray.shutdown()
    said = [line for line in capfd.readouterr().err.splitlines() if "no CPU" in line]
    assert len(said) == 1
    assert f"wait for one each, and it has {count}" in said[0]


def test_logs_on_a_disk_that_all_nodes_share_are_read_there(
    nodes, shared_data: Path, tmp_path: Path
) -> None:
    logs = shared_data / "grpo_math"
    build(logs, tmp_path / "local.html")
    options = ["-o", tmp_path / "ray.html", "--ray", nodes.address]
    done = rlreport("build", logs.name, *options, cwd=logs.parent)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ray.html").read_bytes() == (tmp_path / "local.html").read_bytes()


def test_nodes_that_are_not_as_this_one_are_named(
    nodes, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = clusters._versions()
    monkeypatch.setattr(clusters, "_versions", lambda: {**own, "NumPy": "0.1"})
    with pytest.raises(UsageError, match=f"has NumPy {own['NumPy']}, here it is 0.1"):
        build(log, tmp_path / "report", ray=nodes.address)
    monkeypatch.undo()
    monkeypatch.setattr(clusters, "_size", lambda file: 17)
    with pytest.raises(UsageError, match=r"does not see .*a\.jsonl as it is here"):
        build(log, tmp_path / "report", ray=nodes.address)
    assert not (tmp_path / "report").exists()


def test_jobs_on_a_cluster_are_done_elsewhere_in_order_and_raise_what_they_raise(nodes) -> None:
    with Pool(ray=nodes.address) as pool:
        assert list(pool.map(jobs.named, range(20), "page")) == [f"page {i}" for i in range(20)]
        assert os.getpid() not in set(pool.map(jobs.where, range(20), 0.0))
        with pytest.raises(RlreportError, match=r"^job 3 cannot be done$"):
            list(pool.map(jobs.fail_at, range(9), 3))


def test_ctrl_c_ends_a_build_on_a_cluster_and_leaves_nothing(
    nodes, log: Path, tmp_path: Path
) -> None:
    hostile = tmp_path / "here"
    hostile.mkdir()
    for name in ("pickle.py", "types.py", "numpy.py"):
        (hostile / name).write_text("raise SystemExit('imported from the current folder')")
    options = ["-o", tmp_path / "report", "--ray", nodes.address]
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "rlreport", "build", log, *options],
        cwd=hostile,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(12)
    started.send_signal(signal.SIGINT)
    said = started.communicate(timeout=60)[1]
    assert started.returncode in (0, 130), said
    assert "Traceback" not in said
    assert "imported from" not in said
    if started.returncode:
        assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "--ray 127.0.0.1:1"),
        ("local", "none is started"),
        ("ray://127.0.0.1:10001", "Ray's client is not used"),
    ],
)
def test_a_cluster_that_is_not_there_is_told_in_a_line(
    log: Path, tmp_path: Path, address: str, reason: str
) -> None:
    done = rlreport("build", log, "-o", tmp_path / "report", "--ray", address, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.strip().count("\n") == 0, done.stderr


def test_without_ray_the_extra_is_named(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = rlreport("build", log, "-o", tmp_path / "report", "--ray", "auto")
    assert done.returncode == 2
    assert done.stderr.strip() == "rlreport: --ray needs Ray: pip install 'rlreport[ray]'"
