"""The run's card: what is taken of configurations, and what never is."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

import rlreport
from rlreport.about.card import MOST_ENTRIES, is_secret, run_card
from rlreport.errors import UsageError
from tests.forms import FORMS, everything
from tests.hostile import write_log
from tests.secret_configurations import CASES

CONFIGURATIONS = Path(__file__).parent / "data" / "configurations"

SECRETS: dict[str, str | int] = {
    "api_key": "abc",
    "wandb.api_key": "0123456789abcdef0123456789abcdef01234567",
    "HF_TOKEN": "x",
    "hub_token": "hf_abcdefghijklmnopqrstuvwxyz",
    "db.password": "hunter2",
    "aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "openai": "sk-abcdefghijklmnopqrstuvwx",
    "git": "https://me:pass@example.org/x.git",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "header": "Authorization: Bearer abcdefgh123",
    "pem": "-----BEGIN RSA PRIVATE KEY-----",
    "hook": "https://hooks.example.org/?token=abc",
    "dsn": "anything",
    "slack": "xoxb-1234567890-abcdef",
    "session_id": 12345,
    "pin.passwd": 1234,
    "blob": "QWxhZGRpbjpvcGVuIHNlc2FtZSBhbmQgbW9yZSBzdHVmZg==",
    "run_cmd": "train --api_key=abcdef",
    "github": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
}
SHOWN: dict[str, str | float] = {
    "max_tokens": 512,
    "pad_token": "<pad>",
    "eos_token_id": 2,
    "tokenizer": "Qwen/Qwen2.5-0.5B",
    "lr": 1e-6,
    "data.prompt_key": "question",
    "model.path": "/models/some-organisation/a-model-with-a-rather-long-name-7b",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "loss": "token_level",
    "use_kl_loss": True,
    "author": "me",
    "authors": "Ann, Bob",
    "git.dirty": False,
    "summarize_at_tokens": 98304,
    "actor.ppo_max_token_len_per_gpu": 16384,
    "token_ids.think_close": 13,
    "stop_token_ids": "151643, 151645",
    "train_mb_tokens": "${mul:${policy.max_len}, ${..batch_size}}",
    "additional_special_tokens": "<think>, </think>",
    "moe_token_dispatcher_type": "alltoall",
    "pass_at_k": 8,
    "bypass_mode": "strict",
    "keywords": "math, code",
    "data.enable_thinking_key": "enable_thinking",
    "api_key": "EMPTY",
    "judge.api_key": "${oc.env:JUDGE_API_KEY}",
    "api_key_var": "PRIME_API_KEY",
    "forward_env": "HF_TOKEN, WANDB_API_KEY",
    "private_key_file": "/etc/keys/id",
    "command": "train --max_tokens 512 --input_key question --api_key $API_KEY --lr 1e-6",
    "wandb.run_id": "3f9c1d8e-7b2a-4c6d-9e0f-5a1b8c7d2e34",
    "cache": "/hub/models--Qwen--Qwen2.5-7B/snapshots/a09a35458c702b33eeacc393d103063234e8bc28",
    "image": "example/verl@sha256:" + "0f1e2d3c" * 8,
    "store": "abfss://runs@lake.example.org/grpo",
    "run_name": "DeepSeek-R1-Distill-Qwen-7B-grpo-lr1e-6-b256-s1-2025-01-02T10-11-12",
    "target_modules": "q_proj, key, value",
    "system_prompt": "Reason step by step, then give the key: one word, in <answer> tags.",
}


@pytest.mark.parametrize("name", SECRETS)
def test_what_looks_like_a_secret_never_reaches_the_card(name, tmp_path):
    assert is_secret(name, SECRETS[name])
    (tmp_path / "config.json").write_text(json.dumps({"outer": {name: SECRETS[name]}}))
    card = run_card([tmp_path])
    assert card.hidden == 1
    assert str(SECRETS[name]) not in json.dumps(card.as_json())


@pytest.mark.parametrize("name", SHOWN)
def test_what_only_sounds_like_one_is_shown(name):
    assert not is_secret(name, SHOWN[name])


def test_files_beside_the_logs_are_found_and_flattened(tmp_path):
    logs = tmp_path / "rollouts"
    logs.mkdir()
    (tmp_path / "config.yaml").write_text("algorithm:\n  kl_coef: 0.001\n  gpus: [0, 1]\n名: 值\n")
    card = run_card([logs])
    assert card.entries == {"algorithm.kl_coef": 0.001, "algorithm.gpus": "0, 1", "名": "值"}
    assert card.sources == ["config.yaml"]


def test_given_files_win_over_found_ones_and_meta_over_both(tmp_path):
    (tmp_path / "config.json").write_text('{"lr": 1}')
    given = tmp_path / "mine.toml"
    given.write_text("lr = 2\nsteps = 5\n")
    card = run_card([tmp_path], configs=[given], meta={"lr": "3"})
    assert card.entries == {"lr": "3", "steps": 5}
    assert card.sources == ["mine.toml", "--meta"]


def test_a_broken_file_that_was_found_is_a_note_and_one_that_was_given_an_error(tmp_path):
    broken = tmp_path / "config.json"
    broken.write_text("{")
    assert "config.json" in run_card([tmp_path]).notes[0]
    with pytest.raises(UsageError, match=r"config\.json"):
        run_card([tmp_path], configs=[broken])


def test_anchors_that_multiply_or_refer_to_themselves_end(tmp_path):
    bomb = "a: &a {x: 1}\n"
    for i in range(20):
        known, name = chr(97 + i), chr(98 + i)
        bomb += f"{name}: &{name} {{p: *{known}, q: *{known}, r: *{known}}}\n"
    (tmp_path / "config.yaml").write_text(bomb)
    assert len(run_card([tmp_path]).entries) <= MOST_ENTRIES
    (tmp_path / "config.yaml").write_text("a: &a\n  b: *a\n  lr: 1\n")
    assert len(run_card([tmp_path]).entries) <= MOST_ENTRIES


def test_python_objects_in_yaml_are_never_made(tmp_path):
    (tmp_path / "config.yaml").write_text("x: !!python/object/apply:os.system ['true']\n")
    card = run_card([tmp_path])
    assert not card.entries
    assert card.notes


def test_a_list_of_environment_variables_is_told_by_its_names(tmp_path):
    env = [{"name": "API_KEY", "value": "hush"}, {"name": "SEED", "value": "1"}]
    (tmp_path / "config.json").write_text(json.dumps({"env": env}))
    card = run_card([tmp_path])
    assert card.entries == {"env.1.SEED": "1"}
    assert card.hidden == 1


@pytest.mark.parametrize("text", ["password: *hunter2", "password: 'hunter2", "a: !hunter2 x"])
def test_why_a_file_cannot_be_read_quotes_nothing_of_it(text, tmp_path):
    (tmp_path / "config.yaml").write_text(text)
    card = run_card([tmp_path])
    assert card.notes
    assert "hunter2" not in card.notes[0]


def test_numbers_too_large_for_json_are_said_in_words(tmp_path):
    (tmp_path / "config.yaml").write_text(f"a: 0x{'f' * 20000}\nb: 0x{'f' * 20}\n")
    said = run_card([tmp_path]).entries.values()
    assert list(said) == ["a whole number of 80,000 bits", "a whole number of 80 bits"]


def test_logs_with_a_configuration_each_have_no_card_in_common(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"lr": 1}')
    assert not run_card([tmp_path / "a", tmp_path / "b"]).entries


@pytest.mark.parametrize(("suffix", "text", "secrets"), CASES)
def test_secrets_are_withheld_in_every_shape_of_configuration(suffix, text, secrets, tmp_path):
    given = tmp_path / f"config{suffix}"
    given.write_text(text, "utf-8")
    card = run_card([], configs=[given])
    assert secrets
    assert card.hidden
    held = json.dumps(card.as_json(), ensure_ascii=False)
    assert [secret for secret in secrets if secret in held] == []


WITHHELD = {
    "nemo_rl.yaml": [],
    "openrlhf.json": ["logger.wandb.key"],
    "prime_rl.toml": ["orchestrator.teacher.client.headers.Authorization"],
    "trl.json": ["hub_token"],
    "verl.yaml": [],
}


@pytest.mark.parametrize("name", WITHHELD)
def test_configurations_of_frameworks_lose_their_secrets_only(name, monkeypatch):
    withheld = []

    def recorded(name, value):
        withheld.extend([name] if is_secret(name, value) else [])
        return is_secret(name, value)

    monkeypatch.setattr("rlreport.about.card.is_secret", recorded)
    card = run_card([], configs=[CONFIGURATIONS / name])
    assert withheld == WITHHELD[name]
    assert (card.hidden, card.cut) == (len(withheld), 0)
    assert len(card.entries) > 40


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_report_holds_a_secret_and_pages_show_the_card(form, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    rows = [
        {"step": s, "prompt": "p", "response": f"r {s} {n}", "reward": n}
        for s in range(3)
        for n in range(4)
    ]
    write_log(logs / "a.jsonl", rows)
    # Short values and words stand by chance in any page.
    plain = {k: len(str(v)) < 8 or str(v).isalpha() for k, v in SECRETS.items()}
    hidden = {k: f"{v}-hush-{i}" if plain[k] else v for i, (k, v) in enumerate(SECRETS.items())}
    marked = {f"{i}.{k}": v for i, (k, v) in enumerate(hidden.items())}
    config = {"algorithm": {"kl_coef": 0.0625, "note": "<script>alert(1)</script>"}, **marked}
    (logs / "config.json").write_text(json.dumps(config))
    configs = [logs / "config.json"]
    for i, (suffix, text, _) in enumerate(CASES):
        configs.append(tmp_path / f"{i}{suffix}")
        configs[-1].write_text(text, "utf-8")
    out = tmp_path / f"report{FORMS[form]}"
    meta = {"cluster": "blue", "wandb_api_key": "meta-hush"}
    rlreport.build(logs, out, config=configs, meta=meta, workers=1)
    whole = everything(out).decode("utf-8", "replace")
    whole += html.unescape(whole)
    secrets = [*map(str, hidden.values()), "meta-hush", *(s for case in CASES for s in case[2])]
    assert len(secrets) > 100
    assert [secret for secret in secrets if secret in whole] == []
    if form in ("folder", "html"):
        assert "algorithm:\n  kl_coef: 0.0625" in whole
        assert "omitted as likely secrets" in whole
        assert "cluster: blue" in whole


def test_a_redacted_card_has_no_prose_and_one_without_names_nothing(tmp_path):
    logs = tmp_path / "a.jsonl"
    logs.write_text('{"step": 0, "prompt": "p", "response": "r", "reward": 1}\n' * 4)
    texts = {
        "system_prompt": "Think",
        "note": "two words",
        "remark": "请逐步思考，然后给出答案",
        "label": "数学",
        "thai": "คิดทีละขั้นตอน",
        "notes": ["思考", "回答"],
        "encoded": "Think%20twice",
    }
    kept = {"lr": 1, "学习率": 2, "gpus": "0, 1", "model": "Qwen/Qwen2.5-0.5B", "mode": "grpo"}
    (tmp_path / "config.json").write_text(json.dumps({**texts, **kept}))
    cases: list[tuple[Any, dict[str, object]]] = [
        (True, {**dict.fromkeys(texts, "[text]"), **kept}),
        ("names", {}),
    ]
    for redact, shown in cases:
        rlreport.build(logs, tmp_path / "out", redact=redact, workers=1)
        told = json.loads((tmp_path / "out/data/report.json").read_text())["card"]
        assert told["entries"] == shown


def test_a_finding_names_the_settings_that_it_would_change(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    rows = [
        {
            "step": step, "prompt": f"p{i}", "response": "a b", "reward": 0.1 * (i % 3),
            "response_tokens": ["a", "b"] * 20, "logprobs": [-0.1] * 40,
            "ref_logprobs": [-0.1 - 0.3 * step] * 40,
        }
        for step in range(12)
        for i in range(8)
    ]  # fmt: skip
    write_log(folder / "log.jsonl", rows)
    (folder / "config.yaml").write_text(
        "algorithm:\n  kl_coef: 0.05\n  other: 3\nactor:\n  lr: 1e-6\n  beta: yes\n"
    )
    report = rlreport.build(folder, tmp_path / "report", workers=1)
    found = {f.id: f.suggestion for f in report.verdict.findings}
    said = "This run had algorithm.kl_coef = 0.05, actor.lr = 1e-6."
    assert found["kl_explosion"].endswith(said)
    assert said in (tmp_path / "report" / "index.html").read_text("utf-8")
    hidden = rlreport.build(folder, tmp_path / "names", redact="names", workers=1)
    assert "This run had" not in "".join(f.suggestion for f in hidden.verdict.findings)
