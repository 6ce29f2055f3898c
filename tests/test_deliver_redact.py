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


@pytest.fixture(scope="module")
def plain(log, tmp_path_factory):
    return rlreport.build(log, tmp_path_factory.mktemp("plain") / "run.html", workers=1)


@pytest.fixture(scope="module", params=FORMS)
def hidden(request, log, tmp_path_factory):
    out = tmp_path_factory.mktemp("hidden") / f"run{FORMS[request.param]}"
    return rlreport.build(log, out, redact=True, workers=1)


def test_no_word_of_the_logs_is_in_any_form(hidden):
    assert hidden.verdict.findings
    assert set(SECRET.findall(everything(hidden.out))) == set()


@pytest.mark.untraced
def test_figures_findings_and_lengths_stay(hidden, plain):
    assert hidden.tables.steps.equals(plain.tables.steps)
    assert hidden.tables.responses.equals(plain.tables.responses)
    assert [f.id for f in hidden.verdict.findings] == [f.id for f in plain.verdict.findings]
    assert re.search(rb"\[\d+ characters, [0-9a-f]{16}\]", everything(hidden.out))


def test_the_words_are_there_otherwise(plain):
    held = set(SECRET.findall(everything(plain.out)))
    assert {
        b"askqzxwv",
        b"turnqzxwv",
        b"hackqzxwvword",
        b"referenceqzxwv",
        b"labelqzxwv",
        b"sourceqzxwv",
    } <= held
    assert any("hackqzxwvword" in finding.title for finding in plain.verdict.findings)
