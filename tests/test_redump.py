"""A dump written anew: which keys a newer writer adds or drops."""

import json
from pathlib import Path

from rlreport.system.stores import zstd
from tools.redump import changes


def test_new_and_dropped_files_and_keys_are_named(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, row in (
        (before, {"step": 1, "turns": [{"text": "a", "old": 1}]}),
        (after, {"step": 1, "turns": [{"text": "a"}, {"new": {"deep": 1}}]}),
    ):
        folder.mkdir()
        line = json.dumps(row).encode()
        (folder / "a.jsonl").write_bytes(line)
        (folder / "b.jsonl.zst").write_bytes(zstd.compress(line))
    (after / "c.jsonl").write_text("{}")
    assert list(changes(before, before)) == []
    assert list(changes(before, after)) == [
        "+ c.jsonl",
        "+ a.jsonl: turns.new", "+ a.jsonl: turns.new.deep", "- a.jsonl: turns.old",
        "+ b.jsonl.zst: turns.new", "+ b.jsonl.zst: turns.new.deep", "- b.jsonl.zst: turns.old",
    ]  # fmt: skip
