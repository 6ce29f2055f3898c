"""prime-rl's ``enable_token_export``: ids and every per-token figure, no text, no reward."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named, split_of
from rlreport.formats.values import columns, ints, number, numbers, pick, step_of
from rlreport.text.messages import message

_STEP = re.compile(r"step_(\d+)/")
_ARRAYS = {
    "trainer_logprobs": "logprobs",
    "inference_logprobs": "sampler_logprobs",
    "advantages": "advantages",
    "ref_logprobs": "ref_logprobs",
}
_MEANS = ("entropy", "mismatch_kl", "is_masked")


class PrimeRLTokens:
    """One sequence a line; ``loss_mask`` marks the response. The reward is not logged: NaN."""

    rewarded = False

    id = "prime_rl_tokens"
    alone = True
    description = "prime-rl token exports: ids, sampler and trainer logprobs, no reward"
    files = ("token_exports/step_*/rank_*.jsonl",)
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows of ids with both log-probabilities."""
        keys = ("token_ids", "loss_mask", "inference_logprobs", "trainer_logprobs")
        return Match(95, named(keys)) if has_keys(objects, *keys) else None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row of token figures; text comes from the ids."""
        ids, mask = ints(obj.get("token_ids")), obj.get("loss_mask")
        if ids is None or not isinstance(mask, list):
            raise RowError(message("no `token_ids` and `loss_mask`"))
        mask = [int(bool(wrote)) for wrote in mask[: len(ids)]]
        first = mask.index(1) if any(mask) else len(mask)
        row = columns(obj, ("step", "reward", "schema_version"))
        row.update(
            step=step_of(obj.get("step"), where, _STEP),
            reward=number(obj.get("reward")),
            prompt_token_ids=ids[:first],
            token_ids=ids[first : len(mask)],
            response_mask=mask[first:],
        )
        for key, canonical in _ARRAYS.items():
            values = numbers(obj.get(key))
            if values is not None:
                row[canonical] = values[first : len(mask)]
        for key in _MEANS:
            sampled = pick(numbers(obj.get(key)), mask)
            if sampled:
                row[f"{key}_mean"] = math.fsum(sampled) / len(sampled)
        return iter((row,))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)
