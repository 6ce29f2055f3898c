"""Recognize by name what trainer metrics measure (their role), and which trainer logged them.

A role, such as ``grad_norm``, has one meaning and one unit in all frameworks. ``keys.csv`` lists
the keys of each framework, from its source; patterns recognize the names of other loggers. Metrics
with unknown names have no role: the report draws them, but its checks do not use them.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from rlreport.figures.ragged import Floats
from rlreport.text.messages import message

_MEAN = r"(?:[_/.](?:all[_/.])?(?:mean|avg|average))?"
_AVG = r"(?:(?:mean|avg|average)_)?"
_POLICY = r"(?:(?:actor|policy|optim|optimizer)/)?"
_VALIDATION = (
    # Exclude components of the reward, figures of groups, counts and extremes.
    r"(?!.*(?:format|length|_len\b|trunc|std|baseline|ref_|groups|chosen|rejected|margin|accuracies"
    r"|num_|penalty|overlong|[_/](?:min|max)\b|(?:worst|best|maj)@))"
    r"(?:val|valid|validation|eval|evaluation|test|dev|heldout)(?:s|_?set|_?step)?[_/.-]"
)
# Names of rates of right answers
RIGHT = r"(?:accuracy|acc|(?:correct|success)(?:_rate)?|(?:pass|solve)_rate|pass(?:@|_at_)?1)"
_TEST_SETS = (
    r"(?:aime|amc|math|gsm8k|gpqa|hmmt|olympiad|minerva"
    r"|humaneval|mbpp|livecode|lcb|mmlu|ifeval)"
)

# Role -> regular expressions of names of unknown loggers, in order of preference. Each has to match
# the whole name in lower case, without the prefixes that ``_PREFIXES`` removes
ROLES: dict[str, tuple[str, ...]] = {
    "reward": (
        rf"{_AVG}reward{_MEAN}",  # TRL, OpenRLHF, NeMo-RL, prime-rl, plain
        r"(?:env/all/)?rewards?/(?:total|overall|all)(?:/mean)?",  # Tinker, EasyR1
        rf"(?:critic/)?{_AVG}(?:rewards|scores?){_MEAN}",  # open-instruct's is `scores`
        r"env/reward_mean|ppo/mean_scores",
        rf"{_AVG}(?:episode|episodic)[_/](?:reward|return)s?{_MEAN}",
        rf"{_AVG}returns?{_MEAN}",
        r"reward/(?!format|length|std|min|max)[\w.-]+/mean",  # rLLM, by agent
        rf"(?:env/all/|episode/)?{_AVG}(?:answer_)?{RIGHT}{_MEAN}",
    ),
    "reward_std": (
        r"(?:critic/)?(?:rewards?|scores?)[_/.](?:all[_/.])?std(?:_mean)?",
        r"std_(?:rewards?|scores?)",
        r"\w*reward_std(?:_mean)?",
    ),
    "validation": (
        rf"{_VALIDATION}(?:all/|env/all/)?(?:\w+_)?(?:reward|score)s?(?:/total|_score)?{_MEAN}",
        rf"{_VALIDATION}(?:all/|env/all/)?(?:\w+_)?{RIGHT}{_MEAN}",
        r"val-core/.+",  # verl
        rf"{_VALIDATION}.*(?:rewards?|scores?|{RIGHT}|pass_at_\d+)(?:/.*)?",
        rf"{_VALIDATION}{_TEST_SETS}[\w.+]*",  # slime: the mean reward on a test set
        rf"{_VALIDATION}(?:all/)?(?:\w+_)?(?:answer|win|solved|exact_match|em|f1)"
        rf"(?:_rate|_score)?{_MEAN}",
    ),
    # TRL's PPO and online DPO sum over the response.
    "kl": (r"objective/kl",),
    # Means over tokens. `ppo_kl` and `approx_kl` are to the policy before the update, `mismatch_kl`
    # and Tinker's `kl_sample_train` between sampler and trainer: no drift from the reference.
    "kl_token": (
        rf"{_AVG}kl{_MEAN}",  # TRL's GRPO and RLOO, OpenRLHF
        rf"{_POLICY}{_AVG}(?:policy_kl|ref_kl|kl_ref|kl_to_ref|kl_div|kl_divergence){_MEAN}",
        rf"{_POLICY}kl_loss{_MEAN}",  # verl, slime, EasyR1
        rf"{_POLICY}(?:reward_)?kl_penalty",  # verl, EasyR1, NeMo-RL
    ),
    "entropy": (
        rf"{_POLICY}{_AVG}(?:token_|policy_|approx_)?entropy(?:_loss)?{_MEAN}",
    ),
    # The sum over a response, of TRL's PPO and online DPO
    "entropy_response": (r"objective/entropy", r"entropy_response"),
    "loss": (
        rf"{_POLICY}loss(?:es)?{_MEAN}",
        rf"{_POLICY}{_AVG}(?:pg|policy|actor|act|total|final|grpo|ppo)_loss{_MEAN}",
    ),
    "grad_norm": (
        rf"{_POLICY}{_AVG}(?:actor_|policy_|raw_|global_|total_)?grad(?:ient)?s?[_/]?norm{_MEAN}",
    ),
    "clip_fraction": (
        rf"{_POLICY}{_AVG}(?:pg_|ppo_|policy_)?clip(?:ped)?_?(?:frac|fraction|ratio){_MEAN}",
        r"loss_metrics/clip_ratio",
    ),
    "length": (
        rf"{_AVG}(?:response|completion|generation|gen|output|answer)s?[_/]?(?:token_?)?"
        rf"(?:len|length|token)s?{_MEAN}",
        rf"(?:val/)?{_AVG}(?:decode|seq|sequence)_?(?:len|length)s?{_MEAN}",  # open-instruct
        rf"{_AVG}(?:length|num_output_tokens){_MEAN}",
    ),
    "length_max": (
        r"(?:completions?[_/])?(?:max_length|length_max)",  # TRL
        r"(?:response|completion)_?(?:len|length)[_/]max",  # verl, slime
    ),
    "truncated": (
        rf"(?:is_|response_)?(?:truncated|truncation)(?:_(?:ratio|rate|frac|fraction))?{_MEAN}",
    ),
    "learning_rate": (
        rf"{_POLICY}(?:actor_|policy_)?(?:lr|learning_rate)(?:[-/_]pg_\d+)?",
    ),
    "ratio": (rf"(?:val/|{_POLICY})(?:importance_|policy_|probs?_)?ratio{_MEAN}",),
    "explained_variance": (
        r"(?:critic/|val/)?(?:vf_|value_)?explained_var(?:iance)?(?:_avg)?",
    ),
    "advantage_max": (r"(?:\w+/)?advantages?[/_]max",),  # verl, NeMo-RL
    # k3 of sampler and trainer; "lagged" if the sampler's weights may also be older
    "mismatch_k3": (r"mismatch_k3",),
    "mismatch_lagged": (rf"mismatch_kl{_MEAN}",),
    "mismatch_prob": (r"mismatch_prob",),
    "mismatch_ratio": (r"mismatch_ratio",),  # mean exp|log-probability difference|
    "ess": (r"(?:ess|eff(?:ective)?_sample_size)(?:_ratio)?",),
    "zero_variance": (
        r"(?:frac_)?(?:reward_)?zero_(?:std|variance)(?:_groups)?(?:_frac)?",
    ),
    "loops": (r"(?:repetition|loops)(?:_(?:frac|fraction|ratio|rate))?",),
    "failed": (
        rf"(?:aborted|failed|error)_?(?:rollouts_)?(?:ratio|rate|frac|fraction){_MEAN}",
    ),
    "dropped": (
        rf"(?:dropped|filtered)_(?:groups_)?(?:ratio|rate|frac|fraction){_MEAN}",
    ),
    "turns": (rf"{_AVG}(?:num_)?turns{_MEAN}",),
    "turn_limit": (r"max_turns_(?:reached_)?(?:ratio|rate|frac|fraction)",),
    "tool_calls": (rf"{_AVG}(?:num_)?tool_calls?(?:_counts?)?{_MEAN}",),
    "tool_errors": (
        rf"tool_(?:call_)?(?:error|failure)_(?:rate|ratio|frac|fraction){_MEAN}",
    ),
    "lag": (
        rf"{_AVG}(?:(?:policy|version|sample|rollout)_)?staleness{_MEAN}",
        rf"{_AVG}(?:policy|version|weight)_lag{_MEAN}",
    ),
}

# Roles of metrics that measure how far sampler and trainer disagree
MISMATCHES = ("mismatch_k3", "mismatch_prob", "mismatch_ratio", "mismatch_lagged")

# Role -> a simple metric name that ``roles_of`` recognizes as this role
PLAIN_NAMES = {
    **{role: role for role in ROLES},
    "validation": "validation/reward",
    "kl": "objective/kl",
    "kl_token": "kl",
    "length": "response_length",
    "mismatch_lagged": "mismatch_kl",
    "failed": "failed_ratio",
    "dropped": "dropped_ratio",
    "turn_limit": "max_turns_ratio",
    "tool_errors": "tool_error_rate",
    "lag": "policy_lag",
}

# Prefixes that name the run or the phase of a metric, not what it measures
_PREFIXES = re.compile(
    r"^(?:.* - )?(?:(?:train|training|trainer|rollouts?|metrics|agg)[/_.])*"
)
# Suffixes of columns that hold a whole curve
_SUFFIXES = re.compile(r"_(?:history|hist|curve|trace)$")
# Prefixes that loggers put before the keys of a trainer
_RUN = re.compile(r"^(?:.* - )?(?:train/)?")


# Unit of a key in ``keys.csv`` -> its values in the unit of the role. By Jensen's inequality,
# exp(mean |Δ log p|) is at most the role's mean of exp |Δ log p|
_UNITS: dict[str, Callable[[Floats], Floats]] = {
    "share without": lambda values: 1 - values,
    "percent without": lambda values: 1 - values / 100,
    "abs log-ratio": np.exp,
}


class Key(NamedTuple):
    """A key that a trainer logs (row of ``keys.csv``); ``*`` in it stands for a variable part."""

    framework: str
    key: str
    role: str
    unit: str
    per: str  # what the value is a mean over: token, response, group, call or step
    good: str  # better direction: "up", "down" or "none"


@cache
def known_keys() -> dict[Key, str]:
    """Return row of ``keys.csv`` -> its key as ``_keys_of`` compares it, most preferred first."""
    text = (files("rlreport.metrics") / "keys.csv").read_text("utf-8")
    rows = [Key(**row) for row in csv.DictReader(text.splitlines())]
    return {row: _RUN.sub("", row.key.lower()) for row in rows}


@cache
def words_of_keys() -> frozenset[str]:
    """Return the words of the keys in ``keys.csv``, in lower case, such as "reward"."""
    keys = " ".join(row.key.lower() for row in known_keys())
    return frozenset(re.findall(r"[^\W\d_]+", keys))


@lru_cache(10_000)
def _keys_of(name: str) -> tuple[Key, ...]:
    """Return the rows of ``keys.csv`` that match a metric's name."""
    plain = _RUN.sub("", name.lower())
    return tuple(key for key, text in known_keys().items() if _stands_for(text, plain))


