"""Definitions of figures: every name has one, with the run's limits; what would log a figure."""

import re
from collections.abc import Iterator
from html import unescape
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import rlreport
from rlreport.check.finding import NotRun
from rlreport.check.limits import LimitKind, Thresholds
from rlreport.check.registry import BY_ID, CHECKS, LIMITS
from rlreport.check.settings import FRAMEWORKS
from rlreport.check.unlogged import (
    SETTINGS,
    SUBJECTS,
    Log,
    by_needs,
    unlogged,
)
from rlreport.definitions import MEANINGS, NO_SIGNAL, TEXTS, defined, terms_of_roles
from rlreport.fields import CANONICAL
from rlreport.metrics.roles import PLAIN_NAMES, ROLES
from rlreport.pages.terms import limits_in_words
from rlreport.text.messages import message, percent
from rlreport.text.numbers import MINUS, exact

TERM = re.compile(r'data-term="([^"]*)"')
ENTRY = re.compile(r'id="term=([^"]*)"')

# Needs of checks that no logging meets: they ask for another run, or for more of it
NOT_LOGGED_AT_ALL = (
    "prompts, four or more a step",
    "one advantage per response, no critic and no token_rewards",
    "texts of two or more responses to each of several prompts per step",
    "thinking between <think> and </think>",
    "metrics that are shares, or the mean and the largest length",
)


