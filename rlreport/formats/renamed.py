"""Log formats that need little more than renamed keys: a class lists the key of each field."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import compress
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rlreport.errors import RowError
from rlreport.fields import AssumedStep
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, Where, has_keys
from rlreport.formats.logged import columns, fields, mapping
from rlreport.formats.token_names import after_prompt
from rlreport.system import coerce
from rlreport.text.chat import (
    conversation_fields,
    has_answer,
    is_messages,
    prompt_and_response_fields,
    prompt_fields,
)
from rlreport.text.messages import message

_TEXTS = ("prompt", "response")
_PRIME_RL_ARRAYS = {
    "trainer_logprobs": "logprobs",
    "inference_logprobs": "sampler_logprobs",
    "advantages": "advantages",
    "ref_logprobs": "ref_logprobs",
}


class RLBoard(BaseFormat):
    """Logs that already are canonical rows; a line that lacks a field is reported when read."""

    id = "rlboard"
    description = (
        "RLLoggingBoard and its OpenRLHF fork: one response per line, token arrays"
    )
    files = ("*.jsonl",)
    claims = (("step", *_TEXTS, "reward"),)
    confidence = 60

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim if any object has all required fields, with their types."""
        rows = [obj for obj in objects if has_keys([obj], *self.claims[0])]
        return super().match(name, [obj for obj in rows if self.recognizes(obj)])

    def recognizes(self, obj: Row) -> bool:
        tokens = obj.get("response_tokens")
        # Other formats have token ids under the name of the token strings.
        has_ids = (
            isinstance(tokens, list) and bool(tokens) and isinstance(tokens[0], int)
        )
        has_texts = all(isinstance(obj[key], str) for key in _TEXTS)
        return has_texts and not has_ids and not isinstance(obj["reward"], dict | list)

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        yield logged.read_all(obj)


class Plain(BaseFormat):
    id = "plain"
    description = (
        "prompt, response and reward; texts may be chat messages, a step may be absent"
    )
    files = ("*.jsonl", "*.json", "*.parquet")
    claims: tuple[tuple[str, ...], ...] = (
        ("step", *_TEXTS, "reward"),
        (*_TEXTS, "reward"),
    )
    confidence = 40

    def recognizes(self, obj: Row) -> bool:
        if isinstance(obj.get("reward"), dict | list):
            return False
        texts = [obj[key] for key in _TEXTS]
        return all(isinstance(text, str) or is_messages(text) for text in texts)

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        row = {"step": where.step or AssumedStep(), **logged.read_all(obj)}
        # A text that is no string is a list of chat messages.
        if not all(isinstance(row.get(key), str) for key in _TEXTS):
            row |= prompt_and_response_fields(row.get("prompt"), row.get("response"))
        if row.get("ref_response") is not None:
            row["ref_response"] = prompt_fields(row["ref_response"])["prompt"]
        yield row


class Conversations(BaseFormat):
    id = "conversations"
    description = "one conversation per object: chat messages and a reward"
    files = ("*.jsonl", "*.json", "*.parquet")
    claims = (("step", "messages", "reward"), ("messages", "reward"))
    confidence = 40

    def recognizes(self, obj: Row) -> bool:
        is_reward = not isinstance(obj["reward"], dict | list)
        messages = obj["messages"]
        return is_reward and is_messages(messages) and has_answer(messages)

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        row = {"step": where.step or AssumedStep(), **logged.read_all(obj)}
        messages = row.pop("messages", None)
        if not is_messages(messages):
            raise RowError(message("`messages` is missing or empty"))
        yield row | conversation_fields(messages)


class Distillation(Plain):
    id = "distillation"
    description = "on-policy distillation: log-probabilities of the teacher, often without rewards"
    rewarded = False
    claims = ((*_TEXTS, "teacher_logprobs"), (*_TEXTS, "teacher_log_probs"))
    confidence = 65

    def recognizes(self, obj: Row) -> bool:
        return super().recognizes(obj) and obj.get("ref_logprobs") is None

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Distillation:
        remark = message(
            "the reference is the teacher of a distillation; rewards may be missing"
        )
        return Distillation(remark=remark)

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        # Frameworks spell the teacher's log-probabilities in two ways.
        for row in super().rows(obj, where):
            logprobs = row.pop("teacher_logprobs", None)
            log_probs = row.pop("teacher_log_probs", None)
            teacher = log_probs if logprobs is None else logprobs
            row["reward"] = coerce.number(row.get("reward"))
            yield row | fields(ref_logprobs=teacher)


