"""Log formats of agents' episodes: rLLM, SkyRL's evaluations, tinker-cookbook, NeMo Gym."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import xxhash

from rlreport.errors import RowError
from rlreport.fields import AssumedStep
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping, span_turns, tokens_of_steps
from rlreport.system import coerce
from rlreport.text.chat import (
    Turn,
    content_text,
    conversation_text,
    is_messages,
    prompt_and_response_fields,
    prompt_fields,
    response_fields,
)
from rlreport.text.messages import message

_USED_KEYS = frozenset(
    {"training_step", "task", "task_hash", "termination_reason", "trajectories", "id"}
    | {"episode_id", "session_id"}
)
# Matches names of agents that are assumed not to be trained, unless all agents have such names
_OTHER_AGENTS = re.compile(r"judge|grader|verifier|critic|reviewer|simulat", re.IGNORECASE)


class RLLM(BaseFormat):
    """rLLM's format: one episode per file, one row per trajectory in it."""

    id = "rllm"
    description = "rLLM episodes of training and of `rllm eval`: one JSON file per episode"
    files = ("episodes/*_step_*_epoch_*/episode_*.json", "eval_results/*/episodes/episode_*.json")
    container = "json"
    claims = tuple(("trajectories", key) for key in ("task_hash", "training_step", "eval_idx"))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        is_evaluation = "eval_idx" in obj
        task = obj.get("task")
        step = 0 if is_evaluation else obj.get("training_step")
        shared = {
            **columns(obj, _USED_KEYS),
            **columns(mapping(obj.get("metrics")), ("step", "reward")),
            "step": logged.step_of(step, where, logged.STEP_WORD),
            **fields(
                split="eval" if is_evaluation else None,
                finish_reason=obj.get("termination_reason"),
                ground_truth=_label(mapping(task)),
            ),
        }
        trajectories = dicts(obj.get("trajectories"))
        if not trajectories:
            if obj.get("termination_reason") is None:
                raise RowError(message("the episode has no trajectories"))
            reason = coerce.text(obj["termination_reason"])
            yield {**shared, **logged.failed_fields(_question(task), reason)}
            return
        names = [coerce.text(trajectory.get("name")) for trajectory in trajectories]
        is_other = [bool(_OTHER_AGENTS.search(name)) for name in names]
        last = max((i for i, other in enumerate(is_other) if not other), default=None)
        group = _group(obj)
        episode = obj.get("id", obj.get("episode_id"))

        def row_of(i: int) -> Row:
            trajectory = trajectories[i]
            timing = mapping(trajectory.get("timing") or obj.get("timing"))
            row = {
                **shared,
                **_trajectory(trajectory, task),
                **fields(
                    seconds=timing.get("total_time"),
                    agent=names[i] or None,
                    trainable=None if all(is_other) else not is_other[i],
                ),
            }
            if is_evaluation and trajectory.get("reward") is None:
                row["reward"] = coerce.grade(obj.get("is_correct"))
            if not all(is_other) and (is_other[i] or i == last):
                branch = "another agent" if is_other[i] else None  # left out of statistics
                row |= fields(rollout_id=episode, branch=branch)
            if group:
                # Different agents on the same task, such as solver and judge, are separate groups.
                row["group_id"] = f"{group}:{names[i]}" if len(set(names)) > 1 else group
            return row

        yield from logged.each(range(len(trajectories)), row_of)


def _question(task: Any) -> str:
    return coerce.text(mapping(task).get("question", task))


def _group(obj: Row) -> str:
    """Return an episode's group: its task's hash or id, else its id up to the last colon, or ""."""
    if obj.get("task_hash") is not None:
        return coerce.text(obj["task_hash"])
    identity = mapping(obj.get("task")).get("id")
    if identity is None and isinstance(obj.get("id"), str):
        identity = obj["id"].rpartition(":")[0]  # the id is <task>:<attempt>
    return coerce.text(identity)


