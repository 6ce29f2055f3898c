"""What is told of a run: its card without secrets, and whether the logs are several runs."""

import html
import json
import re
from itertools import product
from pathlib import Path

import pytest

import rlreport
from rlreport.about.card import MOST_ENTRIES, run_card
from rlreport.about.several_runs import several_runs
from rlreport.errors import UsageError
from rlreport.flows.build import check_logs
from rlreport.options import BuildOptions
from rlreport.summarise.run import summarise
from rlreport.tables import NoteKind
from rlreport.text.secrets import is_secret
from tests.forms import OTHERS, everything
from tests.reading import read, row, write
from tests.running import build

SNIPPETS: dict[str, tuple[str, ...]] = {
    ".yaml": (
        # Names: nested, abbreviated, in several languages, above a list or a mapping.
        "api_key: «otter41hush»",
        "mdp: «otter110hush»",
        "note: the password is «otter111hush»",
        "Authorization: «otter42hush»",
        "headers:\n  Authorization: Token «otter43hush»",
        "headers: {X-Api-Key: «otter44hush», Cookie: «sid=otter45hush»}",
        "api_tokens: [«otter46hush», «otter47hush»]",
        "smtp_pass: «otter48hush»",
        "MYSQL_PWD: «otter49hush»",
        "cluster: {storage_creds: «otter50hush»}",
        "redis: {auth: «otter51hush»}",
        "PGPASSWORD: «otter52hush»",
        "sshPrivateKeyPassphrase: «otter53hush»",
        "wandb: {apikey: «otter54hush»}",
        "hub_token: «otterhush»x",
        "secrets: {wandb: «otter55hush», judges: [«otter56hush»]}",
        "credentials:\n  user: bob\n  id: «771177»",
        "login_pin: «994499»",
        "auth_token: «88448844»",
        "密码: «otter57hush»",
        "judge: {访问令牌: «otter58hush»}",
        "tokens: {judge: «otter59hush»}",
        "author_token: «otter60hush»",
        "tokenizer_api_key: «otter61hush»",
        "max_tokens_key: «otter62hush»",
        "dsn: «otter106hush»",
        "session_id: «123445678»",
        "pin: {passwd: «661234567»}",
        "api_key: ${oc.env:API_KEY,«otter63hush»}",
        "judge_key: ${API_KEY:-«otter64hush»}",
        # Pairs of a name and its value.
        "env: [{name: API_KEY, value: «otter65hush»}, {name: SEED, value: 1}]",
        "env: [{key: API_KEY, value: «otter66hush»}]",
        "env: [{Key: DB_PWD, Value: «otter67hush»}]",
        "env: [{variable: HF_TOKEN, val: «otter68hush»}]",
        "headers: [[Authorization, «otter69hush»], [Accept, text/html]]",
        "env: [[DB_PASSWORD, «otter70hush»]]",
        "inputs: [{type: password, value: «otter71hush»}]",
        "env: [{name: password, data: «otter112hush»}, {k: API_KEY, v: «otter113hush»}]",
        # Lists and command lines.
        "env: [TOKEN, «otter114hush»]",
        "header: ['Authorization:', Bearer, «otter115hush»]",
        "args: [[train.py], [--password], [«otter116hush»]]",
        "args: [{lr: 1}, --api-key, «otter117hush»]",
        "env: [DB_PASSWORD=«otter72hush», SEED=1]",
        "env: ['HF_TOKEN=«otter73hush»']",
        "args: [--judge, http, --api-key, «otter74hush», --lr, '1e-6']",
        "args: ['--api-key=«otter75hush»']",
        "command: python train.py --hub_token «otter76hush» --lr 1e-6",
        "command: WANDB_API_KEY=«otter77hush» python train.py",
        "command: 'curl -H \"Authorization: token «otter78hush»\" host'",
        "command: curl -u bob:«otter79hush» https://example.org",
        "command: sshpass -p «otter80hush» ssh host",
        "command: train +judge.api_key=«otter81hush» lr=1",
        "setup: export SMTP_PASS='«otter82hush»'",
        "setup: |\n  machine example.org login bob password «otter83hush»",
        "dockerfile: ENV DB_PWD «otter84hush»",
        "run_cmd: train --api_key=«otter107hush»",
        # Texts that are configurations themselves.
        'judge: \'{"api_key": "«otter85hush»"}\'',
        'judge: \'{"key": "API_KEY", "value": "«otter86hush»"}\'',
        "judge: \"{'password': '«otter87hush»'}\"",
        "hadoop: <password>«otter88hush»</password>",
        "dotenv: |\n  SEED=1\n  DB_PASSWORD = «otter89hush»",
        # URLs and connection strings.
        "url: https://example.org/x?access_token=«otter90hush»&page=1",
        "url: https://example.org/x?page=1&sig=«otter91hush»",
        "url: https://b.example.org/x?X-Amz-Signature=«otter92hush»",
        "remote: https://bob:«otter93hush»@example.org/x.git",
        "remote: https://«otter94hush»@example.org/x.git",
        "remote: //bob:«otter118hush»@example.org/x.git",
        "tracker: postgresql+psycopg2://bob:«otter95hush»@db:5432/runs",
        "broker: redis://:«otter96hush»@cache:6379/0",
        "store: Server=db;Uid=bob;Pwd=«otter97hush»;",
        "store: AccountName=runs;AccountKey=«b3R0ZXI5OGh1c2g=»;EndpointSuffix=example.org",
        "broker: amqp bob:«otter99hush»@mq.example.org:5672",
        "hook: https://hooks.example.org/?token=«otter108hush»",
        "notify: https://hooks.example.org/services/T012/B345/«pQ7rXz29LmKd84TvWy61NcBa»",
    ),
    ".json": (
        # Shapes of well-known services, under names that say nothing.
        '{"a": "«sk-proj-abcdefgh01234567ijkl»"}',
        '{"a": "«sk-abcdefghijklmnopqrstuvwx»"}',
        '{"a": "«hf_abcdefghijklmnopqrstuvwxyz»"}',
        '{"a": {"b": "«ghp_abcdefghijklmnopqrstuvwxyz0123456789»"}}',
        '{"a": "«AKIAIOSFODNN7EXAMPLE»"}',
        '{"a": "«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»"}',
        '{"a": "«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl»"}',
        '{"a": "«xoxb-1234567890-abcdefghij»"}',
        '{"a": "«AIzaSyA-1234567890abcdefghijklmnopqrstu»"}',
        '{"a": "nvapi-«abcdEFGH1234ijklMNOP5678»"}',
        '{"a": "gsk_«abcdEFGH1234ijklMNOP5678»"}',
        '{"a": "refused: Incorrect API key provided: «otter112hush». See the docs"}',
        """{"a": "the access token '«otter113hush»' is not valid"}""",
        '{"a": "Bearer «otter100hush»"}',
        '{"a": "Basic «Ym9iOm90dGVyMTAxaHVzaA==»"}',
        '{"a": "Basic «dXNlcjpwYXNz»"}',
        '{"a": "-----BEGIN PRIVATE KEY-----\\n«MIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8»"}',
        # No more than high entropy.
        '{"blob": "«QWxhZGRpbjpvcGVuIHNlc2FtZSBhbmQgbW9yZSBzdHVmZg==»"}',
        '{"a": "«0123456789abcdef0123456789abcdef01234567»"}',
        '{"a": ["x", "«f4b19c07d2e85a6311c09e7f4d2b8a50»"]}',
        '{"note": "use «kX9mP2vQ7wL4nR8tY6sD» for the judge"}',
        '{"path": "/etc/«Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1u»"}',
        '{"bot": "7123456789:«AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1»"}',
        '{"a": "«3f9c1d8e-7b2a-4c6d-9e0f-5a1b8c7d2e34»"}',
        '{"a": "«Tr0ub4dor&3x»"}',
        '{"«sk-proj-zyxwvutsrq98765432»": true}',
        '{"«kQ3vN8xR2mT7wL5pY9sB»": {"lr": 1}}',
    ),
    ".toml": (
        'hf_tokens = ["«otter102hush»"]',
        '[judge]\nsecret_key = "«otter103hush»"',
        '[[env]]\nname = "DB_PASSWD"\nvalue = "«otter104hush»"',
        "[database]\npin = «556655»",
        'url = "https://example.org/hook?password=«otter105hush»"',
    ),
}
"""Suffix -> configuration files."""

