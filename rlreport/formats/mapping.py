"""Files without a known format: read them with ``--map``, or explain why they are not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rlreport.errors import RowError, UnreadRow, UsageError
from rlreport.fields import CANONICAL, FIELDS, REQUIRED, REWARDS, AssumedStep
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, Where, has_keys
from rlreport.formats.metric_rows import OTHER_STEP_KEYS, STEP_KEYS, is_event
from rlreport.system import coerce
from rlreport.system.in_memory import is_in_memory
from rlreport.text.chat import prompt_fields
from rlreport.text.messages import listed, message, translatable

_METRICS = translatable(
    "trainer metrics (steps, numbers), not rollouts; give them with --metrics"
)
_BY_NAME = {
    "metadata.json": translatable("metadata of an evaluation, not its rollouts"),
    "aggregated_results.jsonl": translatable(
        "aggregated scores of an evaluation, not its rollouts"
    ),
    "meta.json": translatable("metadata of an evaluation, not its rollouts"),
    "batch_summary.json": translatable("a summary of rLLM's episodes, not one of them"),
    "trainer_state.json": translatable(
        "trainer metrics, not rollouts; give them with --metrics"
    ),
    "tokenizer.json": translatable("a tokenizer; give it with --tokenizer"),
    "rollouts_materialized_inputs.jsonl": translatable(
        "requests of NeMo Gym, not rollouts"
    ),
}
_BY_KEYS = {
    ("log_history",): translatable("trainer metrics (`log_history`), not rollouts"),
    ("trial_name", "verifier_result"): translatable(
        "a trial's result, read with the trajectory next to it"
    ),
    ("title", "started_at", "root"): translatable(
        "a logtree, read with the rollout summaries next to it"
    ),
}
_MOST_FIELDS = 500  # of a rollout
# Canonical field -> other names for it in logs, the likeliest first
_FIELD_ALIASES: dict[str, tuple[str, ...]] = {
    "step": (
        "global_step",
        "global_steps",
        "training_step",
        "train_step",
        "iteration",
        "iter",
        "steps",
        "update",
    ),
    "prompt": (
        "query",
        "question",
        "input",
        "instruction",
        "inputs",
        "problem",
        "messages",
        "prompt_text",
        "user_prompt",
        "q",
    ),
    "response": (
        "completion",
        "output",
        "answer",
        "generation",
        "generated_text",
        "text",
        "outputs",
        "prediction",
        "model_output",
        "rollout",
        "completion_text",
        "generated",
        "generated_response",
        "model_response",
        "response_text",
        "out",
    ),
    "reward": (
        "score",
        "rewards",
        "scores",
        "return",
        "total_reward",
        "reward_score",
        "final_reward",
    ),
    "response_tokens": ("tokens", "output_tokens", "completion_tokens"),
    "logprobs": ("logps", "log_probs", "policy_logprobs", "token_logprobs"),
    "ref_logprobs": ("ref_logps", "ref_log_probs", "reference_logprobs"),
    "ground_truth": ("label", "target", "gold", "reference", "gts", "solution"),
    "group_id": ("uid", "prompt_id", "group", "task_id", "example_id"),
    "finish_reason": ("stop_reason", "stop_condition", "termination_reason"),
}


# Names of the response that mean nothing else beside a prompt and a reward, see ``likely_mapping``
_RESPONSES = (
    "response",
    "completion",
    "generated_text",
    "output",
    "model_output",
    "generation",
    "completion_text",
    "generated",
    "generated_response",
    "model_response",
    "response_text",
)
# Names of a response that may also be the label: of rows with a question and a step only
_ANSWER = "answer"
_QUESTION = "question"


class Mapped(BaseFormat):
    """A format defined by ``--map`` and ``--step-from-path``, alone or on top of another format.

    ``mapping`` is canonical field -> dotted path in the object; integers in it index lists. The
    step is the group ``step`` of ``step_from_path`` if it has one, else its first group.
    """

    id = "mapped"
    description = "fields named with --map"
    files = ("*",)

    def __init__(
        self,
        mapping: Mapping[str, str],
        step_from_path: str | None = None,
        base: BaseFormat | None = None,
        remark: str = "",
    ) -> None:
        """Raise UsageError for an unknown field or an invalid ``step_from_path``."""
        super().__init__(remark=remark or (base.remark if base else ""))
        unknown = sorted(mapping.keys() - CANONICAL)
        if unknown:
            fields = ", ".join(field.name for field in FIELDS)
            raise UsageError(
                f"--map: unknown field {unknown[0]!r}; known fields: {fields}"
            )
        self.mapping = mapping
        self.base = base
        self.alone = base is None or base.alone
        self._step = None if step_from_path is None else _step_pattern(step_from_path)

    @property
    def cacheable(self) -> bool:
        """Whether rows may be cached: always without ``base``, else if its rows may be."""
        return self.base is None or self.base.cacheable

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        # One object with a field is enough, as others may lack it.
        for path in self.mapping.values():
            if not any(look_up(obj, path).is_found for obj in objects):
                return None
        options = ", ".join(f"{key}={path}" for key, path in self.mapping.items())
        return Match(100, f"has the mapped fields ({options or 'step from the path'})")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the rows of ``base`` (or one row of the object's fields) with the mapped fields.

        Of several steps, that in the path comes first, then a mapped one, then that of ``base``.
        """
        step = logged.step_in_path(where.path, self._step) if self._step else None
        step_field = {} if step is None else {"step": step}
        if step_field:
            # The base format would reject an object without a step.
            obj = logged.entry_of(obj, {**obj, **step_field})
        mapped = {key: look_up(obj, path).value for key, path in self.mapping.items()}
        if self.base is None:
            fields = {**self._all_fields(obj, mapped), **step_field}
            yield _with_step(fields, where)
            return
        typed = _with_types_of_fields(mapped)
        for row in self.base.rows(obj, where):
            if isinstance(row, UnreadRow):
                yield row
            else:
                yield _with_step({**row, **typed, **step_field}, where)

    def _all_fields(self, obj: Row, mapped: Row) -> Row:
        """Return the mapped fields of an object with its other fields, by their own names."""
        # Keys of the object itself, also where a path leads further in
        mapped_keys = {path.partition(".")[0] for path in self.mapping.values()}
        own = [key for key in obj if key in CANONICAL and key not in mapped_keys]
        canonical = {key: obj[key] for key in own}
        extra = logged.columns(obj, mapped_keys | canonical.keys())
        return {**extra, **_with_types_of_fields({**canonical, **mapped})}

    def split(self, name: str) -> str | None:
        return super().split(name) if self.base is None else self.base.split(name)


