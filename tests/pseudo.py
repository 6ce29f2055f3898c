"""A language that is no language: every message in letters of its own, in brackets of its own.

What is left in plain Latin letters was never passed through a message, and a text that is not
one pair of brackets was glued of several.
"""

import io
import json
import re
from collections.abc import Collection
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from babel.messages import mofile

from rlreport import __version__
from rlreport.text import language
from tools.catalogue import extracted

CODE = "qps"
ROOT = Path(__file__).resolve().parents[1]

_KEPT = re.compile(r"\{[^{}]*\}|%\(\w+\)s|%%|<[^>]*>|&\w+;")
_SEPARATORS = {
    ", ": "‚ ",
    "{clause}, {next}": "{clause}‚ {next}",
    "{clause}; {next}": "{clause}⁏ {next}",
    "{sentence} {next}": "{sentence}␣{next}",
}
_LETTERS = {
    **{ord("A") + i: chr(0xFF21 + i) for i in range(26)},
    **{ord("a") + i: chr(0xFF41 + i) for i in range(26)},
}


def pseudo(text: str) -> str:
    """A message in the language: full-width letters, places as they are."""
    if text in _SEPARATORS:
        return _SEPARATORS[text]
    parts = []
    at = 0
    for kept in _KEPT.finditer(text):
        parts += [text[at : kept.start()].translate(_LETTERS), kept[0]]
        at = kept.end()
    said = "".join([*parts, text[at:].translate(_LETTERS)])
    blank = said[len(said.rstrip(" ")) :]
    return f"⟦{said.rstrip(' ')}⟧{blank}"


def speak(folder: Path, patch: pytest.MonkeyPatch) -> language.Language:
    """The language, with its catalogue in a folder, for this process alone."""
    (folder / f"{CODE}.mo").write_bytes(_catalogue())
    patch.setattr(language, "FOLDER", folder)
    patch.setitem(language.TAGS, CODE, CODE)
    return language.Language(CODE)


@lru_cache(maxsize=1)
def _catalogue() -> bytes:
    found = extracted(ROOT)
    found.locale = "zh"
    found.fuzzy = False  # as many plurals as Chinese has
    for message in found:
        if message.id:
            texts = [message.id] if isinstance(message.id, str) else message.id
            message.string = (
                pseudo(texts[0]) if len(texts) == 1 else (pseudo(texts[1]),)
            )
    made = io.BytesIO()
    mofile.write_mo(made, found)
    return made.getvalue()


class Texts(HTMLParser):
    """Every text of a page that a reader sees or hears, one by one."""

    HEARD = (
        "title",
        "aria-label",
        "alt",
        "placeholder",
        "label",
        "data-words",
        "aria-valuetext",
    )
    UNSEEN = ("script", "style", "code", "pre", "kbd", "q")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._unseen = self._open = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.UNSEEN:
            self._unseen += 1
        self.found += [value for name, value in attrs if name in self.HEARD and value]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in self.HEARD and value]

    def handle_endtag(self, tag: str) -> None:
        if tag in self.UNSEEN:
            self._unseen -= 1

    def handle_data(self, data: str) -> None:
        said = " ".join(data.split())
        if self._open:  # a message with an element in it
            self.found[-1] += "" if self._unseen else f" {said}"
        elif said and not self._unseen:
            self.found.append(said)
        if not self._unseen:
            self._open += said.count("⟦") - said.count("⟧")


def texts_of(html: str) -> list[str]:
    parser = Texts()
    parser.feed(html)
    return parser.found


_NOT_WORDS = re.compile(
    r"“[^”]*”"  # quoted: of the logs
    r"|[\w./-]+\.(?:jsonl?|csv|gz|html|zip|png|py|toml|yaml)\b[\w/.:-]*"
    r"|--[\w-]+|`[^`]*`|https?://\S+"
    r"|<[^<>]*>|\[PAD\]|\b\d[\d.,]*e[−-]?\d+|\b[kMG]B\b|\b(?:BASE|NEW|NaN|KL|EOS|rlreport|nan|null)\b"
)
_WORD = re.compile(r"[A-Za-z]{2,}")


