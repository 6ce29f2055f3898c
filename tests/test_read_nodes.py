"""How a node of a cluster sees the files of a run: in one sentence, where it sees them in part."""

import os
import pickle
import platform
import shutil
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import pytest

from rlreport.errors import MissingExtraError, UsageError
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read import logs
from rlreport.read.chunk import RangeSettings
from rlreport.read.detect import detect_formats
from rlreport.read.lines import ByteRange, byte_ranges
from rlreport.read.listing import find_sources
from rlreport.read.nodes import check_nodes, files_of, nodes_with_logs
from rlreport.read.spool import PartFolder
from rlreport.system.stores import Source
from rlreport.system.workers import Workers
from tests.reading import row, write

TRAJECTORY = {
    "schema_version": "ATIF-v1.2",
    "steps": [
        {"source": "user", "message": "hi"},
        {"source": "agent", "message": "ho"},
    ],
}
FILES = [f"step_{i}.jsonl" for i in range(4)]


class Nodes(Workers):
    """Nodes that see this machine's files, some of them with changes made meanwhile."""

    def __init__(self, *names: str) -> None:
        super().__init__(1)
        self.names = names

    def on_each_node(self, function, shared):
        data = pickle.dumps(shared)
        views = []
        for name in self.names:
            with patch.object(platform, "node", lambda name=name: name):
                views.append(function(None, pickle.loads(data)))
        return views


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for step, name in enumerate(FILES):
        write(tmp_path / "run" / name, [row(step)] * 10)
    return tmp_path / "run"


def sources(run: Path) -> list[Source]:
    return find_sources([run]).sources


def ranges(run: Path) -> list[ByteRange]:
    files = detect_formats(find_sources([run]), ReadOptions())
    return byte_ranges(files.sources, files.formats)


def refusal(listed: Iterable[Source], *names: str) -> str:
    with pytest.raises(UsageError) as caught:
        check_nodes(list(listed), Nodes(*names))
    text = str(caught.value)
    assert text.endswith(
        "; logs must be in object storage, or on a disk that this machine and all nodes mount at "
        "the same path"
    )
    return text.partition(";")[0]


def test_nodes_that_see_the_files_are_named(run: Path) -> None:
    listed = sources(run)
    # A log may grow after it was listed, and a copy that keeps its time is the same log.
    with (run / FILES[0]).open("a") as log:
        log.write("{}\n")
    copy = Path(shutil.copy2(run / FILES[1], run / "copy"))
    copy.replace(run / FILES[1])
    (run / "more.jsonl").write_text("{}\n")
    assert check_nodes(listed, Nodes("a", "b")) == {"a", "b"}


def test_a_missing_file_is_named_with_their_number(run: Path) -> None:
    listed = sources(run)
    for name in FILES[1:]:
        (run / name).unlink()
    assert refusal(listed, "a") == (
        f"--ray: node a has no {run / FILES[1]} (3 of 4 files missing or different there)"
    )
    assert refusal(listed, "b", "a", "c").endswith(
        "--ray: node a has no "
        f"{run / FILES[1]} (3 of 4 files missing or different there, as on 2 of 2 other nodes)"
    )
    assert refusal(listed[1:2], "a") == f"--ray: node a has no {run / FILES[1]}"


def test_a_shorter_file_is_named_with_its_bytes(run: Path) -> None:
    listed = sources(run)
    size = listed[2].size
    os.truncate(run / FILES[2], size - 1)
    assert refusal(listed, "a") == (
        f"--ray: node a has only {size - 1:,} of {size:,} bytes of {run / FILES[2]} (1 of 4 files "
        "missing or different there)"
    )


def test_another_file_of_that_name_is_no_log_of_this_run(run: Path) -> None:
    listed = sources(run)
    other = write(run / "other", [row(9)] * 10)
    other.replace(run / FILES[3])
    assert f"has another file as {run / FILES[3]} (changed at" in refusal(listed, "a")


def test_a_file_that_a_node_may_not_read_is_named(run: Path, monkeypatch) -> None:
    listed = sources(run)
    # Whoever tests as root may read everything, so permissions are acted out.
    monkeypatch.setattr(
        os, "access", lambda path, mode: not str(path).endswith(FILES[2])
    )
    wanted = f"node a cannot read {run / FILES[2]} (Permission denied)"
    assert wanted in refusal(listed, "a")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (PermissionError(13, "forbidden"), "forbidden"),
        (MissingExtraError("s3 needs s3fs"), "s3 needs s3fs"),
    ],
)
def test_a_node_that_cannot_read_a_store_is_named(answer, reason, monkeypatch) -> None:
    asked = []

    def read_ranges(wanted):
        asked.extend(wanted)
        if isinstance(answer, MissingExtraError):
            raise answer
        return [answer]

    monkeypatch.setattr("rlreport.read.nodes.read_ranges", read_ranges)
    listed = [
        Source(name, f"s3://key:secret@runs/{name}", 7, store="s3://key:secret@runs")
        for name in FILES
    ]
    text = refusal(listed, "a")
    assert text.startswith(f"--ray: node a cannot read s3://runs/{FILES[0]} ({reason})")
    assert len(asked) == 1  # one request tells whether the node is let in


def test_files_read_with_logs_are_asked_for_too(tmp_path: Path) -> None:
    tokenizer = write(tmp_path / "tokenizer.json", ["{}"])
    trajectory = write(tmp_path / "run" / "agent" / "trajectory.json", [TRAJECTORY])
    result = write(tmp_path / "run" / "result.json", [{"reward": 1.0}])
    (log,) = [
        one for one in ranges(tmp_path / "run") if one.source.path.endswith("y.json")
    ]
    paths = [source.path for source in files_of([log], str(tokenizer))]
    assert paths == [str(trajectory), str(result), str(tokenizer)]


def test_a_node_that_joins_later_checks_what_it_reads(run: Path) -> None:
    groups = [[one] for one in ranges(run)]
    settings = RangeSettings(ReadOptions(ray="auto"), GaeOptions(), PartFolder())
    os.truncate(run / FILES[0], 5)
    unknown = (settings, None, frozenset({"another"}))
    with pytest.raises(UsageError, match=f"has only 5 of .*{FILES[0]}; logs must"):
        logs._read(groups[0], unknown)
    assert logs._read(groups[1], unknown).rows == 10
    # Of a node that saw the whole file, it is a change of the log, which is a note.
    asked = (settings, None, frozenset({platform.node()}))
    assert logs._read(groups[0], asked).changes


def test_nodes_that_have_logs_where_this_machine_has_none_are_named(run: Path) -> None:
    text = nodes_with_logs([run], Nodes("b", "a"))
    assert text.startswith(
        "--ray: node a has 4 logs there; logs must be in object storage"
    )
    assert nodes_with_logs([run / "nowhere"], Nodes("a")) == ""