def _step_pattern(pattern: str) -> re.Pattern[str]:
    """Compile ``--step-from-path``; raise UsageError if it is invalid or has no group."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--step-from-path {pattern!r} is not a regular expression: {error}"
        ) from None
    if not compiled.groups:
        raise UsageError(
            f"--step-from-path {pattern!r} has no group, such as step_(\\d+)"
        )
    return compiled


class Found(NamedTuple):
    """The value at a path in an object, which may be None, or that there is none."""

    is_found: bool
    value: Any = None


def look_up(obj: object, path: str) -> Found:
    """Return the value at a path in ``obj``: keys of dicts and indices of lists, with dots between.

    At each level, all that is left of the path may also be one key that contains dots.
    """
    if isinstance(obj, dict) and path in obj:
        return Found(True, obj[path])
    head, _, rest = path.partition(".")
    if isinstance(obj, dict) and rest and head in obj:
        return look_up(obj[head], rest)
    if isinstance(obj, list) and re.fullmatch(r"-?\d+", head):
        index = int(head)
        if -len(obj) <= index < len(obj):
            return look_up(obj[index], rest) if rest else Found(True, obj[index])
    return Found(False)


def _with_types_of_fields(mapped: Row) -> Row:
    """Return canonical fields with values of their types: chat messages as text, and so on."""
    typed = dict(mapped)
    for key in ("prompt", "response", "ref_response"):
        if typed.get(key) is not None:
            # A response may be chat messages, too; ``prompt`` is their text.
            fields = prompt_fields(typed[key])
            typed[key] = fields.pop("prompt")
            if key == "prompt":
                typed |= fields  # ``prompt_turns``
    for key in REWARDS:
        if key in typed:
            typed[key] = coerce.grade(typed[key])
    if "ground_truth" in typed:
        typed["ground_truth"] = coerce.text(typed["ground_truth"])
    return typed


def _with_step(row: Row, where: Where) -> Row:
    """Return a row with a step (the one in the path, else 0); raise RowError without a response."""
    responses = [row.get(key) for key in ("response", "token_ids", "response_tokens")]
    if all(response is None for response in responses):
        raise RowError(message("no response; check the paths given with --map"))
    return {"step": where.step or AssumedStep(), **row}


def refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file of unknown format is not read, with ``--map`` options if some may help."""
    certain = certain_refusal(name, objects)
    if certain:
        return certain
    paths = suggest(objects)
    if is_in_memory(name):
        return _no_columns(objects, paths)
    if paths:
        options = " ".join(f"--map {field}={path}" for field, path in paths.items())
        if "prompt" in paths or "prompt" in objects[0]:
            return message("no known log format; try {options}", options=options)
        return message(
            "no known log format; try {options}; no field for the prompt was found among {keys}",
            options=options,
            keys=_keys(objects[0], _MOST_NAMED_KEYS),
        )
    # Metrics with short texts: only now, as such objects may also be rollouts.
    if all(map(is_event, objects)):
        return message(_METRICS)
    unusable = _unusable_fields(objects)
    if unusable:
        return unusable
    hint = partial_hint(objects)
    if hint:
        return message("no known log format; {hint}", hint=hint)
    missing = [field for field in REQUIRED if field not in objects[0]]
    # Up to two of four: the file is almost a log in the canonical format.
    if 1 <= len(missing) <= 2:
        return message("its first object lacks {fields}", fields=_coded(missing))
    return message(
        "no known log format (its first object has {keys})", keys=_keys(objects[0])
    )


