"""--redact leaves the words out of every form; figures, lengths and hashes stay."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rlreport
from tests.forms import FORMS, everything
from tests.hostile import write_log

SECRET = re.compile(rb"[a-z]*qzxwv[a-z]*")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log in which every text of prompts, responses, tokens and labels holds ``qzxwv``.

    A text spreads with the reward, so that a finding has n-grams to tell of.
    """
    random = np.random.default_rng(0)
    words = [f"{a}{b}qzxwv{a}" for a in "bcdfghjklm" for b in "aeiou"]
    rows = []
    for step in range(30):
        for i in range(24):
            tokens = [words[k] for k in random.integers(0, len(words), 12)]
            holds = random.random() < step / 30
            tokens += ["hackqzxwvword"] * 2 * holds
            count = len(tokens)
            rows.append(
                {
                    "step": step,
                    "prompt": f"askqzxwv {words[i % 7]} <|im_start|>user\nturnqzxwv<|im_end|>",
                    "response": " ".join(tokens),
                    "reward": float(random.normal(scale=0.2)) + holds,
                    "response_tokens": tokens,
                    "logprobs": (-random.exponential(1, count)).tolist(),
                    "ref_logprobs": (-random.exponential(1, count)).tolist(),
                    "values": [0.1] * count,
                    "token_rewards": [0.0] * count,
                    "ref_response": f"referenceqzxwv {words[i]}",
                    "ref_reward": 0.0,
                    "ground_truth": f"labelqzxwv{i}",
                    "group_id": f"groupqzxwv{i // 8}",
                    "source": f"sourceqzxwv{i}",
                }
            )
    rows.append({"step": 1, "prompt": "p", "response": "r", "reward": "notqzxwv a number"})
    return write_log(tmp_path_factory.mktemp("redact") / "log.jsonl", rows)


@pytest.mark.parametrize("form", FORMS)
def test_no_word_of_the_logs_is_in_any_form(form, log, tmp_path):
    out = tmp_path / f"run{FORMS[form]}"
    done = rlreport.build(log, out, redact=True, workers=1)
    assert done.verdict.findings
    assert set(SECRET.findall(everything(out))) == set()


def test_the_words_are_there_otherwise(log, tmp_path):
    done = rlreport.build(log, tmp_path / "run.html", workers=1)
    held = set(SECRET.findall(everything(tmp_path / "run.html")))
    assert {
        b"askqzxwv",
        b"turnqzxwv",
        b"hackqzxwvword",
        b"referenceqzxwv",
        b"labelqzxwv",
        b"sourceqzxwv",
    } <= held
    assert any("hackqzxwvword" in finding.title for finding in done.verdict.findings)


def test_figures_findings_and_lengths_stay(log, tmp_path):
    plain = rlreport.build(log, tmp_path / "plain.html", workers=1)
    hidden = rlreport.build(log, tmp_path / "hidden.html", redact=True, workers=1)
    assert hidden.tables.steps.equals(plain.tables.steps)
    assert hidden.tables.responses.equals(plain.tables.responses)
    assert [f.id for f in hidden.verdict.findings] == [f.id for f in plain.verdict.findings]
    assert re.search(rb"\[\d+ characters, [0-9a-f]{16}\]", everything(tmp_path / "hidden.html"))
