"""``--public`` leaves out names, ``--omit-prompts`` the texts of some prompts; figures stay."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.comparison.omitted import has_value
from rlreport.errors import UsageError
from rlreport.text.private import PrivateNames, names_in
from tests.forms import FORMS, everything
from tests.hostile import write_log
from tests.reading import tokens, write
from tests.running import rlreport as command

STEPS = 8
Built = Callable[..., rlreport.Report]
SECRET = re.compile(rb"\w{0,12}qzxwv\w{0,12}")
OMIT = ["数据集=不公开"]


def rows_of(seed: int = 0) -> Iterator[dict[str, object]]:
    """Rows of two data sets: all texts of one hold ``qzxwv``, those of the other ``open``.

    A text of each spreads with the reward.
    """
    random = np.random.default_rng(seed)
    for step, i in product(range(STEPS), range(24)):
        is_secret = i % 3 == 0
        mark = "qzxwv" if is_secret else "open"
        strings = [f"{mark}{k}" for k in random.integers(0, 50, 12)]
        holds = random.random() < step / STEPS
        strings += [f"hack{mark}word"] * 2 * holds
        said = [
            {"role": "assistant", "text": " ".join(strings), "thinking": f"t{mark}"},
            {"role": "tool", "tool": f"tool{mark}", "text": f"answer{mark}"},
        ]
        fields: dict[str, object] = {
            "prompt": f"ask{mark} {i} <|im_start|>user\nturn{mark}<|im_end|>",
            "response": " ".join(strings),
            "reward": float(random.normal(scale=0.2)) + holds,
            "ref_response": f"reference{mark} {i}",
            "ref_reward": 0.0,
            "ground_truth": f"label{mark}{i}",
            "source_text": f"field{mark}{i}",
            "errors": [f"error{mark}"],
            "prompt_token_strings": [f"pt{mark}", "x"],
            "turns": said if i % 4 == 0 else None,
            "数据集": "不公开" if is_secret else "公开",
        }
        yield tokens(*strings, step=step, **fields)
    bad = {"step": 1, "prompt": "p", "response": "r", "reward": "notqzxwv a number"}
    yield {**bad, "数据集": "不公开"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("omit") / "log.jsonl", rows_of())


@pytest.fixture(scope="module")
def built(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Gives the report in a form, with texts left out or not, built once."""

    @cache
    def build(form: str, omits: bool = True) -> rlreport.Report:
        out = tmp_path_factory.mktemp("built") / f"run{FORMS[form]}"
        omitted = OMIT if omits else []
        return rlreport.build(log, out, omit_prompts=omitted, workers=1)

    return build


@pytest.mark.parametrize("form", FORMS)
def test_no_text_of_an_omitted_prompt_is_in_any_form(built: Built, form: str) -> None:
    shown = everything(Path(built(form).out))
    assert set(SECRET.findall(shown)) == set()
    assert b"askopen" in shown or form == "markdown"


def test_the_texts_are_there_otherwise(built: Built) -> None:
    shown = everything(Path(built("folder", omits=False).out))
    words = b"askqzxwv hackqzxwvword toolqzxwv answerqzxwv errorqzxwv ptqzxwv tqzxwv"
    assert set(words.split()) <= set(SECRET.findall(shown))


@pytest.mark.parametrize("form", ["folder", "html"])
def test_figures_and_findings_stay(built: Built, form: str) -> None:
    hidden = built(form)
    plain = built(form, omits=False)
    assert hidden.tables.steps.equals(plain.tables.steps)
    assert hidden.tables.responses.equals(plain.tables.responses)
    found = [(f.id, f.steps, f.onset) for f in plain.verdict.findings]
    told = [(f.id, f.steps, f.onset) for f in hidden.verdict.findings]
    assert told == found
    assert len(found) > 2


def test_the_report_says_how_many_responses_have_no_text(built: Built) -> None:
    report = built("folder")
    said = "The texts of 64 responses whose prompts have 数据集=不公开 are left out"
    assert any(said in sentence for sentence in report.left_out)
    assert said in (Path(report.out) / "data.html").read_text("utf-8")
    about = json.loads((Path(report.out) / "data/report.json").read_bytes())
    assert about["settings"]["omit_prompts"] == OMIT


