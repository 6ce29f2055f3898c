"""Advice names the framework's own setting and its value, and never contradicts either."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlreport.check import findings_json, run_checks
from rlreport.check.advice import Advice, Setup, advice_for, sole_framework
from rlreport.check.check import Check
from rlreport.check.finding import Fact, Finding, Rank, Setting, Severity
from rlreport.check.registry import BY_ID, CHECKS
from rlreport.check.sentence import with_texts
from rlreport.check.settings import (
    FRAMEWORKS,
    OTHER,
    Framework,
    Move,
    Remedy,
    SettingKind,
    higher,
    lower,
)
from rlreport.check.verdict import Judged, Verdict
from rlreport.formats.registry import formats
from rlreport.tables import Tables
from tests.running import rlreport
from tests.tables_builder import SIGN, STEP, tables

# Values that make some imperative impossible: nothing to lower, no limit to raise, already on
NUMBERS = [0, 0.0, 1, 1.0, 0.2, 8, 1e-6, -1]
TEXTS = "0 1 1e-6 null true False token a/b.py 0.5,5.0 ${a.b} [text]".split()
VALUES = [*NUMBERS, None, True, False, *TEXTS]


ALL = {**FRAMEWORKS, OTHER.name: OTHER}


def of_kind(kind: SettingKind) -> set[str]:
    """Return the names of all settings of a kind."""
    names = set[str]()
    for framework in ALL.values():
        names.update(key.name for key in framework.keys.get(kind, ()))
    return names


EPOCHS = of_kind(SettingKind.EPOCHS)


def values_of(framework: Framework, value: object) -> dict:
    """Return a configuration in which all settings of a framework have a value."""
    names = set[str]()
    for key in chain.from_iterable(framework.keys.values()):
        names.update([key.name, *key.switches])
    return {name.removeprefix("--").replace("-", "_"): value for name in names}


def kinds_of(check: Check) -> list[str]:
    """Return the kinds of a check's findings that advice tells apart."""
    return list(check.advice) if isinstance(check.advice, Mapping) else ["other"]


def refuse_contradiction(advice: Advice) -> None:
    """Fail if a sentence asks for what its own value makes impossible or is already so."""
    found = re.search(r"`([^`]+)`(?: to (\S+))? \((\S+?) here", advice.text)
    if found is None:
        return
    key, target, value = found.groups()
    number = float(value) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", value) else None
    text = advice.text[: found.start()].rpartition(". ")[2]
    is_off = value.lower() in ("false", "null", "0", "0.0")
    if text == "Lower ":
        assert number is not None
        assert number > (1 if key in EPOCHS else 0), advice.text
    if text == "Raise ":
        assert number is not None, advice.text
    if text == "Switch on ":
        assert is_off, advice.text
    if text == "Set ":
        assert target != value, advice.text


def advice_on(check_id: str, setup: Setup, excluded=(), **facts) -> Advice:
    return advice_for(BY_ID[check_id], facts, setup, frozenset(excluded))


@pytest.mark.parametrize("name", ALL)
def test_no_advice_on_a_setting_contradicts_the_value_that_it_tells(name: str):
    framework = ALL[name]
    check = BY_ID["ratio_drift"]
    setups = [Setup(name, values_of(framework, value)) for value in VALUES]
    for kind, move in product(SettingKind, Move):
        one = replace(check, advice=(Remedy(move, kind),))
        for setup, value in zip(setups, VALUES, strict=True):
            refuse_wrong_setting(advice_for(one, {}, setup), value)


def refuse_wrong_setting(advice: Advice, value: object) -> None:
    refuse_contradiction(advice)
    for setting in advice.settings:
        assert f"`{setting.key}`" in advice.text
        assert setting.value in (value, None)


@pytest.mark.parametrize("name", ALL)
def test_no_check_gives_advice_that_contradicts_the_configuration(name: str):
    setups = [Setup(name, values_of(ALL[name], value)) for value in VALUES]
    for check, setup in product(CHECKS, setups):
        for kind in kinds_of(check):
            advice = advice_for(check, {"kind": kind}, setup)
            refuse_contradiction(advice)
            assert advice.text[0].isupper()
            assert advice.text.endswith(".")
            assert len(advice.text.split()) <= 30


