"""The examples of the docs are logs that are read as the docs say."""

import json
import re
from typing import Any

import numpy as np
import pytest

from rlreport import RolloutWriter, formats
from rlreport.read.logs import read_logs
from tests.test_packaging import ROOT


def example():
    """The conversation of docs/log-format.md."""
    text = (ROOT / "docs" / "log-format.md").read_text("utf-8")
    (found,) = re.findall(r"```json\n(.*?)```", text.split("## A conversation with tools")[1], re.S)
    return json.loads(found)


def check_figures(logs):
    (row,) = read_logs([logs]).responses.to_dict("records")
    ratio = np.array(example()["logprobs"]) - np.array(example()["ref_logprobs"])
    sampled = np.array(example()["response_mask"], dtype=bool)
    assert row["kl_k1"] == pytest.approx(ratio[sampled].sum())
    assert row["response_tokens"] == sampled.sum()
    assert row["env_tokens"] == 2
    assert row["tool_calls"] == 1


def test_the_conversation_with_tools_counts_what_the_policy_sampled_and_can_be_written(tmp_path):
    (tmp_path / "log.jsonl").write_text(json.dumps(example()))
    check_figures(tmp_path / "log.jsonl")
    with RolloutWriter(tmp_path / "written") as writer:
        writer.write(**example())
    check_figures(tmp_path / "written")


def data_page():
    return (ROOT / "docs" / "data.md").read_text("utf-8")


def test_the_script_of_the_data_page_prints_verdict_and_extremes(
    real_report, tmp_path, monkeypatch, capsys
):
    (tmp_path / "report").symlink_to(real_report("ppo_reward_hacking"))
    monkeypatch.chdir(tmp_path)
    (script,) = re.findall(r"```python\n(.*?)```", data_page(), re.S)
    exec(script, {})
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Broken: “🎉” appears in 98% of responses")
    largest = [float(line.split()[-1]) for line in said[2:]]
    assert len(largest) == 5
    assert largest == sorted(largest, reverse=True)


def test_the_files_that_the_data_page_names_are_in_a_report(real_report):
    report = real_report("ppo_reward_hacking")
    rows = re.findall(r"^\|[^|]*\| `([^`<]+)`[^|]*\|([^|]*)\|$", data_page(), re.M)
    assert len(rows) > 8
    for name, where in rows:
        if name in ("compare.json", "metrics.csv"):  # of a comparison, of a run with metrics
            continue
        assert (report / "data" / name).is_file(), name
        if name.endswith(".csv"):
            head = (report / "data" / name).read_text("utf-8").partition("\n")[0]
            assert all(f'"{column}"' in head for column in re.findall(r"`(\w+)`", where)), where
        elif name.endswith(".json"):
            text = (report / "data" / name).read_text("utf-8")
            for key in re.findall(r"`([\w.\[\]]+)`", where):
                last = re.split(r"[.\]]+", key.rstrip("[]"))[-1]
                level = last in ("healthy", "unclear", "warning", "critical", "unjudged")
                assert level or f'"{last}"' in text, key


def test_the_format_of_the_extending_page_reads_its_files(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "extending.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(from collections.*?)```", text, re.S)
    space: dict[str, Any] = {}
    exec(code, space)
    monkeypatch.setattr(formats, "_FORMATS", (*formats._FORMATS, space["Lumen"]))
    formats.formats.cache_clear()
    tokens = {"tok": [5, 6], "logp": [-1.0, -0.5], "logp_ref": [-1.5, -1.0]}
    completions = [
        {"text": "4", "score": 1.0, "adv": 0.5, "tries": 2, **tokens},
        {"text": "5", "score": None, "adv": -0.5, "tries": 1, **tokens},
    ]
    for step in (3, 4):
        episodes = [{"prompt": f"{n}+2?", "completions": completions} for n in range(2)]
        log = {"lumen_version": "0.4", "iteration": step, "episodes": episodes}
        (tmp_path / f"iter_{step}.json").write_text(json.dumps(log))
    try:
        scan = read_logs([tmp_path])
    finally:
        formats.formats.cache_clear()
    assert {str(file.why) for file in scan.files} == {"has `iteration` and `episodes`: Lumen 0.4"}
    assert scan.responses["step"].tolist() == [3] * 4 + [4] * 4
    assert scan.responses["reward"].sum() == 4.0
    assert (scan.responses["missing_grade"] > 0).sum() == 4
    assert scan.responses["kl_k1"].tolist() == pytest.approx([1.0] * 8)
    assert scan.responses["group"].nunique() == 4
    assert list(scan.extras.columns) == ["tries"]
    assert not any("unrecognized" in note.text for note in scan.notes)
