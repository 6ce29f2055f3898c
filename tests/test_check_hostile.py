"""Tables with holes anywhere never break a check."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rlreport.check import findings_json, run_checks
from rlreport.check.registry import CHECKS
from rlreport.check.series import Noise
from rlreport.columns import RESPONSE_COLUMNS
from rlreport.tables import Tables
from tests.tables_builder import make_tables

NAMES = {"step", "n", "file", "line", "offset", "length", "sub", "group", "response_hash"}
FIGURES = [c.name for c in RESPONSE_COLUMNS if c.dtype == "float64" and c.name not in NAMES]
TEXTS = ["", "a", "🎉", "ðŁ", "</script>", "<|endoftext|>", "\ud800", "\x00", "Ġthe"]


def _holed(seed: int) -> Tables:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 120))
    columns: dict[str, object] = {
        "step": np.sort(rng.integers(-3, int(rng.integers(1, 30)), rows)),
        "prompt_id": rng.integers(0, int(rng.integers(1, 20)), rows),
        "nan_values": rng.integers(0, 2, rows) * (seed % 5 == 0),
    }
    for name in FIGURES:
        values = rng.normal(size=rows) * 10.0 ** rng.integers(-8, 9)
        values[rng.random(rows) < rng.choice([0, 0.3, 1.0])] = np.nan
        values = np.abs(values) if name.endswith("_m2") else values
        columns[name] = values if rng.random() < 0.8 else np.full(rows, values[0])
    texts = [[str(t) for t in rng.choice(TEXTS, rng.integers(0, 9))] for _ in range(rows)]
    unit = "word" if seed % 2 else "token"
    references = texts[::-1] if seed % 3 else None
    return make_tables(columns, texts=texts, ref_texts=references, unit=unit)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(60))
def test_any_table_is_judged_without_an_error(seed: int) -> None:
    verdict = run_checks(_holed(seed))
    told = [f.id for f in verdict.findings] + verdict.passed + [n.id for n in verdict.not_run]
    assert sorted(told) == sorted(check.id for check in CHECKS)
    json.dumps(findings_json(verdict), allow_nan=False)


def test_noise_of_values_whose_squares_overflow_is_judged() -> None:
    noise = Noise(1e300, 1e300, 0.5)
    assert noise.independent_steps == pytest.approx(Noise(1.0, 1.0, 0.5).independent_steps)
    assert Noise(float("inf")).independent_steps == 1.0
