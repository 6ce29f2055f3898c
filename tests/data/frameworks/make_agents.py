"""Write the dumps of verifiers, prime-rl and ART: as ``make.py``, and with the same arguments."""

import asyncio
from pathlib import Path
from typing import Any

from make import code, names_of, self_of, write  # type: ignore[import-not-found]


def verifiers(out: Path) -> None:
    from verifiers.v1.utils.trace_store import write_episode  # type: ignore[import-not-found]

    (out / "eval").mkdir(parents=True)
    made = _episodes()
    for episode in made:
        write_episode(out / "eval", episode)
    write = code(
        "PrimeIntellect-ai/prime-rl",
        "src/prime_rl/monitors/file.py",
        "log_episodes",
        orjson=__import__("orjson"),
    )["log_episodes"]
    monitor = self_of(output_dir=out / "prime")
    asyncio.run(write(monitor, made, 3, "train", "all"))
    # As EpisodeCollection.vf_episodes makes them: the trained traces alone, advantage stamped.
    solver = made[0].traces[0]
    stamped = solver.model_copy(update={"info": {**solver.info, "advantage": 0.75}})
    effective = made[0].model_copy(update={"traces": [stamped]})
    asyncio.run(write(monitor, [effective], 3, "train", "effective"))


def _episodes() -> list[Any]:
    v1 = names_of(
        "verifiers.v1", "types", "configs.agent", "episode", "graph", "task", "trace"
    )
    task = v1.TraceTask(
        type="Calc", data=v1.WireTaskData(idx=0, prompt="2+2?", answer="4")
    )
    version = v1.VersionInfo(version="0.4.1")

    def agent(name: str, trainable: bool) -> Any:
        return v1.AgentInfo(
            config=v1.WireAgentConfig(model="m"), name=name, trainable=trainable
        )

    def node(
        i: int, message: Any, ids: list[int], mask: list[bool], **streams: Any
    ) -> Any:
        parent = i - 1 if i else None
        sampled = any(mask)
        return v1.MessageNode(
            parent=parent,
            message=message,
            sampled=sampled,
            token_ids=ids,
            mask=mask,
            timestamp=100.0 + i,
            **streams,
        )

    def solver(name: str, answer: str, reward: float, cut: bool) -> Any:
        call = v1.ToolCall(id="c1", name="calc", arguments='{"x": "2+2"}')
        ask = v1.AssistantMessage(
            content="", reasoning_content="Use it.", tool_calls=[call]
        )
        nodes = [
            node(0, v1.UserMessage(content="2+2?"), [1, 2], [False, False]),
            node(
                1,
                ask,
                [3, 4, 5],
                [False, True, True],
                logprobs=[-0.5, -1.0],
                trainer_logprobs=[-0.5, -1.5],
                reference_logprobs=[-1.0, -2.0],
                entropies=[0.5, 1.0],
                advantages=[0.75, 0.75],
            ),
            node(
                2,
                v1.ToolMessage(tool_call_id="c1", content="4", name="calc"),
                [6, 7],
                [False, False],
            ),
            node(
                3,
                v1.AssistantMessage(content=answer),
                [8, 9],
                [False, True],
                logprobs=[-0.25],
                trainer_logprobs=[-0.25],
                reference_logprobs=[-0.5],
                entropies=[0.0],
                advantages=[0.75],
            ),
        ]
        reasons = ["tool_calls", "length" if cut else "stop"]
        calls = [
            v1.ModelCall(
                node=n,
                model="m",
                finish_reason=why,
                time=v1.TimeSpan(start=s, end=s + 1.5),
            )
            for n, why, s in zip((1, 3), reasons, (101.0, 104.0), strict=True)
        ]
        timing = v1.Timing(
            start=100.0,
            agent=v1.AgentSpan(start=100.5, end=106.0),
            scoring=v1.TimeSpan(start=106.0, end=107.0),
        )
        return v1.WireTrace(
            id=name,
            verifiers=version,
            task=task,
            agent=agent("solver", True),
            nodes=nodes,
            calls=calls,
            rewards={"right": v1.Reward(score=2 * reward, weight=0.5), "none": None},
            metrics={"num_turns": 2.0},
            is_completed=True,
            ok=True,
            stop_condition="agent_completed",
            timing=timing,
        )

    def judge(name: str) -> Any:
        nodes = [
            node(0, v1.UserMessage(content="Is it right?"), [1, 2], [False, False]),
            node(1, v1.AssistantMessage(content="no"), [3], [True], logprobs=[-0.125]),
        ]
        return v1.WireTrace(
            id=name,
            verifiers=version,
            task=task,
            agent=agent("judge", False),
            nodes=nodes,
            rewards={"right": v1.Reward(score=9.0)},
            is_completed=True,
            ok=True,
            stop_condition="agent_completed",
            timing=v1.Timing(start=100.0),
        )

    def episode(name: str, traces: list[Any], **standing: Any) -> Any:
        work = v1.TrainWorkInfo(step=3, policy=v1.PolicySpan(start=1, end=2))
        return v1.WireEpisode(
            id=name,
            env=v1.EnvInfo(id="calc"),
            task=task,
            group=v1.GroupInfo(id="g0"),
            run=v1.TrainRunInfo(id="r", work=work),
            traces=traces,
            **standing,
        )

    failed = [v1.Error(type="SandboxError", message="no box")]
    return [
        episode("e0", [solver("s0", "It is 4.", 1.0, cut=False), judge("j0")], ok=True),
        episode("e1", [solver("s1", "It is", 0.0, cut=True), judge("j1")], ok=True),
        episode("e2", [], ok=False, errors=failed),
    ]


def art(out: Path) -> None:
    from art.trajectories import Trajectory, TrajectoryGroup  # type: ignore[import-not-found]
    from art.utils.trajectory_logging import write_trajectory_groups_parquet  # type: ignore[import-not-found]
    from openai.types.chat.chat_completion import Choice  # type: ignore[import-not-found]

    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "calc", "arguments": '{"x": 4}'},
    }

    def choice(content: str, why: str, calls: list[Any] | None = None) -> Any:
        message = {"role": "assistant", "content": content, "tool_calls": calls}
        return Choice(finish_reason=why, index=0, message=message)

    groups = [
        TrajectoryGroup(
            trajectories=[
                Trajectory(
                    messages_and_choices=[
                        {"role": "user", "content": "2+2?"},
                        choice("", "tool_calls", [call]),
                        {"role": "tool", "content": "4", "tool_call_id": "c1"},
                        choice(answer, "stop"),
                    ],
                    reward=reward,
                    metrics={"duration": 1.25},
                    metadata={"id": 3},
                )
                for answer, reward in (("It is 4.", 1.0), ("It is 5.", 0.25 * group))
            ],
            exceptions=[],
        )
        for group in range(2)
    ]
    folder = out / "trajectories" / "train"
    folder.mkdir(parents=True)
    write_trajectory_groups_parquet(groups, folder / "0004.parquet")


if __name__ == "__main__":
    write({"verifiers": verifiers, "art": art})
