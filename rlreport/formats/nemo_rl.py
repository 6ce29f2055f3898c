"""NeMo-RL's ``train_data_step{N}.jsonl`` and ``val_data_step{N}.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named
from rlreport.formats.messages import exchange, is_messages
from rlreport.formats.values import columns, integer, ints, numbers, pick, required, step_of, text

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


class NemoRL:
    """One sample a line, each value in a list of length 1, sequences padded to the batch.

    ``input_lengths`` cuts the padding, ``token_loss_mask`` marks the tokens the policy wrote.
    Position 0 of the log-probabilities is a placeholder. With dynamic sampling ``rewards``
    is the batch before filtering, and ``filtered_rewards`` the one that belongs to the rows.
    """

    id = "nemo_rl"
    description = "NeMo-RL train_data_step<N>.jsonl and val_data_step<N>.jsonl"
    files = ("train_data_step*.jsonl", "val_data_step*.jsonl")
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows of content and rewards, by file name or by the token arrays."""
        if not has_keys(objects, "content", "rewards"):
            return None
        if _STEP.search(name):
            return Match(95, f"{named(('content', 'rewards'))}, and the file name")
        if has_keys(objects, "token_ids", "input_lengths"):
            return Match(80, named(("content", "rewards", "token_ids", "input_lengths")))
        return None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row, with token figures where it is a training sample."""
        flat = {key: _unwrap(value) for key, value in obj.items()}
        row = columns(flat, _KNOWN)
        prompt, response, turns = _texts(flat.get("content"))
        rewarded = "filtered_rewards" if "filtered_rewards" in flat else "rewards"
        row.update(
            step=step_of(flat.get("step"), where, _STEP),
            prompt=prompt,
            response=response,
            reward=required(flat, rewarded),
        )
        if turns:
            row["prompt_turns"] = turns
        row.update(_token_fields(flat))
        return iter((row,))

    def split(self, name: str) -> str | None:
        """Return ``train`` or ``val`` by the file's name."""
        last = name.rpartition("/")[2]
        if last.startswith("val_"):
            return "val"
        return "train" if last.startswith("train_") else None


def _unwrap(value: Any) -> Any:
    """Take a batch of one out of its list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _texts(content: Any) -> tuple[str, str, list[list[str]]]:
    if is_messages(content):
        return exchange(content)
    if isinstance(content, str):
        return "", content, []
    if isinstance(content, list) and content:
        said = [text(item) for item in content]
        return "\n".join(said[:-1]), said[-1], []
    raise RowError("no `content`")


def _token_fields(flat: Row) -> Row:
    ids = ints(flat.get("token_ids"))
    if ids is None:
        return {}
    length = integer(flat.get("input_lengths"))
    length = len(ids) if length is None else max(0, min(length, len(ids)))
    mask = numbers(flat.get("token_loss_mask")) or [1.0] * length
    # Position 0 is predicted by nothing: its log-probability is a placeholder.
    keep = [i > 0 and bool(wrote) for i, wrote in enumerate(mask[:length])]
    fields: Row = {"token_ids": pick(ids, keep)}
    for key, canonical in _ARRAYS.items():
        values = numbers(flat.get(key))
        if values is not None:
            fields[canonical] = pick(values, keep)
    return fields
