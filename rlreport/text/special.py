"""Special tokens: those that end a response, and those that are no text at all."""

from __future__ import annotations

import re

EOS_TOKENS: frozenset[str] = frozenset(
    {
        "</s>",
        "<eos>",
        "<EOS>",
        "[EOS]",
        "<eod>",
        "<EOD>",
        "<eot>",
        "<EOT>",
        "<eom>",
        "<end>",
        "[SEP]",
        "<|eos|>",
        "<|EOS|>",
        "<|eod|>",
        "<|eot|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|eom|>",
        "<|end|>",
        "<|END|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|endofturn|>",
        "<|end_of_turn|>",
        "<|END_OF_TURN_TOKEN|>",
        "<|im_end|>",
        "<|return|>",
        "<|call|>",
        "<|user|>",
        "<|observation|>",
        "<|end▁of▁sentence|>",
        "<｜end▁of▁sentence｜>",
        "<|endofassistant|>",
        "<|end_of_sentence|>",
        "<end_of_turn>",
        "<turn|>",
        "<end_of_utterance>",
        "<end_of_text>",
        "<end_of_sentence>",
        "<|hy_eos|>",
        "[e~[",
        "<eoa>",
        "<_end>",
        "<|role_end|>",
    }
)
"""Tokens with which a model says that it is done, over the usual model families."""

_SPECIAL = re.compile(
    r"<[|｜][^\s<>]{1,64}[|｜]>"
    r"|<[|｜]?[A-Za-z_▁]{2,24}[|｜]>|<[|｜][A-Za-z_▁]{2,24}>"
    r"|</?s>"
    r"|<(?:pad|unk|bos|eos|eod|eot|eom|mask|cls|sep|sos|end|eoa)>"
    r"|<(?:start|end|begin)_of_[a-z]+>"
    r"|<(?:unused|extra_id_|extra_token_|reserved_|dummy)_?\d+>"
    r"|\[(?:pad|unk|bos|eos|cls|sep|mask|gMASK|sMASK|/?inst|/?avail(?:able)?_tools|tool_calls)\]",
    re.IGNORECASE,
)


def is_special(token: str) -> bool:
    """Tell whether ``token`` is a control token of a chat template or tokenizer, not text."""
    if not token or token[0] not in "<[":
        return False
    return token in EOS_TOKENS or _SPECIAL.fullmatch(token) is not None


_IN_TEXT = re.compile(r"<[|｜][^|｜<>\s]{1,40}[|｜]>")


def without_special(text: str) -> str:
    """Return a text without the control tokens of chat templates."""
    return _IN_TEXT.sub(" ", text) if "<|" in text or "<｜" in text else text
