"""A line that only the lenient parser reads gives the same as one that orjson reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.reading import read, token_figures, tokens, write

ODD = [
    None, True, 0, 2**53, 1.5, "", "x", [], {}, [1], ["tr"], ["a", None], ["a", ["b"]],
    ["a", {"b": 1}], ["a", 5], [None, None], [True, False], [1, 0], ["1", "2"], [[1.0], [2.0]],
    [[1.0, 2.0]], [0.1, None], {"a": 1}, ["a,[", ',"'], ["\\", '"'],
]  # fmt: skip


@pytest.mark.parametrize("field", ["response_tokens", "logprobs", "response_mask", "advantages"])
def test_values_of_any_type_mean_the_same_in_strict_and_in_lenient_json(
    field: str, tmp_path: Path
) -> None:
    logged: dict[str, Any] = tokens("a", "b", values=None, response="Hi there. You.")
    rows = [{**logged, field: value} for value in ODD]
    strict = read(write(tmp_path / "strict.jsonl", [one | {"lr": None} for one in rows]))
    nan = float("nan")
    lenient = read(write(tmp_path / "lenient.jsonl", [one | {"lr": nan} for one in rows]))
    counts = [{note.kind: note.count for note in scan.notes} for scan in (strict, lenient)]
    assert counts[0] | {"tolerant": len(ODD)} == counts[1]
    position = ["offset", "length", "line_hash"]
    pd.testing.assert_frame_equal(
        strict.responses.drop(columns=position, errors="ignore"),
        lenient.responses.drop(columns=position, errors="ignore"),
    )
    pd.testing.assert_frame_equal(token_figures(strict), token_figures(lenient))
    assert (strict.ngrams is None) == (lenient.ngrams is None)
    if strict.ngrams is not None and lenient.ngrams is not None:
        assert strict.ngrams.vocabulary == lenient.ngrams.vocabulary
        np.testing.assert_array_equal(strict.ngrams.units, lenient.ngrams.units)
