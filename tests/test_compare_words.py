"""The result of a comparison in words: each form of each sentence, also with hostile names."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check.finding import Onset, Rank, Severity, ToldFinding
from rlreport.comparison.compare import side_of
from rlreport.comparison.contrast import Contrast
from rlreport.comparison.data_file import TRAINER
from rlreport.comparison.decomposition import (
    ANY_MARK,
    Decomposition,
    Property,
    RewardPart,
)
from rlreport.comparison.guardrail_words import caveats, guardrail_level, not_shown
from rlreport.comparison.headline import (
    changed,
    evidence,
    headline,
    result,
    run_lines,
    sentence,
)
from rlreport.comparison.learning import learning
from rlreport.comparison.outcome import Outcome, outcome_of
from rlreport.comparison.prompt_words import (
    labelled_counts,
    prompt_counts,
    prompts_note,
)
from rlreport.comparison.remarks import (
    band_note,
    equal_kl,
    findings_note,
    notes,
)
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.statistics import Band, Effect
from rlreport.comparison.why import why
from rlreport.options import CompareOptions
from rlreport.text.clean import printable
from rlreport.text.language import Language

STEPS = 20
PROMPTS = 30
_ABILITY = np.linspace(0.2, 0.8, PROMPTS)


def rows(
    level=0.0, *, seed=0, steps=range(STEPS), prompts=range(PROMPTS), split="train"
):
    """Responses, one to each prompt at each step; ``level`` is added to the rewards.

    It is a number, or a function of the step.
    """
    random = np.random.default_rng(seed)
    found = []
    for step in steps:
        added = level(step) if callable(level) else level
        for n, prompt in enumerate(prompts):
            reward = _ABILITY[prompt % PROMPTS] + added + random.normal(0, 0.01)
            found.append((step, n, split, prompt, reward))
    columns = ["step", "n", "split", "prompt_id", "reward"]
    table = pd.DataFrame(found, columns=columns)
    return table.assign(prompt=table["prompt_id"], group=table["prompt_id"])


def run(name, responses, *, lead=None, level="healthy", trainer=None, **settings):
    side = side_of(name, responses)
    if trainer is not None:
        side = replace(side, trainer=trainer)
    findings = {}
    if lead:
        onset = Onset(step=12, low=12, high=12)
        findings[lead] = ToldFinding(
            id=lead,
            severity=Severity.CRITICAL,
            rank=Rank.NOTE,
            onset=onset,
            title="",
        )
    return ComparedRun(
        name=name,
        side=side,
        level="critical" if lead else level,
        lead=lead,
        findings=findings,
        texts=lambda wanted: {},
        facts={f"config.{key}": value for key, value in settings.items()},
    )


def outcome(base, new, **options) -> Outcome:
    bases = base if isinstance(base, list) else [base]
    news = new if isinstance(new, list) else [new]
    return outcome_of(bases, news, CompareOptions(**options))


def pair(level, *, base=None, new=None, **options):
    """The outcome of a run whose rewards differ by ``level`` from those of main."""
    return outcome(
        run("main", rows(), **(base or {})),
        run("other", rows(level, seed=1), **(new or {})),
        **options,
    )


def test_the_setting_that_differs_is_the_subject():
    worse = pair(-0.2, base={"group_size": "8"}, new={"group_size": "4"})
    assert headline(worse) == "group_size 4 is worse than 8 by 0.200"
    assert sentence(worse) == (
        "group_size 4 is worse than 8 by 0.200 (reward 0.30 against 0.50). 95% interval 0.198 to "
        "0.203; 30 prompts in pairs, training responses, steps 16–19; within these two runs."
    )
    assert sentence(worse) == f"{result(worse)} {evidence(worse)}"
    assert result(worse).endswith("(reward 0.30 against 0.50).")
    assert changed(worse) == ""


def test_the_names_are_the_subject_if_several_settings_differ_or_none():
    settings = {"lr": "1e-6", "beta": "0", "mu": "1", "n": "8", "gamma": "1"}
    others = {"lr": "2e-6", "beta": "1", "mu": "2", "n": "4", "gamma": "1"}
    better = pair(0.2, base=settings, new=others)
    assert sentence(better).startswith("other is better than main by 0.200 (")
    assert sentence(better).endswith("; within these two runs; 4 settings differ.")
    assert changed(better) == (
        "Settings that differ: beta 0 → 1, lr 1e-6 → 2e-6, n 8 → 4, 1 more."
    )
    alike = pair(0.2)
    assert sentence(alike).endswith("; within these two runs.")
    assert changed(alike) == ""


def test_private_values_of_settings_are_not_told():
    base = {"system_prompt": "Obey all", "lr": "1"}
    new = {"system_prompt": "Think twice", "lr": "2"}
    redacted = pair(0.2, base=base, new=new, redact=True)
    assert changed(redacted) == (
        "Settings that differ: lr 1 → 2, system_prompt [text] → [text]."
    )
    only = pair(0.2, base=base | {"lr": "2"}, new=new, redact=True)
    assert sentence(only).startswith("other is better than main by ")
    assert sentence(only).endswith("; 1 setting differs.")


def test_of_an_effect_that_was_not_shown_it_is_said_what_would_have_been_found():
    noisy = rows().assign(
        reward=np.random.default_rng(5).normal(0.5, 1, STEPS * PROMPTS)
    )
    open_ = outcome(run("main", rows()), run("other", noisy))
    assert headline(open_) == "No evidence either way between other and main"
    assert result(open_).startswith(f"{headline(open_)} (reward ")
    said = evidence(open_)
    assert said.startswith(("Difference −0.", "Difference +0."))
    assert said.endswith(
        f"An effect of {open_.comparison.effect.mde:.2f} or more would probably have been found "
        "(80% power)."
    )
    assert "could be up to" not in said


def test_of_an_effect_that_was_shown_no_detectable_effect_is_told():
    said = [sentence(pair(0.2)), *notes(pair(0.2))]
    assert not any("could be up to" in one or "would probably" in one for one in said)


def test_equal_rewards_are_no_evidence_of_anything():
    same = outcome(run("main", rows()), run("other", rows()))
    assert sentence(same) == (
        "other and main earn the same (reward 0.500). 30 prompts in pairs, training responses, "
        "steps 16–19; within these two runs."
    )


def test_what_cannot_be_compared_says_why():
    two = rows(prompts=range(2))
    few = outcome(run("a", two), run("b", two))
    assert sentence(few) == (
        "b and a cannot be compared. Fewer than three prompts (of metrics: blocks of steps) can "
        "be compared."
    )


def test_three_runs_a_side_speak_of_the_change():
    bases = [run(f"main_s{n}", rows(seed=n)) for n in range(3)]
    better = [rows(0.2, seed=seed) for seed in (3, 4, 5)]
    news = [run(f"other_s{n}", better[n]) for n in range(3)]
    change = sentence(outcome(bases, news))
    assert change.startswith("other is better than main by 0.2")
    assert change.endswith(
        "; 30 prompts in pairs, training responses, steps 16–19; 3 runs against 3."
    )
    fewer = sentence(outcome(bases, news[:1]))
    assert fewer.startswith("other_s0 is better than main by ")
    assert fewer.endswith("; within these 4 runs.")


def test_a_broken_run_comes_first_and_is_not_called_better():
    new = pair(0.2, new={"lead": "reward_hacking"})
    assert headline(new) == "other is broken: reward hacking since step 12"
    assert sentence(new).startswith(
        "other is broken: reward hacking since step 12. It earns 0.200 more than main ("
    )
    base = pair(0.2, base={"lead": "reward_hacking"})
    assert sentence(base).startswith(
        "main is broken: reward hacking since step 12. other earns 0.200 more than main ("
    )
    both = pair(-0.2, base={"lead": "reward_hacking"}, new={"lead": "reward_hacking"})
    assert headline(both) == "Both runs are broken"
    assert sentence(both).startswith(
        "Both runs are broken, so the difference between them means little (main: reward hacking "
        "since step 12; other: reward hacking since step 12). other earns 0.200 less than main ("
    )


def told(one, what, level="critical"):
    return replace(one, what=what, level=level)


def test_what_their_reports_say_of_broken_and_warned_runs_is_told_below_the_result():
    found = pair(0.2, new={"lead": "reward_hacking"})
    hacked = replace(found, news=[told(found.new, "Emojis fill the answers.")])
    assert result(hacked).startswith("other is broken. It earns 0.200 more than main (")
    assert headline(hacked) == "other is broken: reward hacking since step 12"
    assert run_lines(hacked) == ["other · Emojis fill the answers."]
    base = told(found.base, "It forgets.", "warning")
    assert run_lines(replace(hacked, bases=[base])) == [
        "main · It forgets.",
        "other · Emojis fill the answers.",
    ]
    both = replace(hacked, bases=[told(base, "It forgets.")])
    assert result(both).startswith(
        "Both runs are broken, so the difference between them means little. other earns "
    )
    healthy = told(found.base, "All is well.", "healthy")
    assert len(run_lines(replace(hacked, bases=[healthy]))) == 1


def test_what_reports_say_may_quote_texts_and_is_hidden_with_them():
    found = pair(0.2, new={"lead": "reward_hacking"}, redact=True)
    hidden = replace(found, news=[told(found.new, "Emojis fill the answers.")])
    assert run_lines(hidden) == []
    assert result(hidden).startswith("other is broken: reward hacking since step 12.")


def test_validation_is_named_as_such():
    base = run("main", rows(split="val"))
    new = run("other", rows(-0.2, seed=1, split="val"))
    val = outcome(base, new)
    assert "(validation reward 0.30 against 0.50). " in sentence(val)
    assert ", validation responses, steps 16–19; " in evidence(val)


def test_unpaired_prompts_and_other_steps_are_told():
    odd = range(1, 21, 2)
    others = rows(0.5, seed=1, steps=odd, prompts=range(30, 60))
    apart = outcome(
        run("main", rows(steps=range(0, 20, 2))),
        run("other", others),
    )
    said = sentence(apart)
    assert "; unpaired, at least 30 prompts per side, " in said
    assert "steps 16–18 of main against steps 15–17 of other" in said
    assert learning(apart) == ""


@pytest.mark.parametrize(
    ("size", "numbers"),
    [
        (1e-7, "by 1.00e−7 (reward 0.500 against 0.500). "),
        (0.004, "by 0.00401 (reward 0.5040 against 0.5000). "),
        (3.0, "(reward 3.50 against 0.50). 95% interval "),
        (250.0, "(reward 251 against 1). 95% interval 250 to 251"),
        (5e7, "(reward 50,074,343 against 0.500). "),
    ],
)
def test_numbers_have_the_digits_that_show_the_difference(size, numbers):
    def exact(level):
        table = rows(level)
        return table.assign(reward=_ABILITY[table["prompt_id"]] + level)

    jitter = np.random.default_rng(3).normal(size=STEPS * PROMPTS) * size / 100
    new = exact(size)
    new["reward"] += jitter
    said = sentence(outcome(run("main", exact(0)), run("other", new)))
    assert numbers in said


# Learning speed


def rising(until, top=0.6):
    """A level that rises to ``top`` at step ``until``."""
    return lambda step: top * min(1.0, step / until)


def speed(base, new):
    sides = [
        run("main", rows(base, steps=range(60))),
        run("other", rows(new, seed=1, steps=range(60))),
    ]
    return learning(outcome(*sides))


def test_learning_is_faster_slower_or_the_same():
    faster = speed(rising(50), rising(20))
    assert faster.startswith("other learns faster: half of the gain (0.8")
    assert ", 90% (1.0) at step " in faster
    assert speed(rising(20), rising(50)).startswith("other learns more slowly: half")
    assert speed(rising(40), rising(40)).startswith("Both learn about equally fast: ")


def test_a_run_that_never_gets_there_is_told_so():
    assert speed(rising(20), rising(20, 0.4)).startswith(
        "other learns more slowly: half"
    )
    assert ", never 1.0 (90% of the gain), which main reaches at step " in speed(
        rising(20), rising(20, 0.4)
    )
    assert ", 1.0 (90% of the gain) at step 2" in speed(rising(20, 0.4), rising(20))
    assert speed(rising(20, 0.4), rising(20)).endswith(", which main never reaches.")
    assert speed(rising(20), rising(20, 0.1)).startswith(
        "other never reaches 0.80 (half of the gain), main does at step "
    )
    assert speed(rising(20, 0.1), rising(20)).endswith(", main never does.")


def test_nothing_is_told_of_speed_without_a_gain_or_of_broken_runs():
    assert speed(0.0, 0.0) == ""
    rises = rows(rising(20), steps=range(60))
    broken = outcome(run("main", rises), run("other", rises, lead="reward_hacking"))
    assert learning(broken) == ""


def evaluated(steps, values):
    return pd.DataFrame({"step": steps, f"{TRAINER}validation": values, "pair": 0})


def test_trainers_evaluations_are_compared_at_common_steps_and_at_best():
    base = evaluated([0, 5, 10, 15], [0.1, 0.3, 0.5, 0.4])
    new = evaluated([0, 10, 15, 19], [0.1, 0.6, 0.5, 0.55])
    both = pair(0.0, base={"trainer": base}, new={"trainer": new})
    assert learning(both) == (
        "Validation: higher at 2 of 3 common steps; 0.500 against 0.400 at step 15, the last in "
        "common; 0.600 (step 10) against 0.500 (step 10) at best."
    )
    others = evaluated([2, 7], [0.2, 0.3])
    apart = pair(0.0, base={"trainer": base}, new={"trainer": others})
    assert learning(apart) == (
        "Validation: 0.300 (step 7) against 0.500 (step 10) at best."
    )


# What the difference goes with


def having(**given):
    """A property as the decomposition finds it."""
    values: dict[str, Any] = {
        "id": "format",
        "mark": "####",
        "base_share": 0.9,
        "new_share": 0.38,
        "base_with": 0.8,
        "new_with": 0.79,
        "base_without": 0.1,
        "new_without": 0.12,
        "contrast": Contrast(0.25, 0.02, 40),
        "part": -0.13,
        "rest": -0.028,
        "share": Effect(-0.52, -0.6, -0.4),
        "within": Effect(-0.01, -0.05, 0.03),
        "p": 0.001,
    }
    return Property(**(values | given))


def reason(level=-0.158, main=None, main_part=None, properties=()):
    found = pair(level)
    effect = found.comparison.effect
    parts = Decomposition([*properties], [], main, main_part, effect)
    vars(found.comparison)["decomposition"] = parts  # a cached property
    return why(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {},
            "the answer's format: other leaves out “####” in 62% of its responses, main in 10%; "
            "with it, both earn about the same (−0.010; 95% interval −0.050 to 0.030).",
        ),
        (
            {"within": Effect(-0.3, -0.4, -0.2)},
            "the answer's format: other leaves out “####” in 62% of its responses, main in 10%; "
            "with it, the difference is −0.30 (95% interval −0.40 to −0.20).",
        ),
        (
            # Wide: nobody knows if they are about the same
            {"within": Effect(0.1, -0.4, 0.6), "mark": ANY_MARK},
            "the answer's format: other does not mark its answer in 62% of its responses, main in "
            "10%; with it, the difference is +0.10 (95% interval −0.40 to 0.60).",
        ),
        (
            {"within": Effect()},
            "the answer's format: other leaves out “####” in 62% of its responses, main in 10%; "
            "those with it earn 0.790 against 0.800.",
        ),
        (
            # The mark goes with lower rewards
            {"base_share": 0.1, "new_share": 0.6, "mark": "\\boxed"},
            "the answer's format: other has “\\boxed” in 60% of its responses, main in 10%; "
            "those without it earn 0.120 against 0.100.",
        ),
        (
            {"id": "cut_off", "mark": "", "base_share": 0.05, "new_share": 0.3},
            "cut-off responses: 30% of the responses of other are cut off, 5% of main; those that "
            "are not cut off earn 0.120 against 0.100.",
        ),
        (
            {"id": "unclosed_thinking", "mark": "", "new_without": np.nan},
            "thinking that does not end: other does not close its thinking in 38% of its "
            "responses, main in 90%.",
        ),
        (
            {"id": "tool_failed", "mark": ""},
            "failed tool calls: a tool call fails in 38% of the responses of other, in 90% of "
            "main; those without earn 0.120 against 0.100.",
        ),
        (
            {"id": "unparsed_call", "mark": ""},
            "tool calls that cannot be parsed: 38% of the responses of other have a tool call "
            "that cannot be parsed, 90% of main; those without earn 0.120 against 0.100.",
        ),
        (
            {"id": "other_script", "mark": ""},
            "responses in another script: 38% of the responses of other are in another script "
            "than the prompt, 90% of main; the others earn 0.120 against 0.100.",
        ),
    ],
)
def test_the_largest_part_of_the_difference_is_told(given, said):
    assert reason(main=having(**given)) == f"0.13 of the 0.16 goes with {said}"


def test_a_property_of_all_of_one_side_and_none_of_the_other_explains_nothing():
    apart = having(base_share=1.0, new_share=0.0, base_without=np.nan, new_with=np.nan)
    assert reason(main=apart) == ""


@pytest.mark.parametrize(
    ("mark", "written"), [("answer", "“Answer:”"), ("json", "JSON at the end")]
)
def test_marks_are_written_as_responses_have_them(mark, written):
    assert f"other leaves out {written} in 62% of its " in reason(
        main=having(mark=mark)
    )


def test_of_a_part_that_is_the_whole_difference_no_numbers_are_told():
    assert reason(main=having(part=-0.155)).startswith(
        "The difference goes with the answer's format: other leaves out"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mark": "####"}, "other has “####” in 0% of its responses, main in 100%"),
        (
            {"id": "environment", "mark": "maths"},
            "0% of the responses of other are of “maths”, 100% of those of main",
        ),
        ({"id": "cut_off", "mark": ""}, "0% of the responses of other are cut off"),
    ],
)
def test_of_what_all_of_one_side_have_it_is_unknown_how_much_goes_with_it(given, said):
    only_of_base = {"base_share": 1.0, "new_share": 0.0, "contrast": Contrast()}
    lost = having(**given, **only_of_base, part=np.nan, rest=np.nan)
    found = reason(properties=[lost])
    assert found.startswith(said)
    assert found.endswith("it is unknown how much of the difference goes with this.")


def test_a_part_of_the_reward_is_told_where_no_property_is():
    part = RewardPart("format_reward", 1.0, 0.4, 0.27, -0.13, Effect(-0.13), 0.001)
    assert reason(main_part=part) == (
        "0.13 of the 0.16 goes with the reward's part “format_reward”: other 0.27, main "
        "0.40."
    )
    assert reason() == ""


# Guardrails, findings, band, prompts


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (Effect(0, 0, 0), "equal"),
        (Effect(7, -36, 50), "no difference shown (up to ±50)"),
        (Effect(7, 1, 13), "higher, but not after correction for 9 figures"),
        (Effect(-7, -13, -1), "lower, but not after correction for 9 figures"),
    ],
)
def test_no_difference_is_told_with_how_large_it_may_be(effect, said):
    assert not_shown(effect, 9) == said


def guarded(effect, base, new, **fields):
    """What a pair says of a guardrail that Holm's correction did not reject, among eight."""
    comparison = pair(0.1).comparison
    one = comparison.guardrails[0]._replace(
        effect=effect, base=base, new=new, level="none", **fields
    )
    unclear = Effect(0, -1, 1, pairs=50)
    others = [one._replace(effect=unclear)] * 7
    return guardrail_level(one, replace(comparison, guardrails=[one, *others]))


