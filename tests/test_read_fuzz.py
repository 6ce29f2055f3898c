"""Damaged logs: never a traceback, never a wrong count.

200 logs by default; ``RLREPORT_SEARCH=50 pytest tests/test_read_fuzz.py`` runs 50 times as many.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlreport.errors import RlreportError, UnusableInputError
from tests.reading import damage, read, row, tokens
from tests.running import SEARCH

EXAMPLES = 100 * SEARCH
TRICKS = (b"\n", b"\r\n", b"\0", b'"', b"\\", b"]", b"}", b",", b"NaN", b"-1e999", b"null", b"\xff")

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["</s>", "<PAD>", "0.5", "12", "\ud800", "🎉"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = sorted(
    {*tokens("a"), "group_id", "advantages", "finish_reason", "reward_parts", "prompt_turns"}
)
changes = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), values, max_size=4)


def check(data: bytes) -> None:
    """Read a log; every line that is not blank must be a row or be reported."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_bytes(data)
        lines = sum(1 for line in data.split(b"\n") if line and not line.isspace())
        try:
            scan = read(path)
        except UnusableInputError:
            return
        except RlreportError as error:
            pytest.fail(f"unexpected {error!r}")
        assert len(scan.responses) + scan.bad_count == lines
        assert len(scan.bad_lines) == min(scan.bad_count, 1000)
        rows = range(len(scan.responses))
        rollouts = scan.rollouts.read(rows)
        for rollout, count in zip(rollouts, scan.responses["response_tokens"], strict=True):
            assert not rollout.raw_tokens or len(rollout.raw_tokens) == count
            assert len(rollout.tokens) == len(rollout.raw_tokens)


@pytest.mark.untraced
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(changes, max_size=4), st.integers(0, 3))
def test_rows_with_arbitrary_values_are_read_or_reported(
    rows: list[dict[str, Any]], good: int
) -> None:
    base = [tokens("a", "</s>", "b", step=i) for i in range(good)] + [row()]
    mutated = [{**tokens("x", "y"), **change} for change in rows]
    check("".join(json.dumps(item) + "\n" for item in base + mutated).encode())


@pytest.mark.untraced
@pytest.mark.parametrize("run", ["ppo_healthy", "grpo_math", "eval_poem_task"])
def test_flipped_cut_and_spliced_bytes_cost_their_lines_only(shared_data: Path, run: str) -> None:
    lines = next((shared_data / run).glob("*.jsonl")).read_bytes().splitlines(keepends=True)
    rng = random.Random(run)
    for _ in range(EXAMPLES // 3):
        data = bytearray(b"".join(rng.sample(lines, 6)))
        for _ in range(rng.randint(1, 6)):
            damage(data, rng, TRICKS)
        check(bytes(data))