def _no_columns(objects: Sequence[Row], paths: Mapping[str, str]) -> str:
    """Return which columns rows in memory lack; ``paths`` are those that may be meant."""
    # Of all rows, as some may lack a column; in their order
    names = dict.fromkeys(chain.from_iterable(objects))
    columns = _keys(names)
    if paths:
        return message(
            "no column for {fields}: found {columns}; rename them, or pass mapping={mapping}",
            fields=listed(list(paths)),
            columns=columns,
            mapping=repr(dict(paths)),
        )
    unusable = _unusable_fields(objects)
    if unusable:
        return unusable
    missing = [field for field in REQUIRED if field not in names]
    if len(missing) < len(REQUIRED):
        return message(
            "no column for {fields}: found {columns}; rename one, or pass mapping={mapping}",
            fields=listed(missing),
            columns=columns,
            mapping="{" + f"{missing[-1]!r}: COLUMN" + "}",
        )
    return message(
        "no columns of rollouts ({fields}) or of trainer metrics (step, numbers): found {columns}",
        fields=listed(list(REQUIRED)),
        columns=columns,
    )


def _unusable_fields(objects: Sequence[Row]) -> str:
    """Return which fields have no usable value though objects have all of them, else ""."""
    names = set().union(*objects)
    expected = [field for field in REQUIRED if field in names or field != "step"]
    if not names.issuperset(expected):
        return ""
    nulls: list[str] = []
    of_other_type: list[str] = []
    for field in expected:
        values = [obj.get(field) for obj in objects]
        if all(value is None for value in values):
            nulls.append(field)
        elif field != "step" and not any(
            _fits(field, field, field, value) for value in values
        ):
            of_other_type.append(field)
    if nulls:
        return message("no value in the first rows for {fields}", fields=_coded(nulls))
    if of_other_type:
        return message(
            "values of another type than expected in the first rows for {fields}",
            fields=_coded(of_other_type),
        )
    return message(
        "none of the first rows has usable values for all of {fields}",
        fields=_coded(expected),
    )


def _coded(fields: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"`{field}`" for field in fields)


def certain_refusal(name: str, objects: Sequence[Row]) -> str:
    """Return why a file is certainly no rollout log, by its name and objects; "" if it may be."""
    file_name = name.rpartition("/")[2].lower()
    file_name = file_name.removesuffix(".gz").removesuffix(".zst")
    if file_name in _BY_NAME:
        return message(_BY_NAME[file_name])
    if file_name.endswith(".csv"):
        return message(
            "not a table of metrics: it needs a column of steps and columns of numbers"
        )
    if not objects:
        return message("contains no JSON object")
    nested_metrics = [isinstance(obj.get("data"), dict) for obj in objects]
    if has_keys(objects, "step") and all(nested_metrics):
        return message(
            "trainer metrics (`step`, `data`), not rollouts; give them with --metrics"
        )
    for keys, reason in _BY_KEYS.items():
        if has_keys(objects, *keys):
            return message(reason)
    # Numbers only: an object that also has texts or lists may still be a rollout.
    if all(map(_is_flat, objects)) and all(map(is_event, objects)):
        return message(_METRICS)
    # Its words, such as `input`, `output` and `step`, are no fields.
    if all(map(_is_vocabulary, objects)):
        return message("a vocabulary of a tokenizer, not rollouts")
    return ""