def _label(task: Row) -> Any:
    metadata = mapping(task.get("metadata"))
    return task.get("ground_truth", task.get("answer", metadata.get("ground_truth")))


def _trajectory(trajectory: Row, task: Any) -> Row:
    steps = dicts(trajectory.get("steps"))
    chats = [step.get("chat_completions") or [] for step in steps]
    if steps and all(map(is_messages, chats)):
        texts = _join_chats(chats, steps)
    else:
        observation = steps[0].get("observation") or steps[0].get("input") if steps else None
        replies = [
            {
                "role": "assistant",
                "content": coerce.text(
                    step.get("model_response") or step.get("output") or step.get("action")
                ),
                "reasoning": step.get("thought"),
            }
            for step in steps
        ]
        prompt = coerce.text(observation) if observation else _question(task)
        texts = {"prompt": prompt, **response_fields(replies)}
    reward = trajectory.get("reward")
    if reward is None:
        reward = logged.total(coerce.number(step.get("reward")) for step in steps)
    return {
        **texts,
        "reward": coerce.grade(reward),
        **fields(
            policy_version=[step.get("weight_version") for step in steps],
            turns_taken=len(steps) if len(steps) > 1 else None,
        ),
        **tokens_of_steps(
            (step.get("prompt_ids"), step.get("response_ids"), step.get("logprobs"))
            for step in steps
        ),
    }


def _join_chats(chats: Sequence[list[Row]], steps: Sequence[Row]) -> Row:
    last_chat: list[Row] = []
    earlier: list[list[Row]] = []
    messages: list[Row] = []
    sampled: list[bool] = []
    rewards: dict[int, float] = {}
    prompt: list[Row] = []
    for chat, step in zip(chats, steps, strict=True):
        shared = _shared(last_chat, chat)
        if shared < len(last_chat):  # such as a sub-agent's
            shared = max(_shared(before, chat) for before in earlier)
        new = chat[shared:]
        answer = len(new) - 1
        while answer > 0 and new[answer - 1].get("role") == "assistant":
            answer -= 1
        if not last_chat:
            prompt, new, answer = new[:answer], new[answer:], 0
        messages += new
        sampled += [i >= answer and turn.get("role") == "assistant" for i, turn in enumerate(new)]
        reward = coerce.real(step.get("reward"))
        if messages and reward is not None and len(steps) > 1:
            rewards[len(messages) - 1] = reward
        last_chat = chat
        earlier.append(chat)
    row = prompt_fields(prompt) | response_fields(messages, sampled)
    for position, reward in rewards.items():
        row["turns"][position]["reward"] = reward
    return row


def _shared(before: Sequence[Row], chat: Sequence[Row]) -> int:
    pairs = enumerate(zip(before, chat, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(before), len(chat)))


_STEP = re.compile(r"global_step_(\d+)")
_SKYRL_USED_KEYS = frozenset(
    {"input_prompt", "output_response", "score", "stop_reason", "env_extras"}
)


