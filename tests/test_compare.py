"""Runs against runs: from logs and from earlier reports, in words, as data, and at the gate."""

import base64
import gzip
import json
import random as dice
import re
import shutil
from email import message_from_bytes
from email.policy import default
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import rlreport
from rlreport.check import Thresholds
from rlreport.cli.main import main
from rlreport.comparison.export import compare_json
from rlreport.comparison.headline import run_lines
from rlreport.comparison.outcome import Outcome, outcome_of
from rlreport.comparison.remarks import notes, texts_note
from rlreport.comparison.run import ComparedRun, settings_that_differ
from rlreport.comparison.saved import seeds_at
from rlreport.deliver import forms
from rlreport.errors import UnusableInputError, UsageError
from rlreport.flows.compare import compared_run
from rlreport.options import CompareOptions
from rlreport.pages.html import canonical_json
from rlreport.system.workers import Progress
from tests.browser import serious, visiting
from tests.forms import FORMS, files_below
from tests.reading import write
from tests.schemas import validate

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "one",
    "red",
    "kite",
    "two",
    "sun",
]


def write_run(
    folder: Path,
    *,
    seed=0,
    drop=0.0,
    steps=range(10),
    prompts=range(48),
    name="p",
    **extra,
):
    """A run with a binary reward; ``drop`` is taken from what each prompt earns.

    ``extra`` are further fields: a value, or a function of the step.
    """
    ability = np.random.default_rng(99).beta(1.5, 1.5, 400)
    random = np.random.default_rng(seed)
    words = dice.Random(seed)
    rows = []
    for step, prompt, _ in product(steps, prompts, range(2)):
        is_right = random.random() < ability[prompt] - drop
        row = {
            "step": step,
            "prompt": f"{name}{prompt}: what?",
            "response": " ".join(words.choices(WORDS, k=8)),
            "reward": float(is_right),
            "ref_reward": 0.5,
            "id": prompt,
        }
        for field, value in extra.items():
            row[field] = value(step) if callable(value) else value
        rows.append(row)
    return write(folder / "log.jsonl", rows).parent


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of logs: main, a second seed of it, and a run that lost 40 points."""
    root = tmp_path_factory.mktemp("runs")
    return {
        "main": write_run(root / "main"),
        "same": write_run(root / "same", seed=1),
        "lost": write_run(root / "lost", seed=2, drop=0.4),
    }


@pytest.fixture(scope="module")
def built(runs, tmp_path_factory):
    """The report of main."""
    out = tmp_path_factory.mktemp("built") / "report"
    rlreport.build(runs["main"], out, workers=1)
    return out


@pytest.fixture
def report(built, tmp_path):
    """A copy of the report of main."""
    return shutil.copytree(built, tmp_path / "base")


@pytest.fixture(scope="module")
def loss(runs, tmp_path_factory):
    """What main against lost came to, and its folder, beside which it is in every other form."""
    out = tmp_path_factory.mktemp("loss") / "out"
    made = [
        rlreport.compare(runs["main"], runs["lost"], f"{out}{suffix}")
        for suffix in FORMS.values()
    ]
    return made[0], out


def comparison_json(out: Path) -> dict:
    """``compare.json`` of a folder, valid by its schema."""
    return valid(json.loads((out / "data" / "compare.json").read_text()))


def valid(found: dict) -> dict:
    validate(found, "compare")
    return found


@cache
def run_at(
    path: Path, pair_by: str = "prompt", metrics: tuple[Path, ...] = ()
) -> ComparedRun:
    options = CompareOptions(pair_by=pair_by, metrics=metrics)
    return compared_run(path, options, Thresholds(), Progress())


def read_runs_once(patch: pytest.MonkeyPatch) -> None:
    """Compare runs as they were first read: most of the time goes into reading."""
    patch.setattr(
        "rlreport.flows.compare.compared_run",
        lambda path, options, **_: run_at(
            Path(path), options.pair_by, tuple(options.metrics)
        ),
    )


@pytest.fixture(scope="module", autouse=True)
def runs_read_once():
    with pytest.MonkeyPatch.context() as patch:
        read_runs_once(patch)
        yield


def compared(base: Path | list[Path], new: Path, **options) -> tuple[dict, Outcome]:
    """What ``compare.json`` would say, and the outcome: nothing is drawn or written."""
    given = CompareOptions(**options)
    bases = base if isinstance(base, list) else [base]
    *first, last = (run_at(path, given.pair_by) for path in (*bases, new))
    outcome = outcome_of(first, [last], given)
    return valid(json.loads(canonical_json(compare_json(outcome)))), outcome


def levels(base: Path | list[Path], new: Path) -> dict[str, str]:
    """Level of each guardrail."""
    guardrails = compared(base, new)[0]["guardrails"]
    return {guardrail["id"]: guardrail["level"] for guardrail in guardrails}


def window_of(base: list[int], new: list[int]) -> dict:
    """The steps that are compared, in ``compare.json``: of each side the first and the last."""
    return {"steps": new, "steps_base": base, "split": "train"}


def test_a_loss_is_worse(runs, loss):
    lost, out = loss
    assert lost.sentence.startswith("lost is worse than main by 0.339 (reward 0.14 ")
    found = comparison_json(out)
    assert found == compared(runs["main"], runs["lost"])[0]
    assert found["verdict"]["level"] == "worse"
    assert found["verdict"]["pairs"] == 48
    assert found["verdict"]["high"] < 0
    assert found["window"] == window_of([8, 9], [8, 9])


def test_a_second_seed_is_no_evidence(runs):
    verdict = compared(runs["main"], runs["same"])[0]["verdict"]
    assert verdict["level"] == "no_evidence"
    assert verdict["low"] < 0 < verdict["high"]
    assert verdict["mde"] > 0


def test_a_run_does_not_differ_from_itself(runs):
    itself = compared(runs["main"], runs["main"], fail_on=["any"])[0]
    assert itself["verdict"]["level"] == "no_evidence"
    assert itself["flips"] == []
    assert itself["verdict"]["effect"] == 0
    assert itself["gate"]["exit"] == 0


@pytest.fixture(scope="module")
def kl_runs(tmp_path_factory):
    """Folders of logs: base, a run that earns more, and one that does so though it broke.

    Its loss is NaN from step 4 on, and it is far from the reference.
    """
    root = tmp_path_factory.mktemp("kl_runs")

    def write_with_kl(name, ref_logprob, **run):
        def ref_logprobs(step):
            # The run starts from the reference.
            return [ref_logprob if step > 3 else -0.1] * 40

        tokens = {
            "response_tokens": [*"abcd" * 10],
            "logprobs": [-0.1] * 40,
            "ref_logprobs": ref_logprobs,
        }
        return write_run(root / name, **run, **tokens)

    broken = write_with_kl("broken", -3.1, seed=1)
    losses = [0.1] * 4 + [np.nan] * 6
    write(
        broken / "metrics.jsonl",
        [{"step": step, "loss": loss} for step, loss in enumerate(losses)],
    )
    return {
        "base": write_with_kl("base", -0.1, drop=0.3),
        "sound": write_with_kl("sound", -0.1, seed=1),
        "broken": broken,
    }


def sentence_of(base, new):
    return compared(base, new)[0]["verdict"]["sentence"]


def test_a_run_that_earns_more_but_broke_is_not_called_better(kl_runs):
    base = kl_runs["base"]
    sound = sentence_of(base, kl_runs["sound"])
    assert sound.startswith("sound is better than base by 0.")
    found, outcome = compared(base, kl_runs["broken"], fail_on=["new-critical"])
    broken = found["verdict"]["sentence"]
    assert broken.startswith("broken is broken. It earns 0.240 more than base (")
    (since,) = [line for line in run_lines(outcome) if line.startswith("broken · ")]
    assert "step 4" in since
    assert found["verdict"]["level"] == "better"
    assert found["levels"]["new"] == ["critical"]
    guardrail_levels = [guardrail["level"] for guardrail in found["guardrails"]]
    assert "better" not in guardrail_levels
    assert outcome.gate.failed == ("new-critical:nan_metrics",)


def test_a_run_that_broke_is_not_called_better_than_several_seeds(kl_runs):
    bases = [kl_runs["base"], kl_runs["base"]]
    broken = sentence_of(bases, kl_runs["broken"])
    assert broken.startswith("broken is broken. ")
    assert " It earns 0.240 more than base (2 runs) (reward" in broken
    sound = sentence_of(bases, kl_runs["sound"])
    assert sound.startswith("sound is better than base (2 runs) by 0.")
    assert "; within these 3 runs." in sound


def test_several_runs_on_both_sides_may_be_called_better(kl_runs):
    bases = [run_at(kl_runs["base"])] * 3
    news = [run_at(kl_runs["sound"])] * 3
    outcome = outcome_of(bases, news, CompareOptions())
    sentence = compare_json(outcome)["verdict"]["sentence"]
    assert sentence.startswith("sound (3 runs) is better than base (3 runs) by 0.")
    assert sentence.endswith("; 3 runs against 3.")


def test_a_broken_base_is_named_before_the_difference(kl_runs, tmp_path):
    lower = rlreport.compare(kl_runs["broken"], kl_runs["base"], tmp_path / "out")
    beginning = r"broken is broken\. base earns 0\.\d+ less than broken \("
    assert re.match(beginning, lower.sentence)
    page = (tmp_path / "out" / "compare.html").read_text()
    assert '<section class="verdict info"' in page


def test_between_two_broken_runs_the_difference_means_little(kl_runs):
    sentence = sentence_of(kl_runs["broken"], kl_runs["broken"])
    assert sentence.startswith(
        "Both runs are broken, so the difference between them means little. "
    )


def test_a_finding_that_turned_critical_is_new_to_the_gate_but_not_to_the_list(
    kl_runs, tmp_path
):
    broken = shutil.copytree(kl_runs["broken"], tmp_path / "nan")
    losses = [0.1] * 8 + [np.nan] * 2
    scores = [0.9] * 4 + [0.1] * 6  # without this fall, the KL would be a warning
    metrics = [
        {"step": step, "loss": loss, "eval/reward": score}
        for step, (loss, score) in enumerate(zip(losses, scores, strict=True))
    ]
    write(broken / "metrics.jsonl", metrics)
    rlreport.build(broken, tmp_path / "report", workers=1)
    found, still = compared(tmp_path / "report", broken, fail_on=["any"])
    assert found["verdict"]["sentence"].startswith("Both runs are broken")
    assert not still.gate.failed
    warned = shutil.copytree(tmp_path / "report", tmp_path / "warned")
    about = warned / "data" / "report.json"
    report = json.loads(about.read_text())
    for finding in report["findings"]:
        finding["severity"] = "warning"
    report["verdict"]["level"] = "warning"
    about.write_text(json.dumps(report))
    out = tmp_path / "out"
    turned = rlreport.compare(warned, broken, out, fail_on=["any"])
    assert turned.sentence.startswith("nan (NEW) is broken. ")
    assert "new-critical:kl_explosion" in turned.gate.failed
    assert comparison_json(out)["findings"]["new"] == []
    assert "New critical findings (nan (NEW)): " in (out / "compare.html").read_text()


def test_a_collapse_makes_no_guardrail_better(tmp_path):
    def collapsing(step):
        return 40 if step < 10 else 1

    base = write_graded(tmp_path / "base", words=lambda step: 40)
    shrinks = write_graded(tmp_path / "shrinks", words=collapsing)
    shorter = write_graded(tmp_path / "shorter", words=lambda step: 30)
    assert run_at(shrinks).collapsed
    assert "better" not in levels(base, shrinks).values()
    # A run is not worse for answering at length where BASE had stopped to; nor is shorter better
    # where nothing collapsed.
    assert not run_at(shorter).collapsed
    for pair in ((base, shrinks), (shrinks, base), (base, shorter)):
        assert levels(*pair)["length"] == "changed"


def test_groups_without_signal_count_by_kind(tmp_path):
    mixed = write_graded(tmp_path / "mixed", reward=lambda step, prompt, k: k % 2)
    kinds = {"right": ("changed", "none"), "wrong": ("none", "worse")}
    for kind, expected in kinds.items():
        alike = write_graded(
            tmp_path / kind, reward=lambda *_, kind=kind: kind == "right"
        )
        found = levels(mixed, alike)
        assert (found["all_right_groups"], found["all_wrong_groups"]) == expected
    # Solved groups are no fault of a run, and fewer that are all wrong are better.
    assert levels([tmp_path / "wrong"] * 2, mixed)["all_wrong_groups"] == "better"


def test_pass_at_k_may_fall_while_the_reward_rises(tmp_path):
    def solved(often: int, of: int):  # of sixteen prompts
        return lambda step, prompt, k: k < often and prompt < of

    wide, narrow, larger = (
        write_graded(tmp_path / name, reward=solved(often, of), each=each)
        for name, often, of, each in (
            ("wide", 1, 16, 4),
            ("narrow", 4, 8, 4),
            ("more", 1, 16, 8),
        )
    )
    assert levels(wide, narrow)["pass_at_k"] == "worse"
    assert levels(narrow, wide)["pass_at_k"] == "better"
    assert levels(wide, larger)["pass_at_k"] == "missing"  # pass@4 is not pass@8


def write_graded(
    folder: Path,
    *,
    steps=20,
    words=lambda step: 12,
    reward=lambda step, prompt, k: (step + k) % 2,
    each=4,
    fields=({},) * 16,
):
    """Steps of four responses to each of sixteen prompts, or as many as have fields."""
    random = dice.Random(0)
    rows = []
    prompts = range(len(fields))
    for step, prompt, k in product(range(steps), prompts, range(each)):
        row = {
            "step": step,
            "prompt": f"p{prompt}: what?",
            "response": " ".join(random.choices(WORDS, k=words(step))),
            "reward": float(reward(step, prompt, k)),
            **fields[prompt],
        }
        rows.append(row)
    return write(folder / "log.jsonl", rows).parent


def test_settings_that_change_training_come_first_and_versions_are_folded(tmp_path):
    lines = {
        "a": (
            "z_extra: 1",
            "lr: 1e-6",
            "same: 1",
            "output_dir: a",
            "use_x: false",
            "x_version: 4",
        ),
        "b": ("z_extra: 2", "lr: 2e-6", "same: 1", "output_dir: b", "x_version: 5"),
    }
    sides = [write_run(tmp_path / name, prompts=range(4)) for name in lines]
    for side, text in zip(sides, lines.values(), strict=True):
        (side / "config.yaml").write_text("\n".join(text))
        rlreport.build(
            side, tmp_path / f"{side.name}.zip", max_responses=ord(side.name), workers=1
        )
    made = rlreport.compare(tmp_path / "a.zip", tmp_path / "b.zip", tmp_path / "out")
    shown, folded = settings_that_differ(made.outcome.base, made.outcome.new)
    assert [d.key for d in shown] == ["config.lr", "config.z_extra"]
    names = ["config.output_dir", "config.use_x", "config.x_version", "max_responses"]
    assert [d.key for d in folded] == names
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "Package versions, defaults, names and locations (4)" in page
    # Without a configuration on one side nothing is known to differ.
    bare = run_at(write_run(tmp_path / "bare", prompts=range(4)))
    assert not settings_that_differ(made.outcome.base, bare)[0]


def test_the_effect_is_the_mean_of_the_prompts_differences(runs, loss):
    def means(folder):
        sums: dict[str, list[float]] = {}
        for line in (folder / "log.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["step"] >= 8:
                sums.setdefault(row["prompt"], []).append(row["reward"])
        return {prompt: np.mean(rewards) for prompt, rewards in sums.items()}

    base = means(runs["main"])
    new = means(runs["lost"])
    differences = [new[prompt] - base[prompt] for prompt in base]
    found = comparison_json(loss[1])
    assert found["verdict"]["effect"] == pytest.approx(np.mean(differences))
    for flip in found["flips"]:
        assert flip["delta"] == pytest.approx(
            new[flip["prompt"]] - base[flip["prompt"]]
        )


@pytest.mark.parametrize("suffix", ["", ".zip", ".html"])
def test_an_earlier_report_says_what_its_logs_say(runs, built, loss, tmp_path, suffix):
    base = tmp_path / f"report{suffix}" if suffix else built
    if suffix:
        rlreport.build(runs["main"], base, workers=1)
    of_logs = comparison_json(loss[1])
    of_report, outcome = compared(base, runs["lost"])
    assert of_report["verdict"] == of_logs["verdict"]
    assert of_report["flips"] == of_logs["flips"]
    assert of_report["curves"] == of_logs["curves"]
    assert texts_note(outcome) == ""


def test_the_same_runs_give_the_same_bytes(runs, loss, tmp_path):
    run_at.cache_clear()
    for suffix in ("", ".eml"):
        rlreport.compare(runs["main"], runs["lost"], tmp_path / f"out{suffix}")
    first = files_below(loss[1].parent)
    first = {
        name: first[name] for name in first if name.startswith(("out/", "out.eml"))
    }
    assert first == files_below(tmp_path)


def test_the_gate_fails_on_what_it_is_told_and_writes_first(runs, tmp_path):
    for new, options, status in (
        ("lost", ["--fail-on", "worse", "--margin", "0.9"], 0),
        ("lost", ["--fail-on", "any"], 1),
        ("same", ["--require-evidence"], 3),
    ):
        out = tmp_path / str(status)
        sides = [str(runs["main"]), str(runs[new])]
        arguments = ["compare", *sides, "-o", str(out), *options]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == status, result.output
        assert comparison_json(out)["gate"]["exit"] == status
        assert (out / "compare.html").exists()
    assert comparison_json(out)["gate"] == {"failed": [], "exit": 3}
    for new, fail_on, status in (
        ("same", [], 0),
        ("lost", [], 0),
        ("lost", ["worse"], 1),
    ):
        _, outcome = compared(runs["main"], runs[new], fail_on=fail_on)
        assert outcome.gate.exit == status


def test_other_prompts_are_compared_unpaired_and_that_is_said(runs, tmp_path):
    other = write_run(tmp_path / "other", name="q")
    found, outcome = compared(runs["main"], other)
    assert not found["verdict"]["paired"]
    assert (found["verdict"]["only_base"], found["verdict"]["only_new"]) == (48, 48)
    assert any("Fewer than 30%" in note for note in notes(outcome))
    # By their ids the same prompts are found again.
    assert compared(runs["main"], other, pair_by="id")[0]["verdict"]["pairs"] == 48


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("id", "id"),
        ("group", "group_id"),
    ],
)
def test_responses_without_the_field_of_pairs_are_left_out_and_counted(
    tmp_path, field, key
):
    base = write_run(tmp_path / "base", prompts=range(16), group_id="g")
    new = write_run(tmp_path / "new", prompts=range(16), seed=1, group_id="g")
    lines = (new / "log.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows[:7]:
        del row[key]
    write(new / "log.jsonl", rows)
    _, outcome = compared(base, new, pair_by=field)
    lacking = [note for note in notes(outcome) if "--pair-by" in note]
    assert lacking == ["new: responses without the field of --pair-by, left out: 7."]


def test_other_step_spacing_and_no_overlap_are_said(runs, tmp_path):
    odd = write_run(tmp_path / "odd", steps=[2.0 * i + 1 for i in range(5)])
    even = write_run(tmp_path / "even", steps=range(0, 10, 2))
    found, outcome = compared(even, odd)
    assert found["verdict"]["reasons"] == ["other_steps"]
    assert found["verdict"]["pairs"] == 48
    found, outcome = compared(
        runs["main"], write_run(tmp_path / "late", steps=range(100, 110))
    )
    assert any("no common steps near their ends" in note for note in notes(outcome))
    sentence = found["verdict"]["sentence"]
    assert "steps 8–9 of main against steps 108–109 of late" in sentence
    assert found["curves"]["step"] == []


def test_a_step_in_common_long_before_the_end_is_not_what_is_compared(tmp_path):
    # Both validate at step 0, before anything is learned, and never at one step again.
    base = write_run(tmp_path / "base", steps=(0, 50, 100))
    others = (0, 40, 80)
    new = write_run(tmp_path / "new", steps=others, seed=1, drop=0.4)
    found, outcome = compared(base, new)
    said = notes(outcome)
    assert found["window"] == window_of([100, 100], [80, 80])
    reason = "near their ends, so the last steps of each are compared."
    assert any(reason in note for note in said)
    both = "step 100 of base against step 80 of new"
    assert (
        f"48 prompts in pairs, training responses, {both};"
        in found["verdict"]["sentence"]
    )


def test_steps_at_the_end_of_what_both_cover_are_compared(tmp_path):
    base = write_run(tmp_path / "less", steps=(0, 50, 96))
    new = write_run(tmp_path / "more", steps=(0, 45, 95, 100), seed=1)
    found = compared(base, new)[0]
    assert found["window"] == window_of([96, 96], [95, 95])


def test_a_redacted_report_cannot_be_paired_and_tells_no_hash(runs, tmp_path):
    base = tmp_path / "base.zip"
    rlreport.build(runs["main"], base, redact=True, workers=1)
    found, outcome = compared(base, runs["lost"])
    assert any("cannot be paired" in note for note in notes(outcome))
    assert not found["verdict"]["paired"]
    assert found["verdict"]["level"] in ("worse", "no_evidence")
    assert not compared(base, base)[1].comparison.effect.paired


def test_redaction_leaves_out_all_texts_and_what_the_card_names_as_prose(tmp_path):
    base = write_run(tmp_path / "a")
    new = write_run(tmp_path / "b", drop=0.4)
    for side, word in ((base, "Obey"), (new, "Think")):
        lines = f"system_prompt: {word}\nmax_prompt_length: 70{len(word)}\n"
        (side / "config.yaml").write_text(lines)
    rlreport.compare(base, new, tmp_path / "out", redact=True)
    flips = comparison_json(tmp_path / "out")["flips"]
    assert flips and all(isinstance(flip["prompt"], int) for flip in flips)
    for name, data in files_below(tmp_path / "out").items():
        if name.endswith((".html", ".json", ".csv")):
            assert not re.search("what\\?|red kite|Obey|Think", data.decode())
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "system_prompt" in page and "[text]" in page
    assert "704" in page and "705" in page


def test_several_seeds_of_base_are_one_interval_over_runs(runs, tmp_path):
    third = write_run(tmp_path / "third", seed=3)
    found, outcome = compared([runs["main"], runs["same"], third], runs["lost"])
    assert any("Runs: 3 of BASE" in note for note in notes(outcome))
    assert found["verdict"]["level"] == "worse"
    short = write_run(tmp_path / "short", seed=3, steps=range(6))
    found = compared([runs["main"], short], runs["same"])[0]
    assert found["window"] == window_of([5, 5], [5, 5])
    assert found["verdict"]["pairs"] == 48


def test_a_seed_that_ended_before_the_others_begin_leaves_each_side_its_end(
    runs, tmp_path
):
    ahead = write_run(tmp_path / "ahead", seed=3, steps=range(-5, 0))
    found = compared([runs["main"], ahead], runs["same"])[0]
    assert found["verdict"]["pairs"] == 48


def test_a_folder_of_seeds_stands_for_its_runs(tmp_path):
    for place, config in (
        ("named/a_s1", ""),
        ("named/a_s2", ""),
        ("set/x", 1),
        ("set/y", 2),
    ):
        folder = write_run(tmp_path / place, prompts=range(4), seed=len(place))
        if config:
            (folder / "config.json").write_text(
                json.dumps({"lr": 1e-6, "seed": config})
            )
    for place in ("named", "set"):
        assert seeds_at(tmp_path / place) == sorted((tmp_path / place).iterdir())
    rlreport.compare(tmp_path / "named", tmp_path / "set", tmp_path / "out.md")
    assert "Runs: 2 of BASE, 2 of NEW." in (tmp_path / "out.md").read_text()
    (tmp_path / "set" / "y" / "config.json").write_text('{"lr": 1e-5, "seed": 2}')
    assert seeds_at(tmp_path / "set") == [tmp_path / "set"]


def test_folders_of_one_run_are_no_seeds_whatever_lies_beside_them(tmp_path):
    for name in ("train", "val"):
        write_run(tmp_path / name, prompts=range(4))
    (tmp_path / "config.json").write_text('{"lr": 1e-6, "seed": 42}')
    assert seeds_at(tmp_path) == [tmp_path]
    for name in ("a.html", "b.zip"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 of others")
        assert seeds_at(tmp_path) == [tmp_path]


def test_a_second_seed_with_other_prompts_is_compared_unpaired_and_counted(
    runs, tmp_path
):
    other = write_run(tmp_path / "other", seed=3, name="q")
    some = write_run(tmp_path / "some", seed=3, prompts=range(20, 60))
    for second, pairs, only in (
        (other, 0, (48, 48)),
        (some, 28, (12, 20)),
    ):
        found, outcome = compared([runs["main"], second], runs["same"])
        verdict = found["verdict"]
        assert (verdict["paired"], verdict["pairs"]) == (pairs > 0, pairs)
        assert (verdict["only_base"], verdict["only_new"]) == only
        assert f"Prompts in common: {pairs};" in notes(outcome)[0]
        assert pairs or verdict["level"] == "no_evidence"


def test_two_prompts_are_too_few_to_be_compared(tmp_path):
    base = write_run(tmp_path / "base", prompts=range(2))
    new = write_run(tmp_path / "new", prompts=range(2), seed=1)
    made = rlreport.compare(base, new, tmp_path / "out", fail_on=["any"])
    assert made.sentence == (
        "new and base cannot be compared. "
        "Fewer than three prompts (of metrics: blocks of steps) can be compared."
    )
    found = comparison_json(tmp_path / "out")
    assert found["verdict"]["reasons"] == ["few_prompts"]
    assert {*found["curves"]["low"], *found["curves"]["high"]} == {None}
    assert None not in found["curves"]["difference"]
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "without a band" in page and "confidence band" not in page
    no_data, too_few = page.split("Not compared, as ")[1:]
    assert no_data.startswith("a run has no data: ") and "Length" not in no_data
    assert too_few.startswith("too few prompts or blocks have data: Length, ")


def test_prompts_that_only_one_side_has_are_counted(tmp_path):
    base = write_run(tmp_path / "base", prompts=range(2))
    new = write_run(tmp_path / "next", prompts=range(1, 3))
    _, outcome = compared(base, new)
    assert notes(outcome)[0].endswith(
        "Prompts in common: 1; on one side only: 1 (base), 1 (next)."
    )


def test_one_value_a_step_has_no_band_and_that_is_said(tmp_path):
    for name, reward in (("base", 0.2), ("new", 0.9)):
        rows = [
            {"step": step, "reward": reward + 0.01 * (step % 5)} for step in range(50)
        ]
        write(tmp_path / f"{name}.jsonl", rows)
    runs = tmp_path / "base.jsonl", tmp_path / "new.jsonl"
    found, outcome = compared(*runs)
    assert (
        set(found["curves"]["low"]) == {None}
        and found["verdict"]["reasons"][-1] == "no_band"
    )
    assert any("has no band" in note for note in notes(outcome))
    rlreport.compare(*runs, tmp_path / "out.md")
    assert "has no band" in (tmp_path / "out.md").read_text()


def test_a_report_that_is_broken_newer_or_without_figures_is_refused_in_a_sentence(
    runs, report, tmp_path
):
    base = report
    data = base / "data" / "responses.csv.gz"
    about = base / "data" / "report.json"
    whole = data.read_bytes()
    bare = gzip.compress(b"step,n,reward\n0,0,1\n")
    for broken in (b"", b"no gzip", whole[:-20], whole[:100], bare):
        data.write_bytes(broken)
        with pytest.raises(UnusableInputError, match="broken; build the report again"):
            rlreport.compare(base, runs["lost"], tmp_path / "out")
    data.unlink()
    with pytest.raises(UnusableInputError, match="has no data/responses"):
        rlreport.compare(base, runs["lost"], tmp_path / "out")
    data.write_bytes(whole)
    newer = {**json.loads(about.read_text()), "schema": 99}
    about.write_text(json.dumps(newer))
    with pytest.raises(UnusableInputError, match="another version"):
        rlreport.compare(base, runs["lost"], tmp_path / "out")
    about.write_text("{")
    with pytest.raises(UnusableInputError, match="broken report"):
        rlreport.compare(base, runs["lost"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "data",
    [
        "[]",
        '{"texts": []}',
        '{"n": 1, "texts": {"prompt": ["p"]}}',
        '{"n": [1e999], "texts": {"prompt": ["p"]}}',
        '{"n": [0], "texts": {"prompt": {"0": 1}}}',
        json.dumps(
            {
                "n": [*range(96)],
                "texts": dict.fromkeys(("prompt", "response"), ["\ud800"] * 96),
            }
        ),
        "[" * 100_000,
    ],
)
def test_texts_of_another_make_cost_the_texts_only(runs, report, tmp_path, data):
    base = report
    packed = base64.b64encode(
        gzip.compress(data.encode("utf-8", "surrogatepass"))
    ).decode()
    steps = [path.stem for path in (base / "steps").glob("*.html")]
    content = json.dumps(dict.fromkeys(steps, packed))
    (base / "data" / "texts.js").write_text(f"globalThis.rlreportTexts = {content};\n")
    assert compared(runs["lost"], base)[0]["verdict"]["level"] == "better"


def test_what_is_no_report_is_refused(runs, tmp_path):
    (tmp_path / "page.html").write_text("<p>hello</p>")
    with pytest.raises(UnusableInputError, match="not a report of rlreport"):
        rlreport.compare(tmp_path / "page.html", runs["lost"], tmp_path / "out")
    for form in forms.FORMS.values():
        if not form.comparable:
            with pytest.raises(
                UnusableInputError, match=f"{form.words} has no figures"
            ):
                rlreport.compare(f"run{form.suffix}", runs["lost"], tmp_path / "out")
    with pytest.raises(UsageError, match="--pair-by task"):
        rlreport.compare(runs["main"], runs["lost"], tmp_path / "out", pair_by="task")
    assert CliRunner().invoke(main, ["compare", str(runs["main"])]).exit_code == 2


def test_one_trainers_metrics_are_not_taken_for_those_of_two_runs(
    runs, built, tmp_path
):
    rows = [{"step": step, "entropy": 1.0} for step in range(10)]
    metrics = write(tmp_path / "trainer.jsonl", rows)

    def run_with_metrics(base):
        arguments = ["compare", base, runs["lost"], "--metrics", metrics]
        arguments += ["-o", tmp_path / "out"]
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    refused = run_with_metrics(runs["main"])
    assert refused.exit_code == 2
    assert "--metrics: one metrics file cannot belong to several runs" in refused.output
    assert not (tmp_path / "out").exists()
    assert run_with_metrics(built).exit_code == 0


def test_markdown_and_mail_carry_the_verdict_and_two_pairs(loss):
    made, out = loss
    text = out.with_suffix(".md").read_text()
    assert text.startswith("<!-- rlreport ")
    assert "**lost is worse than main by 0.339 (" in text
    assert text.count("what?") >= 2
    assert len(text) < 60_000
    mail = out.with_suffix(".eml").read_bytes()
    assert b"Subject: lost is worse than main by 0.339\r\n" in mail
    assert made.outcome.flips


def test_hostile_names_and_settings_are_no_markup_in_markdown_and_mail(tmp_path):
    name = "<script>alert(1)<script> @team #12 | `x` ]("
    runs = []
    for number, drop in enumerate((0.0, 0.4)):
        folder = tmp_path / f"{name}{number}"
        write_run(folder, drop=drop, name=f"</summary> @all *a* {name}")
        (folder / "config.json").write_text(
            json.dumps({f"{name}.k": f"{name}{number}"})
        )
        runs.append(folder)
    base, new = runs
    rlreport.compare(base, new, tmp_path / "out.md")
    rlreport.compare(base, new, tmp_path / "out.eml")
    text = (tmp_path / "out.md").read_text()
    outside_code = re.sub(
        r"(`+)[^`].*?[^`]\1(?!`)|```text\n.*?\n```", "", text, flags=re.S
    )
    assert "<script>" not in outside_code and "</summary> " not in outside_code
    assert not re.search(r"@(team|all)", outside_code)
    heads = [line for line in text.splitlines() if line.startswith("| Figure")]
    assert len(re.findall(r"(?<!\\)\|", heads[0])) == 7
    mail = message_from_bytes((tmp_path / "out.eml").read_bytes(), policy=default)
    assert mail["Subject"].startswith("k …| `x` ](1 is worse than …| `x` ](0 by 0.")
    body = mail.get_body(("html",))
    assert body
    html = body.get_content()
    assert "<script>" not in html and "</summary>" not in html


def test_rewards_of_both_sides_are_explained_alike(loss):
    page = (loss[1] / "compare.html").read_text("utf-8")
    heads = re.findall(r'class="number" data-key="(base|new)" title="([^"]*)"', page)
    meaning = "mean reward of the prompt in the window"
    assert {("base", meaning), ("new", meaning)} <= set(heads)


def test_fewer_pairs_are_shown_where_the_size_is_small(runs, loss, tmp_path):
    size = loss[1].with_suffix(".html").stat().st_size
    small = tmp_path / "small.html"
    rlreport.compare(runs["main"], runs["lost"], small, max_size=size - 2_000)
    assert small.stat().st_size <= size - 2_000
    assert "prompts won or lost are shown" in small.read_text()


@pytest.mark.parametrize("form", ["", ".html"])
def test_a_row_opens_both_responses_with_their_differences(browser, loss, form):
    page = loss[1].with_suffix(form) if form else loss[1] / "compare.html"
    with visiting(browser, page) as opened:
        assert not serious(opened)
        opened.click('.responses tr[data-n="1"] td[data-key="response"]')
        assert opened.text_content(".response h2") == "Prompt 1: lost against main"
        titles = opened.locator(".response .texts summary").all_text_contents()
        assert titles == ["Prompt", "main", "lost"]
        new = opened.locator('.response [data-text="response"] ins')
        base = opened.locator('.response [data-text="ref_response"] del')
        assert new.count() and base.count()
        opened.click("text=Mark differences from main")
        assert not new.count() and not base.count()


def test_the_folder_opens_at_its_index_and_reads_whole_without_scripts_on_a_phone(
    browser, loss
):
    with visiting(browser, loss[1] / "index.html", java_script_enabled=False) as opened:
        opened.wait_for_url("**/compare.html")
        opened.set_viewport_size({"width": 390, "height": 844})
        assert "lost is worse than main" in (
            opened.text_content(".verdict .sentence") or ""
        )
        assert opened.locator(".charts .plot > svg").count() == 2
        assert opened.locator(".responses tbody tr").count() > 10
        assert opened.evaluate("document.documentElement.scrollWidth") <= 390
