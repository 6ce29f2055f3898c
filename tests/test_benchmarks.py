"""Benchmarks that are published: what they compare is computed right."""

import re

import pytest

from benchmarks.generate_log import generate
from benchmarks.peers import __main__ as peers

BOARD = """
import json
import numpy as np
import pandas as pd
import streamlit as st
import plotly.express as px

st.set_page_config(layout="wide")

def load_log_file(folder, most):
    bar = st.progress(0.0, text="reading")
    rows = pd.concat(pd.read_json(path, lines=True) for path in folder.glob("*.jsonl"))
    bar.progress(1.0)
    st.session_state["logging_data"] = {
        step: {"reward": group["reward"].tolist()} for step, group in rows.groupby("step")
    }
    st.session_state["reward_df"] = rows.groupby("step")[["reward"]].mean()
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    generate(folder, rows=60, steps=4, tokens=20)
    return folder


@pytest.fixture
def board(tmp_path):
    """A checkout of a board with the functions that the benchmark calls."""
    (tmp_path / "rl_logging_board.py").write_text(BOARD, "utf-8")
    return tmp_path


def cells(printed):
    lines = re.findall(r"^\| (.*) \|$", printed, re.MULTILINE)
    found = {}
    for line in lines[1:]:
        name, *others = line.split(" | ")
        found[name] = others
    return found


@pytest.fixture
def without_second_build(monkeypatch):
    """Comparisons build one report instead of two, which takes half as long."""
    commands = peers.commands

    def fewer(*arguments):
        chosen = commands(*arguments)
        del chosen[peers.ONE_WORKER]
        return chosen

    monkeypatch.setattr(peers, "commands", fewer)


@pytest.mark.usefixtures("without_second_build")
def test_peers_find_the_means_of_the_report(log, board, capsys):
    options = ["--rlloggingboard", str(board), "--runs", "1"]
    assert peers.main([str(log), *options]) == 0
    printed = capsys.readouterr().out
    rows = cells(printed)
    assert list(rows) == [peers.BUILD, peers.LOADING, peers.PANDAS, peers.FLOOR]
    for cpu, ratio, wall, memory, _ in rows.values():
        assert re.fullmatch(r"\d+\.\d s", cpu) and re.fullmatch(r"\d+\.\d s", wall)
        assert float(ratio) >= 1
        assert re.fullmatch(r"[1-9]\d* MB", memory)
    texts = {peer: row[-1] for peer, row in rows.items()}
    assert re.fullmatch(
        r"verdict: \w+; \d+ pages with 60 responses", texts[peers.BUILD]
    )
    assert re.search(r"mean reward: equal to \de-\d\d$", texts[peers.LOADING])
    assert re.search(r"entropy: equal to \de-\d\d$", texts[peers.PANDAS])
    assert "60 responses" in printed


def test_a_mean_that_differs_is_called_so_and_fails():
    steps = {"step": [0, 1], "reward_mean": [-0.5, 0.25]}
    ours = {"rows": 2, "steps": steps}
    same = {"rows": 2, "means": {"reward_mean": [-0.5, 0.25]}, "text": "mean reward"}
    assert peers.describe(same, ours) == "mean reward: equal to 0e+00"
    other = {**same, "means": {"reward_mean": [-0.5, 0.255]}}
    assert peers.describe(other, ours) == "mean reward: DIFFERENT by 1e-02"
    fewer = {**same, "means": {"reward_mean": [-0.5]}}
    assert peers.describe(fewer, ours).endswith("DIFFERENT by inf")
    lost = {**same, "rows": 1}
    assert peers.describe(lost, ours).endswith("DIFFERENT by inf")
    missing = {**same, "means": {"reward_mean": [-0.5, float("nan")]}}
    assert "DIFFERENT" in peers.describe(missing, ours)
