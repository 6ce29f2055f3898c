"""Validation against the JSON Schemas that ship with the package."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource


@cache
def validator(name: str) -> Draft202012Validator:
    """Return the validator of ``rlreport/schemas/<name>.schema.json``."""
    folder = files("rlreport") / "schemas"
    loaded = {
        part: json.loads((folder / f"{part}.schema.json").read_text(encoding="utf-8"))
        for part in ("findings", "report", "compare")
    }
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in loaded.values()
    )
    Draft202012Validator.check_schema(loaded[name])
    return Draft202012Validator(loaded[name], registry=registry)


def validate(value: Any, name: str) -> None:
    """Raise where a value is not as its schema says."""
    validator(name).validate(value)
