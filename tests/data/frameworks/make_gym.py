"""Write the dumps of NeMo Gym: as ``make.py``, and with the same arguments, with Gym's packages.

Its agent, its judge's guard, its rubric scores and its collection run; what the policy, the tools
and the judge reply stands here, in place of servers.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock, patch

from make import code, git, self_of, write  # type: ignore[import-not-found]

Row = dict[str, Any]

REPO = "NVIDIA-NeMo/Gym"
PARTS = "nemo_gym", "pyproject.toml", "responses_api_agents/simple_agent"
QUESTIONS = ("What is 2+2?", "What is 3+4?")
PROMPT = [[1, 2, 3], [1, 2, 4]]


def _reply(content: Row) -> MagicMock:
    """A reply of a server, as Gym's client hands it over."""
    reply = MagicMock(cookies={}, ok=True)
    reply.read = AsyncMock(return_value=json.dumps(content))
    reply.content.read = AsyncMock(return_value=json.dumps(content).encode())
    return reply


def _output(task: int, index: int, call: int) -> list[Row]:
    """Items that the policy writes: a thought and a tool's call, then an answer."""
    said = [
        {
            "type": "output_text",
            "text": f"It is {4 + 3 * task + index}.",
            "annotations": [],
        }
    ]
    if call == 0:
        tokens = {
            "prompt_token_ids": PROMPT[task],
            "generation_token_ids": [5, 6],
            "generation_log_probs": [-0.5, -0.25],
        }
        return [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "I add."}],
            },
            {
                "type": "function_call",
                "call_id": f"call_{index}",
                "name": "add",
                "arguments": '{"a": 2}',
                **tokens,
            },
        ]
    tokens = {
        "prompt_token_ids": [*PROMPT[task], 5, 6, 7, 8],
        "generation_token_ids": [9 + index],
        "generation_log_probs": [-1.0],
    }
    return [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": said,
            **tokens,
        }
    ]


def nemo_gym(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = git(REPO, "archive", "HEAD", *PARTS)
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        sys.path.insert(0, folder)
        for step in (1, 2):
            asyncio.run(_collect(out / f"step_{step}", step))


async def _collect(out: Path, step: int) -> None:
    from nemo_gym import rollout_collection  # type: ignore[import-not-found]
    from nemo_gym.server_utils import ServerClient  # type: ignore[import-not-found]
    from responses_api_agents.simple_agent import app  # type: ignore[import-not-found]

    config = app.SimpleAgentConfig(
        host="",
        port=1,
        entrypoint="",
        name="calc",
        model_server={"type": "responses_api_models", "name": "policy"},
        resources_server={"type": "resources_servers", "name": "tools"},
    )
    agent = app.SimpleAgent(config=config, server_client=MagicMock(spec=ServerClient))
    agent.server_client.global_config_dict = {}

    async def run(row: Row) -> tuple[Row, Row]:
        task = row["_ng_task_index"]
        index = row["_ng_rollout_index"]
        calls = iter(range(9))

        async def post(
            server_name: str, url_path: str, json: Any, **_: Any
        ) -> MagicMock:
            if server_name == "policy":
                output = _output(task, index, next(calls))
                return _reply(
                    {
                        "id": "resp_1",
                        "created_at": 0,
                        "model": "policy",
                        "object": "response",
                        "output": output,
                        "tools": [],
                        "parallel_tool_calls": True,
                        "tool_choice": "auto",
                    }
                )
            if url_path == "/verify":
                return _reply(await _verified(json, step, task, index))
            if url_path.endswith("/v1/responses"):
                episode = await agent._create_episode(json, model_url_path=url_path)
                return _reply(episode[0].model_dump(mode="json"))
            return _reply({"sum": 4 + 3 * task})

        agent.server_client.post = post
        result = await agent.run(self_of(cookies={}), app.SimpleAgentRunRequest(**row))
        made = result.model_dump(mode="json")
        if (step, task, index) == (2, 1, 0):
            from nemo_gym.token_id_capture import delivery  # type: ignore[import-not-found]

            delivery._unusable(made, "no capture key", "masked")
        return row, made

    collection = rollout_collection.RolloutCollectionHelper
    out.mkdir(parents=True)
    questions = out / "questions.jsonl"
    questions.write_text(
        "".join(
            json.dumps(
                {
                    "responses_create_params": {
                        "input": [
                            {"role": "system", "content": "You add."},
                            {"role": "user", "content": question},
                        ]
                    },
                    "expected_answer": str(4 + 3 * i),
                }
            )
            + "\n"
            for i, question in enumerate(QUESTIONS)
        )
    )
    settings = rollout_collection.RolloutCollectionConfig(
        input_jsonl_fpath=str(questions),
        output_jsonl_fpath=str(out / "rollouts.jsonl"),
        agent_name="calc",
        num_repeats=2,
        disable_aggregation=True,
    )
    with (
        patch.object(rollout_collection, "get_global_config_dict", dict),
        patch.object(collection, "run_examples", lambda _, rows, **__: map(run, rows)),
    ):
        await collection().run_from_config(settings)
    questions.unlink()


async def _verified(request: Row, step: int, task: int, index: int) -> Row:
    """Return the reply of a resources server: of task 1 a rubric's, whose judge may fail."""
    from nemo_gym import base_resources_server as base
    from nemo_gym.judge import JudgeError, judge_failsafe  # type: ignore[import-not-found]

    if task == 0:
        graded = {**request, "reward": 1.0 - index, "accuracy": 1.0 - index}
        return base.BaseMultiRewardVerifyResponse.model_validate(
            {**graded, "reward_components": {"right": 1.0 - index, "brief": 0.5 * step}}
        ).model_dump(mode="json") | {"expected_answer": request["expected_answer"]}
    import pydantic

    made = code(
        REPO,
        "resources_servers/finance_agent_v2/app.py",
        "RubricJudgement",
        "aggregate_rubric_scores",
        BaseModel=pydantic.BaseModel,
        Field=pydantic.Field,
    )
    made["RubricJudgement"].model_rebuild(_types_namespace=made)
    judged = [
        made["RubricJudgement"](
            criteria=said,
            score=score,
            votes=[score] * 3,
            severity=severity,
            reasons=[f"{said}: {score}."] * 3,
        )
        for said, score, severity in (
            ("names the sum", 1 - index, 3.0),
            ("is brief", 1, 1.0),
        )
    ]
    scores = made["aggregate_rubric_scores"](judged)

    @judge_failsafe
    async def verify(body: Any) -> Any:
        if (step, index) == (1, 1):
            raise JudgeError("the judge did not answer")
        return body.model_dump(mode="json") | {
            "reward": scores["rubric_partial_credit"],
            **scores,
            "rubric_judgements": [one.model_dump(mode="json") for one in judged],
        }

    reply = await verify(body=base.BaseVerifyRequest.model_validate(request))
    return reply if isinstance(reply, dict) else json.loads(reply.body)


if __name__ == "__main__":
    write({"nemo_gym": nemo_gym})
