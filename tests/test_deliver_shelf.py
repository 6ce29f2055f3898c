"""Pages that wait in OUT's own store: sent by whoever bakes them, and nothing of them stays there.

What a cluster does is tried in ``test_cluster.py``; here a pool only says that it is one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlreport.api import build
from rlreport.bake.shelf import BakedStep, FolderShelf, put_on
from rlreport.errors import OutputError
from rlreport.options import FigureOptions, ReadOptions, ReportOptions
from rlreport.pipeline import build_report
from rlreport.pool import Pool
from rlreport.progress import Silent
from tests.store import BUCKET, Store, local_files, short_log

STEPS = 6


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    return short_log(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def wanted(logs: Path, tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("local") / "report"
    build(logs, out)
    return local_files(out)


class Far(Pool):
    """Says that its processes are on other machines, which see what this one sees."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        super().__init__(1)
        self.meanwhile = meanwhile

    @property
    def elsewhere(self) -> bool:
        return True

    def everywhere(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        self.meanwhile()
        return [function(*args)]


def built(logs: Path, name: str, pool: Pool, max_size: int | None = None) -> None:
    with pool:
        build_report(
            [logs],
            f"s3://{BUCKET}/{name}",
            read=ReadOptions(),
            figures=FigureOptions(),
            report=ReportOptions(max_size=max_size),
            progress=Silent(),
            pool=pool,
        )


def test_pages_are_sent_once_and_copied_to_their_places(
    store: Store, logs: Path, wanted: dict[str, bytes]
) -> None:
    left = "far/run/.rlreport-0123456789abcdef/page.html"
    store.put(left, b"by a build that was killed")
    for sent in (STEPS, 0):
        store.forget()
        built(logs, "far/run", Far())
        assert store.files("far/run") == wanted
        put = [request.path for request in store.requests("PUT")]
        assert put[-1].endswith("/far/run/index.html")
        assert sum("/far/run/steps/" in path for path in put) == sent
    store.system.invalidate_cache()
    assert store.system.info(f"{BUCKET}/far/run/steps/3.html")["ContentType"] == "text/html"


def test_a_build_that_fails_leaves_the_store_as_it_was(store: Store, logs: Path) -> None:
    with pytest.raises(OutputError, match="the least report"):
        built(logs, "failed", Far(), max_size=20_000)
    assert store.files("failed") == {}


def test_a_page_that_was_to_stay_and_is_gone_is_told(store: Store, logs: Path) -> None:
    built(logs, "gone", Far())
    before = store.files("gone")

    def meanwhile() -> None:
        store.system.rm_file(f"{BUCKET}/gone/steps/1.html")

    with pytest.raises(OutputError, match=r"steps/1\.html was changed meanwhile; build again"):
        built(logs, "gone", Far(meanwhile))
    assert store.files("gone") == {k: v for k, v in before.items() if k != "steps/1.html"}


def test_a_store_that_copies_nothing_gets_all_from_here(
    store: Store, logs: Path, wanted: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(store.system, "cp_file", refuse)
    built(logs, "simple", Far())
    assert store.files("simple") == wanted


def test_who_cannot_put_a_page_on_the_shelf_hands_it_back(tmp_path: Path) -> None:
    page = BakedStep(("steps/1.html", b"page"), 4, None, None)  # type: ignore[arg-type]
    assert put_on(FolderShelf(tmp_path / "not here"), page) is page