def test_where_too_few_units_cannot_pass_the_correction_it_is_said():
    blocks = {"column": f"{TRAINER}length"}
    few = Effect(231, 201, 260, pairs=4, paired=False)
    assert guarded(few, 230, 461, **blocks) == (
        "higher, but too few blocks of steps to be sure after correction"
    )
    enough = Effect(231, 201, 260, pairs=10, paired=False)
    assert guarded(enough, 230, 461, **blocks) == (
        "higher, but not after correction for 8 figures"
    )
    prompts = Effect(-0.5, -0.9, -0.1, pairs=6)
    assert guarded(prompts, 0.9, 0.4, column="cut_off") == (
        "lower, but too few prompts to be sure after correction"
    )


@pytest.mark.parametrize(
    ("base", "new", "most", "says"),
    [
        (1.5e16, 7e7, 4.3e16, "no difference shown"),
        (417, 367, 302, "no difference shown (up to ±302)"),
        (0.0, 0.01, 0.03, "no difference shown (up to ±0.030)"),
        (0.0, 0.001, 0.5, "no difference shown"),
    ],
)
def test_a_limit_far_beyond_a_figures_values_is_not_told(base, new, most, says):
    assert guarded(Effect(0.0, -most, most, pairs=50), base, new) == says


@pytest.mark.parametrize(
    ("level", "value", "pair_says", "seeds_say"),
    [
        ("worse", 1.0, "higher, worse in these runs", "worse"),
        ("worse", -1.0, "lower, worse in these runs", "worse"),
        ("better", 1.0, "higher, better in these runs", "better"),
        ("better", -1.0, "lower, better in these runs", "better"),
        ("changed", 1.0, "higher", "higher"),
        ("changed", -1.0, "lower", "lower"),
    ],
)
def test_few_runs_tell_less_of_a_guardrail(level, value, pair_says, seeds_say):
    two = pair(0.1).comparison
    bases = [run("a", rows())] * 3
    news = [run("b", rows())] * 3
    six = outcome(bases, news).comparison
    guardrail = two.guardrails[0]._replace(
        level=level, effect=Effect(value, value, value)
    )
    assert guardrail_level(guardrail, two) == pair_says
    assert guardrail_level(guardrail, six) == seeds_say