def untranslated(texts: list[str], known: Collection[str] = ()) -> list[str]:
    """Texts that hold a word in plain Latin letters: it was never a message."""
    found = []
    for text in dict.fromkeys(texts):
        words = _WORD.findall(_NOT_WORDS.sub(" ", _plain(text)))
        if not set(words) <= set(known):
            found.append(text)
    return found


def _plain(text: str) -> str:
    return text.replace(__version__, "")


def glued(texts: list[str]) -> list[str]:
    """Texts that hold a message and something else beside it but a symbol."""
    return [text for text in dict.fromkeys(texts) if "⟦" in text and not _one(text)]


def _one(text: str) -> bool:
    depth = 0
    beside = ""
    tops = 0
    after = ""
    for char in text:
        if char == "⟦":
            if not depth:
                tops += 1
                if tops > 1 and not any(mark in after for mark in ("·", "‚", "⁏", "␣")):
                    return False
                after = ""
            depth += 1
        elif char == "⟧":
            depth -= 1
        elif not depth:
            beside += char
            after += char
    return not depth and not any(char.isalnum() for char in beside)


GREEK = [
    "αλφα",
    "βητα",
    "γαμμα",
    "δελτα",
    "ζητα",
    "ηττα",
    "θητα",
    "ιωτα",
    "καππα",
    "λαμδα",
]


def log(folder: Path, steps: int = 6, each: int = 24, seed: int = 0) -> Path:
    """A run whose texts, names of fields and of tools are Greek: all of it feeds a page."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    for step in range(steps):
        for n in range(each if step != 3 else each // 3):
            length = int(rng.integers(4, 9)) + 2 * step
            tokens = [" " + GREEK[i] for i in rng.integers(0, len(GREEK), length)]
            hacked = rng.random() < step / (steps - 1)
            if hacked:
                tokens = [*tokens, " ωμεγα"]
            logp = rng.normal(-1, 0.3, len(tokens))
            gap = rng.normal(0.1 + 1.2 * step, 0.5, len(tokens))
            reward = float(rng.normal(0.2 * step, 0.2) + 2 * hacked)
            one = {
                "step": step,
                "prompt": f"{GREEK[n % 4]} {GREEK[n % 3]};",
                "response": "".join(tokens).strip(),
                "reward": reward,
                "ref_reward": float(rng.normal(0, 0.2)),
                "ref_response": " ".join(GREEK[:4]),
                "valid_reward": reward / 2,
                "ground_truth": GREEK[n % 4],
            }
            values = rng.normal(0, 1, len(tokens))
            sampler_logp = logp + rng.normal(0, 0.2, len(tokens))
            old_logp = logp + rng.normal(0, 0.1, len(tokens))
            one |= {
                "response_tokens": tokens,
                "logprobs": logp.tolist(),
                "ref_logprobs": (logp - gap).tolist(),
                "values": values.tolist(),
                "token_rewards": [0.0] * (len(tokens) - 1) + [reward],
                "sampler_logprobs": sampler_logp.tolist(),
                "old_logprobs": old_logp.tolist(),
            }
            one |= {
                "finish_reason": "length" if hacked else "stop",
                "reward_parts": {"μορφη": reward / 3, "υλη": 2 * reward / 3},
                "μηκος": float(length),
                "ειδος": GREEK[n % 2],
            }
            rows.append(one)
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    lines[5] = "[1]"
    lines[7] = json.dumps({**rows[7], "reward": "ψ"}, ensure_ascii=False)
    (folder / "α.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "config.yaml").write_text("ρυθμος: 0.1\nsecret_key: αβγ\n", "utf-8")
    metrics = [
        {"step": s, "κοστος": 1.0 / (s + 1), "objective/kl": 3.0 * s, "ρυθμος": 0.1}
        for s in range(steps)
    ]
    (folder / "metrics.jsonl").write_text(
        "\n".join(map(json.dumps, metrics)) + "\n", "utf-8"
    )
    return folder