_MARKED = re.compile("«(.+?)»")

# (suffix, configuration, the secrets in it)
CASES: list[tuple[str, str, tuple[str, ...]]] = []
for _suffix, _snippets in SNIPPETS.items():
    for _snippet in _snippets:
        _secrets = tuple(_MARKED.findall(_snippet))
        CASES.append((_suffix, re.sub("[«»]", "", _snippet), _secrets))


CONFIGURATIONS = Path(__file__).parent / "data" / "configurations"

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
    "levels": "token, sequence",
    "note": "PASS rate of Basic TensorFlow",
    "system_prompt": "Reason step by step, then give the key: one word, in <answer> tags.",
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_only_sounds_like_one_is_shown(name):
    assert not is_secret(name, SHOWN[name])


def test_files_beside_the_logs_are_found_and_flattened(tmp_path):
    logs = tmp_path / "rollouts"
    logs.mkdir()
    (tmp_path / "config.yaml").write_text(
        "algorithm:\n  kl_coef: 0.001\n  gpus: [0, 1]\n名: 值\n"
    )
    card = run_card([logs])
    assert card.entries == {
        "algorithm.kl_coef": 0.001,
        "algorithm.gpus": "0, 1",
        "名": "值",
    }
    assert card.sources == ["config.yaml"]


