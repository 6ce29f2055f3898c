"""What the sides of a comparison are called."""

import pandas as pd
import pytest

from rlreport.comparison.compare import Side
from rlreport.comparison.labels import LONGEST, changed_settings, labels_of
from rlreport.comparison.run import ComparedRun
from rlreport.text.clean import printable


def run_named(name="run", **settings):
    """A run with a configuration."""
    facts = {f"config.{key}": value for key, value in settings.items()}
    return ComparedRun(
        name=name,
        side=Side(name, pd.DataFrame()),
        level="healthy",
        lead=None,
        findings={},
        texts=lambda wanted: {},
        facts=facts,
    )


def labels(base, new, **options):
    """Labels of two sides: a run, or a list of runs."""
    sides = (side if isinstance(side, list) else [side] for side in (base, new))
    found = labels_of(*sides, **options)
    return found.base, found.new


def test_the_only_setting_that_differs_names_both_sides():
    base = run_named("a", group_size="8", lr="1e-6", output_dir="a")
    new = run_named("b", group_size="4", lr="1e-6", output_dir="b")
    found = labels_of([base], [new])
    assert (found.base, found.new) == ("group_size 8", "group_size 4")
    assert (found.setting, found.against) == ("group_size", "8")


def test_of_several_settings_none_names_the_sides():
    base = run_named("a", group_size="8", lr="1e-6")
    new = run_named("b", group_size="4", lr="2e-6")
    assert labels_of([base], [new]).setting is None
    assert labels(base, new) == ("a", "b")
    assert labels(run_named("a"), run_named("b")) == ("a", "b")


def test_a_setting_has_as_many_parts_of_its_name_as_tell_which_it_is():
    base = run_named(**{"actor.optim.lr": "1e-6", "critic.optim.lr": "1e-5"})
    new = run_named(**{"actor.optim.lr": "2e-6", "critic.optim.lr": "1e-5"})
    assert labels(base, new) == ("actor.optim.lr 1e-6", "actor.optim.lr 2e-6")


def test_a_seed_is_no_change_beside_a_setting():
    base = run_named(seed="1", beta="0")
    new = run_named(seed="2", beta="0.04")
    assert labels(base, new) == ("beta 0", "beta 0.04")
    assert labels(base, run_named(seed="2", beta="0")) == ("seed 1", "seed 2")


def test_a_setting_that_differs_within_a_side_is_no_change():
    betas = ("0", "0.1")
    bases = [run_named("b", beta=beta, lr="1") for beta in betas]
    news = [run_named("n", beta="0.2", lr="2")] * 2
    assert [one.key for one in changed_settings(bases, news)] == ["config.lr"]


def test_a_setting_that_a_run_lacks_is_not_set():
    base = run_named(lr="1")
    found = labels_of([base], [run_named(lr="1", beta="0.1")])
    assert (found.base, found.new) == ("beta not set", "beta 0.1")
    assert found.against == "beta not set"


def test_several_runs_are_called_by_what_their_names_share():
    seeds = [run_named("grpo_s1"), run_named("grpo_s2")]
    same = [run_named("ppo")] * 3
    others = [run_named("x"), run_named("y"), run_named("z")]
    assert labels(seeds, same) == ("grpo", "ppo (3 runs)")
    assert labels(others, run_named("w")) == ("x (and 2 more)", "w")


def test_private_values_are_in_no_label():
    base = run_named("a", system_prompt="Obey me")
    new = run_named("b", system_prompt="Think first")
    assert labels(base, new) == ("system_prompt Obey me", "system_prompt Think first")
    assert labels(base, new, redact=True) == ("a", "b")
    number = run_named("c", system_prompt="7")
    assert labels(base, number, redact=True) == (
        "system_prompt [text]",
        "system_prompt 7",
    )


LONG = "a-name-of-many-words-" * 30


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ("same", "same"),
        ("", ""),
        ("", "a"),
        (LONG, LONG),
        (LONG + "x", LONG + "y"),
        (LONG, LONG + "y"),
        ("x" * 500, "x" * 501),
        (LONG + "clip-" + LONG, LONG + "no-clip-" + LONG),
        ("a\nb\x1b[31m\0", "a\nb\x1b[32m\0"),
        ("a\u202eb", "a\u202ec"),
        ("ab", "a\u200bb"),
        ("/data/runs/first/", "/data/runs/second"),
        ("/data/one/run", "/data/two/run"),
        ("שלום", "تجربة"),
        ("中文" * 200 + "一", "中文" * 200 + "二"),
        ("\ud800", "\udfff"),
    ],
)
def test_any_two_names_become_short_lines_that_differ(base, new):
    found = labels(run_named(base), run_named(new))
    assert found[0] != found[1]
    for label in found:
        assert 0 < len(label) <= LONGEST + len(" (BASE)")
        assert label == printable(label)
        assert "\n" not in label and "/" not in label
        assert label.encode()


def test_long_names_keep_what_differs():
    head = "a-sweep-of-many-runs-with-long-names__off-policy_"
    found = labels(run_named(head + "clip_e2_tb256"), run_named(head + "none_e2_tb256"))
    assert found == ("…off-policy_clip_e2_tb256", "…off-policy_none_e2_tb256")


def test_names_from_right_to_left_do_not_turn_the_sentence_around():
    assert labels(run_named("שלום"), run_named("b")) == ("\u200eשלום\u200e", "b")
