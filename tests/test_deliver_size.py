"""--max-size holds to the byte, shows what is most worth a look, and fills what it may have."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import rlreport
from rlreport.errors import OutputError
from tests.forms import FORMS, files_of, views
from tests.hostile import write_log
from tests.pages_reading import node, packed_in_one_file, unpack
from tests.running import in_ci


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log that fits nowhere whole."""
    return noise(tmp_path_factory.mktemp("size"), steps=7)


def noise(folder, *, steps):
    """A log of steps of 48 responses with 120 tokens of noise."""
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abcdefghij"), 6)) for _ in range(900)]
    rows = []
    for step in range(steps):
        for _ in range(48):
            tokens = [words[i] for i in random.integers(0, 900, 120)]
            rows.append(
                {
                    "step": step,
                    "prompt": " ".join(random.choice(words, 8)),
                    "response": " ".join(tokens),
                    "reward": float(random.normal()),
                    "response_tokens": tokens,
                    "logprobs": (-random.exponential(1, 120)).tolist(),
                    "ref_logprobs": (-random.exponential(1, 120)).tolist(),
                }
            )
    return write_log(folder / "log.jsonl", rows)


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("form", "limit"),
    [
        ("folder", 3_000_000),
        ("markdown", 30_000),
        pytest.param("email", 1_900_000, marks=pytest.mark.ci),
        pytest.param("zip", 900_000, marks=pytest.mark.ci),
    ],
)
def test_it_holds_to_the_byte(form, limit, log, tmp_path):
    out = tmp_path / f"run{FORMS[form]}"
    done = rlreport.build(log, out, max_size=limit, workers=1)
    assert done.size == sum(map(len, files_of(out).values())) <= limit


@pytest.mark.ci
@pytest.mark.untraced
def test_what_findings_refer_to_is_shown_with_its_tokens_in_a_small_report(
    shared_data, tmp_path
):
    out = tmp_path / "run.html"
    done = rlreport.build(
        shared_data / "ppo_reward_hacking", out, max_size=2_300_000, workers=1
    )
    assert done.size <= 2_300_000
    pages = views(out.read_bytes())
    tokens = packed_in_one_file(out.read_text("utf-8"))
    shown = set()
    for finding in done.verdict.findings:
        shown |= {(ref.step, ref.n) for ref in finding.shown}
    assert len(shown) > 3
    for step in {step for step, _ in shown}:
        rows = json.loads(node(pages[f"steps/{step}"], "rows-data"))
        assert len(rows["n"]) < rows["total"]  # others are left out
        header, _, _ = unpack(tokens[str(step)])
        assert (
            {n for at, n in shown if at == step} <= set(header["n"]) <= set(rows["n"])
        )


@pytest.fixture(scope="module")
def cut(log, tmp_path_factory):
    """One file that leaves out most."""
    out = tmp_path_factory.mktemp("cut") / "run.html"
    return rlreport.build(log, out, max_size=1_300_000, workers=1)


def test_what_it_may_have_is_used(log, cut, tmp_path):
    more = rlreport.build(log, tmp_path / "run.html", max_size=1_600_000, workers=1)
    for done, limit in ((cut, 1_300_000), (more, 1_600_000)):
        assert 0.8 * limit <= done.size <= limit
        assert done.size == len(Path(done.out).read_bytes())
        assert done.left_out


def test_what_is_worth_most_stays_and_the_overview_says_what_went(cut):
    document = cut.out.read_bytes()
    pages = views(document)
    overview = document.partition(b"</main>")[0].decode()
    for sentence in cut.left_out:
        assert sentence in overview
    assert f"300 of {len(cut.tables.prompts):,} prompts listed" in pages["prompts"]
    responses = cut.tables.responses
    assert re.search(
        rf">\d\d+ of {len(responses)} responses of the run", pages["responses"]
    )
    assert pages["prompts"].count("#/prompts?p=") > 40
    steps = cut.tables.steps["step"]
    assert {f"steps/{steps.min()}", f"steps/{steps.max()}"} <= set(pages)
    worst = responses.loc[responses["reward"].idxmin()]
    page = pages[f"steps/{int(worst['step'])}"]
    assert f'<tr data-n="{int(worst["n"])}"' in page
    assert unpack(packed_in_one_file(document.decode())[str(int(worst["step"]))])


@pytest.mark.parametrize("form", ["folder", *in_ci("html")])
def test_when_even_the_least_does_not_fit_it_says_what_would(
    form, tmp_path_factory, tmp_path
):
    log = noise(tmp_path_factory.mktemp("least"), steps=2)
    out = tmp_path / f"run{FORMS[form]}"
    with pytest.raises(
        OutputError, match="--max-size 100 kB: the smallest possible report"
    ) as refused:
        rlreport.build(log, out, max_size=100_000, workers=1)
    assert list(tmp_path.iterdir()) == []
    said = re.search(r"has ([\d,]+) bytes", str(refused.value))
    assert said
    needed = int(said[1].replace(",", ""))
    assert rlreport.build(log, out, max_size=needed, workers=1).size == needed
