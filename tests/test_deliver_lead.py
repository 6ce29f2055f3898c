"""Mail and Markdown lead with what the overview leads with: critical findings and their chart."""

from __future__ import annotations

import email
import email.policy
import json
import re
from pathlib import Path

import numpy as np
import pytest

import rlreport


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a mail and a Markdown report of a run that dies after a gradient explosion."""
    folder = tmp_path_factory.mktemp("lead")
    random = np.random.default_rng(0)
    rewards = np.where(np.arange(120) > 70, 0.01, np.linspace(0.3, 0.8, 120))
    lines = [
        {
            "step": step,
            "reward": reward + random.normal(0, 0.01),
            "entropy": 1 + random.normal(0, 0.01),
            "grad_norm": 480.0 if step in (70, 71) else 1 + abs(random.normal(0, 0.1)),
        }
        for step, reward in enumerate(rewards)
    ]
    log = folder / "metrics.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    for name in ("run.eml", "run.md"):
        rlreport.build(log, folder / name, workers=1)
    (folder / "notes.md").write_text("Long notes.\n\n" * 50)
    rlreport.build(log, folder / "noted.eml", notes=folder / "notes.md", workers=1)
    return folder


def plain(mail: Path) -> str:
    message = email.message_from_bytes(mail.read_bytes(), policy=email.policy.default)
    body = message.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


@pytest.mark.parametrize("name", ["run.eml", "noted.eml"])
def test_the_first_lines_of_a_plain_mail_have_every_critical_finding(folder, name) -> None:
    verdict = rlreport.build(folder / "metrics.jsonl", folder / "again.md", workers=1).verdict
    critical = [f for f in verdict.findings if f.severity == "critical"]
    assert any(f.explained_by for f in critical), "the run needs a critical effect"
    first_lines = "\n".join(plain(folder / name).split("\n")[:8])
    assert verdict.sentence in first_lines
    for finding in critical:
        assert f"- Critical. {finding.title}" in first_lines


def test_the_chart_of_the_verdict_stands_beside_the_reward(folder) -> None:
    markdown = (folder / "run.md").read_text("utf-8")
    visible = markdown.partition("### Charts")[2].partition("<details>")[0]
    assert re.findall(r"run_files/(\w+)\.png", visible) == ["reward", "metric_grad_norm"]
    mail = (folder / "run.eml").read_bytes()
    assert re.findall(rb"Content-ID: <(\w+)@", mail)[:2] == [b"reward", b"metric_grad_norm"]
