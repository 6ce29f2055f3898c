"""Log formats of NeMo RL and NeMo Gym."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rlreport.errors import RowError
from rlreport.fields import AssumedStep
from rlreport.formats import logged, token_names
from rlreport.formats.base import BaseFormat, Match, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.formats.renamed import Renamed
from rlreport.formats.token_names import (
    StepTokens,
    after_prompt,
    mask_runs,
    span_turns,
    tokens_of_steps,
)
from rlreport.system import coerce
from rlreport.text.chat import (
    content_text,
    conversation_fields,
    is_messages,
    prompt_fields,
    response_fields,
)
from rlreport.text.messages import message

_GYM_KEYS = frozenset(
    {"_ng_task_index", "_ng_rollout_index", "_ng_failure_judge_error"}
    | {"expected_answer", "reward"}
)


class NemoGym(BaseFormat):
    id = "nemo_gym"
    description = (
        "NeMo Gym rollouts and their failures: items of OpenAI's Responses API"
    )
    files = ("*rollouts.jsonl", "*rollouts_failures.jsonl")
    claims = (
        ("responses_create_params", "response", "reward"),
        ("responses_create_params", "_ng_failure_class"),
    )

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a rollout or of a failed attempt, which has no response."""
        request = logged.read_all(mapping(obj.get("responses_create_params")))
        response = logged.read_all(mapping(obj.get("response")))
        output = dicts(response.get("output"))  # items of all model calls, in order
        reply = _messages_of_items(output)
        sampled = [message["role"] == "assistant" for message in reply]
        failure_keys = [key for key in obj if key.startswith("_ng_failure_")]
        failure = [coerce.text(obj.get(key)) for key in failure_keys]
        task = coerce.text_if_any(obj.get("_ng_task_index"))
        attempt = f"{task}-{coerce.text_if_any(obj.get('_ng_rollout_index'))}"
        reason = mapping(response.get("incomplete_details")).get("reason")
        components = coerce.reals(mapping(obj.get("reward_components")))
        criteria, judged = logged.rubric(obj)
        error = logged.error_text(response.get("error"), "message")
        step = obj.get("step")
        row = {
            **columns(obj, _GYM_KEYS),
            **prompt_fields(_request_messages(request)),
            **response_fields(reply, sampled),
            "step": logged.step_of(step, where, logged.STEP_WORD, AssumedStep()),
            "reward": coerce.grade(obj.get("reward")),
            **fields(
                group_id=task,
                # Failures have a row per attempt, of which only the last counts.
                rollout_id=attempt if failure else None,
                agent=mapping(obj.get("agent_ref")).get("name"),
                ground_truth=obj.get("expected_answer"),
                reward_parts=components | criteria,
                finish_reason="length" if reason == "max_output_tokens" else reason,
                errors=[": ".join(failure), error],
            ),
            **_tokens_of_items(output),
        }
        if failure and obj.get("_ng_failure_class") != "judge_failed":
            row["reward"] = None  # logged as 0
        span_turns(row)
        # Only now, as the judge's turn has no tokens
        if judged:
            verdict = {"role": "judge", "text": judged, "sampled": False}
            row.setdefault("turns", []).append(verdict)
        yield row


def _request_messages(request: Row) -> list[Row]:
    """Return the prompt of a request as chat messages, the instructions first."""
    items_or_text = request.get("input")
    messages = _messages_of_items(dicts(items_or_text))
    if not messages:
        messages = [{"role": "user", "content": items_or_text}]
    if request.get("instructions"):
        messages.insert(0, {"role": "system", "content": request["instructions"]})
    return messages


def _tokens_of_items(items: Iterable[Row]) -> Row:
    """Return the token fields of model calls: the last item of each call has its tokens."""
    steps: list[StepTokens] = []
    for item in items:
        reply_ids = item.get("generation_token_ids")
        if reply_ids:
            prompt_ids = item.get("prompt_token_ids")
            logprobs = item.get("generation_log_probs")
            steps.append(StepTokens(prompt_ids, reply_ids, logprobs))
    return tokens_of_steps(steps)


def _messages_of_items(items: Iterable[Row]) -> list[Row]:
    """Convert items of OpenAI's Responses API to chat messages; join those of one model call.

    A model call yields several items, such as reasoning, a message and calls of tools.
    """
    messages: list[Row] = []
    ended = True  # whether the model's last call ended
    for item in items:
        kind = item.get("type") or "message"
        content = item.get("content")
        if kind == "function_call_output":  # of a tool
            answer = {"role": "tool", "content": item.get("output")}
            messages.append({**answer, "tool_call_id": item.get("call_id")})
            continue
        if kind == "message" and item.get("role") != "assistant":
            messages.append({"role": item.get("role"), "content": content})
            continue
        if ended or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": "", "tool_calls": []})
        # Only the last item of a model call has the tokens.
        ended = bool(item.get("generation_token_ids"))
        reply = messages[-1]
        if kind == "message":
            reply["content"] += content_text(content)
        elif kind == "reasoning":
            thought = content_text(content or item.get("summary"))
            reply["reasoning_content"] = reply.get("reasoning_content", "") + thought
        else:  # a call of a tool; those that OpenAI runs itself have only a type
            call = {"name": item.get("name") or kind, "id": item.get("call_id")}
            reply["tool_calls"].append({**call, "arguments": item.get("arguments", "")})
    return messages


