"""Which model a run trained, and at which commit: what its configuration says for certain."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rlreport.text.secrets import Scalar

# Names of settings with the trained model, most certain first: the first level that any setting
# has counts. They are of TRL, prime-rl and most scripts; of verl, SkyRL, NeMo-RL, ROLL and AReaL,
# whose settings name the role; of slime and OpenRLHF.
_MODEL_NAMES = (
    re.compile(r"model|model_?name|model_?name_or_path|model_?path|base_?model"),
    re.compile(
        r"(?:.*\.)?(?:actor|policy|actor_rollout_ref|actor_train)(?:\..*)?"
        r"\.(?:path|model|model_?name|model_?name_or_path|model_?path)"
    ),
    re.compile(
        r"(?:.*\.)?(?:model\.(?:name|path|model_?name)|model_?name|model_?name_or_path|model_?path)"
    ),
    re.compile(r"(?:.*\.)?(?:hf_checkpoint|pretrain|_name_or_path)"),
)
# Parts of names that say another model, or no model
_OTHER_MODELS = re.compile(
    r"ref(?:erence)?|.*reward.*|rm|critic|value|judge\w*|grader|verifier|teacher|draft\w*"
    r"|.*tokeni[sz]er.*|embed\w*|.*eval.*|metric\w*|lora\w*"
)
_MODEL = re.compile(r"[\w.:@/\\~+=-]{2,300}", re.ASCII)
# A model's folder in the cache of Hugging Face
_CACHED = re.compile(r"models--([^/]+)--([^/]+)/snapshots/")
_LONGEST_MODEL = 60  # characters shown

_COMMIT_NAMES = re.compile(
    r"(?:.*\.)?git[._](?:commit|sha|hash|rev|revision|commit_hash|commit_sha)"
    r"|commit|commit_?hash|commit_?sha|git"
)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SHOWN_DIGITS = 8


def model_of(entries: Mapping[str, Scalar]) -> str:
    """Return the trained model's name or path, "" if it is unknown or settings differ."""
    for names in _MODEL_NAMES:
        found = set[str]()
        for name, value in entries.items():
            if _names_model(name, names) and isinstance(value, str):
                found.add(value.strip())
        if found:
            model = found.pop()
            return model if not found and _MODEL.fullmatch(model) else ""
    return ""


def _names_model(name: str, names: re.Pattern[str]) -> bool:
    parts = name.lower().split(".")
    if any(_OTHER_MODELS.fullmatch(part) for part in parts):
        return False
    return bool(names.fullmatch(".".join(parts)))


def short_model(model: str) -> str:
    """Return a model's name without the folders of a machine: "Qwen/Qwen3-1.7B"."""
    cached = _CACHED.search(model)
    if cached:
        return "/".join(cached.groups())
    parts = re.split(r"[/\\]+", model)
    parts = [part for part in parts if part.strip(".~")]
    is_of_hub = len(parts) == 2 and model[0] not in "./\\~"
    name = "/".join(parts) if is_of_hub else (parts or [model])[-1]
    return name if len(name) <= _LONGEST_MODEL else "…" + name[1 - _LONGEST_MODEL :]


def commit_of(entries: Mapping[str, Scalar]) -> str:
    """Return the run's commit in full, "" if it is unknown or settings differ."""
    found = set[str]()
    for name, value in entries.items():
        text = str(value).strip().lower()
        if _COMMIT_NAMES.fullmatch(name.lower()) and _COMMIT.fullmatch(text):
            found.add(text)
    return found.pop() if len(found) == 1 else ""


def short_commit(commit: str) -> str:
    return commit[:_SHOWN_DIGITS]
