"""The examples of the docs are logs that are read as the docs say."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from rlreport import RolloutWriter
from rlreport.read import read_logs
from tests.test_packaging import ROOT


def example():
    """The conversation of docs/log-format.md."""
    text = (ROOT / "docs" / "log-format.md").read_text("utf-8")
    (found,) = re.findall(r"```json\n(.*?)```", text.split("## A conversation with tools")[1], re.S)
    return json.loads(found)


def check_figures(folder):
    (row,) = read_logs([folder]).responses.to_dict("records")
    ratio = np.array(example()["logprobs"]) - np.array(example()["ref_logprobs"])
    sampled = np.array(example()["response_mask"], dtype=bool)
    assert row["kl_k1"] == pytest.approx(ratio[sampled].sum())
    assert row["response_tokens"] == sampled.sum()
    assert row["env_tokens"] == 2
    assert row["tool_calls"] == 1


def test_the_conversation_with_tools_counts_what_the_policy_sampled(tmp_path):
    (tmp_path / "log.jsonl").write_text(json.dumps(example()))
    check_figures(tmp_path)


def test_the_writer_writes_it_as_it_is(tmp_path):
    with RolloutWriter(tmp_path) as writer:
        writer.write(**example())
    check_figures(tmp_path)