_STEP = re.compile(r"(?:train|val)_data_step(\d+)\.jsonl")
_ARRAYS = {
    "prev_logprobs": "logprobs",
    "generation_logprobs": "sampler_logprobs",
    "advantages": "advantages",
    "reference_policy_logprobs": "ref_logprobs",
}


class NemoRL(Renamed):
    """NeMo-RL's format: one sample per line, with each value in a list of length 1."""

    id = "nemo_rl"
    description = "NeMo-RL train_data_step<N>.jsonl and val_data_step<N>.jsonl"
    files: tuple[str, ...] = ("train_data_step*.jsonl", "val_data_step*.jsonl")
    claims: tuple[tuple[str, ...], ...] = (
        ("content", "rewards"),
        ("rewards", "token_ids", "input_lengths"),
    )
    reward = "rewards"
    step_path = _STEP
    hidden = frozenset(
        {"content", "filtered_rewards", "input_lengths", "token_ids", "token_loss_mask"}
        | _ARRAYS.keys()
    )

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        is_nemo_rl = _STEP.search(name) or any("token_ids" in obj for obj in objects)
        return super().match(name, objects) if is_nemo_rl else None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        flat: Row = {}
        for key, value in obj.items():
            has_one = isinstance(value, list) and len(value) == 1
            flat[key] = value[0] if has_one else value
        return super().rows(logged.entry_of(obj, flat), where)

    def complete(self, row: Row, obj: Row) -> None:
        """Add reward, texts and tokens; raise RowError if a sample has neither of the last two."""
        # With ``filtered_rewards``, ``rewards`` is of the batch before filtering.
        if "filtered_rewards" in obj:
            row["reward"] = coerce.grade(obj["filtered_rewards"])
        row |= _tokens(obj)
        runs = mask_runs(row.get("response_mask", []))
        texts = _texts(obj.get("content"), len(runs))
        if not texts and not runs:
            raise RowError(
                message("both `content` and `token_ids` are missing or invalid")
            )
        if runs and not texts.get("prompt"):
            texts.pop("prompt", None)  # RowReader decodes the prompt from its ids
        # Turns of the policy and of the environment alternate, as do runs of the mask.
        token_names.set_spans(texts.get("turns", []), runs)
        row |= texts | fields(agent=mapping(obj.get("agent_ref")).get("name"))


class NemoRLDistillation(NemoRL):
    id = "nemo_rl_distillation"
    description = "NeMo-RL distillation: train_data_step<N>.jsonl without rewards"
    files = ("train_data_step*.jsonl",)
    claims = (("content", "input_lengths"),)
    rewarded = False

    def recognizes(self, obj: Row) -> bool:
        return "rewards" not in obj


def _texts(content: Any, runs: int) -> Row:
    """Return the text fields of a sample's content: messages, one text, or a list of texts.

    ``runs`` is the number of turns in its response, by the mask of its tokens; 0 without a mask.
    """
    if is_messages(content):
        sampled = [one["role"] == "assistant" for one in content]
        return conversation_fields(content, sampled)
    if isinstance(content, str):
        return {"prompt": "", "response": content}
    if not isinstance(content, list) or not content:
        return {}
    texts = [coerce.text(item) for item in content]
    # At least one text is the reply, and if there are two, at least one is the prompt.
    replies = max(1, min(runs or 1, len(texts) - 1))
    messages: list[Row] = []
    for text in texts[-replies:]:
        # The policy speaks first, then the two take turns.
        is_environment = len(messages) % 2 == 1
        role = "environment" if is_environment else "assistant"
        messages.append({"role": role, "content": text})
    return prompt_fields("\n".join(texts[:-replies])) | response_fields(messages)


def _tokens(flat: Row) -> Row:
    """Return the token fields of a sample without padding, {} if it has no ids."""
    ids = coerce.ints(flat.get("token_ids"))
    if ids is None:
        return {}
    length = len(ids)
    without_padding = coerce.integer(flat.get("input_lengths"))
    if without_padding is not None:
        length = max(0, min(without_padding, length))
    # Without a mask, all tokens count as sampled.
    sampled = coerce.numbers(flat.get("token_loss_mask")) or [1.0] * length
    # The log-probability of token 0 is a placeholder, so this token counts as not sampled.
    return after_prompt(flat, ids[:length], [0.0, *sampled[1:]], _ARRAYS)