def test_a_sentence_that_contradicts_its_value_would_be_found():
    for text in (
        "Lower `num_iterations` (1 here).",
        "Lower `beta` (0 here).",
        "Raise `a` (null here).",
        "Switch on `a` (true here).",
        "Set `top_p` to 1 (1 here).",
    ):
        with pytest.raises(AssertionError):
            refuse_contradiction(Advice(text))


def test_plain_words_remain_without_a_framework_and_settings_of_a_common_name():
    for check in CHECKS:
        for kind in kinds_of(check):
            advice = advice_for(check, {"kind": kind}, Setup(None, {"my_beta": 1}))
            assert advice == Advice(check.suggestions.get(kind, check.suggestion))


def test_settings_of_other_frameworks_are_named_as_their_configuration_names_them():
    entries = {"ppo_epochs": 8, "learning_rate": 1e-5, "max_grad_norm": 0}
    other = Setup(None, entries)
    assert advice_on("ratio_drift", other).text == "Lower `ppo_epochs` (8 here)."
    one_epoch = Setup(None, {**entries, "ppo_epochs": 1})
    advice = advice_on("ratio_drift", one_epoch)
    assert advice.text == "Lower `learning_rate` (1e-5 here)."
    # It has no setting for the KL penalty, so that the next remedy counts.
    advice = advice_on("kl_explosion", other, kind="level")
    assert advice.text == "Lower `learning_rate` (1e-5 here)."
    two_rates = Setup(None, {"actor.lr": 1e-6, "critic.lr": 1e-5})
    assert advice_on("ratio_drift", two_rates).text == BY_ID["ratio_drift"].suggestion


@pytest.mark.parametrize(
    ("check", "name", "entries", "text"),
    [
        (
            "ratio_drift",
            "verl",
            {"actor_rollout_ref.actor.ppo_epochs": 8},
            "Lower `actor_rollout_ref.actor.ppo_epochs` (8 here).",
        ),
        (
            "ratio_drift",
            "verl",
            {
                "actor_rollout_ref.actor.ppo_epochs": 1,
                "actor_rollout_ref.actor.optim.lr": 1e-5,
            },
            "Lower `actor_rollout_ref.actor.optim.lr` (1e-5 here).",
        ),
        (
            "kl_explosion",
            "TRL",
            {"beta": 0.0},
            "Set `beta` above 0 (0 here: there is no KL penalty).",
        ),
        ("kl_explosion", "TRL", {"beta": 0.04}, "Raise `beta` (0.04 here)."),
        (
            "kl_explosion",
            "verl",
            {
                "actor_rollout_ref.actor.use_kl_loss": False,
                "actor_rollout_ref.actor.kl_loss_coef": 0.001,
                "algorithm.use_kl_in_reward": False,
            },
            "Switch on `actor_rollout_ref.actor.use_kl_loss` (false here: there is no KL "
            "penalty), with `actor_rollout_ref.actor.kl_loss_coef` above 0.",
        ),
        (
            "kl_explosion",
            "verl",
            {
                "actor_rollout_ref.actor.use_kl_loss": False,
                "algorithm.use_kl_in_reward": True,
                "algorithm.kl_ctrl.kl_coef": 0.001,
            },
            "Raise `algorithm.kl_ctrl.kl_coef` (0.001 here).",
        ),
        (
            "kl_explosion",
            "AReaL",
            {"actor.kl_ctl": 0.0},
            "Set `actor.kl_ctl` above 0 (0 here: there is no KL penalty); it counts only with "
            "`ref.path`.",
        ),
        (
            "kl_explosion",
            "AReaL",
            {"actor.kl_ctl": 0.01, "ref.path": "models/base"},
            "Raise `actor.kl_ctl` (0.01 here).",
        ),
        (
            "kl_explosion",
            "prime-rl",
            {"trainer.optim.lr": "3e-6"},
            "Lower `trainer.optim.lr` (3e-6 here).",
        ),
        (
            "zero_variance_groups",
            "TRL",
            {"num_generations": 4},
            "Raise `num_generations` (4 here).",
        ),
        (
            "zero_variance_groups",
            "verl",
            {"algorithm.filter_groups.enable": False},
            "Switch on `algorithm.filter_groups.enable` (false here).",
        ),
        (
            "zero_variance_groups",
            "verl",
            {"algorithm.filter_groups.enable": True, "actor_rollout_ref.rollout.n": 5},
            "Raise `actor_rollout_ref.rollout.n` (5 here).",
        ),
        (
            "engine_mismatch",
            "slime",
            {"use_tis": True},
            "Use equal precision, kernels and weights in sampler and trainer.",
        ),
        (
            "negative_kl",
            "TRL",
            {"temperature": 1.0, "top_p": 0.9},
            "Set `top_p` to 1 (0.9 here).",
        ),
        (
            "gradient_explosion",
            "OpenRLHF",
            {"actor": None, "actor.max_norm": 0},
            "Set `--actor.max_norm` above 0 (0 here: gradients are not clipped).",
        ),
        (
            "turn_limit",
            "TRL",
            {"max_tool_calling_iterations": None},
            "Reward early answers, or mask stopped conversations in the loss.",
        ),
    ],
)
def test_advice_says_the_setting_and_its_value(
    check: str, name: str, entries: dict, text: str
):
    advice = advice_on(check, Setup(name, entries), kind=kind_for(check))
    assert advice.text == text