def test_a_prompt_is_left_out_with_all_its_responses(tmp_path: Path) -> None:
    rows = [
        {"step": step, "prompt": f"ask{p}qz", "response": f"say{p}qz", "reward": n}
        | {"set": "secret" if p == n == step == 0 else "open"}
        for step, p, n in product(range(3), range(4), range(4))
    ]
    log = write_log(tmp_path / "log.jsonl", rows)
    rlreport.build(log, tmp_path / "out", omit_prompts=["set=secret"], workers=1)
    shown = everything(tmp_path / "out")
    assert b"ask0qz" not in shown and b"say0qz" not in shown
    assert b"ask1qz" in shown and b"say1qz" in shown


def test_a_phrase_that_other_responses_have_is_shown(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = []
    for step, i in product(range(12), range(24)):
        holds = random.random() < step / 12
        words = [f"w{k}" for k in random.integers(0, 40, 12)]
        words += ["magicqz"] * 2 * holds
        row = {"step": step, "prompt": f"p{i % 8}", "response": " ".join(words)}
        name = "b" if i % 8 > 3 else "a"
        rows.append({**row, "reward": float(holds), "set": name})
    log = write_log(tmp_path / "log.jsonl", rows)
    titles = {}
    for omitted in ((), ("set=a",), ("set=a", "set=b")):
        report = rlreport.build(
            log, tmp_path / "out.md", omit_prompts=omitted, workers=1
        )
        titles[omitted] = " ".join(one.title for one in report.verdict.findings)
    assert "magicqz" in titles[()]
    assert "magicqz" in titles["set=a",]
    assert (
        "magicqz" not in titles["set=a", "set=b"]
        and "[text" in titles["set=a", "set=b"]
    )


def test_a_field_that_no_row_has_is_refused(log: Path, tmp_path: Path) -> None:
    done = command("build", log, "-o", tmp_path / "a.md", "--omit-prompts", "nothere=x")
    assert done.returncode == 2
    assert "no response has a field 'nothere'" in done.stderr
    assert "数据集" in done.stderr
    assert not (tmp_path / "a.md").exists()
    for wrong in ("data_source", "=x"):
        with pytest.raises(UsageError, match="FIELD=VALUE"):
            rlreport.build(log, tmp_path / "a.md", omit_prompts=[wrong])


def test_a_value_that_no_row_has_leaves_out_nothing_and_the_report_says_so(
    log: Path, tmp_path: Path
) -> None:
    omitted = "数据集=nothing"
    report = rlreport.build(log, tmp_path / "a.md", omit_prompts=omitted, workers=1)
    assert any("The texts of 0 responses" in sentence for sentence in report.left_out)


@pytest.mark.parametrize(
    ("values", "wanted", "expected"),
    [
        (["a", "b", None], "a", [True, False, False]),
        (["1", "x", "1.0"], "1", [True, False, False]),
        ([1.0, 2.0, np.nan], "1", [True, False, False]),
        ([1.0, 0.0, np.nan], "true", [True, False, False]),
        ([True, "no", None], "true", [True, False, False]),
        ([1.0, 2.0, np.nan], "nan", [False, False, False]),
        (["cafe\u0301", "a=b", " a"], "caf\u00e9", [True, False, False]),
        (["x", "a=b", " a"], "a=b", [False, True, False]),
        (["x", "a=b", " a"], "a", [False, False, True]),
    ],
)
def test_values_are_compared_as_they_are_written(
    values: list[Any], wanted: str, expected: list[bool]
) -> None:
    assert has_value(pd.Series(values), wanted).tolist() == expected


def test_settings_files_and_the_command_line_take_it(log: Path, tmp_path: Path) -> None:
    settings = tmp_path / "rlreport.toml"
    settings.write_text('[build]\nomit_prompts = ["数据集=不公开"]\npublic = true\n')
    done = command("build", log, "-o", tmp_path / "a.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "qzxwv" not in (tmp_path / "a.md").read_text("utf-8")
    done = command("build", log, "-o", tmp_path / "b.md", "--omit-prompts", OMIT[0])
    assert done.returncode == 0, done.stderr
    assert "qzxwv" not in (tmp_path / "b.md").read_text("utf-8")


def test_pages_in_the_cache_are_those_of_the_same_setting(
    log: Path, tmp_path: Path
) -> None:
    options = {"cache": tmp_path / "cache", "workers": 1}
    for omitted in ([], OMIT, [], OMIT):
        out = tmp_path / "out"
        rlreport.build(log, out, omit_prompts=omitted, **options)
        assert (b"qzxwv" in everything(out)) == (not omitted)


def test_workers_hide_the_same(log: Path, tmp_path: Path, built: Built) -> None:
    rlreport.build(log, tmp_path / "run.html", omit_prompts=OMIT, workers=2)
    expected = Path(built("html").out).read_bytes()
    assert (tmp_path / "run.html").read_bytes() == expected


def test_notes_of_the_folder_and_quotes_are_left_out(tmp_path: Path) -> None:
    write_log(tmp_path / "logs/log.jsonl", rows_of())
    notes = tmp_path / "logs/notes.md"
    notes.write_text('See response:0/0 "qzxwv said".')
    out = tmp_path / "out.html"
    report = rlreport.build(tmp_path / "logs", out, omit_prompts=OMIT, workers=1)
    assert b"qzxwv" not in everything(out)
    assert any("--omit-prompts hides" in note.text for note in report.tables.notes)
    rlreport.build(tmp_path / "logs", out, omit_prompts=OMIT, notes=notes, workers=1)
    assert b"not checked: texts are redacted" in everything(out)


def test_a_chart_of_the_user_gets_placeholders(log: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen.txt"
    charts = tmp_path / "charts.py"
    charts.write_text(
        "from pathlib import Path\n"
        "def seen(tables, texts):\n"
        "    words = [*texts.prompt, *texts.response, *tables.prompts.prompt]\n"
        "    words += tables.extras['source_text'].astype(str).tolist()\n"
        f"    Path({str(seen)!r}).write_text(' '.join(words))\n"
    )
    for omitted in ([], OMIT):
        out = tmp_path / "a.html"
        rlreport.build(log, out, omit_prompts=omitted, charts=[charts], workers=1)
        assert "askopen" in seen.read_text("utf-8")
        assert ("qzxwv" in seen.read_text("utf-8")) == (not omitted)


# Comparisons


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("sides")
    for seed, name in enumerate(("base", "new")):
        write(root / name / "log.jsonl", list(rows_of(seed)))
    return root / "base", root / "new"


@pytest.mark.parametrize("form", FORMS)
def test_no_text_of_an_omitted_prompt_is_in_any_form_of_a_comparison(
    sides: tuple[Path, Path], form: str, tmp_path: Path
) -> None:
    out = tmp_path / f"out{FORMS[form]}"
    rlreport.compare(*sides, out, omit_prompts=OMIT)
    shown = everything(out)
    assert b"qzxwv" not in shown
    assert b"open" in shown


@pytest.mark.parametrize("omits", [False, True])
def test_reports_are_compared_without_the_texts_of_omitted_prompts(
    sides: tuple[Path, Path], omits: bool, tmp_path: Path
) -> None:
    reports = []
    for name, side in zip(("a", "b"), sides, strict=True):
        omitted = OMIT if omits else []
        options = {"omit_prompts": omitted, "workers": 1}
        reports.append(Path(rlreport.build(side, tmp_path / name, **options).out))
    base, new = reports
    kept = rlreport.compare(base, new, tmp_path / "kept")
    hidden = rlreport.compare(base, new, tmp_path / "hidden", omit_prompts=OMIT)
    assert (b"qzxwv" in everything(tmp_path / "kept")) != omits
    assert b"qzxwv" not in everything(tmp_path / "hidden")
    assert "at most" not in " ".join(map(str, hidden.outcome.ngrams["ngram"]))
    effects = [one.outcome.comparison.effect for one in (kept, hidden)]
    assert effects[0] == effects[1]
    with pytest.raises(UsageError, match="nothere"):
        rlreport.compare(base, new, tmp_path / "x", omit_prompts=["nothere=1"])


# Names


def write_private(root: Path) -> Path:
    """Write a run of which all names hold ``qzxwv``, and all texts of the model ``kept``."""
    logs = root / "home" / "qzxwvuser" / "qzxwvproject"
    rows = [
        tokens(
            f"kept{n}",
            "/home/kept/x",
            step=step,
            prompt=f"kept {p} at http://10.0.0.9/kept",
            response=f"kept{n} /home/kept/x",
            reward=float((p + n) % 3),
            worker_host="qzxwvnode7",
            judge_url="http://qzxwvhost.internal:8000/v1",
            image="/data/qzxwv user/a b.png",
            data_source=("qzxwvorg/private", "openai/gsm8k")[p % 2],
            note="seen by qzxwvuser",
            errors=["FileNotFoundError: /home/qzxwvuser/env.py on qzxwvnode7"],
            reward_parts={"qzxwvuser_score": float(n), "format": 0.5},
        )
        for step, p, n in product(range(6), range(6), range(4))
    ]
    write_log(logs / "qzxwvfile.jsonl", [*rows, {"step": "qzxwvbad"}])
    (logs / "qzxwvother.txt").write_text("hello")
    metric = "val-core/qzxwvorg/private/reward/mean@1"
    lines = [f"{step},0.5,{step}" for step in range(6)]
    (logs / "qzxwvmetrics.csv").write_text("\n".join([f"step,lr,{metric}", *lines]))
    config = {
        "wandb": {"entity": "qzxwvlab", "project": "qzxwvproj", "mode": "online"},
        "user": "qzxwvuser",
        "model": {"path": "/mnt/qzxwvlab/ckpt", "name": "Qwen/Qwen3-8B"},
        "lr": 1e-5,
        "contact": "bob@qzxwvcorp.com",
        "hostname": "qzxwvnode7",
        "endpoint": "http://10.1.2.3:80/v1",
        "exp": "grpo-qzxwvuser-3",
        "tag_line": "of QZXWVUSER",
        "train_files": "qzxwvteam/data/train.parquet",
        "cmd": "python /home/qzxwvuser/train.py --out=~/qzxwvout",
        "experiment_name": "qzxwv 实验",
        "主机": "qzxwv机",
    }
    (logs / "config.json").write_text(json.dumps(config))
    (logs / "notes.md").write_text("qzxwvuser was here")
    return logs


PRIVATE = re.compile(rb"(?i)(?:qzxwv|10\.1\.2\.3)\S{0,40}")


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_private(tmp_path_factory.mktemp("private"))


@pytest.mark.parametrize("form", FORMS)
def test_a_public_report_has_no_private_name_in_any_form(
    private: Path, form: str, tmp_path: Path
) -> None:
    out = tmp_path / f"out{FORMS[form]}"
    report = rlreport.build(private, out, public=True, workers=1)
    shown = everything(out)
    assert set(PRIVATE.findall(shown)) == set()
    assert any("(--public)" in sentence for sentence in report.left_out)
    if form != "markdown":
        assert b"http://10.0.0.9/kept" in shown and b"/home/kept/x" in shown
        assert b"Qwen/Qwen3-8B" in shown


def test_hidden_names_change_no_figure_and_no_verdict(
    private: Path, tmp_path: Path
) -> None:
    reports = [
        rlreport.build(private, tmp_path / "out", public=public, workers=1)
        for public in (False, True)
    ]
    plain, public = reports
    assert PRIVATE.search(str(plain.tables.files).encode("utf-8"))
    assert public.tables.steps.equals(plain.tables.steps)
    found = [finding.id for finding in plain.verdict.findings]
    assert [finding.id for finding in public.verdict.findings] == found
    data_page = (tmp_path / "out/data.html").read_text("utf-8")
    assert "Names of files, folders, hosts, people and projects" in data_page
    about = json.loads((tmp_path / "out/data/report.json").read_bytes())
    assert about["card"]["entries"]["lr"] == 1e-5
    assert about["card"]["entries"]["user"].startswith("[name")
    assert about["run"] == "run"


def test_both_together_and_with_redaction(private: Path, tmp_path: Path) -> None:
    omitted = ["data_source=qzxwvorg/private"]
    for redact in (False, True, "names"):
        options = {"redact": redact, "public": True, "omit_prompts": omitted}
        out = tmp_path / "out"
        report = rlreport.build(private, out, workers=1, **options)
        shown = everything(out)
        assert set(PRIVATE.findall(shown)) == set()
        assert (b"kept 1 at" in shown) == (not redact)
        assert b"kept 0 at" not in shown
        assert report.left_out


def test_public_comparisons_and_indexes_have_no_private_name(
    private: Path, tmp_path: Path
) -> None:
    report = tmp_path / "a"
    rlreport.build(private, report, workers=1)
    for base, form in ((private, "html"), (report, "folder"), (report, "markdown")):
        out = tmp_path / f"out{FORMS[form]}"
        rlreport.compare(base, private, out, public=True)
        assert set(PRIVATE.findall(everything(out))) == set()
    page = tmp_path / "index.html"
    rlreport.index([report], page, public=True, workers=1)
    assert set(PRIVATE.findall(everything(page))) == set()
    rlreport.index([report], page, workers=1)
    assert PRIVATE.search(everything(page))


def test_a_comparison_hides_what_a_logged_field_tells_to_be_a_name(
    tmp_path: Path,
) -> None:
    rows = [
        tokens("a", step=step, reward=float(n), prompt=f"p{p}")
        | {"user": "qzxwvbob", "task": ("by qzxwvbob", "code")[p % 2]}
        for step, p, n in product(range(4), range(6), range(4))
    ]
    for name in ("a", "b"):
        write_log(tmp_path / name / "log.jsonl", rows)
    sides = (tmp_path / "a", tmp_path / "b")
    rlreport.compare(*sides, tmp_path / "out", public=True)
    assert set(PRIVATE.findall(everything(tmp_path / "out"))) == set()


def test_an_index_says_no_sentence_of_a_report_that_shows_omitted_prompts(
    log: Path, tmp_path: Path
) -> None:
    rlreport.build(log, tmp_path / "a", workers=1)
    page = tmp_path / "index.html"
    about = json.loads((tmp_path / "a/data/report.json").read_bytes())
    about["verdict"]["what"] = "Broken: “askqzxwv” spreads."
    (tmp_path / "a/data/report.json").write_text(json.dumps(about))
    for omitted in ([], OMIT):
        rlreport.index([tmp_path / "a"], page, omit_prompts=omitted, workers=1)
        assert (b"qzxwv" in everything(page)) == (not omitted)


@pytest.mark.parametrize("name", ["step", "reward", "accuracy", "kl"])
def test_a_project_called_like_a_metric_changes_no_figure_and_no_verdict(
    name: str, tmp_path: Path
) -> None:
    rows = [
        tokens("a", step=step, reward=float((p + n) % 2), prompt=f"p{p}")
        for step, p, n in product(range(8), range(4), range(4))
    ]
    write_log(tmp_path / "logs/log.jsonl", rows)
    lines = [f"{step},{step / 10},{step / 100},.1" for step in range(8)]
    metrics = "\n".join(["step,reward,kl,val/accuracy", *lines])
    (tmp_path / "logs/metrics.csv").write_text(metrics)
    config = {"project_name": name, "user": "qzxwv", "note": "by qzxwv"}
    (tmp_path / "logs/config.json").write_text(json.dumps(config))
    plain, public = (
        rlreport.build(tmp_path / "logs", tmp_path / "out", public=public, workers=1)
        for public in (False, True)
    )
    assert public.tables.steps.equals(plain.tables.steps)
    assert public.verdict.findings == plain.verdict.findings
    assert b"qzxwv" not in everything(tmp_path / "out")


HIDDEN = [
    "/home/qz/x y",
    "C:\\Users\\qz\\runs",
    "\\\\qz-server\\share\\x",
    "~/qz",
    "../qz/x",
    "s3://qz-bucket/run",
    "https://user:pw@qz.example.com/x?a=b",
    "qz@lab.example.org",
    "qz@node7:/data",
    "git@github.com:qz/x.git",
    "node7.qz.internal:29500",
    "file:///home/qz",
    "/数据/qz/模型",
    "see（/mnt/qz/a.txt）now",
    "qz@gpu01",
    "qz@node7:runs/3",
    "nfs-qz:/vol/x",
    "qz-node:29500",
    "registry.lab.io/qz/image:3",
    "C:\\Program Files\\qz\\runs",
    "'/data/My Runs/qz/3'",
    "%2Fhome%2Fqz%2Fruns",
    "在/mnt/qz/3中",
    "--wandb_entity qz",
    "trainer.experiment_name=qz",
    "USER=qz",
    '{"user": "qz", "n": 3}',
    "HF_TOKEN=qz0123abcdef",
    "--api-key qz0123abc",
    "sk-proj-qzabcdefghijklmnop1234",
    "Bearer qz0123abcdef",
]


@pytest.mark.parametrize("text", [*HIDDEN, *(f"at {text}, then" for text in HIDDEN)])
def test_paths_and_addresses_are_recognized(text: str) -> None:
    assert "qz" not in PrivateNames().in_text(text).replace("x y", "")


@pytest.mark.parametrize(
    "text",
    ["acc/mean@8", "pass@1", "\\frac{1}{2}", "3/4", "12:30:45", "torch.bfloat16"]
    + ["mean@k", "best@all", "a user: 3", "loss:2000", "step 3:20000", "user=None"]
    + ["1.2.3", "Qwen/Qwen3-8B", "tokens/s", "2026-01-02T12:30:45", "0.5", "a: b"],
)
def test_what_is_no_name_stays(text: str) -> None:
    assert PrivateNames().in_text(text) == text


def test_names_that_settings_tell_are_hidden_everywhere() -> None:
    settings = {"wandb.entity": "acme", "out": "/home/alice/x", "group_size": 8}
    names = PrivateNames(names_in(settings | {"mode": "train", "run": "1"}))
    assert names.in_text("acme-run of Alice, alicexyz") == (
        "[name 1]-run of [name 2], alicexyz"
    )
    assert names.in_value("wandb.project", "acme") == "[name 1]"
    assert names.in_value("num_nodes", "8") == "8"
    assert names.in_value("data.train_files", "acme/gsm8k") == "[name 1][path 1]"
    assert names.in_value("data.train_files", "other/gsm8k") == "[path 2]"


def test_a_credential_is_hidden_with_its_line_and_under_its_name() -> None:
    names = PrivateNames()
    text = "cannot log in\nkey sk-proj-abcdefghijklmnop1234 refused\nretrying"
    assert names.in_text(text) == "cannot log in\n[secret 1]\nretrying"
    assert names.in_value("judge.api_key", "plain") == "[secret 2]"
    assert names.in_value("max_tokens", "512") == "512"


@pytest.mark.parametrize(
    "name",
    ["SLURM_CLUSTER_NAME", "user-name", "createdBy", "git.remote", "k8s_namespace"]
    + [
        "teamName",
        "maintainer",
        "s3_bucket",
        "output_dir",
        "hydra.run.dir",
        "job.owner.name",
    ],
)
def test_settings_are_known_by_what_they_are_called(name: str) -> None:
    assert "qz" not in PrivateNames().in_value(name, "qz")


def test_names_that_a_text_sets_are_hidden_everywhere() -> None:
    names = PrivateNames(
        names_in({"cmd": "python t.py --wandb-entity acme user=alice"})
    )
    assert names.in_text("acme: Alice") == "[name 1]: [name 2]"
    # A sentence after a colon names nobody elsewhere.
    assert names_in({"text": "failed to run: reward is missing"}) == set()


def test_names_in_chinese_need_no_blanks_around_them() -> None:
    names = PrivateNames(["张三", "alice"])
    assert names.in_text("由alice和张三运行") == "由[name 1]和[name 2]运行"


def test_hostile_texts_cost_no_time() -> None:
    for text in (
        "a:" * 20_000,
        "C:\\a" * 10_000,
        "user: " * 7_000,
        "a-" * 20_000,
        "'/" * 20_000,
        "a." * 20_000,
        "a" * 40_000,
        "/a" * 20_000,
        "1:" * 20_000,
        "a@" * 20_000,
    ):
        PrivateNames(["alice"]).in_place(text)
