"""TRL's own GRPOTrainer, a few steps on the CPU: its dump and the callback make a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlreport.callback import ReportCallback
from rlreport.formats import RowReader, Where, detect
from rlreport.formats.containers import iterate

pytestmark = pytest.mark.slow

STEPS = 3
WORDS = ["<pad>", "<eos>", "<unk>", *"0123456789", "+", "=", "?", " ", "what", "is"]


def test_a_tiny_grpo_run_ends_in_a_report(tmp_path: Path) -> None:
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    plain = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=64, pad_token_id=0, eos_token_id=1,
        )
    )  # fmt: skip

    def digits(completions: list[str], **_: object) -> list[float]:
        return [float(sum(c.isdigit() for c in text)) for text in completions]

    def short(completions: list[str], **_: object) -> list[float | None]:
        return [None if i % 2 else -0.5 for i, _ in enumerate(completions)]

    config = GRPOConfig(
        output_dir=str(tmp_path / "run"), log_completions=True, logging_steps=1, max_steps=STEPS,
        per_device_train_batch_size=4, num_generations=4, max_completion_length=6, use_cpu=True,
        bf16=False, report_to=[], save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    out = tmp_path / "run.html"
    trainer = GRPOTrainer(
        model=model,
        args=config,
        processing_class=tokenizer,
        reward_funcs=[digits, short],
        train_dataset=Dataset.from_dict({"prompt": ["1+1=?", "2+3=?"] * 8}),
        callbacks=[ReportCallback(out, title="Tiny")],
    )
    trainer.train()

    folder = tmp_path / "run"
    steps = set()
    for path in sorted((folder / "completions").glob("*.parquet")):
        name = path.relative_to(folder).as_posix()
        for index, obj in iterate(path.open("rb"), "parquet"):
            found = detect(name, [obj])
            assert found is not None and found.format.id == "trl"
            (row,) = RowReader(found.format)(obj, Where(name, 0, index))
            steps.add(row["step"])
            assert row["reward"] == sum(v for v in row["reward_parts"].values() if v == v)
            assert row["reward_parts"]["digits"] == sum(c.isdigit() for c in row["response"])
    assert steps == set(range(1, STEPS + 1))
    assert (folder / "trainer_state.json").exists()
    assert out.exists()