def kind_for(check: str) -> str:
    return {"kl_explosion": "level", "zero_variance_groups": "wrong"}.get(check, "")


def test_a_temperature_is_raised_to_1_at_most():
    def advice(temperature: float | None) -> str:
        entries = {} if temperature is None else {"temperature": temperature}
        excluded = higher(SettingKind.KL, SettingKind.ENTROPY)
        return advice_on("diversity_collapse", Setup("TRL", entries), excluded).text

    assert advice(0.7) == "Raise `temperature` (0.7 here)."
    assert advice(1.0) == advice(None) == BY_ID["diversity_collapse"].otherwise


def test_a_pointer_follows_the_plain_words():
    entries = {"reward.custom_reward_function.path": "rewards/math.py"}
    advice = advice_on("label_lost", Setup("verl", entries))
    plain = BY_ID["label_lost"].suggestion
    key = "reward.custom_reward_function.path"
    assert advice.text == f"{plain} See `{key}` (rewards/math.py here)."
    assert advice.settings == (Setting(key, "rewards/math.py"),)


def test_what_is_off_unless_configured_is_not_lowered_without_a_configuration():
    # TRL takes one epoch per batch and has no entropy bonus by default.
    assert "num_iterations" not in advice_on("ratio_drift", Setup("TRL")).text
    assert "entropy_coef" not in advice_on("entropy_explosion", Setup("TRL")).text


def test_a_learning_rate_that_is_not_0_is_no_reason_of_updates_without_effect():
    def advice(rate: float) -> str:
        setup = Setup("TRL", {"learning_rate": rate})
        return advice_on("no_updates", setup, kind="learning_rate").text

    assert advice(0.0) == "Set `learning_rate` above 0 (0 here: nothing is learned)."
    assert advice(1e-6) == BY_ID["no_updates"].suggestion


@pytest.mark.parametrize("group", ["", "config", "args.grpo", "cfg.run"])
def test_the_framework_and_its_settings_are_found_inside_groups(group: str):
    def named(name: str) -> str:
        return f"{group}.{name}" if group else name

    entries = {named("num_generations"): 4, named("beta"): 0.1, "model.beta": 7}
    assert sole_framework([], entries, []) == "TRL"
    advice = advice_on("kl_explosion", Setup("TRL", entries), kind="level")
    assert advice.text == "Raise `beta` (0.1 here)."


def test_two_groups_with_other_values_tell_no_value():
    entries = {"a.beta": 0.1, "b.beta": 0.2}
    advice = advice_on("kl_explosion", Setup("TRL", entries), kind="level")
    assert advice.text == "Raise `beta`."


