"""What maintainers rely on: workflows, pinned actions, a changelog to quote, dumps written anew."""

import json
import re
from pathlib import Path

import pytest
import yaml

from rlreport.system.stores import zstd
from tests import release_notes
from tests.conftest import ROOT
from tools.redump import changes

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    "file", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda file: file.name
)
def test_actions_are_pinned_to_commits_and_say_their_version(file: Path) -> None:
    used = re.findall(r"uses: (\S+)(.*)", file.read_text("utf-8"))
    foreign = [(action, said) for action, said in used if not action.startswith("./")]
    for action, said in foreign:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", said), action


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_jobs_have_no_permission_but_those_they_name(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text("utf-8"))
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert "permissions" in job or name == "publish", name
        write = {right for right, kind in job["permissions"].items() if kind == "write"}
        allowed = {
            "publish": {"id-token"},
            "github": {"contents"},
            "deploy": {"pages", "id-token"},
        }
        assert write == allowed.get(name, set()), name


def test_every_system_and_python_that_is_claimed_is_tested() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))[
        "jobs"
    ]
    claimed = re.findall(
        r"Programming Language :: Python :: (3\.\d+)",
        (ROOT / "pyproject.toml").read_text("utf-8"),
    )
    for job in ("test", "windows", "smoke"):
        assert jobs[job]["strategy"]["matrix"]["python"] == claimed, job
    systems = {
        system.partition("-")[0] for system in jobs["smoke"]["strategy"]["matrix"]["os"]
    }
    assert systems == {"ubuntu", "macos", "windows"}


def test_files_that_the_windows_job_names_are_there() -> None:
    named = re.findall(
        r"tests/test_\w+\.py", (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    )
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / name).is_file()]


def test_release_notes_are_the_section_of_the_version(tmp_path, monkeypatch):
    log = tmp_path / "CHANGELOG.md"
    log.write_text(
        "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.10.0] - 2026-12-01\n\n### Added\n- b\n"
        "## [1.1.0] - 2026-11-01\n- a\n\n[1.1.0]: https://example.org\n"
    )
    monkeypatch.setattr(release_notes, "CHANGELOG", log)
    assert release_notes.notes("1.10.0") == "### Added\n- b"
    assert release_notes.notes("1.1.0") == "- a"
    for missing in ("1.1", "Unreleased", "2.0.0"):
        with pytest.raises(SystemExit, match="no section"):
            release_notes.notes(missing)


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    headings = re.findall(
        r"^## \[(.*?)\]", release_notes.CHANGELOG.read_text("utf-8"), re.M
    )
    assert headings[0] == "Unreleased"
    assert headings[1:], "a version follows"


def test_ci_runs_the_hooks_before_a_commit_and_a_release_looks_for_translations() -> (
    None
):
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))[
        "repos"
    ][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == ["make format", "make lint"]
    assert "make release-check" in (ROOT / ".github/workflows/release.yml").read_text(
        "utf-8"
    )
    assert "make lint" in (ROOT / ".github/workflows/ci.yml").read_text("utf-8")


def test_new_and_dropped_files_and_keys_are_named(tmp_path: Path) -> None:
    before = tmp_path / "before"
    after = tmp_path / "after"
    for folder, turns in (
        (before, [{"text": "a", "old": 1}]),
        (after, [{"text": "a"}, {"new": {"deep": 1}}]),
    ):
        folder.mkdir()
        line = json.dumps({"step": 1, "turns": turns}).encode()
        (folder / "a.jsonl").write_bytes(line)
        (folder / "b.jsonl.zst").write_bytes(zstd.compress(line))
    (after / "c.jsonl").write_text("{}")
    assert list(changes(before, before)) == []
    assert list(changes(before, after)) == [
        "+ c.jsonl",
        "+ a.jsonl: turns.new",
        "+ a.jsonl: turns.new.deep",
        "- a.jsonl: turns.old",
        "+ b.jsonl.zst: turns.new",
        "+ b.jsonl.zst: turns.new.deep",
        "- b.jsonl.zst: turns.old",
    ]
