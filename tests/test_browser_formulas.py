"""What a page derives from the figures it carries equals what Python's formulas give."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from rlreport.columns import TOKEN_FIGURES
from rlreport.figures import tokens as token
from rlreport.pages.plan import COMPACT
from rlreport.pages.scripts import join_scripts
from rlreport.pages.token_data import pack_tokens
from rlreport.read.token_columns import TokenColumns
from tests.pages_reading import packed_tokens, unpack
from tests.reading import read

STATIC = Path(__file__).resolve().parents[1] / "static" / "js"
ENTRY = """import { decodeTokens, unpack } from "./shared/data.js";
import { valuesOf } from "./response/metrics.js";
globalThis.figures = async (packed, names) => {
  const data = decodeTokens(await unpack(packed));
  const found = names.map((name) => valuesOf(data, name));
  return found.map((values) => values && Array.from(values, String));
};
"""
NAMES = [figure.name for figure in TOKEN_FIGURES]


@pytest.fixture(scope="module")
def in_page(browser, tmp_path_factory):
    """Figures of packed tokens as the page's scripts derive them, None where it cannot."""
    folder = tmp_path_factory.mktemp("scripts") / "js"
    shutil.copytree(STATIC, folder)
    (folder / "entry.js").write_text(ENTRY, "utf-8")
    opened = browser.new_page()
    opened.evaluate(join_scripts(folder, "entry.js"))

    def derive(packed: str) -> dict[str, np.ndarray]:
        found = opened.evaluate(
            "([packed, names]) => figures(packed, names)", [packed, NAMES]
        )
        values = zip(NAMES, found, strict=True)
        return {
            name: np.array(one, np.float64) for name, one in values if one is not None
        }

    yield derive
    opened.close()


def in_python(packed: str) -> dict[str, np.ndarray]:
    """The same by the formulas of ``rlreport.figures.tokens``, from what the page carries."""
    _, _, found = unpack(packed)
    if {"logp", "log_ratio"} <= found.keys():
        found.setdefault("ref_logp", found["logp"] - found["log_ratio"])
    if {"value", "advantage"} <= found.keys():
        found.setdefault("return", found["value"] + found["advantage"])
    return token.TokenFigures(found).derive()


def assert_same(packed: str, in_page) -> dict[str, np.ndarray]:
    shown = in_page(packed)
    expected = in_python(packed)
    assert shown.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(
            shown[name], values, rtol=1e-12, atol=1e-12, err_msg=name
        )
    return shown


@pytest.mark.parametrize("run", ["ppo_reward_hacking", "grpo_math"])
def test_the_pages_of_real_runs_derive_what_python_computes(real_report, in_page, run):
    pages = sorted((real_report(run) / "steps").glob("*.html"))
    for page in (pages[0], pages[-1]):
        packed = packed_tokens(page)
        shown = assert_same(packed, in_page)
        offered = {metric["key"] for metric in unpack(packed)[0]["metrics"]}
        assert offered == {
            name for name, values in shown.items() if not np.isnan(values).all()
        }


@pytest.mark.parametrize("digits", [COMPACT, 9])
def test_short_of_bytes_or_not_the_page_derives_what_python_computes(
    shared_data, in_page, digits
):
    rollouts = list(read(shared_data / "ppo_healthy").rollouts.read(range(12)))
    packed = pack_tokens(TokenColumns.of(rollouts), digits)
    shown = assert_same(packed, in_page)
    for name in set(NAMES) - {"sampler_logp"}:
        exact = np.concatenate([r.figures[name] for r in rollouts])
        close = 100 * 10.0**-digits
        np.testing.assert_allclose(
            shown[name], exact, rtol=close, atol=close, err_msg=name
        )