def test_the_configuration_that_wandb_saves_is_read():
    entries = {
        "wandb_version": 1,
        "actor_rollout_ref.desc": None,
        "actor_rollout_ref.value.actor.ppo_epochs": 4,
    }
    assert sole_framework([], entries, []) == "verl"
    advice = advice_on("ratio_drift", Setup("verl", entries))
    assert advice.text == "Lower `actor_rollout_ref.actor.ppo_epochs` (4 here)."


def test_marks_of_two_frameworks_tell_none():
    trl = {"num_generations": 4, "beta": 0.1}
    assert sole_framework(["trl"], {}, []) == "TRL"
    assert sole_framework(["trl"], trl, []) == "TRL"
    assert sole_framework(["verl"], trl, []) is None
    assert sole_framework(["verl", "trl"], {}, []) is None
    # ms-swift has settings of TRL, and further ones of its own.
    assert sole_framework(["swift"], trl, []) is None
    assert sole_framework(["plain"], {"beta": 0.1}, ["reward", "loss"]) is None


def test_metrics_that_only_one_framework_logs_tell_it():
    ours = ["val-core/gsm8k/reward/mean@1"]
    common = ["grad_norm", "entropy", "reward", "actor/grad_norm", "actor/lr"]
    assert sole_framework(["plain"], {}, common) is None
    assert sole_framework([], {}, [*common, *trl_metrics()]) == "TRL"
    assert sole_framework([], {}, ["train/completions/clipped_ratio"]) == "TRL"
    assert sole_framework([], {}, [*common, *ours]) == "verl"
    others = ["env/all/reward/total", "env/all/ac_tokens_per_turn"]
    assert sole_framework([], {}, [*others, *ours]) is None
    assert sole_framework(["slime"], {}, trl_metrics()) is None
    assert sole_framework([], {}, [*ours, *trl_metrics()]) is None


def trl_metrics() -> list[str]:
    return ["completions/clipped_ratio", "clip_ratio/region_mean"]


def test_formats_of_the_table_exist_and_belong_to_one_framework():
    named = [*chain.from_iterable(one.formats for one in FRAMEWORKS.values())]
    assert len(named) == len(set(named))
    assert set(named) <= set(formats())


def test_checks_whose_settings_may_be_exhausted_have_further_words():
    for check in CHECKS:
        by_kind = [check.remedies({"kind": kind}) for kind in kinds_of(check)]
        every = chain.from_iterable(by_kind)
        moves = {remedy.move for remedy in every if not remedy.after}
        moves -= {Move.ABOVE_ZERO}
        assert bool(moves) == bool(check.otherwise), check.id


def findings(*ids: str) -> list[Finding]:
    return [Finding(one, Severity.WARNING, Rank.CAUSE, WORDS) for one in ids]


# Values of all placeholders in the titles of these findings
WORDS: dict[str, Fact] = {
    **dict.fromkeys(("start", "end", "share", "before"), 1.0),
    **dict.fromkeys(("early", "late"), (0, 2)),
    "kind": "level",
}


def told(entries: dict, *ids: str) -> Verdict:
    judged = Judged("warning", findings=findings(*ids))
    return with_texts(judged, setup=Setup("TRL", entries))


def test_no_finding_advises_what_another_rules_out():
    entries = {"beta": None, "entropy_coef": 0.0, "temperature": 0.7}
    diverse = advice_on("diversity_collapse", Setup("TRL", {"temperature": 0.7}))
    assert diverse.text.startswith("Raise")
    excluded = {*higher(SettingKind.KL), *BY_ID["entropy_explosion"].rules_out}
    advice = advice_on("diversity_collapse", Setup("TRL", entries), excluded)
    assert advice == Advice(BY_ID["diversity_collapse"].otherwise)


def test_a_later_finding_does_not_undo_what_an_earlier_one_advises():
    entries = {"entropy_coef": 0.01, "learning_rate": 0.0, "beta": 0.0}
    first, second = told(entries, "entropy_explosion", "entropy_collapse").findings
    assert first.suggestion == BY_ID["entropy_explosion"].otherwise
    assert second.suggestion == BY_ID["entropy_collapse"].otherwise
    (alone,) = told(entries, "entropy_explosion").findings
    assert alone.suggestion == "Lower `entropy_coef` (0.01 here)."
    assert lower(SettingKind.KL)[0].opposite == higher(SettingKind.KL)[0]


