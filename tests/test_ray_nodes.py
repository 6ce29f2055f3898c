"""Ray: nodes that see a folder in part are named before anything is read, and nothing is built.

Nodes of one machine share its disk. So some are started in a mount namespace, in which another
folder lies at the path of the logs.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rlreport as rlreport_package
from rlreport.api import build
from rlreport.errors import RlreportError, UsageError
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.logs import read_logs
from rlreport.system.workers import Progress
from tests.forms import files_below
from tests.reading import row, write
from tests.running import rlreport

STORE_BYTES = 100 << 20
FILES = [f"step_{i}.jsonl" for i in range(4)]
# Whoever is not root makes a namespace of users first.
AS_ROOT = [] if os.name != "posix" or os.geteuid() == 0 else ["--map-root-user"]
NAMESPACES = ["unshare", *AS_ROOT, "--mount", "--uts", "--propagation", "private"]


def has_namespaces() -> bool:
    try:
        return subprocess.run([*NAMESPACES, "true"], check=False).returncode == 0
    except OSError:
        return False


pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(not has_namespaces(), reason="no mount namespaces"),
]


class Folders:
    """A folder of runs as this machine has it, and as the node ``other`` has it."""

    def __init__(self, root: Path) -> None:
        self.here = root / "logs"
        self.other = root / "other"
        self.empty = root / "empty"
        for folder in (self.here, self.other, self.empty):
            folder.mkdir()

    def run(self, name: str) -> tuple[Path, Path]:
        """Make a run that both have alike; return its two folders."""
        here = self.here / name
        for step, file in enumerate(FILES):
            rows = [row(step, reward=i % 3) for i in range(20)]
            write(here / file, rows)
        # With times of change, by which logs are told apart
        return here, Path(shutil.copytree(here, self.other / name))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("cluster"))


class Nodes:
    """A cluster on this machine, to which nodes are added that see other folders."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head: dict[str, Any] = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return self._cluster.address

    def add(self, name: str, mount: tuple[Path, Path], *, cpus: int = 1) -> None:
        """Start a node of this host name that sees the first folder at the second's path."""
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        ray += [f"--address={self.address}", f"--num-cpus={cpus}"]
        ray += [f"--object-store-memory={STORE_BYTES}"]
        script = 'hostname "$1" && mount --bind "$2" "$3" && shift 3 && exec "$@"'
        node = subprocess.Popen(
            [*NAMESPACES, "sh", "-c", script, "sh", name, *mount, *ray],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._started.append(node)
        # One node after the other, as those that start at once may never come up.
        deadline = time.monotonic() + 120
        while len(self._cluster.global_state.node_table()) < 1 + len(self._started):
            assert time.monotonic() < deadline, f"{name} does not start"
            time.sleep(0.1)

    def close(self) -> None:
        for node in self._started:
            node.terminate()
            node.wait()
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes(folders: Folders):
    """This machine, ``other``, and a node without CPUs that has no logs and is never asked."""
    started = Nodes()
    try:
        started.add("other", (folders.other, folders.here))
        started.add("spare", (folders.empty, folders.here), cpus=0)
        yield started
    finally:
        started.close()


@pytest.fixture
def address(nodes: Nodes) -> str:
    return nodes.address


class Unread(Progress):
    """Fails where anything is read."""

    def phase(self, name: str, total: float, unit: str):
        pytest.fail(f"{name} began")


def refusal(logs: Path, address: str) -> str:
    """Return why the logs are refused, before anything of them is read."""
    with pytest.raises(RlreportError) as caught:
        read_logs([logs], ReadOptions(ray=address), GaeOptions(), Unread())
    text = str(caught.value)
    assert "logs must be in object storage, or on a disk that this machine and" in text
    return text


def test_a_folder_that_a_node_sees_in_part_is_refused_in_a_line(
    folders: Folders, address: str, tmp_path: Path
) -> None:
    here, there = folders.run("part")
    out = tmp_path / "report.html"
    build(here, out, workers=1)
    before = out.read_bytes()
    for name in FILES[1:]:
        (there / name).unlink()
    # Whichever node reads, every time
    for _ in range(2):
        done = rlreport("build", here, "-o", out, "--ray", address, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith(
            f"rlreport: --ray: node other has no {here / FILES[1]} (3 of 4 files missing or "
            "different there); "
        )
        assert done.stderr.count("\n") == 1
    assert out.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [out.name]


def test_a_shorter_log_and_another_of_its_name_are_refused(
    folders: Folders, address: str
) -> None:
    here, there = folders.run("shorter")
    size = (here / FILES[2]).stat().st_size
    os.truncate(there / FILES[2], 100)
    wanted = f"node other has only 100 of {size:,} bytes of {here / FILES[2]} (1 of 4"
    assert wanted in refusal(here, address)
    here, there = folders.run("own")
    write(there / FILES[3], [row(3, reward=9)] * 100)
    wanted = f"node other has another file as {here / FILES[3]} (changed at another"
    assert wanted in refusal(here, address)


def test_logs_that_only_a_node_has_are_found_there(
    folders: Folders, address: str
) -> None:
    here, _ = folders.run("elsewhere")
    for file in here.iterdir():
        file.unlink()
    text = refusal(here, address)
    assert text.startswith("No rollout log found (elsewhere: an empty folder")
    assert "; --ray: node other has 4 logs there; " in text
    here.rmdir()
    wanted = f"No such file or folder: {here}; --ray: node other has 4 logs there; "
    assert refusal(here, address).startswith(wanted)


def test_what_only_this_machine_needs_may_be_only_here(
    folders: Folders, address: str, tmp_path: Path
) -> None:
    here, there = folders.run("whole")
    write(here / "config.yaml", ["learning_rate: 1e-6\n"])
    losses = [{"step": step, "loss": 4.0 - step} for step in range(4)]
    write(here / "metrics.jsonl", losses)
    write(there / "step_9.jsonl", [row(9)])  # listed here, it would be read
    build(here, tmp_path / "local", workers=1)
    build(here, tmp_path / "cluster", ray=address)
    assert files_below(tmp_path / "cluster") == files_below(tmp_path / "local")


def test_a_node_without_this_package_is_named(folders: Folders, nodes: Nodes) -> None:
    here, _ = folders.run("bare")
    # An empty package, as without its file another one that is installed would be imported
    package = folders.here.parent / "package"
    write(package / "__init__.py", [])
    nodes.add("bare", (package, Path(rlreport_package.__file__).parent))
    wanted = (
        "^--ray: node bare cannot import rlreport .*No module named 'rlreport"
        ".*; all nodes need it in the Python of their Ray$"
    )
    with pytest.raises(UsageError, match=wanted):
        read_logs([here], ReadOptions(ray=nodes.address), GaeOptions(), Unread())
