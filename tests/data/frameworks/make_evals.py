"""Write the logs of Inspect and lm-eval with their installed packages: OUT is the argument.

Harbor needs another Python than they do: ``make_evals.py OUT atif``.
"""

import json
import sys
from pathlib import Path
from typing import Any

OUT = Path(sys.argv[1])


def inspect(out: Path) -> None:
    from inspect_ai import log, model
    from inspect_ai.scorer import Score
    from inspect_ai.tool import ToolCall, ToolCallError

    asked = model.ChatMessageUser(content="2+2?", source="input")

    def output(reason: str, message: Any, logprobs: Any = None) -> Any:
        choice = model.ChatCompletionChoice(
            message=message, stop_reason=reason, logprobs=logprobs
        )
        return model.ModelOutput(model="m", choices=[choice])

    call = ToolCall(id="c1", function="calc", arguments={"x": "2+2"})
    thinks = model.ChatMessageAssistant(
        content=[
            model.ContentReasoning(reasoning="Use it."),
            model.ContentText(text=""),
        ],
        tool_calls=[call],
        source="generate",
    )
    tool = model.ChatMessageTool(
        content="",
        tool_call_id="c1",
        function="calc",
        error=ToolCallError("timeout", "too slow"),
    )
    samples = []
    for epoch, (answer, grade, reason) in enumerate(
        (("It is 4.", "C", "stop"), ("It is", "I", "max_tokens")), 1
    ):
        reply = model.ChatMessageAssistant(content=answer, source="generate")
        samples.append(
            log.EvalSample(
                id="q1",
                epoch=epoch,
                input="2+2?",
                target="4",
                total_time=1.5 * epoch,
                messages=[asked, thinks, tool, reply],
                output=output(reason, reply),
                scores={
                    "match": Score(value=grade),
                    "graded": Score(value={"style": 0.25}),
                },
                metadata={"level": 2},
            )
        )
    reply = model.ChatMessageAssistant(content="7", source="generate")
    logprobs = model.Logprobs(
        content=[
            model.Logprob(token="7", logprob=-0.5),
            model.Logprob(token=".", logprob=-1.5),
        ]
    )
    samples.append(
        log.EvalSample(
            id=2,
            epoch=1,
            input=[model.ChatMessageUser(content="3+4?")],
            target=["7", "seven"],
            messages=[model.ChatMessageUser(content="3+4?"), reply],
            output=output("stop", reply, logprobs),
            scores={"match": Score(value="P")},
            limit=log.EvalSampleLimit(type="token", limit=9),
        )
    )
    samples.append(
        log.EvalSample(
            id=3,
            epoch=1,
            input="1+1?",
            target="2",
            error=log.EvalError(message="no box", traceback="", traceback_ansi=""),
        )
    )
    spec = log.EvalSpec(
        created="2026-01-01T00:00:00+00:00",
        task="sums",
        model="mockllm/m",
        dataset=log.EvalDataset(),
        config=log.EvalConfig(),
    )
    out.mkdir()
    log.write_eval_log(
        log.EvalLog(eval=spec, status="success", samples=samples), out / "sums.eval"
    )


def lm_eval(out: Path) -> None:
    from lm_eval.loggers import EvaluationTracker

    def sample(
        doc_id: int, arguments: list, resps: list, metrics: dict, how: str
    ) -> dict:
        return {
            "doc_id": doc_id,
            "doc": {"question": "2+2?"},
            "target": "4",
            "arguments": arguments,
            "resps": resps,
            "filtered_resps": [r[0] for r in resps],
            "filter": how,
            "metrics": list(metrics),
            "doc_hash": "d",
            "prompt_hash": "p",
            "target_hash": "t",
            **metrics,
        }

    tracker = EvaluationTracker(output_path=str(out))
    tracker.general_config_tracker.model_name_sanitized = "m"
    tracker.date_id = "2026-01-01T00-00-00.000000"
    generated = [
        sample(
            i, [("Q: 2+2?", {"until": ["\n"]})], [[answer]], {"exact_match": score}, how
        )
        for how, scores in (
            ("strict-match", (1.0, 0.0)),
            ("flexible-extract", (1.0, 1.0)),
        )
        for i, (answer, score) in enumerate(
            zip(("It is 4", "4, maybe"), scores, strict=True)
        )
    ]
    tracker.save_results_samples("gsm8k", generated)
    choices = [
        sample(
            0,
            [("Q: 2+2?", " 3"), ("Q: 2+2?", " 4")],
            [[(-2.5, False)], [(-0.5, True)]],
            {"acc": 1.0, "acc_norm": 0.0},
            "none",
        )
    ]
    tracker.save_results_samples("sums", choices)


def atif(out: Path) -> None:
    from harbor.models import trajectories as t

    for trial, (answer, reward) in enumerate((("It is 4.", 1.0), ("It is 5.", 0.0))):
        call = t.ToolCall(
            tool_call_id="c1", function_name="calc", arguments={"x": "2+2"}
        )
        seen = t.Observation(
            results=[t.ObservationResult(source_call_id="c1", content="4")]
        )
        steps = [
            t.Step(step_id=1, source="system", message="You add."),
            t.Step(step_id=2, source="user", message="2+2?"),
            t.Step(
                step_id=3,
                source="agent",
                message="",
                reasoning_content="Use it.",
                tool_calls=[call],
                observation=seen,
                model_name="m",
                metrics=t.Metrics(
                    prompt_token_ids=[1, 2],
                    completion_token_ids=[3, 4],
                    logprobs=[-0.5, -1.0],
                    completion_tokens=2,
                ),
            ),
            t.Step(
                step_id=4,
                source="agent",
                message=answer,
                metrics=t.Metrics(
                    prompt_token_ids=[1, 2, 3, 4, 5],
                    completion_token_ids=[6],
                    logprobs=[-0.25],
                    completion_tokens=1,
                ),
            ),
        ]
        made = t.Trajectory(
            session_id=f"s{trial}",
            agent=t.Agent(name="terminus-2", version="2.0", model_name="m"),
            final_metrics=t.FinalMetrics(total_completion_tokens=3, total_cost_usd=0.5),
            steps=steps,
        )
        folder = out / f"sums__{trial}"
        (folder / "agent").mkdir(parents=True)
        (folder / "agent" / "trajectory.json").write_text(
            json.dumps(made.to_json_dict())
        )
        # The members of TrialResult that are read; the model needs a whole job's configuration.
        result = {
            "task_name": "sums",
            "trial_name": folder.name,
            "verifier_result": {"rewards": {"reward": reward}},
            "agent_execution": {
                "started_at": "2026-01-01T00:00:00Z",
                "finished_at": "2026-01-01T00:00:02.5Z",
            },
            "exception_info": {
                "exception_type": "AgentTimeoutError",
                "exception_message": "slow",
            }
            if trial
            else None,
        }
        (folder / "result.json").write_text(json.dumps(result))


WRITERS = {"inspect": inspect, "lm_eval": lm_eval, "atif": atif}

if __name__ == "__main__":
    for name in sys.argv[2:] or ("inspect", "lm_eval"):
        WRITERS[name](OUT / name)