def test_settings_are_in_the_findings():
    verdict = told({"entropy_coef": 0.01}, "entropy_explosion")
    (finding,) = findings_json(verdict)["findings"]
    assert finding["try"] == "Lower `entropy_coef` (0.01 here)."
    assert finding["settings"] == [{"key": "entropy_coef", "value": 0.01}]


def exploding_logs(folder: Path) -> Path:
    """Write logs of a run whose KL rises to 40 nats per response while its reward falls."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    with (folder / "rollouts.jsonl").open("w") as file:
        for step, n in product(range(20), range(8)):
            drift = 0.05 * step
            ref = rng.normal(-1.0, 0.1, 40) - drift
            row = {
                "step": step,
                "prompt": f"question {n}",
                "response": " ".join(f"w{i}" for i in rng.integers(0, 99, 40)),
                "reward": float(rng.normal(-0.3 * step)),
                "logprobs": rng.normal(-1.0, 0.1, 40).round(4).tolist(),
                "ref_logprobs": ref.round(4).tolist(),
            }
            file.write(json.dumps(row) + "\n")
    settings = {"num_generations": 8, "beta": 0.123, "learning_rate": 3e-6}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def kl_finding(logs: Path, *options: str) -> dict:
    printed = rlreport("check", logs, "--json", "-q", *options).stdout
    listed = json.loads(printed)["findings"]
    (finding,) = [one for one in listed if one["id"] == "kl_explosion"]
    return finding


def test_a_check_of_logs_reads_the_configuration_and_hides_it_with_the_names(
    tmp_path: Path,
):
    logs = exploding_logs(tmp_path / "run")
    finding = kl_finding(logs)
    assert finding["try"] == "Raise `beta` (0.123 here)."
    assert finding["settings"] == [{"key": "beta", "value": 0.123}]
    out = tmp_path / "report"
    rlreport("build", logs, "-o", out, "-q", "--redact=names")
    written = (out / "data" / "findings.json").read_text()
    assert "0.123" not in written
    for finding in json.loads(written)["findings"]:
        assert all(one["value"] is None for one in finding["settings"])


def advice_in(made: Tables, check: str) -> str:
    (finding,) = [one for one in run_checks(made).findings if one.id == check]
    return finding.suggestion


def test_a_penalty_on_length_is_looked_for_only_where_short_responses_earn_more():
    noise = np.random.default_rng(1).normal(size=len(STEP))
    length = np.where(STEP < 20, 100, 12) * np.exp(0.3 * noise)
    paid = advice_in(
        tables(response_tokens=length, reward=-0.3 * noise + 0.1 * SIGN),
        "length_collapse",
    )
    assert paid.startswith("Short responses earn more: look for a penalty")
    unpaid = advice_in(tables(response_tokens=length, reward=SIGN), "length_collapse")
    assert unpaid.startswith("Read late responses beside early ones")


def test_a_validation_that_falls_with_the_reward_is_no_game_that_a_kl_penalty_ends():
    steps = np.arange(40)
    score = np.where(steps < 20, 0.8, 0.3) + 0.01 * (-1.0) ** steps
    noise = 0.1 * SIGN
    advice = {}
    rewards = {"together": np.repeat(score, 100), "alone": STEP / 40}
    for name, reward in rewards.items():
        metrics = pd.DataFrame({"step": steps, "eval/reward": score})
        made = replace(tables(reward=reward + noise), metrics=metrics)
        advice[name] = advice_in(made, "watched_reward_fall")
    assert advice["together"].startswith("Lower the learning rate")
    assert advice["alone"].startswith("Raise the KL coefficient")


def test_smaller_steps_are_no_cure_where_sampler_and_trainer_disagree():
    entries = {"learning_rate": 1e-6, "entropy_coef": 0.01}
    _, second = told(entries, "engine_mismatch", "entropy_collapse").findings
    assert second.suggestion == "Raise `entropy_coef` (0.01 here)."
    # A disagreement that came later is no reason to leave out what may mend the fall.
    first, _ = told(entries, "entropy_collapse", "engine_mismatch").findings
    assert first.suggestion == "Lower `learning_rate` (1e-6 here)."
