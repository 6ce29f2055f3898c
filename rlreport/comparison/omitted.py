"""The prompts whose texts are left out (``--omit-prompts FIELD=VALUE``).

A prompt is left out if a response to it has the value, with all responses to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from rlreport.errors import UsageError
from rlreport.tables import Tables
from rlreport.text.clean import safe_text
from rlreport.text.messages import plural
from rlreport.text.private import PrivateNames

_BOOLEANS = {"true": 1.0, "false": 0.0}


class Condition(NamedTuple):
    """A value of a logged field."""

    field: str
    value: str

    def __str__(self) -> str:
        return f"{self.field}={self.value}"


def shown_condition(
    condition: Condition, redact: object, names: PrivateNames | None
) -> Condition:
    """Return a condition without what the report hides.

    Args:
        condition: the condition as the user gave it.
        redact: the option ``redact``: True hides the value, "names" the field, too.
        names: hides private names of a public report, None if it is not public.
    """
    field, value = condition
    if redact:
        return Condition("[name]" if redact == "names" else field, "[text]")
    if names is not None:
        return Condition(names.in_text(field), names.in_value(field, value))
    return condition


def conditions_of(texts: Sequence[str]) -> list[Condition]:
    """Return the conditions of texts such as "data_source=gpqa", each once.

    Raises:
        UsageError: a text has no field before the first "=", or no "=".
    """
    conditions: dict[Condition, None] = {}
    for text in texts:
        name, sign, value = safe_text(str(text)).partition("=")
        if not sign or not name.strip():
            raise UsageError(f"--omit-prompts {text}: give FIELD=VALUE")
        conditions[Condition(name.strip(), value.strip())] = None
    return list(conditions)


def has_value(values: pd.Series, wanted: str) -> NDArray[np.bool_]:
    """Return which values of a field are a text, bool (R,).

    Numbers are compared as numbers, "true" and "false" with 1 and 0.
    """
    if is_numeric_dtype(values):
        number = _BOOLEANS.get(wanted.lower())
        if number is None:
            number = _number(wanted)
        numbers: NDArray[np.float64] = values.to_numpy(np.float64)
        is_it: NDArray[np.bool_] = numbers == number
        return is_it
    sought = normalize("NFC", wanted)
    # A field has few different values.
    codes, distinct = pd.factorize(values)
    meets = [_as_wanted(one) == sought for one in distinct]
    meets.append(False)  # missing values have the code -1
    return np.array(meets, np.bool_)[codes]


def _as_wanted(value: object) -> str:
    """Return a value as ``--omit-prompts`` names it: a boolean as "true" or "false"."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return normalize("NFC", text).strip()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


@dataclass(frozen=True, slots=True)
class OmittedPrompts:
    """The prompts of a run whose texts are left out.

    Attributes:
        conditions: what the options name.
        responses: for each condition, the number of responses to prompts that meet it.
        prompts: ids of the prompts that meet one, ascending.
    """

    conditions: tuple[Condition, ...] = ()
    responses: tuple[int, ...] = ()
    prompts: tuple[int, ...] = ()

    @classmethod
    def of(cls, tables: Tables, conditions: Sequence[Condition]) -> OmittedPrompts:
        """Return the prompts of a run that the conditions name; see ``has_value``.

        Raises:
            UsageError: no response has the field of a condition.
        """
        prompt_ids = tables.responses["prompt_id"].to_numpy()
        counts: list[int] = []
        omitted: set[int] = set()
        for condition in conditions:
            values = tables.extras.get(condition.field)
            if values is None:
                raise UsageError(_no_field(condition, tables))
            prompts = np.unique(prompt_ids[has_value(values, condition.value)])
            counts.append(int(np.isin(prompt_ids, prompts).sum()))
            omitted.update(prompts.tolist())
        return cls(tuple(conditions), tuple(counts), tuple(sorted(omitted)))

    def called(self, call: Callable[[Condition], Condition]) -> OmittedPrompts:
        """Return the same prompts with conditions as ``call`` shows them."""
        return replace(self, conditions=tuple(map(call, self.conditions)))

    def __bool__(self) -> bool:
        return bool(self.conditions)

    @property
    def in_words(self) -> list[str]:
        """How many responses each condition leaves without their texts, a sentence each."""
        return [
            plural(
                "The texts of {count} response whose prompt has {condition} are left out "
                "(--omit-prompts).",
                "The texts of {count} responses whose prompts have {condition} are left out "
                "(--omit-prompts).",
                count,
                condition=str(condition),
            )
            for condition, count in zip(self.conditions, self.responses, strict=True)
        ]

    def rows(self, responses: pd.DataFrame) -> NDArray[np.bool_]:
        """Return which rows of a table of responses are to these prompts, bool (R,)."""
        return np.isin(responses["prompt_id"].to_numpy(), self.prompts)


def _no_field(condition: Condition, tables: Tables) -> str:
    """Return that no response has a condition's field, and which fields there are."""
    names = ", ".join(map(str, tables.extras.columns[:12]))
    fields = f"logged fields: {names}" if names else "no further field is logged"
    return f"--omit-prompts {condition}: no response has a field {condition.field!r}; {fields}"