class SkyRL(BaseFormat):
    """SkyRL's format: one line per response, or per turn of a trajectory in step-wise evaluations.

    Of a trajectory's lines only the last has the reward and becomes a row, with the others as its
    earlier turns. A line belongs to the same trajectory as the next line if the next prompt begins
    with this line's prompt and response, or if both have the same ``extra_info.index`` and the next
    prompt is not the one that the trajectory began with, as that of another sample is. The mean in
    ``aggregated_results.jsonl`` may show that lines with one index are responses, not turns.
    To find the lines, the file is read again as its ``sibling``.
    """

    id = "skyrl"
    alone = False
    evaluates = True
    description = "SkyRL dumped evaluations, one folder per step, one file per data source"
    files = ("global_step_*_evals/*.jsonl",)
    claims = (("input_prompt", "output_response", "score"),)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> SkyRL | str:
        evaluations = path.parent.parent
        if path.parent.name == "eval_only" and any(
            file.parent.parent == evaluations and _STEP.search(file.parent.name) for file in listed
        ):
            return message(
                "an evaluation outside training, without a step: build a separate report of it"
            )
        return SkyRL(FileStamp.of(path)) if path.suffix == ".jsonl" else self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        if obj.get("output_response") is None:
            raise RowError(message("{field} is missing", field="`output_response`"))
        # A list of scores has one per token, and their sum is the reward.
        scores = coerce.numbers(obj.get("score"))
        extras = mapping(obj.get("env_extras"))
        spec = extras.get("reward_spec") or extras.get("reward_model")
        about = spec if isinstance(spec, dict) else extras
        # An evaluation outside training (`eval_only`) has no step.
        default = None if "step" in obj else AssumedStep()
        row = {
            **columns(obj, _SKYRL_USED_KEYS),
            **prompt_and_response_fields(obj.get("input_prompt"), obj["output_response"]),
            "step": logged.step_of(obj.get("step"), where, _STEP, default),
            "reward": logged.required(obj, "score") if scores is None else logged.total(scores),
            **fields(finish_reason=obj.get("stop_reason"), ground_truth=about.get("ground_truth")),
        }
        earlier = _earlier_lines(self.sibling).get(_digest(obj)) if self.sibling else None
        if self.sibling and earlier:
            lines = [*_lines_at(self.sibling, earlier), obj]
            row["turns"] = turns = _turns(lines)
            row["prompt"] = coerce.string(lines[0].get("input_prompt")) or ""
            row["response"] = "\n".join(turn["text"] for turn in turns if turn["sampled"])
        if earlier != []:  # [] marks a line that a later line continues
            yield row


@lru_cache(maxsize=4)
def _earlier_lines(file: FileStamp) -> dict[int, list[int]]:
    """Return digest of a line -> offsets of the earlier lines of its trajectory.

    A line that a later line continues has []; one that is a trajectory by itself is missing.
    """
    by_index = _counts_turns(file)
    earlier_of: dict[int, list[int]] = {}
    earlier: list[int] = []  # of the current trajectory
    first: Row = {}
    before: Row = {}
    offset_before = 0
    for offset, obj in _lines_with_offsets(file):
        if _continues(obj, before) or (by_index and _is_next_turn(obj, before, first)):
            earlier = [*earlier, offset_before]
            earlier_of[_digest(before)] = []
            earlier_of[_digest(obj)] = earlier
        else:
            earlier = []
            first = obj
        before = obj
        offset_before = offset
    return earlier_of


def _continues(obj: Row, before: Row) -> bool:
    prompt = obj.get("input_prompt")
    texts = _texts(before)
    return all(texts) and isinstance(prompt, str) and prompt.startswith("".join(texts))


def _is_next_turn(obj: Row, before: Row, first: Row) -> bool:
    index = _index(obj)
    same_task = index is not None and index == _index(before)
    # Another sample of the task begins with the same prompt again.
    return same_task and obj.get("input_prompt") != first.get("input_prompt")


def _lines_with_offsets(file: FileStamp) -> Iterator[tuple[int, Row]]:
    offset = 0
    with Path(file.path).open("rb") as lines:
        for line in lines:
            yield offset, logged.json_object(line)
            offset += len(line)


def _lines_at(file: FileStamp, offsets: Sequence[int]) -> list[Row]:
    found: list[Row] = []
    with Path(file.path).open("rb") as lines:
        for offset in offsets:
            lines.seek(offset)
            found.append(logged.json_object(lines.readline()))
    return found


