"""Both readers of a line, the fast one and the tolerant one, take the same from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.reading import kinds, read, tokens, write

ODD = [
    None, True, 0, 2**64, 1.5, "", "x", [], {}, [1], ["tr"], ["a", None], ["a", ["b"]],
    ["a", {"b": 1}], ["a", 5], [None, None], [True, False], [1, 0], ["1", "2"], [[1.0], [2.0]],
    [[1.0, 2.0]], [0.1, None], {"a": 1}, ["a,[", ',"'], ["\\", '"'],
]  # fmt: skip


@pytest.mark.parametrize("field", ["response_tokens", "logprobs", "response_mask", "advantages"])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_an_odd_value_means_the_same_whichever_parser_reads_its_line(
    field: str, value: object, tmp_path: Path
) -> None:
    logged: dict[str, Any] = tokens("a", "b", values=None, response="Hi there. You.")
    logged[field] = value
    # Text for a number is left to the tolerant reader, together with all of its line.
    usual = read(write(tmp_path / "usual.jsonl", [logged]))
    odd = read(write(tmp_path / "odd.jsonl", [logged | {"reward": "1.0"}]))
    assert kinds(usual) == kinds(odd) - {"coerced"}
    beside = ["length", "offset", "line_hash"]
    pd.testing.assert_frame_equal(
        usual.responses.drop(columns=beside, errors="ignore"),
        odd.responses.drop(columns=beside, errors="ignore"),
    )
    pd.testing.assert_frame_equal(usual.tokens, odd.tokens)
    assert (usual.ngrams is None) == (odd.ngrams is None)
    if usual.ngrams is not None and odd.ngrams is not None:
        assert usual.ngrams.vocabulary == odd.ngrams.vocabulary
        np.testing.assert_array_equal(usual.ngrams.units, odd.ngrams.units)