def test_what_got_worse_is_told_with_the_side():
    found = pair(0.1, new={"lead": "reward_hacking"})
    worse = [
        one._replace(level="worse")
        for one in found.comparison.guardrails
        if one.id in ("kl", "all_wrong_groups")
    ]
    comparison = replace(found.comparison, guardrails=worse)
    assert caveats(replace(found, comparison=comparison)) == (
        "Guardrails that got worse (other): KL; Groups without signal, all wrong."
    )
    second = replace(found, news=[replace(found.new, lead="kl_explosion")])
    assert caveats(second) == "New critical findings (other): reward hacking."


def test_notes_are_counted_with_the_findings():
    quiet = pair(0.1)
    assert findings_note(quiet) == "Neither run has a warning."
    bases = [replace(quiet.base, notes=2)]
    noted = replace(quiet, bases=bases, news=[replace(quiet.new, notes=3)])
    assert findings_note(noted) == (
        "Neither run has a warning; notes: 2 (main), 3 (other)."
    )
    warned = pair(0.1, new={"lead": "reward_hacking"})
    assert findings_note(warned) == ""
    both = replace(warned, bases=noted.bases)
    assert findings_note(both) == "Notes: 2 (main), 0 (other)."


def banded(level, low, high):
    found = pair(level)
    count = len(found.comparison.windows.common)
    band = Band(
        np.zeros(count),
        np.broadcast_to(np.asarray(low, float), count),
        np.broadcast_to(np.asarray(high, float), count),
    )
    vars(found.comparison)["band"] = band
    return band_note(found)