class Renamed(BaseFormat):
    """The base class of formats whose objects become rows by renaming keys.

    Attributes:
        step: the log's key for the step.
        prompt: the log's key for the prompt.
        response: the log's key for the response, "" if the log has no texts.
        reward: the log's key for the reward.
        step_path: the step in the path, used if the object has none.
        step_else: keys to use as the step if neither object nor path has one.
        renames: (field, key) pairs of further fields.
        hidden: further keys that do not become extra columns.
    """

    step = "step"
    prompt = "prompt"
    response = ""
    reward = "reward"
    step_path: re.Pattern[str] | None = None
    step_else: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    hidden: frozenset[str] = frozenset()

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of an object, or one row per entry of its columns if it is columnar."""
        if not self.columnar:
            return iter((self.row(obj, where),))
        entries = logged.explode(obj, self.response)
        return logged.each(entries, lambda entry: self.row(entry, where))

    def row(self, obj: Row, where: Where) -> Row:
        """Return the row of one object; raise RowError if it lacks its response or reward."""
        used = {self.step, self.reward, *dict(self.renames).values()}
        texts: Row = {}  # without any, they are decoded from token ids
        if self.response:
            if obj.get(self.response) is None:
                raise RowError(
                    message("{field} is missing", field=f"`{self.response}`")
                )
            used |= {self.prompt, self.response}
            texts = prompt_and_response_fields(obj.get(self.prompt), obj[self.response])
        row = {
            **columns(obj, used | self.hidden),
            **texts,
            "step": self._step(obj, where),
            "reward": logged.required(obj, self.reward) if self.rewarded else math.nan,
            **fields(**{name: obj.get(key) for name, key in self.renames}),
        }
        self.complete(row, obj)
        return row

    def complete(self, row: Row, obj: Row) -> None:
        """Add fields that need more than renaming to ``row``, in place (for subclasses).

        ``row`` has all other fields; ``obj`` is the object as logged.
        """

    def _step(self, obj: Row, where: Where) -> int:
        step = obj.get(self.step)
        path_has_step = self.step_path and self.step_path.search(where.name)
        # ``step_of`` prefers a value to the path, so the last resort is no value before it.
        if step is None and not path_has_step:
            step = next((obj.get(key) for key in self.step_else if key in obj), None)
        return logged.step_of(step, where, self.step_path)


class AReaL(Renamed):
    id = "areal"
    description = "AReaL rollouts: one folder per policy version, one file per task"
    files = ("rollout/<version>/<task_id>.jsonl",)
    claims = (("task_id", "prompt", "completion", "reward", "head_version"),)
    response = "completion"
    step_path = re.compile(r"(?:^|/)(\d+)/[^/]+$")
    step_else = ("tail_version", "head_version")
    renames = (("group_id", "task_id"),)

    def complete(self, row: Row, obj: Row) -> None:
        row |= fields(policy_version=[obj.get("head_version"), obj.get("tail_version")])


class AgileRL(Renamed):
    id = "agilerl"
    description = (
        "AgileRL's CompletionLoggingConfig(jsonl_path): "
        "a sample of the rollouts, long texts cut"
    )
    files = ("*.jsonl",)
    claims = (("agent_index", "group_index", "sample_index", "completion", "reward"),)
    response = "completion"
    hidden = frozenset({"agent_index", "group_index", "sample_index"})

    def complete(self, row: Row, obj: Row) -> None:
        # Each agent of a population has its own groups with the same numbers.
        agent = coerce.integer(obj.get("agent_index"))
        row |= fields(
            agent=None if agent is None else f"agent {agent}",
            group_id=f"{agent}/{coerce.text(obj.get('group_index'))}",
        )


class Verl(Renamed):
    id = "verl"
    description = "verl rollout_data_dir and validation_data_dir, legacy and V1 trainer"
    files = ("<step>.jsonl",)
    claims = (("input", "output", "gts", "score"), ("input", "output", "score", "step"))
    confidence = 90
    prompt = "input"
    response = "output"
    reward = "score"
    step_path = re.compile(
        r"(?:^|/)(?:step_?|global_step_?)?(\d+)\.jsonl(?:\.gz|\.zst|\.zip)?$"
    )
    renames = (("ground_truth", "gts"),)
    # Strings that stay as logged; ``columns`` would unquote them, so that "7" became a number
    texts = frozenset(
        {"pred", "answer", "extracted_answer", "request_id", "data_source"}
    )
    hidden = texts | {"reward", "uid"}
    reward_part = re.compile(r".+_(?:reward|score)s?|.+_penalty")
    # ``uid`` of the V1 trainer: <group>_<session>_<output>; a session is one rollout
    uid = re.compile(r"(?P<rollout>(?P<group>.+)_\d+)_\d+")

    def writer(self, obj: Row) -> str:
        return "V1 trainer" if "uid" in obj else "legacy trainer"

    def complete(self, row: Row, obj: Row) -> None:
        """Add reward parts, texts, and the group and rollout of a response."""
        # Columns that the user's reward function adds, such as ``format_reward``
        parts = {key: row[key] for key in row if self.reward_part.fullmatch(key)}
        row |= fields(reward_parts=coerce.reals(parts))
        for key in self.texts & obj.keys():
            if isinstance(obj[key], str):
                row[key] = obj[key]
        uid = obj.get("uid")
        if isinstance(uid, str):
            match = self.uid.fullmatch(uid)
            row["group_id"] = match["group"] if match else uid
            if match:
                row["rollout_id"] = match["rollout"]
        # Validation logs the score also as `reward`; it becomes a column only if it differs.
        logged_reward = obj.get("reward")
        if isinstance(logged_reward, str):
            logged_reward = coerce.unquoted(logged_reward)
        second_reward = coerce.real(logged_reward)
        is_number = second_reward is not None and not math.isnan(second_reward)
        if is_number and second_reward != row["reward"]:
            row["reward_logged"] = second_reward


class OpenInstruct(Renamed):
    id = "open_instruct"
    description = "open-instruct save_traces: ids and logprobs, no text"
    files = ("*_rollouts_*.jsonl",)
    claims = (("prompt_tokens", "response_tokens", "reward"),)
    confidence = 90
    renames = (
        ("prompt_token_ids", "prompt_tokens"),
        ("token_ids", "response_tokens"),
        ("logprobs", "logprobs"),
        ("advantages", "advantage"),
        ("finish_reason", "finish_reason"),
        ("group_id", "prompt_idx"),
        ("dataset", "dataset"),
        ("ground_truth_ids", "ground_truth"),
    )

    def recognizes(self, obj: Row) -> bool:
        ids = [coerce.ints(obj[key]) for key in ("prompt_tokens", "response_tokens")]
        return None not in ids

    def complete(self, row: Row, obj: Row) -> None:
        """Add what is logged about the request, and the label."""
        if "token_ids" not in row:
            raise RowError(message("`response_tokens` is not a list of ids"))
        # What is logged about the request becomes columns where the sample has no such field.
        request = mapping(obj.get("request_info"))
        for name, value in columns(request, ("tool_errors", "tool_outputs")).items():
            row.setdefault(name, value)
        row |= fields(errors=[coerce.string(request.get("tool_errors"))])
        # The label is token ids, or else text.
        if "ground_truth_ids" not in row:
            row |= fields(ground_truth=obj.get("ground_truth"))


class PrimeRLTokens(Renamed):
    rewarded = False
    id = "prime_rl_tokens"
    description = "prime-rl token exports: ids, sampler and trainer logprobs, no reward"
    files = ("token_exports/step_*/rank_*.jsonl",)
    claims = (("token_ids", "loss_mask", "inference_logprobs", "trainer_logprobs"),)
    step_path = logged.STEP_WORD
    hidden = frozenset({"schema_version"})

    def complete(self, row: Row, obj: Row) -> None:
        """Add the tokens of the response, and means over the tokens that were trained on."""
        ids = coerce.ints(obj.get("token_ids"))
        # One entry per id, 1 for tokens that were trained on
        mask = obj.get("loss_mask")
        if ids is None or not isinstance(mask, list):
            raise RowError(
                message("`token_ids` or `loss_mask` is missing or not a list")
            )
        row |= after_prompt(obj, ids, mask, _PRIME_RL_ARRAYS)
        # prime-rl logs no reward here (see ``rewarded``), but another program may add it.
        row["reward"] = coerce.number(obj.get("reward"))
        for key in ("entropy", "mismatch_kl", "is_masked"):
            values = coerce.numbers(obj.get(key)) or []
            of_trained_tokens = list(compress(values, mask))
            if of_trained_tokens:
                row[f"{key}_mean"] = fmean(of_trained_tokens)


class Roll(Renamed):
    id = "roll"
    description = "ROLL rlvr rollout dumps: one line of columns per step"
    files = ("rollout_dump_data.step_*.jsonl",)
    claims = (("prompt", "responses", "scores"),)
    columnar = True
    step = "global_step"
    response = "responses"
    reward = "scores"
    step_path = logged.STEP_WORD
    renames = (("group_id", "id"), ("ground_truth", "ground_truth"))
    hidden = frozenset({"sampling_params"})


class RollAgentic(BaseFormat):
    id = "roll_agentic"
    description = (
        "ROLL agentic rollout dumps: one line per step, columns of JSON strings"
    )
    files = ("rollout_dump_data.step_*.jsonl",)
    claims = (("trajectory_data", "messages"),)
    columnar = True

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        trajectories = _trajectories(obj)
        return logged.each(trajectories, lambda one: _trajectory_row(one, where))


class _Trajectory(NamedTuple):
    entry: Row  # its value of each column
    about: Row  # the object in the column ``trajectory_data``


def _trajectories(obj: Row) -> Iterator[_Trajectory]:
    """Yield the trajectories of a step, which an object has in columns."""
    for entry in logged.explode(obj, "trajectory_data"):
        about = mapping(logged.from_json(entry.get("trajectory_data")))
        position = coerce.integer(about.get("branch_or_step_idx"))
        count = coerce.integer(about.get("num_branches_or_steps"))
        # In step mode a trajectory is dumped once per environment step: read its last dump.
        if position is None or count is None or position >= count - 1:
            yield _Trajectory(entry, about)


def _trajectory_row(trajectory: _Trajectory, where: Where) -> Row:
    """Return the row of a trajectory; raise RowError without messages, reward or step."""
    entry = trajectory.entry
    about = trajectory.about
    messages = _messages(entry)
    sampled = [mapping(turn).get("role") == "assistant" for turn in messages]
    environment = mapping(about.get("env_info"))
    timing = mapping(about.get("timing_info"))
    failure = mapping(about.get("failure_info"))
    row = columns(entry, ("global_step", "trajectory_data", "messages", "tools"))
    # Of equal names in several parts, the last one counts.
    for part in (mapping(about.get("length_info")), environment, timing):
        row |= columns(part, ("mode", "group_id", "traj_save_time"))
    reason = coerce.text(failure.get("stop_reason", about.get("finish_reason"))).lower()
    errors = failure.get("error_messages")
    mode = environment.get("mode")
    return {
        **row,
        **conversation_fields(messages, sampled),
        "step": logged.step_of(entry.get("global_step"), where, logged.STEP_WORD),
        "reward": logged.required(mapping(about.get("reward_info")), "episode_reward"),
        **fields(
            finish_reason=reason or None,
            seconds=timing.get("traj_time_env_total"),
            errors=errors if isinstance(errors, list) else None,
            split=mode if mode in ("train", "val") else None,
            group_id=_group_of(environment),
        ),
    }


def _messages(entry: Row) -> list[Any]:
    """Return a trajectory's messages as one list."""
    messages = logged.from_json(entry.get("messages"))
    if not isinstance(messages, list):
        raise RowError(message("`messages` is not a JSON list"))
    joined: list[Any] = []
    for item in messages:
        # After the agent's context was replaced, a new list of messages begins.
        joined += item if isinstance(item, list) else [item]
    return joined


