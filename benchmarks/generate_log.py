"""Write a rollout log of any size: seeded, fast, and shaped like a real one.

Long rows carry about 300 tokens and four arrays of full-precision floats (about 30 KB);
short rows carry texts and rewards only (about 280 bytes).

    python benchmarks/generate_log.py OUT --rows 32000 --steps 100 --ranks 2
    python benchmarks/generate_log.py OUT --rows 1000000 --short
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from rlreport.text.tokens import BYTE_OF

VOCABULARY = 32_000
ZIPF = 1.1
PROMPTS = 512
_LETTERS = np.array(list("etaoinshrdlcumwfgypbvk"))
_CHUNK = 256


def vocabulary(rng: np.random.Generator) -> list[str]:
    """Return distinct byte-level BPE strings, some with characters of several bytes."""
    words: dict[str, None] = {}
    letter = {byte: char for char, byte in BYTE_OF.items()}
    for special in (".", ",", "Ċ", "Ġ", '"', "]", "\\", "Ġ(", ")"):
        words[special] = None
    while len(words) < VOCABULARY:
        length = int(rng.integers(1, 9))
        word = "".join(rng.choice(_LETTERS, length))
        if rng.random() < 0.1:
            word = "".join(
                letter[byte] for byte in chr(int(rng.integers(0x4E00, 0x9000))).encode()
            )
        words["Ġ" + word if rng.random() < 0.6 else word] = None
    return list(words)


def generate(
    folder: Path,
    *,
    rows: int,
    steps: int = 100,
    ranks: int = 2,
    tokens: int = 300,
    short: bool = False,
    seed: int = 0,
) -> int:
    """Write ``rows`` responses over ``steps`` steps into rank files; return the bytes written."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    words = np.array(vocabulary(rng), dtype=object)
    shares = 1.0 / np.arange(1, VOCABULARY + 1) ** ZIPF
    shares /= shares.sum()
    prompts = [
        _text(words[rng.choice(VOCABULARY, 20, p=shares)]) for _ in range(PROMPTS)
    ]
    written = 0
    files = [(folder / f"rank_{rank}.jsonl").open("wb") for rank in range(ranks)]
    for start in range(0, rows, _CHUNK):
        count = min(_CHUNK, rows - start)
        lengths = (
            np.full(count, 12)
            if short
            else rng.integers(tokens // 2, tokens * 3 // 2, count)
        )
        ids = rng.choice(VOCABULARY, int(lengths.sum()), p=shares)
        parts = np.split(ids, np.cumsum(lengths)[:-1])
        for i, part in enumerate(parts):
            number = start + i
            step = number * steps // rows
            row = _row(rng, words[part], prompts[number % PROMPTS], step, short=short)
            line = orjson.dumps(
                row, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
            )
            written += files[number % ranks].write(line)
    for file in files:
        file.close()
    return written


def _row(
    rng: np.random.Generator,
    tokens: NDArray[np.object_],
    prompt: str,
    step: int,
    *,
    short: bool,
) -> dict[str, object]:
    size = len(tokens)
    row: dict[str, object] = {
        "prompt": prompt[:80] if short else prompt,
        "response": _text(tokens),
    }
    if not short:
        logp = -rng.gamma(0.5, 1.0, size)
        rewards = rng.normal(0.0, 0.01, size)
        row["response_tokens"] = [*tokens[:-1].tolist(), "<|endoftext|>"]
        row["logprobs"] = logp
        row["ref_logprobs"] = np.minimum(logp - rng.normal(0.02, 0.1, size), 0.0)
        row["values"] = rng.normal(0.5, 0.3, size)
        row["token_rewards"] = rewards
    row["reward"] = float(rng.normal(1.0 + step / 100.0, 0.5))
    row["step"] = step
    row["ref_response"] = _text(tokens[: size * 3 // 4])
    row["ref_reward"] = float(rng.normal(1.0, 0.5))
    return row


def _text(tokens: NDArray[np.object_]) -> str:
    data = bytes(BYTE_OF[char] for token in tokens for char in token if char in BYTE_OF)
    return data.decode(errors="replace")


def main() -> None:
    """Write a log as specified by the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=16_000)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    size = generate(
        given.out,
        rows=given.rows,
        steps=given.steps,
        ranks=given.ranks,
        tokens=given.tokens,
        short=given.short,
        seed=given.seed,
    )
    print(f"{given.out}: {size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
