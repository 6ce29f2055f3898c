"""--redact leaves the words out of every form; figures stay, and which texts are equal."""

import hashlib
import json
import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xxhash

import rlreport
from tests.forms import OTHERS, everything
from tests.hostile import write_log
from tests.reading import row, tokens, write
from tests.running import rlreport as command

STEPS = 12
SECRET = re.compile(rb"[a-z]*qzxwv[a-z]*")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log in which every text of prompts, responses, tokens and labels holds ``qzxwv``.

    A text spreads with the reward, so that a finding has n-grams to tell of.
    """
    random = np.random.default_rng(0)
    words = [f"{a}{b}qzxwv{a}" for a, b in product("bcdfghjklm", "aeiou")]
    rows = []
    for step in range(STEPS):
        for i in range(24):
            strings = [words[k] for k in random.integers(0, len(words), 12)]
            holds = random.random() < step / STEPS
            strings += ["hackqzxwvword"] * 2 * holds
            fields = {
                "prompt": f"askqzxwv {words[i % 7]} <|im_start|>user\nturnqzxwv<|im_end|>",
                "response": " ".join(strings),
                "reward": float(random.normal(scale=0.2)) + holds,
                "ref_response": f"referenceqzxwv {words[i]}",
                "ref_reward": 0.0,
                "ground_truth": f"labelqzxwv{i}",
                "group_id": f"groupqzxwv{i // 8}",
                "source": f"sourceqzxwv{i}",
            }
            rows.append(tokens(*strings, step=step, **fields))
    said = [
        {"role": role, "content": "x"} for role in ("roleqzxwv", "assistant", "tool")
    ]
    rows.append(
        {"step": 1, "prompt": "p", "response": "r", "reward": 0.0, "turns": said}
    )
    rows.append(
        {"step": 1, "prompt": "p", "response": "r", "reward": "notqzxwv a number"}
    )
    return write_log(tmp_path_factory.mktemp("redact") / "log.jsonl", rows)


@pytest.fixture(scope="module")
def built(log, tmp_path_factory):
    """Gives the report in a form, redacted or not, built once."""

    @cache
    def build(form, redact):
        out = tmp_path_factory.mktemp("built") / f"run{OTHERS[form]}"
        return rlreport.build(log, out, redact=redact, workers=1)

    return build


@pytest.fixture(scope="module", params=OTHERS)
def hidden(request, built):
    return built(request.param, redact=True)


def test_no_word_of_the_logs_is_in_any_form(hidden):
    assert hidden.verdict.findings
    assert set(SECRET.findall(everything(hidden.out))) == set()


@pytest.mark.untraced
def test_figures_findings_and_lengths_stay(hidden, built):
    plain = built(hidden.form, redact=False)
    assert hidden.tables.steps.equals(plain.tables.steps)
    assert hidden.tables.responses.equals(plain.tables.responses)
    assert [f.id for f in hidden.verdict.findings] == [
        f.id for f in plain.verdict.findings
    ]
    length = re.compile(rb"\[prompt \d+, at most 1,?00?0? characters\]")
    assert bool(length.search(everything(hidden.out))) == (
        b"askqzxwv" in everything(plain.out)
    )


def test_pass_at_k_stays_and_says_k(tmp_path):
    rows = [
        {
            "step": step,
            "prompt": f"p{i // 4}",
            "response": "r",
            "reward": i / 8,
            "correct": i == 1,
        }
        for step, i in product(range(3), range(8))
    ]
    log = write_log(tmp_path / "log.jsonl", rows)
    out = tmp_path / "out"
    rlreport.build(log, out, redact=True, workers=1)
    about = json.loads((out / "data" / "report.json").read_bytes())
    assert about["pass_k"] == 4
    assert [(row["pass_at_1"], row["pass_at_k"]) for row in about["steps"]] == [
        (0.125, 0.5)
    ] * 3
    assert (
        "k is 4, the usual number of responses in a group."
        in (out / "index.html").read_text()
    )


@pytest.fixture(scope="module")
def folder(built):
    """A redacted report folder."""
    return built("folder", redact=True).out


def test_neither_hashes_nor_exact_lengths_tell_a_short_text(folder, log):
    held = everything(folder)
    strings: set[str] = set()
    for line in log.read_text().splitlines():
        strings.update(json.loads(line).get("response_tokens", ()))
    for token in strings:
        for digest in (
            xxhash.xxh3_64_hexdigest(token.encode()),
            xxhash.xxh64_hexdigest(token.encode()),
            hashlib.sha256(token.encode()).hexdigest()[:16],
            hashlib.md5(token.encode()).hexdigest()[:16],
        ):
            assert digest.encode() not in held
    table = pd.read_csv(folder / "data" / "tokens.csv")
    lengths = {"at most 10 characters", "at most 100 characters"}
    described = table["token"].str.extract(r"token (\d+), ([^\]]*)")
    assert set(described[1]) <= lengths
    numbers = described[0].astype(int).tolist()
    assert numbers == list(range(1, len(table) + 1))
    assert table["raw"].equals(table["token"])


def test_equal_texts_have_equal_numbers_on_every_page(folder):
    def prompts(page):
        return re.findall(r"\[prompt (\d+), ", page.read_text("utf-8"))

    asked = set(prompts(folder / "prompts.html"))
    assert len(asked) == 8
    for page in (folder / "steps").iterdir():
        assert set(prompts(page)) <= asked


def test_names_are_kept_unless_told(log, tmp_path):
    logs = tmp_path / "secretfolder"
    rows = []
    for i, line in enumerate(log.read_text().splitlines()[:48]):
        row = json.loads(line)
        row["secretlist"] = ["a"]  # which nobody reads
        row["secretfield"] = i % 5
        row["secretlabel"] = f"x{i}"
        rows.append(row)
    write_log(logs / "secretfile.jsonl", [*rows, {"step": "secretfield"}])
    (logs / "secretmetrics.csv").write_text("step,lr\n0,0.5\n1,0.25\n")
    rlreport.build(logs, tmp_path / "kept", redact=True, workers=1)
    for name in (
        b"secretfolder",
        b"secretfield",
        b"secretfile",
        b"secretlist",
        b"secretmetrics",
    ):
        assert name in everything(tmp_path / "kept")
    for suffix in OTHERS.values():
        dropped = tmp_path / f"dropped{suffix}"
        rlreport.build(logs, dropped, redact="names", workers=1)
        assert not re.findall(rb"secret\w+|qzxwv", everything(dropped))


def test_the_command_line_takes_names_as_a_value_and_nothing_else(log, tmp_path):
    log = write_log(
        tmp_path / "log.jsonl", map(json.loads, log.read_text().splitlines()[:48])
    )
    done = command("build", "--redact", log, "-o", tmp_path / "a.md")
    assert done.returncode == 0
    assert (
        command("build", "--redact=names", log, "-o", tmp_path / "b.md").returncode == 0
    )
    assert "qzxwv" not in (tmp_path / "b.md").read_text("utf-8")
    assert (
        command("build", "--redact=all", log, "-o", tmp_path / "c.md").returncode == 2
    )


def test_the_words_are_there_otherwise(built):
    plain = built("html", redact=False)
    words = b"askqzxwv turnqzxwv hackqzxwvword referenceqzxwv labelqzxwv sourceqzxwv roleqzxwv"
    assert set(words.split()) <= set(SECRET.findall(everything(plain.out)))
    assert any("hackqzxwvword" in finding.title for finding in plain.verdict.findings)


def test_logged_names_of_splits_are_left_out_of_notes_and_settings(tmp_path):
    logs = tmp_path / "logs"
    for split in ("train", "heldoutqzxwv", "otherqzxwv", "thirdqzxwv"):
        row = {"prompt": "p", "response": "r", "split": split}
        rows = [{**row, "step": i // 4, "reward": i % 4} for i in range(16)]
        write_log(logs / f"{split[:3]}.jsonl", rows)
    for asked in (None, "heldoutqzxwv"):
        for redact in (False, True):
            built = rlreport.build(
                logs, tmp_path / "run", redact=redact, split=asked, workers=1
            )
            assert any("split" in note.kind for note in built.tables.notes)
            shown = everything(Path(built.out))
            assert bool(SECRET.search(shown)) != bool(redact)


def test_hidden_names_change_no_verdict(tmp_path):
    solved = {"math": [9] * 40, "code": [9] * 12 + [0] * 28}
    rows = []
    for step, source, n in product(range(40), solved, range(10)):
        reward = 1.0 if n < solved[source][step] else 0.0
        rows.append(row(step, reward=reward, data_source=source, prompt=f"{n}"))
    figures = {"reward": 0.5, "sampling/sampling_logp_difference/mean": 0.5}
    metrics = [{"step": step, **figures} for step in range(40)]
    write(tmp_path / "metrics.jsonl", metrics)
    write(tmp_path / "log.jsonl", rows)
    found = {}
    for redact in (False, "names"):
        options = {"redact": redact, "metrics": [tmp_path / "metrics.jsonl"]}
        verdict = rlreport.build(
            tmp_path / "log.jsonl", tmp_path / "out.md", **options
        ).verdict
        found[redact] = {f.id: f.facts.get("ratio") for f in verdict.findings}
    assert {"environment_fall", "engine_mismatch"} <= set(found[False])
    assert found["names"] == found[False]