def test_a_name_and_a_value_among_other_settings_are_all_shown(tmp_path):
    run = {"name": "run 1", "value": 0.5, "lr": 1e-6, "loss_agg_mode": "token-mean"}
    (tmp_path / "config.json").write_text(json.dumps(run))
    assert run_card([tmp_path]).entries == run


def test_given_files_win_over_found_ones_and_meta_over_both(tmp_path):
    (tmp_path / "config.json").write_text('{"lr": 1}')
    given = tmp_path / "mine.toml"
    given.write_text("lr = 2\nsteps = 5\n")
    card = run_card([tmp_path], configs=[given], meta={"lr": "3"})
    assert card.entries == {"lr": "3", "steps": 5}
    assert card.sources == ["mine.toml", "--meta"]


def test_a_broken_file_that_was_found_is_a_note_and_one_that_was_given_an_error(
    tmp_path,
):
    broken = tmp_path / "config.json"
    broken.write_text("{")
    assert "config.json" in run_card([tmp_path]).notes[0]
    with pytest.raises(UsageError, match=r"config\.json"):
        run_card([tmp_path], configs=[broken])


def test_anchors_that_multiply_or_refer_to_themselves_end(tmp_path):
    bomb = "a: &a {x: 1}\n"
    for i in range(20):
        known = chr(97 + i)
        name = chr(98 + i)
        bomb += f"{name}: &{name} {{p: *{known}, q: *{known}, r: *{known}}}\n"
    (tmp_path / "config.yaml").write_text(bomb)
    assert len(run_card([tmp_path]).entries) <= MOST_ENTRIES
    (tmp_path / "config.yaml").write_text("a: &a\n  b: *a\n  lr: 1\n")
    assert len(run_card([tmp_path]).entries) <= MOST_ENTRIES


@pytest.mark.parametrize(
    "text",
    [
        "password: *hunter2",
        "password: 'hunter2",
        "a: !hunter2 x",
        "x: !!python/object/apply:os.system ['hunter2']",
    ],
)
def test_a_file_that_cannot_be_read_has_no_effect_and_is_not_quoted(text, tmp_path):
    (tmp_path / "config.yaml").write_text(text)
    card = run_card([tmp_path])
    assert card.notes and not card.entries
    assert "hunter2" not in card.notes[0]


def test_numbers_too_large_for_json_are_said_in_words(tmp_path):
    (tmp_path / "config.yaml").write_text(f"a: 0x{'f' * 20000}\nb: 0x{'f' * 20}\n")
    said = run_card([tmp_path]).entries.values()
    assert list(said) == ["an integer of 80,000 bits", "an integer of 80 bits"]


def test_logs_with_a_configuration_each_have_no_card_in_common(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"lr": 1}')
    assert not run_card([tmp_path / "a", tmp_path / "b"]).entries


@pytest.mark.parametrize(("suffix", "text", "secrets"), CASES)
def test_secrets_are_withheld_in_every_shape_of_configuration(
    suffix, text, secrets, tmp_path
):
    given = tmp_path / f"config{suffix}"
    given.write_text(text, "utf-8")
    card = run_card([], configs=[given])
    assert secrets
    assert card.secrets
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
def test_configurations_of_frameworks_lose_their_secrets_only(name):
    card = run_card([], configs=[CONFIGURATIONS / name])
    assert (sorted(card.secrets), card.cut) == (WITHHELD[name], 0)
    assert len(card.entries) > 40


