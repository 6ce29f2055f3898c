"""Write dumps of prime-rl and rLLM with branches: as ``make.py``, and with the same arguments.

verifiers' own graph makes the branches of compacted contexts, retries and sub-agents out of model
calls; prime-rl decides which of them are trained on, and its orchestrator and trainer log that.
"""

import asyncio
from pathlib import Path
from typing import Any

from make import code, names_of, rllm_logger, rllm_types, self_of, write  # type: ignore[import-not-found]
from make_prime import REPO, annotation_writer, make_update, monitor, tensor  # type: ignore[import-not-found]

REWARDS = {"t0": 1.0, "t1": 0.0, "t2": 0.25, "left": 9.0}
"""Trace to its reward; the last one is not trained on, and a judge's is 5."""

ASKED = "2+2?"
FIRST = (
    "user:" + ASKED,
    "calc(2+2)",
)  # a model call: its prompt's messages, and what was sampled
SUM_UP = (*FIRST, "tool:4", "So 4.", "user:Summarise.")
AFTER = ("user:2+2? So far: 4.",)
CALLS: dict[str, dict[str, tuple[str, ...]]] = {
    # Compacted after a retry, then a sub-agent answers before the final response.
    "t0": {
        "a": FIRST,
        "b": (*FIRST, "tool:4", "So 4."),
        "c": (*SUM_UP, "Um."),
        "d": (*SUM_UP, "2+2 is 4."),
        "e": (*AFTER, "ask(checker)"),
        "f": ("user:4?", "Yes."),
        "g": (*AFTER, "ask(checker)", "tool:Yes.", "It is 4."),
    },
    # A sub-agent answers after the final response.
    "t1": {"a": FIRST, "g": (*FIRST, "tool:4", "It is 5."), "f": ("user:5?", "No.")},
    # Compacted, and then once more without success: only the first context is trained on.
    "t2": {
        "a": FIRST,
        "b": (*FIRST, "tool:4", "So 4."),
        "d": (*SUM_UP, "2+2 is 4."),
        "e": (*AFTER, "ask(checker)"),
        "c": (*AFTER, "ask(checker)", "tool:Yes.", "user:Summarise.", "Um."),
    },
    "left": {"a": FIRST, "b": (*FIRST, "tool:4", "So 4."), "e": (*AFTER, "It is 4.")},
    "judge": {"a": ("user:Is it right?", "Hm."), "c": ("user:Is it right?", "Yes.")},
}
EDGES = {
    "t0": (
        "b-compaction_attempt-c",
        "b-compaction_attempt-d",
        "d-compaction-e",
        "e-subagent_call-f",
        "f-subagent_return-g",
    ),
    "t1": ("a-subagent_call-f",),
    "t2": ("d-compaction-e", "e-compaction_attempt-c"),
}
"""Trace to what its harness says of pairs of its calls."""

STEP = 4
"""The step that trains on the traces; they were made at the one before."""


def trace(name: str) -> Any:
    v1 = names_of(
        "verifiers.v1", "types", "configs.agent", "graph", "semantic", "task", "trace"
    )

    def message(text: str) -> Any:
        role, _, content = text.partition(":")
        if role == "tool":
            return v1.ToolMessage(tool_call_id="c1", content=content)
        if role == "user":
            return v1.UserMessage(content=content)
        return v1.AssistantMessage(content=text)

    is_judge = name == "judge"
    agent = v1.AgentInfo(
        config=v1.WireAgentConfig(model="m"),
        name="judge" if is_judge else "solver",
        trainable=not is_judge,
    )
    task = v1.TraceTask(
        type="Calc", data=v1.WireTaskData(idx=0, prompt=ASKED, answer="4")
    )
    made = v1.WireTrace(
        id=name,
        task=task,
        agent=agent,
        is_completed=True,
        ok=True,
        timing=v1.Timing(start=100.0),
    )
    made.rewards = {"right": v1.Reward(score=2 * REWARDS.get(name, 5.0), weight=0.5)}
    for request, (*prompt, answer) in CALLS[name].items():
        ids: list[int] = []
        spans = []
        for text in prompt:  # a token a word, and one before an assistant's
            start = len(ids)
            ids += [1] * (":" not in text) + [
                sum(map(ord, word)) for word in text.split()
            ]
            spans.append((start, len(ids)))
        words = [sum(map(ord, word)) for word in answer.split()]
        tokens = v1.TurnTokens(
            prompt_ids=[*ids, 1],
            completion_ids=words,
            message_spans=spans,
            completion_logprobs=[-0.5] * len(words),
        )
        response = v1.Response(
            id=request,
            created=0,
            model="m",
            message=message(answer),
            finish_reason="stop",
            tokens=tokens,
        )
        node = v1.prepare_turn(made, list(map(message, prompt))).commit(response)
        made.calls.append(
            v1.ModelCall(
                node=node, finish_reason="stop", acp=v1.ACPInfo(request_id=request)
            )
        )
    edges = [edge.split("-") for edge in EDGES.get(name, ())]
    made.add_semantic_edges(
        v1.SemanticEdgeSet(
            edges=[
                v1.SemanticEdge(
                    source_request_id=source, target_request_id=target, type=kind
                )
                for source, kind, target in edges
            ]
        )
    )
    for each in made.nodes:
        each.timestamp = 100.0
    return made


