"""The documentation's site: every page in its menu, every link followed."""

import re

import pytest

from tests import site


def test_every_page_is_in_the_menu_and_links_fit_or_lead_to_the_repository(tmp_path):
    site.gather(tmp_path)
    menu = re.findall(r'= "([^"]+\.md)"', site.SITE.read_text("utf-8"))
    assert sorted(menu) == sorted(page.name for page in tmp_path.glob("*.md"))
    text = (tmp_path / "index.md").read_text("utf-8")
    assert "](log-format.md)" in text
    assert "](decisions.md#figures)" in text
    assert 'src="pictures/overview-light.webp"' in text
    assert re.search(r"\]\(https://github\.com/[\w/]+/blob/main/sample_logs\)", text)
    assert "](security.md)" in text
    assert "](index.md)" not in text


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="a/#there">1</a><a href="a/#gone">2</a><img src="no.png"><a href="https://x">3</a>'
    )
    (tmp_path / "a" / "index.html").write_text('<h1 id="there">a</h1><a href="..">up</a>')
    assert site.broken_links(tmp_path) == ["index.html: a/#gone", "index.html: no.png"]


@pytest.mark.ci
def test_the_site_builds_strictly_without_a_broken_link_or_a_foreign_request(tmp_path):
    pytest.importorskip("zensical")
    reports = tmp_path / "reports"
    for page in (
        "index",
        "compare",
        "healthy/index",
        "reward_hacking/index",
        "reward_hacking/steps/59",
        "reward_hacking_zh/index",
    ):
        place = reports / f"{page}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("a report stands here", "utf-8")
    site.build(reports, tmp_path / "site")
    assert site.broken_links(tmp_path / "site") == []
    for made in (tmp_path / "site").rglob("index.html"):
        used = re.findall(
            r'<(?:script|link|img|iframe)[^>]* (?:src|href)="?(https?:[^"> ]+)',
            made.read_text("utf-8"),
        )
        assert not [address for address in used if "rlreport.github.io" not in address], made
