"""How a threshold is declared, and the sources that several rooms of thresholds name."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from rlreport.text.messages import marked

CONTRACT = marked("this project's convention")
EOS = marked("TRL val/num_eos_tokens and --missing_eos_penalty")
MISMATCH = marked("NeMo-RL guides; verl FAQ")


def limit(default: float, unit: str, meaning: str, source: str = CONTRACT) -> Any:
    """Declare one threshold; typed Any, as ``dataclasses.field`` is for the type checker."""
    metadata = {"unit": unit, "meaning": meaning, "source": source}
    return field(default=default, metadata=metadata)