def _is_flat(obj: Row) -> bool:
    return not any(isinstance(value, str | list | dict) for value in obj.values())


def _is_vocabulary(obj: Row) -> bool:
    """Return whether an object has whole numbers only, and more than a rollout has fields."""
    return len(obj) > _MOST_FIELDS and all(type(value) is int for value in obj.values())


_MOST_KEYS = 5
_MOST_NAMED_KEYS = 12  # in a hint
_LONGEST_KEY = 40  # characters


def _keys(obj: Row, most: int = _MOST_KEYS) -> str:
    """Return the first keys of an object in words, each cut to _LONGEST_KEY."""
    keys = tuple(f"`{key[:_LONGEST_KEY]}`" for key in list(obj)[:most])
    rest = len(obj) - most
    if rest > 0:
        return message("{keys} and {count} more", keys=keys, count=rest)
    return listed(keys) or message("no key")


_MOST_EXAMINED = 20  # objects
_MOST_COLUMNS = 10  # in a message


def no_step_column(names: Sequence[str]) -> str:
    """Return that no column of a table counts steps, with its columns, and what would help."""
    return message(
        "no column is named step: found {columns}; rename the column that counts steps to `step` "
        "({others} are read, too)",
        columns=_keys(dict.fromkeys(names), _MOST_COLUMNS),
        others=listed(["`global_step`", "`_step`", "`iteration`"]),
    )


def suggest(objects: Sequence[Row]) -> dict[str, str]:
    """Return field -> dotted path to suggest for ``--map``; {} without response and reward.

    A field that the objects have under its own name needs no option.
    """
    value_at: dict[str, Any] = {}  # path -> its value in the first object that has it
    for obj in objects[:_MOST_EXAMINED]:
        for path, value in _paths(obj):
            value_at.setdefault(path, value)
    path_of: dict[str, str] = {}  # by field, where they differ
    for field in _FIELD_ALIASES:
        # A path is suggested for one field only.
        taken = path_of.values()
        free = {path: v for path, v in value_at.items() if path not in taken}
        best = _likeliest_path(field, free)
        if best is not None and best != field:
            path_of[field] = best
    if all(key in path_of or key in value_at for key in ("response", "reward")):
        return path_of
    return {}


def likely_mapping(objects: Sequence[Row]) -> dict[str, str]:
    """Return field -> key if rows surely are responses whose fields have other names, else {}.

    There is one text that can be the response, a prompt and a reward that is a number. Rows without
    a step may be of a data set: their reward has to be called so.
    """
    examined = objects[:_MOST_EXAMINED]
    texts = _texts_of(examined)
    responses = [name for name in _RESPONSES if name in texts]
    paths = _common_paths(("step", "prompt", "reward"), examined)
    has_step = "step" in paths
    if not responses and has_step and {_ANSWER, _QUESTION} <= texts:
        responses = [_ANSWER]
    if len(responses) != 1 or "prompt" not in paths or "reward" not in paths:
        return {}
    if paths["prompt"] == responses[0] or not (has_step or paths["reward"] == "reward"):
        return {}
    paths["response"] = responses[0]
    others = _common_paths(("ground_truth", "group_id", "finish_reason"), examined)
    for field, path in others.items():
        if path not in paths.values():
            paths[field] = path
    return {field: path for field, path in paths.items() if field != path}


def _texts_of(objects: Sequence[Row]) -> set[str]:
    """Return the keys under which most of the objects have a text that is no number."""
    names: Counter[str] = Counter()
    for obj in objects:
        names.update(name for name, value in obj.items() if _is_text(value))
    return {name for name, count in names.items() if 2 * count >= len(objects)}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _common_paths(fields: Iterable[str], objects: Sequence[Row]) -> dict[str, str]:
    """Return field -> key of most of the objects that holds it, without those that none holds."""
    paths = {field: _common_path(field, objects) for field in fields}
    return {field: path for field, path in paths.items() if path}