def _group_of(environment: Row) -> str | None:
    """Return what trajectories from the same start share; None if no group is logged."""
    if "group_id" not in environment:
        return None
    keys = ("tag", "group_id", "episode_id", "seed")
    return "_".join(coerce.text(environment.get(key)) for key in keys)


class Swift(Renamed):
    """ms-swift's GRPO completions: a column per reward function, or a total (Ray trainer)."""

    id = "swift"
    description = "ms-swift GRPO completions.jsonl (also Megatron's and Ray's)"
    files = ("completions.jsonl",)
    claims = (("step", "prompt", "completion"), ("gen_step", "prompt", "completion"))
    response = "completion"
    step_else = ("gen_step",)  # of Megatron
    renames = (("advantages", "advantages"), ("ground_truth", "solution"))
    hidden = frozenset({"gen_step"})
    # Columns that are no reward function: the trainer's figures, and columns with a meaning
    other = frozenset(
        {"entropy", "rewards_std", "kl", "length", "response_clip_ratio"}
        | {"step", "gen_step", "prompt", "completion", "reward", "solution"}
    )

    def recognizes(self, obj: Row) -> bool:
        columns = ("step", "prompt", "completion")
        return "gen_step" in obj or all(isinstance(obj[key], list) for key in columns)

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the rows of a step's columns, or of one response."""
        completion = obj.get("completion")
        columnar = isinstance(completion, list) and not is_messages(completion)
        if not columnar:
            # Ray's trainer logs a total reward only.
            return iter((self._row(obj, [], where),))
        functions = self._reward_functions(obj)
        entries = logged.explode(obj, "completion")
        return logged.each(entries, lambda entry: self._row(entry, functions, where))

    def _row(self, entry: Row, functions: Sequence[str], where: Where) -> Row:
        """Return the row of an entry, in which each of ``functions`` has a reward."""
        # ``pop``, so that they become no columns of their own
        parts = {name: coerce.number(entry.pop(name)) for name in functions}
        entry.setdefault("reward", logged.total(parts.values()))
        return self.row(entry, where) | fields(reward_parts=parts)

    def _reward_functions(self, obj: Row) -> list[str]:
        """Return the names of reward functions: float columns (before ``advantages`` if logged)."""
        names = list(obj)
        if "advantages" in names:
            names = names[: names.index("advantages")]
        candidates = [name for name in names if name not in self.other]
        return [name for name in candidates if _is_float_column(obj[name])]


