"""What a run does not log, which checks would need it, and what would log it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rlreport.check.finding import NotRun
from rlreport.check.registry import BY_ID
from rlreport.check.settings import FRAMEWORKS, SettingKind
from rlreport.metrics.roles import (
    PLAIN_NAMES,
    ROLLOUT_SETTINGS,
    ROLLOUT_WRITER,
    known_keys,
)
from rlreport.text.messages import Joined, Message, listed, message, translatable


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that a log may lack.

    Attributes:
        name: in a few words.
        needs: how checks name it, see ``Check.needs``, ``needs_also`` and ``not_run``.
        fields: of a rollout that log it.
        roles: of trainer metrics that log it, see ``metrics.roles``; any of them suffices.
        or_metric: those of ``needs_also`` that one of these metrics meets, too.
        setting: kind of the frameworks' setting that logs it, a key of SETTINGS, "" for none.
        of_agents: whether only conversations with tools or environments have it.
    """

    name: str
    needs: tuple[str, ...]
    fields: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    or_metric: tuple[str, ...] = ()
    setting: str = ""
    of_agents: bool = False


_OF_RESPONSES = (
    Subject(
        translatable("rollouts"),
        (
            "rollouts with {fields}",
            "responses",
            "response",
            "prompt",
            "response, and five steps or reference responses",
        ),
        fields=("prompt", "response"),
        setting="rollouts",
    ),
    Subject(translatable("rewards"), ("reward",), ("reward",), ("reward",)),
    Subject(
        translatable("log-probabilities of the policy"),
        (
            "logprobs",
            "logprobs, or the trainer's entropy",
            "logprobs and end tokens",
        ),
        ("response_tokens", "logprobs"),
        ("entropy",),
        or_metric=("logprobs, or the trainer's entropy",),
    ),
    Subject(
        translatable("log-probabilities of the reference"),
        (
            "logprobs and ref_logprobs",
            "logprobs and ref_logprobs, or the trainer's KL",
            "KL per token",
        ),
        ("logprobs", "ref_logprobs"),
        ("kl_token", "kl"),
        or_metric=("logprobs and ref_logprobs, or the trainer's KL",),
        setting="KL",
    ),
    Subject(
        translatable("log-probabilities of the sampler"),
        ("sampler and trainer logprobs of the same tokens",),
        ("logprobs", "sampler_logprobs"),
        ("mismatch_k3", "mismatch_ratio", "mismatch_prob", "mismatch_lagged"),
        setting="sampler",
    ),
    Subject(
        translatable("log-probabilities before and after the update"),
        (
            "old and new logprobs of the same tokens",
            "old and new logprobs of the same tokens, or the trainer's ratio or clip fraction",
        ),
        ("logprobs", "old_logprobs"),
        ("ratio", "clip_fraction"),
        or_metric=(
            "old and new logprobs of the same tokens, or the trainer's ratio or clip fraction",
        ),
    ),
    Subject(
        translatable("gradient norms"),
        (
            "the trainer's gradient norm",
            "the trainer's gradient norm or learning rate",
        ),
        roles=("grad_norm",),
        or_metric=(
            "the trainer's gradient norm",
            "the trainer's gradient norm or learning rate",
        ),
    ),
    Subject(
        translatable("a validation score"),
        ("a second reward (valid_reward), or responses or metrics of validation",),
        ("valid_reward",),
        ("validation",),
        or_metric=(
            "a second reward (valid_reward), or responses or metrics of validation",
        ),
        setting="validation",
    ),
    Subject(
        translatable("labels"),
        ("ground_truth and response",),
        ("ground_truth",),
    ),
    Subject(
        translatable("parts of the reward"),
        (
            "two parts of the reward or more, as reward_parts or metrics",
            "parts of the reward, as reward_parts or metrics",
            "reward_parts, two or more",
        ),
        ("reward_parts",),
    ),
    Subject(
        translatable("groups"),
        (
            "groups (several responses to a prompt in a step)",
            "groups of responses, and no critic",
            "groups of responses",
            "group_id",
        ),
        ("group_id",),
    ),
    Subject(
        translatable("right and wrong answers"),
        ("correct, or a reward of two values",),
        ("correct",),
    ),
    Subject(
        translatable("finish reasons"),
        ("an end-of-sequence token, a finish reason, or lengths in tokens",),
        ("finish_reason",),
        ("truncated",),
        or_metric=("an end-of-sequence token, a finish reason, or lengths in tokens",),
    ),
    Subject(
        translatable("advantages"), ("advantages",), ("advantages",), ("advantage_max",)
    ),
    Subject(translatable("token rewards"), ("token_rewards",), ("token_rewards",)),
    Subject(
        translatable("values of a critic"),
        ("values and token_rewards",),
        ("values", "token_rewards"),
        ("explained_variance",),
    ),
    Subject(translatable("tokens"), ("response_tokens",), ("response_tokens",)),
)
_OF_RUNS = (
    Subject(
        translatable("versions of the sampling policy"),
        ("policy_version",),
        ("policy_version",),
        ("lag",),
    ),
    Subject(
        translatable("failed rollouts"),
        ("logged errors of failed rollouts",),
        ("errors",),
        ("failed",),
        or_metric=("logged errors of failed rollouts",),
    ),
    Subject(
        translatable("responses that the trainer dropped"),
        ("a mark of dropped responses (is_filtered, effective)",),
        ("effective",),
        ("dropped",),
    ),
    Subject(
        translatable("environments"),
        (
            "a field that names the environment (data_source, env, task, dataset or agent), with "
            "2 to 50 values",
        ),
        ("data_source",),
    ),
    Subject(
        translatable("ranks"),
        ("a field such as rank, replica, engine or node",),
        ("rank",),
    ),
    Subject(
        translatable("lengths as the trainer counts them"),
        (
            "the trainer's share of responses cut off, their mean and their largest length",
            "a reward or a length of both the trainer and the rollouts",
        ),
        roles=("length", "length_max", "truncated"),
        or_metric=(
            "the trainer's share of responses cut off, their mean and their largest length",
            "a reward or a length of both the trainer and the rollouts",
        ),
    ),
    Subject(
        translatable("turns and tool calls"),
        (
            "tool calls",
            "turns",
            "turns and a finish reason",
            "turns with token spans and response_mask",
        ),
        ("turns", "response_mask"),
        ("tool_calls", "tool_errors", "turns", "turn_limit"),
        of_agents=True,
    ),
)