def test_a_band_that_disagrees_with_the_result_is_explained():
    steps = np.arange(STEPS)
    assert banded(0.2, -1, 1) == (
        "No single step is beyond the band of the difference, which allows for looking at all "
        "steps; the mean of steps 16–19 is known more precisely."
    )
    assert banded(0.2, np.where(steps > 15, 0.1, -1), 1) == ""
    assert banded(0.2, -1, np.where(steps < 3, -0.1, 1)) == (
        "The band of the difference has the opposite sign at steps 0–2; the result is on steps "
        "16–19 only."
    )
    assert banded(0.2, np.nan, np.nan) == ""
    even = np.where((steps % 2 == 0) & (steps < 16), 0.1, -1)
    flat = banded(0.0, even, 1)
    if flat:  # the two seeds do not differ
        assert flat == (
            "The band of the difference excludes 0 at step 0, step 2, step 4, 5 more; the result "
            "is on steps 16–19 only."
        )


def test_prompts_are_counted_by_what_became_of_them():
    assert prompts_note(pair(0.3).comparison) == "Prompts: 30 improved."
    others = rows(prompts=range(30, 60))
    unpaired = outcome(run("a", rows()), run("b", others))
    assert prompts_note(unpaired.comparison) == ""


def changes(changed_prompts, responses):
    """The comparison of prompts with these (change, difference), of so many responses a side."""
    comparison = pair(0.1).comparison
    kinds, deltas = zip(*changed_prompts, strict=True)
    vars(comparison)["prompt_changes"] = pd.DataFrame(
        {
            "change": kinds,
            "delta": deltas,
            "base_count": responses,
            "new_count": responses,
        }
    )
    return comparison


