"""The head of a report: which model was trained, when, for how long, and at which commit."""

import pytest

import rlreport
from rlreport.about.identity import commit_of, model_of, short_model
from tests.reading import row, write

COMMIT = "59b009e8aabbccddeeff0011223344556677889900"


@pytest.mark.parametrize(
    "entries",
    [
        {"model_name_or_path": "Qwen/Q-1B", "reward_model": "other/rm"},
        {"model": "Qwen/Q-1B", "ref_model": "other/ref", "judge.model": "gpt"},
        {
            "actor_rollout_ref.model.path": "Qwen/Q-1B",
            "critic.model.path": "other/critic",
            "reward_model.model.path": "other/rm",
        },
        {"policy.model_name": "Qwen/Q-1B", "policy.tokenizer.name": "other/tok"},
        {
            "trainer.policy.model.path": "Qwen/Q-1B",
            "trainer.ref.model.path": "other/ref",
        },
        {"actor_train.model_args.model_name_or_path": "Qwen/Q-1B"},
        {"model.name": "Qwen/Q-1B", "model.type": "causal"},
        {"hf_checkpoint": "Qwen/Q-1B", "ref_load": "other/ref"},
    ],
)
def test_the_trained_model_is_found_among_others(entries):
    assert model_of(entries) == "Qwen/Q-1B"


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"reward.model_name_or_path": "other/rm", "teacher.model": "big"},
        {"model_name": "first/one", "model_path": "/data/second"},
        {"model": "[text]"},
        {"model": "a prompt that somebody named a model"},
        {"model": 7},
        {"lora.base_model_type": "x"},
    ],
)
def test_a_model_that_is_not_certain_is_left_out(entries):
    assert model_of(entries) == ""


def test_a_model_is_shown_without_the_folders_of_a_machine():
    assert short_model("Qwen/Q-1B") == "Qwen/Q-1B"
    assert short_model("/home/me/models/Q-1B/") == "Q-1B"
    assert short_model("~/models/Q-1B") == "Q-1B"
    assert short_model(r"C:\models\Q-1B") == "Q-1B"
    cached = "/root/.cache/hub/models--Qwen--Q-1B/snapshots/0123abcd"
    assert short_model(cached) == "Qwen/Q-1B"
    assert len(short_model("x" * 300)) == 60


def test_a_commit_is_that_of_the_run():
    assert commit_of({"git.commit": COMMIT, "lr": 1}) == COMMIT
    assert commit_of({"git_sha": COMMIT.upper()}) == COMMIT
    # Of a model of the hub; no hash; two that differ
    assert commit_of({"model._commit_hash": COMMIT}) == ""
    assert commit_of({"commit": "main"}) == ""
    assert commit_of({"git.commit": COMMIT, "git_sha": COMMIT[::-1]}) == ""


@pytest.fixture
def logs(tmp_path):
    rows = []
    for step in range(6):
        one = row(step, timestamp=1_793_613_600 + 60 * step, reward=float(step))
        rows += [one] * 4
    write(tmp_path / "logs" / "log.jsonl", rows)
    config = f'{{"model_name": "/home/anna/models/Q-1B", "git_commit": "{COMMIT}"}}'
    (tmp_path / "logs" / "config.json").write_text(config)
    return tmp_path / "logs"


def head_of(logs, out, **options):
    rlreport.build(logs, out, workers=1, **options)
    html = (out / "index.html").read_text("utf-8")
    return html.partition('<div class="about">')[2].partition("<details")[0]


def test_the_overview_begins_with_what_the_run_was(logs, tmp_path):
    head = head_of(logs, tmp_path / "run")
    for text in ("Q-1B", "2026-11-02 10:00 to 10:05 UTC", "5 min 0 s", COMMIT[:8]):
        assert text in head
    assert "anna" not in head.replace('title="/home/anna/models/Q-1B"', "")


def test_hidden_names_hide_the_model_and_the_commit(logs, tmp_path):
    head = head_of(logs, tmp_path / "run", redact="names")
    assert "Q-1B" not in head and COMMIT[:8] not in head
    assert "2026-11-02" in head
