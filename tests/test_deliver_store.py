"""Reports in an object store: all files of the local report, the page to open last."""

import pytest

from rlreport.api import build
from tests.forms import files_below
from tests.reading import write
from tests.running import rlreport
from tests.store import BUCKET, short_log


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return short_log(tmp_path_factory.mktemp("logs"))


def test_a_folder_in_a_store_is_the_local_folder_and_its_index_comes_last(
    store, logs, tmp_path
):
    store.forget()
    done = rlreport("build", logs, "-o", f"s3://{BUCKET}/reports/run/")
    assert done.returncode == 0, done.stderr
    assert f"s3://{BUCKET}/reports/run/index.html" in done.stdout
    sent = [request.path for request in store.requests("PUT")]
    assert sent[-1].endswith("/reports/run/index.html")
    assert rlreport("build", logs, "-o", tmp_path / "run").returncode == 0
    assert store.files("reports/run") == files_below(tmp_path / "run")


def test_what_is_gone_from_the_report_goes_and_files_of_others_stay(
    store, logs, tmp_path
):
    url = f"s3://{BUCKET}/reports/again"
    build(logs, url)
    store.put("reports/again/notes.txt", b"mine")
    fewer = write(
        tmp_path / "a.jsonl", [*logs.read_bytes().splitlines(keepends=True)[:20]]
    )  # without its last step
    build(fewer, url)
    found = store.files("reports/again")
    assert "steps/5.html" not in found
    assert found.pop("notes.txt") == b"mine"
    build(fewer, tmp_path / "again")
    assert found == files_below(tmp_path / "again")


@pytest.mark.parametrize("name", ["run.html", "run.md"])
def test_forms_of_one_file_are_the_local_file(store, logs, tmp_path, name):
    for _ in range(2):  # the second replaces the first
        report = build(logs, f"s3://{BUCKET}/files/{name}/of/{name}")
    assert report.out == f"s3://{BUCKET}/files/{name}/of/{name}"
    build(logs, tmp_path / name)
    assert store.files(f"files/{name}/of") == files_below(tmp_path)


def test_files_of_others_are_never_replaced(store, logs):
    store.put("others/data.csv", b"1,2\n")
    store.put("others/page.html", b"<p>mine</p>")
    for name, reason in {
        "others": "did not write: data.csv, page.html",
        "others/page.html": "not a report of rlreport",
    }.items():
        done = rlreport("build", logs, "-o", f"s3://{BUCKET}/{name}")
        assert done.returncode == 2
        assert reason in done.stderr
    assert store.files("others") == {"data.csv": b"1,2\n", "page.html": b"<p>mine</p>"}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://no-such-bucket/report", "there is no bucket no-such-bucket"),
        (f"s3://{BUCKET}", "add a name for the report"),
        ("nonsense://a/b", "nonsense://a/b"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_in_a_line_before_anything_is_read(
    store, tmp_path, url, reason
):
    done = rlreport("build", tmp_path / "no-logs", "-o", url)
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
    done = rlreport("index", tmp_path, "-o", f"s3://{BUCKET}/index.html")
    assert done.returncode == 2
    assert "local path" in done.stderr


def test_a_store_that_does_not_take_files_says_so(store, logs, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(
            "Access Denied for https://host/a?X-Amz-Signature=hunter2"
        )

    monkeypatch.setattr(store.system, "put", refuse)
    done = rlreport("build", logs, "-o", f"s3://{BUCKET}/refused")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "cannot be written: Access Denied for …"
    )
    assert store.files("refused") == {}
