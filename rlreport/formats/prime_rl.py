"""prime-rl's ``enable_token_export``: ids and every per-token figure, no text, no reward."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Row, RowError, Where
from rlreport.formats.logged import columns
from rlreport.formats.token_arrays import after_prompt
from rlreport.text.messages import message

_STEP = re.compile(r"step_(\d+)/")
_ARRAYS = {
    "trainer_logprobs": "logprobs",
    "inference_logprobs": "sampler_logprobs",
    "advantages": "advantages",
    "ref_logprobs": "ref_logprobs",
}
_MEANS = ("entropy", "mismatch_kl", "is_masked")


class PrimeRLTokens(BaseFormat):
    """One sequence a line; ``loss_mask`` marks the response. The reward is not logged: NaN."""

    rewarded = False
    id = "prime_rl_tokens"
    description = "prime-rl token exports: ids, sampler and trainer logprobs, no reward"
    files = ("token_exports/step_*/rank_*.jsonl",)
    keys = ("token_ids", "loss_mask", "inference_logprobs", "trainer_logprobs")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row of token figures; text comes from the ids."""
        ids, mask = logged.ints(obj.get("token_ids")), obj.get("loss_mask")
        if ids is None or not isinstance(mask, list):
            raise RowError(message("no `token_ids` and `loss_mask`"))
        mask = [int(bool(wrote)) for wrote in mask[: len(ids)]]
        means = {key: logged.pick(logged.numbers(obj.get(key)), mask) for key in _MEANS}
        yield {
            **columns(obj, ("step", "reward", "schema_version")),
            "step": logged.step_of(obj.get("step"), where, _STEP),
            "reward": logged.number(obj.get("reward")),
            **after_prompt(obj, ids, mask, _ARRAYS),
            **{f"{key}_mean": math.fsum(one) / len(one) for key, one in means.items() if one},
        }