# All that a log may lack, in the order of the page
SUBJECTS: tuple[Subject, ...] = (*_OF_RESPONSES, *_OF_RUNS)

# Kind of a setting -> framework -> the setting that logs it, as read from the sources that
# ``settings.py`` names
SETTINGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "rollouts": MappingProxyType(
            ROLLOUT_SETTINGS
            | {
                "verl": "trainer.rollout_data_dir=ROLLOUTS trainer.validation_data_dir=VALIDATION"
            }
        ),
        "validation": MappingProxyType(
            {
                "TRL": 'eval_strategy="steps"',
                "verl": "trainer.test_freq=10",
                "OpenRLHF": "--eval.steps 10 --eval.dataset DATASET",
                "slime": "--eval-interval 10 --eval-prompt-data NAME PATH",
                "SkyRL": "trainer.eval_interval=5",
                "NeMo-RL": "grpo.val_period=10",
            }
        ),
        "sampler": MappingProxyType(
            {
                "TRL": "use_vllm=True",
                "verl": "actor_rollout_ref.rollout.calculate_log_probs=True",
                "OpenRLHF": "--algo.advantage.is_correction_enable",
            }
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Unlogged:
    """Something that a run does not log."""

    what: str
    checks: tuple[str, ...]  # ids of those that need it
    how: str  # what would log it, names of settings and fields in backticks


@dataclass(frozen=True, slots=True)
class Log:
    """What is known of a run's log.

    Attributes:
        framework: that trained the run, None if it is not known.
        roles: role -> name of the trainer's metric, of those logged.
        fields: names of the fields of rollouts that are logged.
        has_metrics: whether metrics of the trainer were read.
    """

    framework: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    fields: Container[str] = ()
    has_metrics: bool = False


def unlogged(not_run: Iterable[NotRun], log: Log) -> list[Unlogged]:
    """Return what is missing for the checks that could not run, what most of them need first."""
    return [
        Unlogged(message(need.name), tuple(ids), _how_to_log(need, ids, log))
        for need, ids in _by_need(not_run)
        if isinstance(need, Subject)
    ]


def by_needs(not_run: Iterable[NotRun]) -> list[tuple[str, list[str]]]:
    """Return (what checks need, in words, their ids), what most of them need first."""
    return [
        (message(need.name) if isinstance(need, Subject) else need, ids)
        for need, ids in _by_need(not_run)
    ]


def _by_need(not_run: Iterable[NotRun]) -> list[tuple[Subject | str, list[str]]]:
    """Return the ids of checks by what they need: a subject or, if it is none, words."""
    found: dict[Subject | str, list[str]] = {}
    for check in not_run:
        need = _subject_of(check.needs) or check.needs
        found.setdefault(need, []).append(check.id)

    def order(need: Subject | str) -> tuple[bool, int]:
        return isinstance(need, Subject) and need.of_agents, -len(found[need])

    return [(need, found[need]) for need in sorted(found, key=order)]


def _how_to_log(subject: Subject, checks: Iterable[str], log: Log) -> str:
    """Return what would log a subject for these checks: the framework's setting, else its fields.

    Settings but that of rollouts log a metric; where it suffices for some checks only, fields come
    first.
    """
    setting = setting_of(subject.setting, log.framework)
    if subject.setting == "rollouts":
        return f"`{setting or ROLLOUT_WRITER}`"
    missing = [f"`{name}`" for name in subject.fields if name not in log.fields]
    fields = message("in rollouts {fields}", fields=listed(missing)) if missing else ""
    enough = [_takes_metric(check, subject) for check in checks]
    if not any(enough) or not log.roles.keys().isdisjoint(subject.roles):
        return fields
    metric = f"`{setting}`" if setting else _metric_of(subject.roles, log)
    if not fields or (setting and all(enough)):
        return metric
    literal = translatable("{fields}; for some of these checks {metric} is enough")
    if all(enough):
        literal = translatable("{fields}, or {metric}")
    return message(literal, fields=fields, metric=metric)


def _takes_metric(check_id: str, subject: Subject) -> bool:
    """Return whether a trainer's metric is enough for what a check needs of a subject."""
    check = BY_ID[check_id]
    needs = [need for need in check.needs if need.words in subject.needs]
    return any(need.roles for need in needs) or check.needs_also in subject.or_metric


def _metric_of(roles: Sequence[str], log: Log) -> str:
    """Return the metric to log that has one of the roles, as the framework calls it."""
    key = _key_of(roles, log.framework)
    if key and not log.has_metrics:
        return message(
            "the metric `{name}` that {framework} logs (give the report its file, too)",
            name=key,
            framework=log.framework,
        )
    return message("the metric `{name}`", name=key or PLAIN_NAMES[roles[0]])


def setting_of(kind: str, framework: str | None) -> str:
    """Return the setting of a framework that logs something, "" if none is known."""
    if framework is None:
        return ""
    if kind != "KL":
        return SETTINGS.get(kind, {}).get(framework, "")
    # The coefficient of the KL: with 0 most trainers do not load the reference.
    if framework not in FRAMEWORKS:
        return ""
    keys = FRAMEWORKS[framework].keys.get(SettingKind.KL, ())
    if not keys:
        return ""
    key = keys[0]
    if key.switches:
        switch = key.switches[0]
        return switch if switch.startswith("-") else f"{switch}=true"
    return f"{key.name} > 0"


def _key_of(roles: Iterable[str], framework: str | None) -> str:
    """Return the metric of a framework that has one of the roles, "" without one."""
    for role in roles:
        for key in known_keys():
            if key.framework == framework and key.role == role:
                return key.key
    return ""


def _subject_of(needs: str) -> Subject | None:
    """Return the subject of what a check needs, None if logging would not help."""
    for literal in _literals(needs):
        for subject in SUBJECTS:
            if literal in subject.needs:
                return subject
    return None


def _literals(text: object) -> Iterator[str]:
    """Yield the literals of a message, the outer ones first."""
    if isinstance(text, Joined):
        for part in text.parts:
            yield from _literals(part)
    elif isinstance(text, Message):
        yield text.literal
        for value in text.places.values():
            yield from _literals(value)
    elif isinstance(text, str):
        yield text