def _stands_for(key: str, name: str) -> bool:
    """Return whether a key is that of a metric; ``*`` in it stands for any characters."""
    if "*" not in key:  # as in most: compiling all patterns would take 20 ms
        return key == name
    pattern = re.escape(key).replace(r"\*", ".+")
    return re.fullmatch(pattern, name) is not None


def is_known_key(name: str) -> bool:
    """Return whether a metric's name is that of a key in ``keys.csv``."""
    return bool(_keys_of(name))


def is_percentage(name: str) -> bool:
    """Return whether a metric is a percentage, by its unit in ``keys.csv``."""
    return any(key.unit.startswith("percent") for key in _keys_of(name))


def without_prefixes(name: str) -> str:
    """Return a metric's name in lower case, without the run and the phase that it begins with."""
    return _PREFIXES.sub("", name.lower())


def by_preference(names: Iterable[str]) -> list[str]:
    """Return names of metrics, those to prefer first, see ``roles_of``."""
    return sorted(names, key=_preference)


def in_unit_of(role: str, name: str, values: Floats) -> Floats:
    """Convert values of the metric ``name`` to the unit of ``role``, if it is another."""
    unit = next((key.unit for key in _keys_of(name) if key.role == role), "")
    return _UNITS[unit](values) if unit in _UNITS else values


