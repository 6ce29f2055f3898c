"""The log format of NeMo-RL: ``train_data_step{N}.jsonl`` and ``val_data_step{N}.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, Where
from rlreport.formats.ids import after_prompt, mask_runs
from rlreport.formats.logged import columns, fields, mapping
from rlreport.system import coerce
from rlreport.text.chat import conversation_fields, is_messages, prompt_fields, response_fields
from rlreport.text.messages import message

_STEP = re.compile(r"(?:train|val)_data_step(\d+)\.jsonl")
_ARRAYS = {
    "prev_logprobs": "logprobs",
    "generation_logprobs": "sampler_logprobs",
    "advantages": "advantages",
    "reference_policy_logprobs": "ref_logprobs",
}
_USED_KEYS = frozenset(
    {"content", "rewards", "filtered_rewards", "input_lengths", "token_ids", "token_loss_mask"}
    | _ARRAYS.keys()
)


class NemoRL(BaseFormat):
    """NeMo-RL's format: one sample per line, with each value in a list of length 1.

    Sequences are padded to the longest of the batch. ``input_lengths`` is the length without
    padding, ``token_loss_mask`` marks the policy's tokens, and the log-probability of token 0 is a
    filler. With dynamic sampling, rewards of the logged rows are in ``filtered_rewards``.
    """

    id = "nemo_rl"
    description = "NeMo-RL train_data_step<N>.jsonl and val_data_step<N>.jsonl"
    files = ("train_data_step*.jsonl", "val_data_step*.jsonl")
    claims = (("content", "rewards"), ("rewards", "token_ids", "input_lengths"))

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Return a claim on files that have NeMo-RL's name, or samples with token ids."""
        is_nemo_rl = _STEP.search(name) or any("token_ids" in obj for obj in objects)
        return super().match(name, objects) if is_nemo_rl else None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a sample, with token arrays if the sample has token ids."""
        flat = logged.entry_of(obj, {key: _unwrap(value) for key, value in obj.items()})
        reward = logged.required(flat, "rewards")
        if "filtered_rewards" in flat:  # then ``rewards`` is of the batch before filtering
            reward = coerce.grade(flat["filtered_rewards"])
        tokens = _tokens(flat)
        runs = mask_runs(tokens.get("response_mask", []))
        texts = _texts(flat.get("content"), len(runs))
        if not texts and not runs:
            raise RowError(message("neither `content` nor `token_ids`"))
        if runs and not texts.get("prompt"):
            texts.pop("prompt", None)  # RowReader decodes the prompt from its ids
        turns = texts.get("turns", [])
        if len(turns) == len(runs):
            for turn, run in zip(turns, runs, strict=True):
                turn["tokens"] = list(run)
        yield {
            **columns(flat, _USED_KEYS),
            "step": logged.step_of(flat.get("step"), where, _STEP),
            "reward": reward,
            **tokens,
            **texts,
            **fields(agent=mapping(flat.get("agent_ref")).get("name")),
        }

    def split(self, name: str) -> str | None:
        """Return ``train`` or ``val`` by the prefix of the file's name, else None."""
        last = name.rpartition("/")[2]
        return {"val_": "val", "trai": "train"}.get(last[:4])


def _unwrap(value: Any) -> Any:
    """Return the element of a list of length 1; return any other value unchanged."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _texts(content: Any, runs: int) -> Row:
    """Return the prompt, response and turns of a sample.

    Messages of training samples are strings without a role. ``runs`` is the number of runs of equal
    values in the loss mask. The last ``runs`` messages follow the prompt, policy and environment in
    turn.
    """
    if is_messages(content):
        return conversation_fields(content, [one["role"] == "assistant" for one in content])
    if isinstance(content, str):
        return {"prompt": "", "response": content}
    if not isinstance(content, list) or not content:
        return {}
    texts = [coerce.text(item) for item in content]
    replies = min(runs or 1, len(texts) - 1) or 1
    messages = [
        {"role": "environment" if i % 2 else "assistant", "content": text}
        for i, text in enumerate(texts[-replies:])
    ]
    return prompt_fields("\n".join(texts[:-replies])) | response_fields(messages)


def _tokens(flat: Row) -> Row:
    """Return the token fields of a sample, {} if it has no token ids."""
    ids = coerce.ints(flat.get("token_ids"))
    if ids is None:
        return {}
    length = coerce.integer(flat.get("input_lengths"))
    length = len(ids) if length is None else max(0, min(length, len(ids)))
    sampled = coerce.numbers(flat.get("token_loss_mask")) or [1.0] * length
    # The log-probability of token 0 is a placeholder, so this token counts as not sampled.
    mask = [int(i > 0 and bool(one)) for i, one in enumerate(sampled[:length])]
    return after_prompt(flat, ids, mask, _ARRAYS)