def test_prompts_not_clearly_changed_are_counted_by_direction():
    prompts = [
        ("improved", 0.5),
        ("same", -0.1),
        ("same", -0.2),
        ("same", 0.1),
    ]
    found = changes(prompts, 8)
    assert prompts_note(found) == (
        "Prompts: 1 improved, 3 not clearly changed (2 lower, 1 higher)."
    )
    assert labelled_counts(prompt_counts(found)) == [
        ("Improved", 1),
        ("Regressed", 0),
        ("Not clearly changed (2 lower, 1 higher)", 3),
    ]


def test_where_no_single_prompt_can_be_judged_only_directions_are_counted():
    lower = [("same", -1.0)] * 5
    found = changes([*lower, ("same", 0.0), ("always", 0.0)], 2)
    assert prompts_note(found) == (
        "Prompts: 5 lower, 1 equal, 1 always solved; with 2 responses per prompt, no single prompt "
        "can be judged."
    )
    assert labelled_counts(prompt_counts(found)) == [
        ("Lower", 5),
        ("Equal", 1),
        ("Always solved", 1),
    ]


def test_nothing_is_told_of_equal_kl_without_kl():
    assert equal_kl(pair(0.1)) == ""


# All forms, with names of others


HOSTILE = [
    ("a" * 5_000, "a" * 5_000),
    ("\x1b[31mred\n## head\u202e", "<script>alert(1)</script> @team #12 | `x`"),
    ("שלום 123", "ملف 456"),
    ("{new}", "{base} {0} %s %(x)s"),
    ("", " "),
    ("../../etc/passwd", "C:\\runs\\a"),
]


def all_texts(found: Outcome) -> list[str]:
    return [
        headline(found),
        sentence(found),
        *run_lines(found),
        changed(found),
        why(found),
        learning(found),
        caveats(found),
        findings_note(found),
        prompts_note(found.comparison),
        *notes(found),
    ]


@pytest.mark.parametrize(("base", "new"), HOSTILE)
def test_hostile_names_and_settings_spoil_no_sentence(base, new):
    steps = range(60)
    rising_rows = rows(rising(30), steps=steps)
    lower = rising(50, 0.3)
    lower_rows = rows(lower, steps=steps, seed=1, prompts=range(5, 30))
    chinese = Language("zh").of
    two = {"x": base, base or "y": "1"}
    for lead in (None, "reward_hacking"):
        for settings in ({}, {"x": base}, two):
            others = {
                key: new if value == base else "2" for key, value in settings.items()
            }
            found = outcome(
                run(base, rising_rows, **settings),
                run(new, lower_rows, lead=lead, **others),
            )
            for text in all_texts(found):
                assert text == printable(text)
                assert "\n" not in text
                assert len(text) < 1_200
                assert chinese(text) is not None
