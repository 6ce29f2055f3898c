"""Token strings as tokenizers log them: byte-level BPE, SentencePiece, or plain text."""

from __future__ import annotations

import itertools
import re
from functools import cache

from rlreport.text.tokens import BYTE_OF

EOS = {"bpe": "<|endoftext|>", "spm": "</s>", "plain": "<|im_end|>"}
_CHARACTER = {byte: character for character, byte in BYTE_OF.items()}
_PIECES = re.compile(
    r" ?[A-Za-z']+| ?[0-9]{1,2}|[\u3000-\u9fff\uff00-\uffef]{1,2}|\s| ?[^\sA-Za-z0-9]"
)
_WHOLE = 5  # longer words are split, as by a small vocabulary


def _split_word(word: str) -> list[str]:
    if not word.isascii() or len(word.strip()) <= _WHOLE:
        return [word]
    cut = 3 + len(word) % 3
    return [word[:cut], *(word[i : i + 4] for i in range(cut, len(word), 4))]


@cache
def tokenize(text: str, style: str) -> tuple[str, ...]:
    """Split a text into token strings of a style: ``bpe``, ``spm`` or ``plain``."""
    tokens: list[str] = []
    for piece in _PIECES.findall(text):
        for part in _split_word(piece):
            wide = not part.isascii() and ord(part.strip()[0]) > 0xFFFF
            if style == "plain":
                tokens.append(part)
            elif style == "spm":
                stripped = part.replace(" ", "▁").replace("\n", "<0x0A>")
                if wide:
                    space = ["▁"] if part[0] == " " else []
                    tokens += [*space, *(f"<0x{b:02X}>" for b in part.strip().encode())]
                else:
                    tokens.append(stripped)
            else:
                encoded = part.encode()
                cuts = (
                    [0, len(encoded) - 2, len(encoded)] if wide else [0, len(encoded)]
                )
                for start, stop in itertools.pairwise(cuts):
                    tokens.append("".join(_CHARACTER[b] for b in encoded[start:stop]))
    return tuple(tokens)