def _counts_turns(file: FileStamp) -> bool:
    """Return whether lines with one index are turns: unless the logged mean is that of lines."""
    logged_means = FileStamp.of(Path(file.path).with_name("aggregated_results.jsonl"))
    if logged_means is None:
        return True
    of_lines: list[float] = []
    of_trajectories: list[float] = []
    before: Row = {}
    first: Row = {}
    for obj in logged.lines_of(file):
        scores = coerce.numbers(obj.get("score")) or [coerce.real(obj.get("score")) or 0.0]
        of_lines.append(math.fsum(scores))
        if _is_next_turn(obj, before, first):
            of_trajectories.pop()
        else:
            first = obj
        of_trajectories.append(of_lines[-1])
        before = obj
    # As SkyRL names the file and the metric of a data source.
    source = str(before.get("data_source") or "unknown").replace("/", "_")
    mean = coerce.real(logged.document_of(logged_means).get(f"eval/{source}/avg_score"))
    if mean is None or not of_lines or math.isclose(fmean(of_trajectories), mean):
        return True
    return not math.isclose(fmean(of_lines), mean)


def _index(obj: Row) -> int | None:
    extras = mapping(mapping(obj.get("env_extras")).get("extra_info"))
    return coerce.integer(extras.get("index"))


def _texts(obj: Row) -> list[str]:
    return [coerce.string(obj.get(key)) or "" for key in ("input_prompt", "output_response")]


def _digest(obj: Row) -> int:
    texts = repr([obj.get("input_prompt"), obj.get("output_response")])
    return xxhash.xxh3_64_intdigest(texts.encode("utf-8", "surrogatepass"))


def _turns(lines: Sequence[Row]) -> list[Turn]:
    """Return the turns of a trajectory; between two lines is what the prompt gained."""
    turns: list[Turn] = []
    for line, after in pairwise(lines):
        prompt, response = _texts(line)
        prompt_after, _ = _texts(after)
        # Prompts that do not repeat the response have, for example, a summary in its place.
        gained = prompt_after.removeprefix(prompt).removeprefix(response)
        turns.append({"role": "assistant", "text": response, "sampled": True})
        turns.append({"role": "environment", "text": gained, "sampled": False})
    return [*turns, {"role": "assistant", "text": _texts(lines[-1])[1], "sampled": True}]


_SUMMARIES, _LOGTREE = "_rollout_summaries.jsonl", "_logtree.json"
_MAX_LEVELS = 200

# A rollout group in a logtree: (total return, tokens per step) of its trajectories, and (reward,
# prompt and response) of its answers; returns and rewards are strings, such as ``0.500``
Group = tuple[list[tuple[str, list[int]]], list[tuple[str, Row]]]


