"""Vega's bundle in a page: three global names, no eval, and nothing that ends a script element."""

from __future__ import annotations

import json

from rlreport.draw.bundle import vega_bundle
from rlreport.draw.overview import overview_charts
from tests.browser import watch
from tests.draw_tables import response_table, tables_of

PAGE = """<!doctype html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'self'; style-src 'self'">
<link rel="icon" href="data:,"><body><div id="chart"></div>
<script src="before.js"></script><script src="vega.js"></script><script src="draw.js"></script>
"""
BEFORE = "globalThis.names = new Set(Object.getOwnPropertyNames(globalThis));"
DRAW = """
globalThis.leaked = Object.getOwnPropertyNames(globalThis).filter((name) => !names.has(name));
vegaEmbed("#chart", %s, { ast: true, actions: false, renderer: "svg", defaultStyle: false })
  .then(() => { document.body.dataset.drawn = "true"; });
"""


def test_the_bundle_cannot_end_its_script_element():
    assert "</script" not in vega_bundle().lower()
    assert "<!--" not in vega_bundle()


def test_the_bundle_draws_under_a_strict_policy(browser, tmp_path):
    tables = tables_of(response_table([{"step": s, "reward": s / 3} for s in range(9)]))
    spec = overview_charts(tables)[0].spec
    (tmp_path / "index.html").write_text(PAGE, "utf-8")
    (tmp_path / "before.js").write_text(BEFORE, "utf-8")
    (tmp_path / "vega.js").write_text(vega_bundle(), "utf-8")
    (tmp_path / "draw.js").write_text(DRAW % json.dumps(spec), "utf-8")
    context = browser.new_context()
    page = context.new_page()
    said, asked = watch(context, page)
    page.goto((tmp_path / "index.html").as_uri())
    page.wait_for_selector("body[data-drawn]")
    assert set(page.evaluate("leaked")) - {"names", "leaked"} == {"vegaEmbed", "vega", "vegaLite"}
    assert page.locator("#chart svg .mark-line path").count() >= 1
    assert not [text for text in said if "unsafe-eval" in text or "Error" in text]
    assert not asked
    context.close()
