"""Logs full of strings that try to become markup, script, or trouble."""

import json
from collections.abc import Iterable
from pathlib import Path

MARK = "pwned"
STRINGS = [
    "</script><script>document.title='pwned'</script>",
    "</SCRIPT ><img src=x onerror=\"document.title='pwned'\">",
    "<!--<script>",
    "-->]]>",
    "&lt;b&gt; &amp;",
    "\u2028\u2029",
    "nul \x00 bell \x07",
    "\u202eright to left \u200f",
    "javascript:document.title='pwned'",
    "{{ 7*7 }} {% raw %}",
    "\"'`><svg onload=document.title='pwned'>",
    "汉字 中文，标点。",
    "😀 🏳️‍🌈 e\u0301",
    "x" * 3000,
    "",
]


def hostile_rows(steps: int = 4, each: int = 12) -> list[dict]:
    """Rows that carry the strings in every field that takes text, names of fields included."""
    rows = []
    for step in range(steps):
        for i in range(each):
            text = STRINGS[(step * each + i) % len(STRINGS)]
            tokens = [text[:40], "</script>", "<b>", f"{i}", "\u2028"]
            count = len(tokens)
            rows.append(
                {
                    "step": step,
                    "prompt": text + str(i % 3),
                    "response": text,
                    "reward": float(i) - step,
                    "response_tokens": tokens,
                    "logprobs": [-0.5 - i / 10] * count,
                    "ref_logprobs": [-0.4] * count,
                    "values": [0.1] * count,
                    "token_rewards": [0.0] * (count - 1) + [1.0],
                    "ref_response": text,
                    "ref_reward": 0.5,
                    "ground_truth": text,
                    "group_id": text,
                    "</script><b>": 1.5,
                    "a.b[0]:\"c'": 2.5 + i,
                    "tag": text[:150],
                }
            )
    return rows


def write_log(path: Path, rows: Iterable[dict]) -> Path:
    """Writes rows as JSON lines, in a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=i % 2 == 0) for i, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