@pytest.mark.parametrize("form", OTHERS)
def test_no_form_of_a_report_holds_a_secret_and_pages_show_the_card(form, tmp_path):
    logs = write_rows(tmp_path / "logs" / "a.jsonl", range(3), 1).parent
    config = {"algorithm": {"kl_coef": 0.0625, "note": "<script>alert(1)</script>"}}
    (logs / "config.json").write_text(json.dumps(config))
    configs = [logs / "config.json"]
    for i, (suffix, text, _) in enumerate(CASES):
        configs.append(tmp_path / f"{i}{suffix}")
        configs[-1].write_text(text, "utf-8")
    out = tmp_path / f"report{OTHERS[form]}"
    meta = {"cluster": "blue", "wandb_api_key": "meta-hush"}
    rlreport.build(logs, out, config=configs, meta=meta, workers=1)
    whole = everything(out).decode("utf-8", "replace")
    whole += html.unescape(whole)
    secrets = ["meta-hush"]
    for _, _, found in CASES:
        secrets += found
    assert len(secrets) > 90
    assert [secret for secret in secrets if secret in whole] == []
    if form in ("folder", "html"):
        assert "algorithm:\n  kl_coef: 0.0625" in whole
        assert "omitted as likely secrets" in whole
        assert "cluster: blue" in whole


@pytest.mark.parametrize("redact", [True, "names"])
def test_a_redacted_card_has_no_prose_and_one_without_names_nothing(redact, tmp_path):
    logs = write(tmp_path / "a.jsonl", [row()] * 4)
    texts = {
        "system_prompt": "Think",
        "note": "two words",
        "remark": "请逐步思考，然后给出答案",
        "label": "数学",
        "thai": "คิดทีละขั้นตอน",
        "notes": ["思考", "回答"],
        "encoded": "Think%20twice",
    }
    kept = {
        "lr": 1,
        "学习率": 2,
        "gpus": "0, 1",
        "model": "Qwen/Qwen2.5-0.5B",
        "mode": "grpo",
    }
    (tmp_path / "config.json").write_text(json.dumps({**texts, **kept}))
    rlreport.build(logs, tmp_path / "out", redact=redact, workers=1)
    told = json.loads((tmp_path / "out/data/report.json").read_text())["card"][
        "entries"
    ]
    assert told == (
        {} if redact == "names" else {**dict.fromkeys(texts, "[text]"), **kept}
    )


def write_rows(path, steps, reward, prompt="p"):
    return write(path, [row(step, prompt=prompt, reward=reward) for step in steps])


def folders(root, *names):
    for i, name in enumerate(names):
        write_rows(root / name / "a.jsonl", (0, 1), i)
    return root


def mixed(*logs):
    """Return what is told of logs that look like several runs."""
    note = several_runs(logs, summarise(read(*logs)))
    return note.text if note else ""


def reported(out, logs, **options):
    """Return what a report tells of several runs, which is a warning, too."""
    report = rlreport.build(logs, out / "out.md", workers=1, **options)
    found = {finding.id: finding.severity for finding in report.verdict.findings}
    told = [
        note.text for note in report.tables.notes if note.kind == NoteKind.SEVERAL_RUNS
    ]
    assert found.get("mixed_runs") == ("warning" if told else None)
    return " ".join(told)


def test_two_runs_are_told_beside_the_verdict_and_on_the_data_page(tmp_path):
    logs = folders(tmp_path / "logs", "kl_low", "kl_high")
    out = tmp_path / "out"
    said = "kl_high/, kl_low/ look like 2 runs"
    assert said in build(logs, out).stderr
    for page in ("index.html", "data.html"):
        text = (out / page).read_text()
        assert said in text
        assert "rlreport index" in text
        assert "rlreport compare" in text
    assert not reported(tmp_path, logs, merge=True)
    assert reported(tmp_path, [logs / "kl_low", logs / "kl_high"])
    assert "look like 2 runs" in (tmp_path / "out.md").read_text()
    assert "kl_low" not in reported(tmp_path, logs, redact="names")


def test_runs_of_different_lengths_are_several_runs(tmp_path):
    for name, steps in (("low", 20), ("high", 5)):
        write_rows(tmp_path / "folders" / name / "a.jsonl", range(steps), 1)
        write_rows(tmp_path / "files" / f"lr_{name}.jsonl", range(steps), 1)
    assert "high/, low/ look like 2 runs, as they share 5 steps" in mixed(
        tmp_path / "folders"
    )
    assert "look like 2 runs, as their steps overlap" in mixed(tmp_path / "files")


