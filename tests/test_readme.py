"""What the README and the docs show is so: the picture, the quoted verdict, every link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.running import rlreport

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("page", "mark"), [("README.md", ""), ("README.zh.md", "zh-")])
def test_the_picture_is_there_and_light(page: str, mark: str, theme: str) -> None:
    name = f"docs/pictures/overview-{mark}{theme}.webp"
    assert f'"{name}"' in (ROOT / page).read_text("utf-8")
    picture = (ROOT / name).read_bytes()
    assert picture[8:12] == b"WEBP"
    assert len(picture) < 300_000, "make pictures"


@pytest.mark.parametrize(("page", "lang"), [("README.md", "en"), ("README.zh.md", "zh")])
def test_the_verdict_quoted_is_that_of_the_sample_logs(page: str, lang: str) -> None:
    (quoted,) = re.findall("^> (.*)$", (ROOT / page).read_text("utf-8"), re.M)
    said = rlreport("check", ROOT / "sample_logs" / "reward_hacking", "--lang", lang).stdout
    assert said.splitlines()[0] == quoted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.S)
    for found in LINK.findall(text):
        place, _, heading = "".join(found).partition("#")
        if place.startswith(("https://", "mailto:")):
            continue
        target = page.parent / place if place else page
        assert target.exists(), place
        if heading:
            assert heading in _anchors(target), f"{place}#{heading}"


def _anchors(page: Path) -> set[str]:
    """Anchors as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