def episode(*traces: Any) -> Any:
    v1 = names_of("verifiers.v1", "episode")
    run = v1.TrainRunInfo(id="r", work=v1.TrainWorkInfo(step=STEP - 1))
    return v1.WireEpisode(
        id=f"e-{traces[0].id}",
        env=v1.EnvInfo(id="calc"),
        task=traces[0].task,
        group=v1.GroupInfo(id="g0"),
        run=run,
        traces=list(traces),
        ok=True,
    )


def trainer_updates(traces: list[Any]) -> list[Any]:
    """Return the trainer's updates of the branches that prime-rl trains on."""
    found = code(
        REPO, "src/prime_rl/orchestrator/trajectories.py", "iter_trainable_branches"
    )
    writer = annotation_writer()
    for one in traces:
        for branch, mask in found["iter_trainable_branches"](one):
            size = len(mask)
            flags = tensor(mask)
            batch = {
                "trace_ids": [one.id],
                "branch_indices": [branch.index],
                "sequence_lengths": [size],
                "loss_mask": flags,
                "env_names": ["calc"] * size,
            }
            output = {
                "logprobs": tensor([-0.5] * size),
                "entropy": tensor([0.25] * size),
            }
            writer.export(batch, output, {"is_masked": tensor([0.0] * size)})
    return list(writer._pending)


def prime(out: Path) -> None:
    traces = [trace(name) for name in REWARDS]
    episodes = [episode(traces[0], trace("judge")), *map(episode, traces[1:])]
    clock = self_of(time=lambda: 200.0)
    stamps = code(
        REPO,
        "src/prime_rl/orchestrator/annotations.py",
        "stamp_arrival",
        "stamp_batch",
        make_update=make_update(),
        time=clock,
    )
    credit = code(
        REPO,
        "src/prime_rl/orchestrator/algo/routing.py",
        "assign_advantages",
        "scalar_advantage",
    )
    stamps["stamp_arrival"](episodes, "train", STEP - 1)

    async def write() -> None:
        run = monitor(out, "orchestrator", 1 << 20)
        await run.log_episodes(episodes, STEP - 1, "train", "all")
        trained = traces[:3]
        mean = sum(one.reward for one in trained) / len(trained)
        for one in trained:
            credit["assign_advantages"](one, one.reward - mean)
            one.info["advantage"] = credit["scalar_advantage"](one)
        cohort = [episode(one) for one in trained]
        await run.log_annotations(stamps["stamp_batch"](cohort, STEP))
        await run.finalize()
        trainer = monitor(out, "trainer", 1 << 20)
        await trainer.log_annotations(trainer_updates(trained))
        await trainer.finalize()

    asyncio.run(write())
    (out / "monitors" / "file" / "metrics.jsonl").unlink()  # none were logged


CHATS = (
    # A context is compacted before the last call, and a sub-agent answers in between.
    [("user", ASKED), ("assistant", "calc(2+2)")],
    [
        ("user", ASKED),
        ("assistant", "calc(2+2)"),
        ("tool", "4"),
        ("assistant", "So 4."),
    ],
    [("user", "2+2? So far: 4."), ("assistant", "ask(checker)")],
    [("user", "4?"), ("assistant", "Yes.")],
    [
        ("user", "2+2? So far: 4."),
        ("assistant", "ask(checker)"),
        ("tool", "Yes."),
        ("assistant", "It is 4."),
    ],
)


def chat_of(pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in pairs]


def rllm(out: Path) -> None:
    """Training: a solver, a sub-agent in a trajectory of its own, and a judge."""
    log = rllm_logger(out)
    types = rllm_types()

    def trajectory(name: str, reward: float, chats: Any) -> Any:
        steps = [
            types["Step"](
                id="s", chat_completions=chat_of(chat), model_response=chat[-1][1]
            )
            for chat in chats
        ]
        return types["Trajectory"](uid=name, name=name, reward=reward, steps=steps)

    for attempt, reward in enumerate((1.0, 0.0)):
        made = [
            trajectory("solver", reward, CHATS),
            trajectory(
                "searcher", 0.5 + reward / 4, [[("user", "4?"), ("assistant", "Yes.")]]
            ),
            trajectory("judge", 5.0, [[("user", "Right?"), ("assistant", "Yes.")]]),
        ]
        task = {"question": ASKED, "answer": "4"}
        log.log_episode(
            types["Episode"](id=f"t1:{attempt}", task=task, trajectories=made), step=5
        )


if __name__ == "__main__":
    write({"prime_rl_branches": prime, "rllm_branches": rllm})
