"""Write the dumps of tinker-cookbook with its installed package: OUT is the argument."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tinker
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.rollout_logging import serialize_rollout_summaries
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.stores.storage import LocalStorage
from tinker_cookbook.stores.training_store import TrainingRunStore
from tinker_cookbook.utils import logtree

OUT = Path(sys.argv[1])
ANSWERS = {4: "4", 5: "5, say", 6: "6"}


class Renderer:
    """Reads an answer off its first token."""

    def build_generation_prompt(self, convo: Any) -> Any:
        return tinker.ModelInput.from_ints([1, 2])

    def get_stop_sequences(self) -> list[str]:
        return ["x"]

    def parse_response(self, action: list[int]) -> Any:
        said = {"role": "assistant", "content": ANSWERS[action[0]]}
        return said, SimpleNamespace(is_stop_sequence=True, is_clean=True)


class Sums(ProblemEnv):
    """One question."""

    def get_question(self) -> str:
        return "2+2?"

    def check_answer(self, response: str) -> bool:
        return response == "4"

    def check_format(self, response: str) -> bool:
        return True

    def get_reference_answer(self) -> str:
        return "4"


class Policy:
    """Answers 5 (slowly), 6 and 4, so that the tree has them in another order."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, *_: Any, **__: Any) -> Any:
        first = (5, 6, 4)[self.asked % 3]
        self.asked += 1
        await asyncio.sleep(0.2 if first == 5 else 0.05)
        tokens = [first, 9, 9] if first == 5 else [first]
        return TokensWithLogprobs(tokens, [-0.5] * len(tokens))


async def main() -> None:
    store = TrainingRunStore(LocalStorage(OUT / "tinker"))
    builder = ProblemGroupBuilder(env_thunk=lambda: Sums(Renderer()), num_envs=3)
    for iteration, name in ((1, "train"), (2, "train"), (2, "eval_sums")):
        with logtree.init_trace(name, path=None) as trace:
            groups = [await do_group_rollout(builder, Policy())]
        groups.append(
            await do_group_rollout(builder, Policy())
        )  # one that no tree shows
        records = serialize_rollout_summaries(
            split=name.replace("_", "/"),
            iteration=iteration,
            trajectory_groups_P=groups,
            taglist_P=[["sums"]] * 2,
            sampling_client_steps_P=[iteration - 1] * 2,
        )
        store.write_rollouts(iteration, records, base_name=name)
        store.write_logtree(iteration, trace.to_dict(), base_name=name)


if __name__ == "__main__":
    asyncio.run(main())