def test_two_runs_in_one_folder_are_not_judged_and_the_sentence_says_what_to_do(
    tmp_path,
):
    logs = tmp_path / "logs"
    for name, change in (
        ("kl_low", 1),
        ("kl_high", -1),
    ):  # one learns, the other unlearns
        rows = [
            row(s, prompt=f"p{n}", reward=n + change * s)
            for s, n in product(range(30), range(8))
        ]
        write(logs / name / "a.jsonl", rows)
    report = rlreport.build(logs, tmp_path / "out", workers=1)
    assert report.verdict.level == "unjudged"
    sentence = str(report.verdict.sentence)
    assert sentence.startswith("Not judged: several runs are in one report.")
    for way_out in ("rlreport index", "rlreport compare", "--run NAME", "--merge"):
        assert way_out in sentence
    assert [finding.id for finding in report.verdict.findings] == ["mixed_runs"]
    assert len(report.verdict.not_run) > 30 and not report.verdict.passed
    text = (tmp_path / "out/index.html").read_text()
    verdict = text.split('<section class="verdict')[1].split("</section>")[0]
    assert verdict.count("look like 2 runs") == 1, "in the verdict, once"


def test_trials_without_steps_in_a_folder_each_are_one_run(tmp_path):
    for i in range(3):
        write_rows(tmp_path / f"task__{i}" / "trial.jsonl", [0], i, f"task {i}")
    assert not mixed(tmp_path)


def test_check_does_not_judge_two_runs_as_one(tmp_path):
    logs = folders(tmp_path / "logs", "kl_low", "kl_high")
    assert check_logs([logs], BuildOptions(workers=1)).level == "unjudged"
    assert check_logs([logs], BuildOptions(workers=1, merge=True)).lead != "mixed_runs"


def test_several_runs_that_are_one_are_judged_with_merge_or_muted(tmp_path):
    logs = folders(tmp_path / "logs", "kl_low", "kl_high")
    for options in ({"merge": True}, {"mute": {"mixed_runs": "two halves"}}):
        verdict = rlreport.build(logs, tmp_path / "out", workers=1, **options).verdict
        assert verdict.lead != "mixed_runs"
        assert all(str(one.needs) != "the logs of one run" for one in verdict.not_run)


@pytest.mark.parametrize("run", ["kl_low", "kl_high"])
def test_one_of_the_runs_in_a_folder_is_chosen_by_its_name(run, tmp_path):
    logs = folders(tmp_path / "logs", "kl_low", "kl_high")
    report = rlreport.build(logs, tmp_path / "out", workers=1, run=run)
    assert {file.name for file in report.tables.files} == {f"{run}/a.jsonl"}
    assert report.verdict.lead != "mixed_runs"
    with pytest.raises(UsageError, match="no such run; found: none"):
        rlreport.build(logs, tmp_path / "out", workers=1, run="kl_none")


def test_folders_with_a_configuration_each_are_runs_whatever_their_files(tmp_path):
    for i, name in enumerate("ab"):
        write_rows(tmp_path / name / f"{i}.jsonl", (i, 1 + i), i)
    assert not mixed(tmp_path)
    for name in "ab":
        (tmp_path / name / "config.yaml").write_text("lr: 1\n")
    assert "its own configuration" in mixed(tmp_path)


@pytest.mark.parametrize(
    "names",
    [("rank_0", "rank_1"), ("worker-0", "worker-1"), ("train", "val"), ("0", "1")],
)
def test_folders_that_one_run_writes_are_one_run(names, tmp_path):
    assert not mixed(folders(tmp_path / "logs", *names))


@pytest.mark.parametrize(
    ("names", "prompt", "expected"),
    [
        (("seed_1", "seed_2"), "", True),
        (("lr_low", "lr_high"), "p", True),
        (("lr_low", "lr_high"), "", False),  # such as an environment a file
        (("rank_0", "rank_1"), "p", False),
        (("rollouts_0", "rollouts_1"), "p", False),
        (("train", "val"), "p", False),
    ],
)
def test_files_of_several_runs_in_one_folder(names, prompt, expected, tmp_path):
    for name in names:
        write_rows(tmp_path / f"{name}.jsonl", range(6), 1, prompt or name)
    assert bool(mixed(tmp_path)) == expected
