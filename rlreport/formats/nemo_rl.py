"""NeMo-RL's ``train_data_step{N}.jsonl`` and ``val_data_step{N}.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, RowError, Where, has_keys, named
from rlreport.formats.logged import columns, mapping, present
from rlreport.formats.messages import (
    conversation_fields,
    is_messages,
    response_and_turns,
    text_fields,
)
from rlreport.formats.taken import Watched, take
from rlreport.formats.token_arrays import after_prompt
from rlreport.text.messages import message

_STEP = re.compile(r"(?:train|val)_data_step(\d+)\.jsonl")
_ARRAYS = {
    "prev_logprobs": "logprobs",
    "generation_logprobs": "sampler_logprobs",
    "advantages": "advantages",
    "reference_policy_logprobs": "ref_logprobs",
}
_KNOWN = frozenset(
    {"content", "rewards", "filtered_rewards", "input_lengths", "token_ids", "token_loss_mask"}
    | _ARRAYS.keys()
)


class NemoRL(BaseFormat):
    """One sample a line, each value in a list of length 1, sequences padded to the batch.

    ``input_lengths`` cuts the padding, ``token_loss_mask`` marks the tokens the policy wrote.
    Position 0 of the log-probabilities is a placeholder. With dynamic sampling ``rewards``
    is the batch before filtering, and ``filtered_rewards`` the one that belongs to the rows.
    """

    id = "nemo_rl"
    description = "NeMo-RL train_data_step<N>.jsonl and val_data_step<N>.jsonl"
    files = ("train_data_step*.jsonl", "val_data_step*.jsonl")

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows of rewards with content or ids, by file name or by the token arrays."""
        if not has_keys(objects, "rewards"):
            return None
        tokens = has_keys(objects, "token_ids", "input_lengths")
        if _STEP.search(name) and (tokens or has_keys(objects, "content")):
            keys = ("content", "rewards") if has_keys(objects, "content") else ("rewards",)
            return Match(95, f"{named(keys)}, and the file name")
        if tokens:
            return Match(80, named(("rewards", "token_ids", "input_lengths")))
        return None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row, with token figures where it is a training sample."""
        flat = {key: _unwrap(value) for key, value in obj.items()}
        flat = obj.entry(flat) if isinstance(obj, Watched) else flat
        row = columns(flat, _KNOWN)
        rewarded = "filtered_rewards" if "filtered_rewards" in flat else "rewards"
        if rewarded != "rewards":
            take(flat, "rewards")  # the batch before filtering belongs to other rows
        row.update(
            step=logged.step_of(flat.get("step"), where, _STEP),
            reward=logged.required(flat, rewarded),
        )
        spans = _token_fields(flat, row)
        if texts := _texts(flat.get("content"), spans):
            row |= texts
            if not row["prompt"] and spans:
                del row["prompt"]  # the ids know it
            turns = texts.get("turns", [])
            if len(turns) == len(spans):
                for turn, span in zip(turns, spans, strict=True):
                    turn["tokens"] = [span.start, span.stop]
        elif not spans:
            raise RowError(message("neither `content` nor `token_ids`"))
        yield row | present(agent=logged.string(mapping(flat.get("agent_ref")).get("name")))

    def split(self, name: str) -> str | None:
        """Return ``train`` or ``val`` by the file's name."""
        last = name.rpartition("/")[2]
        if last.startswith("val_"):
            return "val"
        return "train" if last.startswith("train_") else None


class _Span(NamedTuple):
    """Tokens of the response that were all sampled, or all given."""

    start: int
    stop: int
    sampled: bool


def _unwrap(value: Any) -> Any:
    """Take a batch of one out of its list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _texts(content: Any, spans: Sequence[_Span]) -> Row | None:
    """Return the texts and turns of a sample.

    In training each message is a bare string, of no role. After the prompt the policy's
    messages and the environment's alternate, as the spans of the loss mask do.
    """
    if is_messages(content):
        return conversation_fields(content, [message["role"] == "assistant" for message in content])
    if isinstance(content, str):
        return text_fields("", [], content)
    if not isinstance(content, list) or not content:
        return None
    texts = [logged.text(item) for item in content]
    replies = min(len(spans) or 1, len(texts) - 1) or 1
    prompt, rest = texts[:-replies], texts[-replies:]
    messages = [
        {"role": "environment" if i % 2 else "assistant", "content": one}
        for i, one in enumerate(rest)
    ]
    return text_fields("\n".join(prompt), [], *response_and_turns(messages))


def _token_fields(flat: Row, row: Row) -> list[_Span]:
    """Add the token figures to ``row``, and return the spans of its response."""
    ids = logged.ints(flat.get("token_ids"))
    if ids is None:
        return []
    length = logged.integer(flat.get("input_lengths"))
    length = len(ids) if length is None else max(0, min(length, len(ids)))
    wrote = logged.numbers(flat.get("token_loss_mask")) or [1.0] * length
    # Position 0 is predicted by nothing: its log-probability is a placeholder.
    mask = [int(i > 0 and bool(one)) for i, one in enumerate(wrote[:length])]
    row |= after_prompt(flat, ids, mask, _ARRAYS)
    spans: list[_Span] = []
    for i, sampled in enumerate(row["response_mask"]):
        if spans and spans[-1].sampled == bool(sampled):
            spans[-1] = _Span(spans[-1].start, i + 1, bool(sampled))
        else:
            spans.append(_Span(i, i + 1, bool(sampled)))
    return spans