def roles_of(
    metrics: Iterable[str], chosen: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return role -> name of the metric with this role; a role that no metric has is missing.

    ``chosen`` is role -> name, of metrics whose names do not tell their roles, or not the right
    ones. They have no other role.

    Keys in ``keys.csv`` are preferred to patterns in ROLES, and first those of the framework with
    the most logged keys. Of several names for a key or pattern, prefer one that begins with
    ``rollout`` (it covers all responses), then the shortest.
    """
    logged = set(metrics)
    given = chosen or {}
    taken = {role: name for role, name in given.items() if name in logged}
    names = by_preference(logged - set(taken.values()))
    if not names:
        return taken  # reading the keys and their patterns takes 20 ms
    roles = _roles_by_keys(names) | taken
    # A name that is a key of a framework never has another role by a pattern.
    unknown = [name for name in names if not _keys_of(name)]
    plain_names = {name: _SUFFIXES.sub("", without_prefixes(name)) for name in unknown}
    for role, patterns in ROLES.items():
        if role not in roles:
            metric = _first_match(patterns, plain_names)
            if metric is not None:
                roles[role] = metric
    return roles


def has_role(name: str, role: str) -> bool:
    """Return whether ``roles_of`` gives a metric this role, if it is the only one."""
    keys = _keys_of(name)
    if keys:
        return any(key.role == role for key in keys)
    plain = _SUFFIXES.sub("", without_prefixes(name))
    return _first_match(ROLES[role], {name: plain}) is not None


def _preference(name: str) -> tuple[bool, int, str]:
    """Return the sort key of a metric's name: names to prefer come first, see ``roles_of``."""
    is_of_rollouts = name.lower().startswith("rollout")
    return not is_of_rollouts, len(name), name


def _roles_by_keys(names: Sequence[str]) -> dict[str, str]:
    """Return role -> name, for the names that match a row of ``keys.csv``.

    If several names have a role, the one of the framework that most names match counts, then the
    one whose row comes first in ``keys.csv``, then the one that comes first in ``names``.
    """
    matches: list[tuple[Key, str]] = []
    for name in names:
        matches += [(key, name) for key in _keys_of(name)]
    names_of_framework = Counter(key.framework for key, _ in matches)
    row_of = {key: row for row, key in enumerate(known_keys())}

    def order(match: tuple[Key, str]) -> tuple[int, int]:
        key, _ = match
        return -names_of_framework[key.framework], row_of[key]

    # The sort is stable, so that equal matches stay in the order of ``names``.
    matches.sort(key=order)
    roles: dict[str, str] = {}
    for key, name in matches:
        roles.setdefault(key.role, name)
    return roles


def _first_match(patterns: Iterable[str], plain_names: Mapping[str, str]) -> str | None:
    """Return the name that matches the most preferred pattern, of several the first name.

    ``plain_names``: name -> the same in lower case without prefixes, which patterns match.
    """
    for pattern in patterns:
        for name, plain in plain_names.items():
            if re.fullmatch(pattern, plain):
                return name
    return None


ROLLOUT_WRITER = (
    'RolloutWriter("rollouts")'
    ".write(step=step, prompt=prompt, response=response, reward=reward)"
)


# Framework -> its setting that logs rollouts
ROLLOUT_SETTINGS = {
    "TRL": "GRPOConfig(log_completions=True, logging_steps=1)",
    "NeMo-RL": "logger.log_dir=LOGS",
    "SkyRL": "trainer.dump_eval_results=true",
    "slime": "--save-debug-rollout-data rollouts/{rollout_id}.pt",
    "Tinker": "log_path=LOGS",
    "prime-rl": "output_dir=OUTPUT",
    "verl": "trainer.rollout_data_dir=ROLLOUTS",
}


def logging_advice(metrics: Iterable[str]) -> dict[str, str]:
    """Return how to log rollouts, as {"how": sentence, "code": setting or line of Python}."""
    framework = framework_of(metrics)
    if framework is None:
        how = message("Log rollouts with {name}:", name="rlreport.RolloutWriter")
        return {"how": how, "code": ROLLOUT_WRITER}
    how = message(
        "These look like metrics of {name}; log rollouts with:", name=framework
    )
    return {"how": how, "code": ROLLOUT_SETTINGS[framework]}


def framework_of(metrics: Iterable[str]) -> str | None:
    """Return the framework in ROLLOUT_SETTINGS with the most logged keys; None below two keys.

    Keys of one or two words, such as ``grad_norm``, are common to all trainers and do not count.
    """
    keys: set[Key] = set()
    for name in metrics:
        keys.update(_keys_of(name))
    key_counts = Counter(key.framework for key in keys if _is_long(key))
    # Of equal counts, the first in ROLLOUT_SETTINGS
    framework = max(ROLLOUT_SETTINGS, key=lambda name: key_counts[name])
    return framework if key_counts[framework] > 1 else None


def marked_frameworks(metrics: Iterable[str]) -> set[str]:
    """Return the frameworks that two or more of the metrics belong to, and to no other.

    Keys of one or two words do not count, see ``framework_of``.
    """
    counts: Counter[str] = Counter()
    for name in metrics:
        keys = _keys_of(name)
        owners = {key.framework for key in keys}
        if len(owners) == 1 and any(_is_long(key) for key in keys):
            counts.update(owners)
    return {framework for framework, count in counts.items() if count > 1}


def _is_long(key: Key) -> bool:
    """Return whether a key has three words or more."""
    separators = re.findall("[/_]", _RUN.sub("", key.key))
    return len(separators) > 1