class Tinker(BaseFormat):
    """tinker-cookbook's format: one trajectory per line, without texts.

    Texts come from the logtree (``sibling``), a JSON log next to the file. It has the texts of some
    trajectories with one answer, but not their indices. Therefore groups are matched by returns and
    lengths, and answers by reward and length.
    """

    id = "tinker"
    alone = False
    description = "tinker-cookbook rollout summaries, with the texts that the logtree shows"
    files = ("iteration_*/*_rollout_summaries.jsonl",)
    claims = (("iteration", "group_idx", "traj_idx", "total_reward", "steps"),)

    def __init__(self, logtree: FileStamp | None = None) -> None:
        none = message("the summaries contain no text, and there is no logtree next to them")
        matched = message(
            "texts come from the logtree; responses of a group with equal rewards are "
            "matched by length"
        )
        super().__init__(logtree, remark=matched if logtree else none)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Tinker:
        if not path.name.endswith(_SUMMARIES):
            return self
        return Tinker(FileStamp.of(path.with_name(path.name.removesuffix(_SUMMARIES) + _LOGTREE)))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        steps = dicts(obj.get("steps"))
        group = coerce.integer(obj.get("group_idx"))
        texts = self._texts(group, obj, steps)
        tags = obj.get("tags")
        row = {
            **columns(mapping(obj.get("trajectory_metrics"))),
            **columns(mapping(steps[-1].get("metrics")) if steps else {}),
            **prompt_and_response_fields(texts.get("prompt", ""), texts.get("response", "")),
            "step": logged.step_of(obj.get("iteration"), where, logged.STEP_WORD),
            "reward": logged.required(obj, "total_reward"),
            "group_id": coerce.text(group),
            "final_reward": obj.get("final_reward"),
            "action_tokens": sum(_length(step) for step in steps),
            "split": "train" if obj.get("split") == "train" else "eval",
            **fields(policy_version=[obj.get("sampling_client_step")]),
        }
        if isinstance(tags, list) and tags:
            row["tags"] = ", ".join(map(coerce.text, tags))[: logged.SHORT]
        if len(steps) > 1:
            row["turns_taken"] = len(steps)
            turn = {"role": "assistant", "text": "", "sampled": True}
            row["turns"] = [{**turn, "reward": step.get("reward")} for step in steps]
        yield row

    def _texts(self, group: int | None, obj: Row, steps: Sequence[Row]) -> Row:
        """Return {"prompt": …, "response": …} of a trajectory, {} if they cannot be identified."""
        number = coerce.integer(obj.get("traj_idx"))
        groups = _groups(self.sibling) if self.sibling else []
        if group is None or number is None or not 0 <= group < len(groups) or len(steps) != 1:
            return {}
        trajectories, answers = groups[group]
        reward = obj.get("total_reward")
        summary = f"{reward:.3f}" if isinstance(reward, int | float) else "", [_length(steps[0])]
        if trajectories[number : number + 1] != [summary] or len(answers) != len(trajectories):
            return {}
        # Sort trajectories and answers with this reward by length: those at equal ranks match.
        siblings = [i for i, (returned, _) in enumerate(trajectories) if returned == summary[0]]
        siblings.sort(key=lambda i: trajectories[i][1])
        texts = [text for returned, text in answers if returned == summary[0]]
        texts.sort(key=lambda text: len(conversation_text(text["response"])))
        return texts[siblings.index(number)] if len(texts) == len(siblings) else {}


def _length(step: Row) -> int:
    return coerce.integer(step.get("ac_len")) or 0


@lru_cache(maxsize=2)
def _groups(file: FileStamp) -> list[Group]:
    root = mapping(logged.document_of(file).get("root"))
    return [_tinker_group(node) for title, node in _sections(root) if title == "Group Rollout"]


def _tinker_group(node: Row) -> Group:
    trajectories: list[tuple[str, list[int]]] = []
    answers: list[tuple[str, Row]] = []
    texts: Row = {}
    for title, section in _sections(node):
        if title == "Prompt":
            texts = {"prompt": _messages(section)}
        elif title == "Policy Response":
            texts["response"] = _messages(section)
        elif title == "Reward" and "prompt" in texts and "response" in texts:
            answers.append((next(iter(_cells(section, "reward")), ""), texts))
            texts = {}
        elif title == "Trajectory Details":
            for _, episode in _sections(section):
                lengths = [int(n) for n in _cells(episode, "ac_len") if n.isdigit()]
                trajectories.append(("".join(_cells(episode, "total_return")[-1:]), lengths))
    return trajectories, answers


def _sections(node: Row) -> Iterator[tuple[str, Row]]:
    """Yield (title, body) of each section directly below a node of the logtree."""
    for child in dicts(node.get("children")):
        inner = dicts(child.get("children"))
        if child.get("tag") == "section" and len(inner) == 2:
            yield _text(inner[0]), inner[1]


def _text(node: Row) -> str:
    return "".join(map(coerce.text, node.get("children") or []))


def _walk(node: Row, level: int = 0) -> Iterator[Row]:
    yield node
    for child in dicts(node.get("children")) if level < _MAX_LEVELS else []:
        yield from _walk(child, level + 1)


def _messages(node: Row) -> list[Row]:
    for part in _walk(node):
        data = mapping(part.get("data"))
        if data.get("type") == "conversation":
            return dicts(data.get("messages"))
    return []


def _cells(node: Row, name: str) -> list[str]:
    """Return the values labelled ``name`` in the two-column tables below a node of the logtree."""
    rows = [dicts(part.get("children")) for part in _walk(node) if part.get("tag") == "tr"]
    return [_text(row[1]) for row in rows if len(row) == 2 and row[0].get("children") == [name]]


