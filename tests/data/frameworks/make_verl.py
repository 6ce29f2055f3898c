"""Write the dumps of verl's V1 trainer, of training and validation: as ``make.py``.

One session of the agent loop has two outputs, each a row; verl's validation counts the last.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from make import code, self_of, write  # type: ignore[import-not-found]

UIDS = ["a1", "b2"]
ROWS = {  # key: prompt, output, reward
    "a1_0_0": ("2+2?", "Let me think. It is", 1.0),
    "a1_0_1": ("2+2? So far: think.", "4", 1.0),
    "a1_1_0": ("2+2?", "5", 0.0),
    "b2_0_0": ("3+3?", "6", 1.0),
    "b2_1_0": ("3+3?", "七", 0.0),
}


class Rows(dict[str, Any]):
    """A stand-in for a TensorDict of some rows."""

    def __len__(self) -> int:
        return len(UIDS)


class Tensor(np.ndarray):
    """A stand-in for a tensor: sums along ``dim``, and needs no padding."""

    def sum(self, dim: int) -> Any:  # type: ignore[override]
        return np.asarray(self).sum(axis=dim)

    def to_padded_tensor(self, padding: int) -> Tensor:
        return self


def of_rows(keys: list[str], select_fields: list[str], **_: Any) -> Rows:
    values = {
        "uid": [key.split("_")[0] for key in keys],
        "prompts": [ROWS[key][0] for key in keys],
        "responses": [ROWS[key][1] for key in keys],
        "rm_scores": [[0.0, ROWS[key][2]] for key in keys],
        "num_turns": [2] * len(keys),
        "reward_model": [{"ground_truth": "4"}] * len(keys),
        "data_source": ["sums"] * len(keys),
        "extra_fields": [
            {"reward_extra_info": {"acc": ROWS[key][2] > 0}} for key in keys
        ],
    }
    return Rows({name: np.array(values[name]).view(Tensor) for name in select_fields})


def verl_v1(out: Path) -> None:
    queue = self_of(
        kv_batch_get=of_rows, kv_batch_put=lambda **_: None, kv_clear=lambda **_: None
    )
    ids = iter([*UIDS, *UIDS])
    made = code(
        "verl-project/verl",
        "verl/trainer/ppo/v1/trainer_base.py",
        "_validate",
        "_write_generations",
        "_dump_generations",
        "_log_rollout_data",
        tq=queue,
        uuid=self_of(uuid4=lambda: next(ids)),
        marked_timer=lambda *_, **__: nullcontext(),
        staticmethod=lambda function: function,
        tu=self_of(get_tensordict=Rows, assign_non_tensor_data=lambda *_: None),
    )
    batch = self_of(keys=list(ROWS), partition_id="train")
    trainer = self_of(
        global_steps=1,
        _dump_futures=[],
        val_dataloader=[{"raw_prompt": UIDS}],
        agent_loop_manager=self_of(generate_sequences=lambda _: None),
        replay_buffer=self_of(sample=lambda **_: (batch, {})),
        reward_loop_manager=self_of(reward_loop_worker_handles=[]),
        tokenizer=self_of(pad_token_id=0, decode=lambda text, **_: str(text)),
        config=self_of(trainer={"validation_data_dir": str(out / "validation")}),
        _maybe_log_val_generations=lambda **_: None,
        _val_metrics_update=lambda *given: given,
        _write_generations=made["_write_generations"],
    )
    trainer._dump_generations = made["_dump_generations"].__get__(trainer)
    with ThreadPoolExecutor(1) as trainer._dump_executor:
        for trainer.global_steps in (1, 2):
            made["_log_rollout_data"](trainer, batch, {}, str(out / "rollouts"))
            made["_validate"](trainer)


if __name__ == "__main__":
    write({"verl_v1": verl_v1})
