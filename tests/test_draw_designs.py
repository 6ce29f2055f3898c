"""The designs that the package carries are those that Altair and Vega-Lite make today."""

from __future__ import annotations

from rlreport.draw.designs import PLACE
from rlreport.draw.designs.__main__ import made


def test_the_generated_designs_are_current() -> None:
    assert PLACE.read_text("utf-8") == made(), "run python -m rlreport.draw.designs"
