"""One file: everything in it, nothing outside it, only what is looked at unpacked."""

import base64
import gzip
import hashlib
import json
import re

import pytest

import rlreport
from tests.forms import files_of, views
from tests.hostile import MARK, write_log
from tests.pages_reading import Elements


@pytest.fixture(scope="module")
def hostile(hostile_reports):
    return hostile_reports / "run.html", hostile_reports / "run"


def test_every_page_of_the_folder_is_a_view(hostile):
    one_file, folder = hostile
    pages = {
        path.removesuffix(".html")
        for path in map(str, files_of(folder))
        if ".html" in path
    }
    pages = {page.removeprefix("run/") for page in pages} - {"index"}
    assert set(views(one_file.read_bytes())) == pages
    # The overview is the document itself.
    links = re.findall(r'href="#/([^"?]*)', one_file.read_text("utf-8"))
    assert "" in links
    assert set(links) - {""} <= pages


def test_only_listed_texts_can_run_and_nothing_is_requested(hostile):
    text = hostile[0].read_text("utf-8")
    elements = Elements(text)
    policy = next(a["content"] for t, a in elements.found if a.get("http-equiv"))
    assert "unsafe" not in policy and "http" not in policy and "'self'" not in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    hashes = re.findall(r"'(sha256-[^']+)'", policy)
    for tag, attributes, data in elements.inside:
        if tag == "style" or "type" not in attributes:
            digest = hashlib.sha256(data.encode()).digest()
            assert f"sha256-{base64.b64encode(digest).decode()}" in hashes
    outside = [
        a for _, a in elements.found if "src" in a or a.get("href", "#")[0] != "#"
    ]
    assert outside == [{"rel": "icon", "href": "data:,"}]


def test_hostile_text_is_no_markup_in_any_view(hostile):
    document = hostile[0].read_bytes()
    for page in (document.decode(), *views(document).values()):
        for tag, attributes in Elements(page).found:
            assert not [
                name for name in attributes if name.startswith("on") or name == "style"
            ]
            assert MARK not in attributes.get("src", "")
            if tag == "script":
                assert attributes.get("type", "text/javascript") in (
                    "text/javascript",
                    "application/json",
                    "application/octet-stream",
                )


def test_report_json_is_there_for_scripts(hostile):
    one_file, folder = hostile
    inside = next(
        data
        for _, attributes, data in Elements(one_file.read_text("utf-8")).inside
        if attributes.get("class") == "report-json"
    )
    written = json.loads((folder / "data" / "report.json").read_bytes())
    carried = json.loads(gzip.decompress(base64.b64decode(inside)))
    assert carried["steps"] == written["steps"]
    assert carried["generator"]["name"] == "rlreport"


def test_the_cost_without_data_is_below_a_megabyte(tmp_path):
    log = write_log(
        tmp_path / "log.jsonl",
        [{"step": 1, "prompt": "p", "response": "r", "reward": 1.0}],
    )
    assert rlreport.build(log, tmp_path / "run.html", workers=1).size <= 1_000_000
