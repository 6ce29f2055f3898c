"""Reports of runs with more responses than are sampled say which figures come from the sample."""

import json
import random
from itertools import product

import pandas as pd
import pytest

import rlreport
from rlreport.read import logs
from rlreport.read.limits import ReadLimits
from tests.forms import everything
from tests.pages_reading import rows_data
from tests.reading import row, tokens, write
from tests.schemas import validate

LIMIT = 512
STEPS = 9
EACH = 88
SAMPLED_EACH = 32
SAMPLED = SAMPLED_EACH * STEPS
NOTE = f"from a sample of {SAMPLED:,} of {STEPS * EACH:,} responses"


@pytest.fixture(scope="module", autouse=True)
def small_sample():
    """Samples of a sixteenth of the usual size, so that logs can be short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "LIMITS", ReadLimits(sampled=LIMIT))
        yield


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of more responses than the sample has, in which a symbol spreads with the reward."""
    rng = random.Random(0)
    rows = []
    for i in range(STEPS * EACH):
        step = i // EACH
        words = rng.choices("abcdefgh", k=5)
        hacked = rng.random() < step / STEPS
        strings = [f" {word}" for word in [*words, "🎉" if hacked else "i"]]
        figures = {
            "logprobs": [-0.5] * 6,
            "ref_logprobs": [-0.25 - rng.random() for _ in strings],
            "token_rewards": [0.0] * 5 + [1.0],
        }
        texts = {"prompt": f"p{i % EACH // 4}", "response": "".join(strings)}
        reward = hacked + rng.random() / 4
        rows.append(tokens(*strings, step=step, reward=reward, **texts, **figures))
    return write(tmp_path_factory.mktemp("sampled") / "log.jsonl", rows)


@pytest.fixture(scope="module")
def report(log, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "run"
    rlreport.build(log, out, workers=1)
    return out


def test_pages_with_figures_of_the_sample_say_so(report):
    pages = {
        name: (report / f"{name}.html").read_text("utf-8")
        for name in ("index", "texts", "data")
    }
    assert all(NOTE in page or NOTE.capitalize() in page for page in pages.values())
    index = pages["index"]
    assert f"Counts of texts and tokens come {NOTE}." in index
    assert f"(distinct-2), {NOTE}<" in index
    assert f"Counted {NOTE}." in index  # the finding that counts texts


def test_a_step_lists_what_lies_outside_the_sample_without_a_figure(report):
    page = report / "steps" / "3.html"
    assert f"of {STEPS * EACH:,}" not in page.read_text(
        "utf-8"
    )  # older pages stay as they are
    data = rows_data(page)
    column = next(one for one in data["columns"] if one["key"] == "distinct_2")
    assert column["help"].endswith("of sampled responses only")
    values = data["values"]["distinct_2"]
    assert 0 < sum(value is None for value in values) < len(values)
    assert not any(data["ranks"]["distinct_2"])


def test_exports_name_the_sample(report):
    document = json.loads((report / "data" / "report.json").read_bytes())
    validate(document, "report")
    assert document["sampled"] == {"responses": SAMPLED, "of": STEPS * EACH}
    (finding,) = (
        one for one in document["findings"] if one["id"] == "reward_hacking_token"
    )
    assert finding["why"].endswith(f"Counted {NOTE}.")
    steps = pd.read_csv(report / "data" / "steps.csv")
    assert steps["bigrams"].tolist() == [SAMPLED_EACH * 5] * STEPS
    assert steps["responses"].tolist() == [EACH] * STEPS


@pytest.mark.parametrize("suffix", [".md", ".eml"])
def test_every_form_says_so(suffix, log, tmp_path):
    out = tmp_path / f"run{suffix}"
    rlreport.build(log, out, workers=1)
    assert f"Counts of texts and tokens come {NOTE}.".encode() in everything(out)


def test_a_comparison_says_so_of_logs_and_of_reports(log, report, tmp_path):
    rlreport.compare(report, log, tmp_path / "compare.md", workers=1)
    text = (tmp_path / "compare.md").read_text("utf-8")
    assert text.count(f"distinct-2 and shares of the KL are {NOTE}.") == 2
    assert "| Distinct-2 |" in text


def test_a_run_that_is_sampled_whole_says_nothing(tmp_path):
    assert LIMIT < STEPS * EACH
    places = product(range(6), range(20))
    rows = [row(step, response=f"a b {i}") for step, i in places]
    rlreport.build(write(tmp_path / "log.jsonl", rows), tmp_path / "run", workers=1)
    pages = everything(tmp_path / "run")
    assert b"from a sample" not in pages
    assert b"sampled responses only" not in pages
    document = json.loads((tmp_path / "run" / "data" / "report.json").read_bytes())
    assert document["sampled"] == {"responses": 120, "of": 120}