_GYM_KEYS = frozenset(
    {"_ng_task_index", "_ng_rollout_index", "_ng_failure_judge_error", "expected_answer", "reward"}
)


class NemoGym(BaseFormat):
    id = "nemo_gym"
    description = "NeMo Gym rollouts and their failures: items of OpenAI's Responses API"
    files = ("*rollouts.jsonl", "*rollouts_failures.jsonl")
    claims = (("responses_create_params", "response", "reward"),
              ("responses_create_params", "_ng_failure_class"))  # fmt: skip

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        request = logged.read_all(mapping(obj.get("responses_create_params")))
        response = logged.read_all(mapping(obj.get("response")))
        asked = request.get("input")
        prompt = _messages_of_items(dicts(asked)) or [{"role": "user", "content": asked}]
        if request.get("instructions"):
            prompt.insert(0, {"role": "system", "content": request["instructions"]})
        output = dicts(response.get("output"))
        reply = _messages_of_items(output)
        failure = [coerce.text(obj.get(key)) for key in obj if key.startswith("_ng_failure_")]
        task = coerce.text_if_any(obj.get("_ng_task_index"))
        index = coerce.text_if_any(obj.get("_ng_rollout_index"))
        reason = mapping(response.get("incomplete_details")).get("reason")
        criteria, judged = logged.rubric(obj)
        row = {
            **columns(obj, _GYM_KEYS),
            **prompt_fields(prompt),
            **response_fields(reply, [message["role"] == "assistant" for message in reply]),
            "step": logged.step_of(obj.get("step"), where, logged.STEP_WORD, AssumedStep()),
            "reward": coerce.grade(obj.get("reward")),
            **fields(
                group_id=task,
                rollout_id=f"{task}-{index}" if failure else None,  # a row per attempt
                agent=mapping(obj.get("agent_ref")).get("name"),
                ground_truth=obj.get("expected_answer"),
                reward_parts=coerce.reals(mapping(obj.get("reward_components"))) | criteria,
                finish_reason="length" if reason == "max_output_tokens" else reason,
                errors=[": ".join(failure), logged.error_text(response.get("error"), "message")],
            ),
            **tokens_of_steps(
                (item.get("prompt_token_ids"), item["generation_token_ids"],
                 item.get("generation_log_probs"))
                for item in output if item.get("generation_token_ids")
            ),
        }  # fmt: skip
        if failure and obj.get("_ng_failure_class") != "judge_failed":
            row["reward"] = None  # logged as 0
        span_turns(row)
        if judged:
            row.setdefault("turns", []).append({"role": "judge", "text": judged, "sampled": False})
        yield row


def _messages_of_items(items: Iterable[Row]) -> list[Row]:
    """Convert items of OpenAI's Responses API to chat messages; join those of one model call."""
    messages: list[Row] = []
    ended = True  # whether the model's last call ended
    for item in items:
        kind = item.get("type") or "message"
        content = item.get("content")
        if kind == "function_call_output":
            messages.append({"role": "tool", "content": item.get("output"),
                             "tool_call_id": item.get("call_id")})  # fmt: skip
            continue
        if kind == "message" and item.get("role") != "assistant":
            messages.append({"role": item.get("role"), "content": content})
            continue
        if ended or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": "", "tool_calls": []})
        ended = bool(item.get("generation_token_ids"))  # only the last item of a call has them
        reply = messages[-1]
        if kind == "message":
            reply["content"] += content_text(content)
        elif kind == "reasoning":
            thought = content_text(content or item.get("summary"))
            reply["reasoning_content"] = reply.get("reasoning_content", "") + thought
        else:
            call = {"name": item.get("name") or kind, "id": item.get("call_id")}
            reply["tool_calls"].append({**call, "arguments": item.get("arguments", "")})
    return messages
