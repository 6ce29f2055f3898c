"""Write the dumps of slime, Miles and tinker-cookbook: as ``make.py``, with the same arguments."""

from pathlib import Path
from typing import Any

from make import code, self_of, write  # type: ignore[import-not-found]

Row = dict[str, Any]


def slime(out: Path) -> None:
    import torch

    types = code("THUDM/slime", "slime/utils/types.py", "Sample", torch=torch)
    save = code(
        "THUDM/slime",
        "slime/observability/rollout_data_utils.py",
        "save_debug_rollout_data",
        torch=torch,
    )["save_debug_rollout_data"]
    made = types["Sample"], f"{out}/rollout_data/{{rollout_id}}.pt"
    for step in (1, 2):
        save(made[1], _samples(made[0], step), rollout_id=step, evaluation=False)
    evaluated = {"gsm8k": {"samples": _samples(made[0], 5)[:1]}}
    save(made[1], evaluated, rollout_id=2, evaluation=True)


def miles(out: Path) -> None:
    import torch

    types = code("radixark/miles", "miles/utils/types.py", "Sample", torch=torch)
    names = "trajectory_rows", "save_debug_trajectory_data"
    save = code(
        "radixark/miles",
        "miles/ray/rollout/debug_data.py",
        *names,
        "save_debug_rollout_data",
        torch=torch,
        save_dashboard_columns=lambda *_, **__: None,
    )
    save["logger"] = self_of(info=print, warning=print)
    sample = types["Sample"]
    args = self_of(
        save_debug_rollout_data=f"{out}/rollout_data/{{rollout_id}}.pt",
        save_debug_trajectory_data=f"{out}/trajectory/{{rollout_id}}.jsonl",
    )
    samples = _samples(sample, 1)
    asked = [{"role": "user", "content": "2+2?"}]
    for one, answer in zip(samples[:2], ("It is 4.", "It is 5."), strict=True):
        # As generate_hub/multi_turn.py records them.
        one.prompt = asked
        one.metadata["messages"] = [
            *asked,
            {"role": "assistant", "content": "<tool>calc</tool>"},
            {"role": "tool", "tool_call_id": "c1", "name": "calc", "content": "4"},
            {"role": "assistant", "content": answer},
        ]
    save["save_debug_rollout_data"](args, samples, 1, False)


def _samples(sample: Any, step: int) -> list[Any]:
    """Two samples of a tool's call and an answer, one cut off, one that failed."""

    def made(index: int, group: int, **members: Any) -> Any:
        return sample(
            index=4 * step + index, group_index=2 * step + group, label="4", **members
        )

    tokens = {
        "tokens": [1, 2, 3, 4, 5, 6, 7, 8],
        "response_length": 6,
        "loss_mask": [1, 1, 0, 0, 1, 1],
        "rollout_log_probs": [-0.5, -1.0, 0.0, 0.0, -0.25, -0.125 * step],
    }
    return [
        made(
            0,
            0,
            prompt="2+2?",
            response="<tool>calc</tool>4It is 4.",
            reward=1.0 * step,
            status=sample.Status.COMPLETED,
            weight_versions=["2", "3"],
            metadata={"source": "gsm8k"},
            non_generation_time=0.5,
            **tokens,
        ),
        made(
            1,
            0,
            prompt="2+2?",
            response="<tool>calc</tool>4It is 5.",
            reward=0.0,
            status=sample.Status.COMPLETED,
            **tokens,
        ),
        made(
            2,
            1,
            prompt="3+4?",
            response="Seven is",
            reward={"score": 0.25, "acc": 0.0},
            tokens=[1, 2, 3, 9, 9],
            response_length=2,
            rollout_log_probs=[-2.0, -3.0],
            status=sample.Status.TRUNCATED,
        ),
        made(
            3,
            1,
            prompt="3+4?",
            status=sample.Status.FAILED,
            metadata={"error": "no box"},
        ),
    ]


if __name__ == "__main__":
    write({"slime": slime, "miles": miles})