def _is_float_column(values: object) -> bool:
    """Return whether a column has floats and nulls only, and at least one number."""
    if not isinstance(values, list):
        return False
    graded = [value for value in values if value is not None]
    if not all(isinstance(value, float) for value in graded):
        return False
    return not all(map(math.isnan, graded))


class ART(Renamed):
    id = "art"
    description = "OpenPipe ART trajectories: Parquet, one file per step, messages"
    files = ("trajectories/<split>/<step>.parquet",)
    container = "parquet"
    claims = (("group_index", "reward", "messages"),)
    step_path = re.compile(r"(?:^|/)(\d+)\.(?:parquet|jsonl)")
    renames = (("group_id", "group_index"),)
    objects = ("metrics", "metadata", "group_metrics", "group_metadata")
    hidden = frozenset(objects)

    def complete(self, row: Row, obj: Row) -> None:
        """Add columns of a trajectory's JSON objects, and its conversation."""
        messages = obj.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RowError(message("`messages` is missing or empty"))
        # These are JSON in strings; of equal names, the first object's counts.
        for key in self.objects:
            about = mapping(logged.from_json(obj.get(key)))
            for name, value in columns(about, ("step", "reward")).items():
                row.setdefault(name, value)
        sampled = [
            one.get("trainable") is not False and one.get("role") == "assistant"
            for one in map(mapping, messages)
        ]
        row |= conversation_fields(messages, sampled)
