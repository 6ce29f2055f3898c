"""GRPO of TRL 1.16.0 on a tiny random model, three steps, evaluated at step 2."""

import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

out = sys.argv[1]
torch.manual_seed(0)
vocab = {
    c: i
    for i, c in enumerate(
        ["<pad>", "<eos>"] + [chr(i) for i in range(32, 127)] + ["\n"]
    )
}
tok = Tokenizer(models.WordLevel(vocab, unk_token="<pad>"))
tok.pre_tokenizer = pre_tokenizers.Split("", "isolated")
tok.decoder = decoders.Fuse()
t = PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="<pad>", eos_token="<eos>")
t.chat_template = (
    "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
)
config = Qwen2Config(
    vocab_size=len(vocab),
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=64,
    pad_token_id=0,
    eos_token_id=1,
    bos_token_id=1,
)


def length_reward(completions, log_extra=None, **kw):
    texts = [c[0]["content"] for c in completions]
    if log_extra:
        log_extra("temperature_reward_hint", [0.5] * len(texts))
    return [len(x) / 8 for x in texts]


def letter_reward(completions, **kw):
    return [None if i % 2 else 0.25 for i, c in enumerate(completions)]


def data(n):
    return Dataset.from_list(
        [{"prompt": [{"role": "user", "content": f"{i}+{i}?"}]} for i in range(n)]
    )


args = GRPOConfig(
    output_dir=out,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    num_generations=4,
    max_completion_length=6,
    logging_steps=1,
    max_steps=3,
    log_completions=True,
    report_to=[],
    eval_strategy="steps",
    eval_steps=2,
    save_strategy="no",
    use_cpu=True,
    bf16=False,
    gradient_checkpointing=False,
    seed=1,
)
tr = GRPOTrainer(
    model=Qwen2ForCausalLM(config),
    args=args,
    reward_funcs=[length_reward, letter_reward],
    train_dataset=data(4),
    eval_dataset=data(1),
    processing_class=t,
)
tr.train()
tr.state.save_to_json(out + "/trainer_state.json")