def _common_path(field: str, objects: Sequence[Row]) -> str | None:
    """Return the key of most of the objects that holds a field, the likeliest name first."""
    for alias in (field, *_FIELD_ALIASES[field]):
        fitting = [
            obj
            for obj in objects
            if alias in obj and _fits(field, alias, alias, obj[alias])
        ]
        if fitting and 2 * len(fitting) >= len(objects):
            return alias
    return None


def next_options(objects: Sequence[Row]) -> str:
    """Return the options with which objects in no known format may be read, or what they need."""
    guess = suggest(objects) or likely_fields(REQUIRED, objects)
    if not guess:
        return message(
            "rollouts need a prompt, a response and a reward (name them with --map, as in --map "
            "response=FIELD); trainer metrics need a step and numbers in each object"
        )
    wanted = {field: guess.get(field, "FIELD") for field in REQUIRED if field != "step"}
    options = [
        f"--map {field}={path}"
        for field, path in {**guess, **wanted}.items()
        if field != path and not (path == "FIELD" and _has_field(field, objects))
    ]
    return message("next: try {options}", options=" ".join(options)) if options else ""


def _has_field(field: str, objects: Sequence[Row]) -> bool:
    return any(field in obj for obj in objects)


def likely_fields(fields: Iterable[str], objects: Sequence[Row]) -> dict[str, str]:
    """Return field -> key that may have it in most of the first objects, where there is one."""
    return _common_paths(fields, objects[:_MOST_EXAMINED])


def step_field(objects: Sequence[Row]) -> str:
    """Return the key of the objects, which have no step, that may count steps; "" without any."""
    examined = objects[:_MOST_EXAMINED]
    names = (*_FIELD_ALIASES["step"], *STEP_KEYS, *OTHER_STEP_KEYS)
    for name in dict.fromkeys(names):
        values = [coerce.integer(obj.get(name)) for obj in examined]
        if values and None not in values:
            return name
    return ""


def partial_hint(objects: Sequence[Row]) -> str:
    """Return which fields of responses may be where, and which were not found, "" for no guess."""
    examined = objects[:_MOST_EXAMINED]
    found: dict[str, str] = {}
    missing: list[str] = []
    for field in REQUIRED:
        path = _common_path(field, examined)
        if path is None:
            missing.append(field)
        elif path != field:
            found[field] = path
    has_text = "response" in found or "response" not in missing
    if not has_text or not ({"prompt", "reward"} - set(missing)):
        return ""
    missing = [field for field in missing if field != "step"]
    if not missing:
        return ""
    where = message(
        "no field for {fields} was found among {keys}",
        fields=_coded(missing),
        keys=_keys(examined[0], _MOST_NAMED_KEYS),
    )
    if not found:
        return where
    options = " ".join(f"--map {field}={path}" for field, path in found.items())
    return message("try {options}; {rest}", options=options, rest=where)


def _likeliest_path(field: str, value_at: Mapping[str, Any]) -> str | None:
    """Return the path in ``value_at`` that may hold a field, or None.

    It is the one with the likeliest name; of several with that name, the least nested.
    """
    for alias in (field, *_FIELD_ALIASES[field]):
        paths = [p for p, value in value_at.items() if _fits(field, alias, p, value)]
        if paths:
            return min(paths, key=lambda path: path.count("."))
    return None


def _fits(field: str, alias: str, path: str, value: Any) -> bool:
    """Return whether a path ends in a field's ``alias``, and its value has the field's type."""
    if path.rpartition(".")[2].lower() != alias:
        return False
    if field == "step":
        return coerce.integer(value) is not None
    if field in ("prompt", "response"):
        # A list may be chat messages; others have no text.
        text = prompt_fields(value)["prompt"] if isinstance(value, list) else ""
        return isinstance(value, str) or bool(text)
    if field == "reward":
        # None: the first object may not have been graded.
        return isinstance(value, int | float) or value is None
    if field.endswith(("tokens", "logprobs")):
        return isinstance(value, list)
    return logged.is_scalar(value)


def _paths(
    obj: Mapping[str, Any], prefix: str = "", depth: int = 3
) -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) of each key of an object and of dicts in it, to ``depth`` levels.

    ``prefix`` comes before each path: where the object is in the whole one.
    """
    for key, value in obj.items():
        yield prefix + key, value
        if depth > 1 and isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.", depth - 1)