def pages_below(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.html")):
        yield path.read_text("utf-8")


def not_run(check_id: str, needs: str) -> NotRun:
    return NotRun(check_id, message(needs))


@pytest.mark.parametrize("run", ["ppo_reward_hacking", "grpo_math"])
def test_every_name_of_a_figure_on_any_page_has_a_definition(real_report, run):
    folder = real_report(run)
    entries = ENTRY.findall((folder / "figures.html").read_text("utf-8"))
    assert len(set(entries)) == len(entries)
    named = set(TERM.findall("\n".join(pages_below(folder))))
    assert {"kl_k1_mean", "responses.reward", "prompts.reward_gain"} <= named
    assert named <= set(entries)


def test_the_columns_that_lists_and_tables_of_steps_show_carry_their_terms(hacking):
    for page, table in (
        ("responses.html", "run-responses"),
        ("index.html", "steps"),
        ("prompts.html", "prompts"),
    ):
        text = (hacking / page).read_text("utf-8")
        head = text[text.index(f'data-table="{table}"') :].partition("</thead>")[0]
        headers = re.findall(r'<th [^>]*class="number"[^>]*>', head)
        # The step and the number of a response are its name.
        name = re.compile('data-key="(n|step)"')
        headers = [one for one in headers if not name.search(one)]
        assert len(headers) > 3
        assert all("data-term=" in one for one in headers)


def test_every_column_of_texts_that_spread_opens_its_definition(hacking):
    text = (hacking / "texts.html").read_text("utf-8")
    head = text[text.index('data-table="ngrams"') :].partition("</thead>")[0]
    keys = set(re.findall(r'data-term="texts\.([^"]*)"', head))
    assert keys == {column.name for column in TEXTS}


def test_the_chart_of_groups_opens_what_groups_without_signal_are(real_report):
    text = (real_report("grpo_math") / "index.html").read_text("utf-8")
    (title,) = re.findall(r"<[^>]*>Groups: [^<]*", text)
    assert f'data-term="{NO_SIGNAL}"' in title


def test_definitions_name_thresholds_roles_and_columns_that_exist():
    assert set(MEANINGS) <= set(defined())
    for meaning in MEANINGS.values():
        for name in meaning.limits:
            group, key = name.split(".")
            assert key in LIMITS[group].declared(), name
        assert meaning.role in {"", *ROLES}
    # Whatever a trainer logs with a known role has a definition.
    assert set(terms_of_roles()) == set(ROLES)


def test_every_limit_in_a_definition_is_the_value_of_the_threshold():
    for meaning in MEANINGS.values():
        said = dict(limits_in_words(meaning.limits, Thresholds()))
        for name in meaning.limits:
            group, key = name.split(".")
            limit = LIMITS[group].declared()[key]
            number = exact(limit.default)
            if limit.kind is LimitKind.SHARE:
                number = percent(limit.default)
            line = f"{limit.meaning}: {number.replace('-', MINUS)}"
            assert any(line in text for text in said.values()), line


def test_a_threshold_of_the_user_is_the_limit_of_the_definition(shared_data, tmp_path):
    limits = tmp_path / "limits.toml"
    limits.write_text("[kl_explosion]\nwarn = 7.5\n")
    rlreport.build(
        shared_data / "grpo_math", tmp_path / "out", thresholds=limits, workers=1
    )
    text = (tmp_path / "out" / "figures.html").read_text("utf-8")
    entry = text[text.index('id="term=kl_k1_mean"') :].partition("</dd>")[0]
    assert "KL per response (warning): 7.5 nats" in entry


HOSTILE = "actor/<img src=x onerror=alert(1)>\"'&amp;]]>"


def test_the_runs_own_metric_is_named_as_text_whatever_it_is_called(tmp_path):
    lines = [
        f'{{"step": {step}, "reward": {step / 10}, {quoted(HOSTILE)}: {step * step / 50}}}'
        for step in range(12)
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    rlreport.build(tmp_path, tmp_path / "out", roles={"grad_norm": HOSTILE}, workers=1)
    text = (tmp_path / "out" / "figures.html").read_text("utf-8")
    assert "<img" not in text
    entry = text[text.index('id="term=metric.grad_norm"') :].partition("</dd>")[0]
    own = re.search(r'<p class="own">(.*?)<code[^>]*>(.*?)</code>', entry, re.DOTALL)
    assert own is not None
    assert own[1].strip() == "From your trainer&#39;s metric"
    assert unescape(own[2]) == HOSTILE
    # The names that other trainers use are left out.
    assert "trainers" not in entry


def quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_a_run_ships_only_the_definitions_of_what_it_has(tmp_path):
    lines = [f'{{"step": {step}, "reward": {step / 10}}}' for step in range(12)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    rlreport.build(tmp_path, tmp_path / "out", workers=1)
    found = set(ENTRY.findall((tmp_path / "out" / "figures.html").read_text("utf-8")))
    figures = {term for term in found if not term.startswith("word.")}
    assert figures == {"step", "reward_mean"}


def test_the_page_of_definitions_is_linked_from_the_foot_not_from_the_navigation(
    hacking,
):
    for page, to in (("index.html", ""), ("steps/0.html", "../")):
        text = (hacking / page).read_text("utf-8")
        header, _, rest = text.partition("</header>")
        assert "figures.html" not in header
        assert f'href="{to}figures.html"' in rest.partition('<footer class="site">')[2]


def test_whatever_checks_need_is_a_subject_that_can_be_logged_or_known_not_to_be():
    needs = {check.needs_also for check in CHECKS if check.needs_also}
    for check in CHECKS:
        needs |= {need.words for need in check.needs}
    said = set(chain.from_iterable(subject.needs for subject in SUBJECTS))
    assert needs == (needs & said) | set(NOT_LOGGED_AT_ALL)
    assert not said & set(NOT_LOGGED_AT_ALL)
    # Each is said once, by a subject whose fields, metrics and settings exist.
    assert len(said) == sum(len(subject.needs) for subject in SUBJECTS)
    for subject in SUBJECTS:
        assert set(subject.or_metric) <= set(subject.needs)
        assert set(subject.roles) <= set(ROLES)
        extra = {"correct", "effective", "data_source", "rank"}  # read by their names
        assert set(subject.fields) <= CANONICAL | extra
        assert subject.setting in {"", "KL", *SETTINGS}


def test_settings_that_log_something_are_those_of_known_frameworks():
    for settings in SETTINGS.values():
        assert set(settings) <= {*FRAMEWORKS, "Tinker"}


@pytest.mark.parametrize(
    ("framework", "how"),
    [
        ("TRL", "`beta > 0`"),
        ("verl", "`actor_rollout_ref.actor.use_kl_loss=true`"),
        ("slime", "`--use-kl-loss`"),
        (None, "in rollouts `ref_logprobs`, or the metric `kl`"),
    ],
)
def test_a_known_framework_is_told_its_setting_and_others_the_field(framework, how):
    check = not_run("kl_explosion", "logprobs and ref_logprobs, or the trainer's KL")
    log = Log(framework=framework, fields={"logprobs"})
    (found,) = unlogged([check], log)
    assert found.what == "log-probabilities of the reference"
    assert found.how == how


def test_a_metric_that_is_logged_already_is_not_asked_for():
    check = not_run("stale_rollouts", "policy_version")
    (found,) = unlogged([check], Log(roles={"lag": "policy_lag"}))
    assert found.how == "in rollouts `policy_version`"


def test_a_metric_is_offered_for_those_checks_alone_that_it_is_enough_for():
    needs = "sampler and trainer logprobs of the same tokens"
    one = not_run("temperature", needs)
    other = not_run("engine_mismatch", needs)
    log = Log(framework="verl", fields={"logprobs"})
    setting = "`actor_rollout_ref.rollout.calculate_log_probs=True`"
    assert [row.how for row in unlogged([one], log)] == [
        "in rollouts `sampler_logprobs`"
    ]
    assert [row.how for row in unlogged([other], log)] == [setting]
    (both,) = unlogged([one, other], log)
    assert both.how == (
        f"in rollouts `sampler_logprobs`; for some of these checks {setting} is enough"
    )
    assert both.checks == ("temperature", "engine_mismatch")


def test_a_metric_of_the_framework_is_asked_for_where_no_metrics_were_given():
    check = not_run("gradient_explosion", "the trainer's gradient norm")
    (found,) = unlogged([check], Log(framework="verl"))
    assert found.how == (
        "the metric `actor/grad_norm` that verl logs (give the report its file, too)"
    )
    (found,) = unlogged([check], Log(framework="verl", has_metrics=True))
    assert found.how == "the metric `actor/grad_norm`"
    (found,) = unlogged([check], Log())
    assert found.how == f"the metric `{PLAIN_NAMES['grad_norm']}`"


def test_checks_that_did_not_run_are_grouped_by_what_they_need():
    checks = [
        not_run("tool_errors", "tool calls"),
        not_run("gradient_explosion", "the trainer's gradient norm"),
        not_run("rewards_shifted", "ground_truth and response"),
        not_run("label_lost", "ground_truth and response"),
        not_run("constant_reward", "at least 5 steps (this run has 3)"),
        not_run("late_calls", "tool calls"),
        not_run("void_turns", "turns"),
    ]
    assert by_needs(checks) == [
        ("labels", ["rewards_shifted", "label_lost"]),
        ("gradient norms", ["gradient_explosion"]),
        ("at least 5 steps (this run has 3)", ["constant_reward"]),
        # What only agents have comes last.
        ("turns and tool calls", ["tool_errors", "late_calls", "void_turns"]),
    ]
    # More steps are needed for one of them, not another log.
    assert len(unlogged(checks, Log())) == 3


def test_the_data_page_says_what_would_log_it_and_the_verdict_links_there(hacking):
    text = (hacking / "data.html").read_text("utf-8")
    part = text[text.index('id="part=not-logged"') :].partition("</section>")[0]
    assert "<code>grad_norm</code>" in part
    assert "<code>sampler_logprobs</code>" in part
    overview = (hacking / "index.html").read_text("utf-8")
    assert 'href="data.html#part=not-logged"' in overview


def test_every_check_of_a_run_that_could_not_run_is_in_one_group(shared_data, tmp_path):
    result = rlreport.build(shared_data / "grpo_math", tmp_path / "out", workers=1)
    groups = by_needs(result.verdict.not_run)
    ids = list(chain.from_iterable(checks for _, checks in groups))
    assert sorted(ids) == sorted(check.id for check in result.verdict.not_run)
    assert set(ids) <= set(BY_ID)
    sizes = [len(checks) for _, checks in groups[:-1]]
    assert np.all(np.diff(sizes) <= 0)
