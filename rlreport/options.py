"""Declare all options once; command-line flags and API keywords are derived from them."""

# ruff: noqa: RUF009
from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from rlreport.errors import UsageError
from rlreport.text.clean import safe_text
from rlreport.text.language import TAGS, Language, language
from rlreport.text.messages import message

# Padding tokens that are always removed; ``--pad-token`` adds further ones
DEFAULT_PAD_TOKENS: tuple[str, ...] = (
    "<PAD>",
    "<pad>",
    "[PAD]",
    "<|pad|>",
    "<|PAD|>",
    "<|padding|>",
    "<|endofpad|>",
    "<|finetune_right_pad_id|>",
    "<|vision_pad|>",
    "<unk_pad>",
)

FAIL_ON = ("worse", "guardrail", "new-critical", "any")

DEFAULT_LIMIT = 100  # runs of a project of W&B that an index lists
SETTINGS_FILE = "rlreport.toml"  # in which the command line looks for options

# Headings of options in ``--help``, in their order
GROUPS = (
    "Output",
    "Content",
    "Input",
    "Checks",
    "Updates",
    "Sharing",
    "Speed",
    "Other",
)

# What a file of settings may give an option, see ``option``
FileValue = Literal["value", "path", "nothing"]

Options = TypeVar("Options")
Paths = Sequence[str | Path]


def option(
    default: Any,
    help: str,
    *flags: str,
    group: str = "",
    from_file: FileValue = "nothing",
    **settings: Any,
) -> Any:
    """Return a dataclass field that declares an option.

    Args:
        default: default value; ``{}`` declares an option that is a mapping.
        help: description shown by ``--help`` and in the docstrings of the API.
        flags: flags on the command line; by default the field's name with hyphens.
        group: heading in ``--help``, one of GROUPS.
        from_file: what ``rlreport.toml`` and ``pyproject.toml`` may give it. These may be a
            stranger's: "nothing" if it runs code, writes, sends, connects or hides what was set;
            "path" if it is a path, which then cannot leave the file's folder; else "value".
        settings: ``choices``, ``low`` and ``high`` restrict the value. For the command line only:
            ``metavar``, ``show`` (the default as text), ``size`` (True: accept ``10MB``),
            ``variable`` (one that sets it for every command).
    """
    metadata = {
        "help": help,
        "flags": flags,
        "group": group,
        "from_file": from_file,
        **settings,
    }
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def declared(options: type) -> list[Field[Any]]:
    """Return the fields of an options class that were declared with ``option``."""
    return [entry for entry in fields(options) if "help" in entry.metadata]


def refuse_unknown(
    caller: str, given: Iterable[str], kind: type, names: Collection[str] = ()
) -> None:
    """Raise TypeError, as Python does, if a function has no option of a name that was given.

    ``names`` are the options of ``kind`` that the function has, by default all.
    """
    # The command line also gives those that are not declared.
    taken = set(names) or {entry.name for entry in fields(kind)}
    known = [entry for entry in declared(kind) if entry.name in taken]
    for name in given:
        if name in taken:
            continue
        flag = f"--{name.replace('_', '-')}"
        of_flag = [entry.name for entry in known if flag in entry.metadata["flags"]]
        import difflib

        alike = difflib.get_close_matches(name, [e.name for e in known], 1)
        hint = f"; use {of_flag[0]}=" if of_flag else ""
        if alike and not of_flag:
            hint = f"; did you mean {alike[0]!r}?"
        raise TypeError(f"{caller}() got an unexpected option {name!r}{hint}")


def part(kind: type[Options], options: object) -> Options:
    """Return options of class ``kind``, with the values of those names in an object or dict.

    So a function that needs only the options for reading takes them from those of a command.
    """
    values = options if isinstance(options, dict) else vars(options)
    names = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """A class of options whose values are checked."""

    def __post_init__(self) -> None:
        """Raise UsageError if an option is invalid; replace None by {} for mappings."""
        for entry in declared(type(self)):
            value = getattr(self, entry.name)
            if value is None and entry.default_factory is dict:
                value = {}
                object.__setattr__(self, entry.name, value)  # the class is frozen
            _check_choice(entry, value)
            _check_range(entry, value)


def _check_choice(entry: Field[Any], value: Any) -> None:
    """Raise UsageError if a value, or one of several, is none of the option's choices."""
    choices = entry.metadata.get("choices", ())
    if not choices:
        return
    is_several = isinstance(value, tuple | list | set | frozenset)
    for chosen in value if is_several else (value,):
        if chosen not in choices:
            allowed = ", ".join(map(str, choices))
            raise UsageError(
                f"{entry.name} must be one of {allowed}; got {chosen!r:.40}"
            )


def _check_range(entry: Field[Any], value: Any) -> None:
    """Raise UsageError if a number is below or above the option's limits."""
    if value is None or "low" not in entry.metadata:
        return
    low = entry.metadata["low"]
    # A larger integer would not fit into the int64 of NumPy.
    largest = 2**63 - 1 if isinstance(value, int) else math.inf
    high = entry.metadata.get("high", largest)
    if not low <= value <= high:  # also for NaN
        and_at_most = "" if high == math.inf else f" and at most {high:g}"
        raise UsageError(
            f"{entry.name} must be at least {low:g}{and_at_most}; got {value!r:.40}"
        )


def _chosen_starts(restarts: object) -> str | int | None:
    """Return the value of ``restarts``, with a number as int; raise UsageError if it is invalid."""
    if restarts is None:
        return None
    if isinstance(restarts, str) and restarts in ("all", "last"):
        return restarts
    is_number = isinstance(restarts, int) and not isinstance(restarts, bool)
    # At most nine digits, as no log has more starts
    if is_number or re.fullmatch(r"\d{1,9}", str(restarts)):
        number = int(str(restarts))
        if number >= 1:
            return number
    raise UsageError(
        f"restarts must be all, last or the number of a start from 1; got {restarts!r:.40}"
    )


@dataclass(frozen=True, kw_only=True)
class ReadOptions(_Checked):
    """Options for reading logs."""

    pad_tokens: tuple[str, ...] = option(
        (),
        "Additional padding token to drop. Common ones are recognized.",
        "--pad-token",
        metavar="TEXT",
        group="Input",
        from_file="value",
    )
    system_end_token: str | None = option(
        None,
        "Text that ends a system prompt; everything up to its last occurrence is removed from "
        "prompts.",
        metavar="TEXT",
        group="Input",
        from_file="value",
    )
    log_format: str | None = option(
        None,
        "Log format, see 'rlreport formats'. Default: detected.",
        metavar="ID",
        group="Input",
        from_file="value",
    )
    mapping: Mapping[str, str] = option(
        {},
        "Read FIELD from the dotted PATH of each object, e.g. reward=score.",
        "--map",
        metavar="FIELD=PATH",
        group="Input",
        from_file="value",
    )
    step_from_path: str | None = option(
        None,
        "Read the step from the file path: from the group named 'step', else the first group.",
        metavar="REGEX",
        group="Input",
    )
    split: str | None = option(
        None,
        "Split to report on. Default: the training split; a logged validation split is shown as "
        "well, but not checked.",
        metavar="NAME",
        group="Input",
        from_file="value",
    )
    tokenizer: str | None = option(
        None,
        "tokenizer.json that converts logged token ids to strings.",
        metavar="FILE",
        group="Input",
        from_file="path",
    )
    restarts: str | int | None = option(
        None,
        "Which starts to read of a run that one log has from its first step several times: all, "
        "as one training; the last one; or start number N, from 1. After a resumption, 'all' keeps "
        "all rollouts of a step, others the later ones. Default: the last start if it is the "
        "longest, else the run is not judged; all rollouts of a step after a resumption.",
        metavar="all|last|N",
        group="Input",
        from_file="value",
    )
    metrics: Paths = option(
        (),
        "File of trainer metrics. Default: files in the log folders.",
        metavar="FILE",
        group="Input",
        from_file="path",
    )
    roles: Mapping[str, str] = option(
        {},
        "Take COLUMN of the trainer metrics for ROLE, e.g. reward=score; see docs/metrics.md.",
        "--role",
        metavar="ROLE=COLUMN",
        group="Input",
        from_file="value",
    )
    run: str = option(
        "",
        "Run to read if a file of metrics has several, or the logs: a folder's or file's name.",
        metavar="NAME",
        group="Input",
        from_file="value",
    )
    strict: bool = option(
        False,
        "Fail instead of skipping or repairing anything in the logs.",
        group="Input",
        from_file="value",
    )
    workers: int = option(
        0,
        "Number of processes.",
        low=0,
        high=256,
        show="one per core",
        metavar="N",
        group="Speed",
        from_file="value",
    )
    ray: str | None = option(
        None,
        "Use the Ray cluster at ADDRESS (HOST:PORT, or 'auto' for this machine's cluster); see "
        "docs/integrations.md.",
        metavar="ADDRESS",
        group="Speed",
    )
    cache: str | Path = option(
        "",
        "Folder for intermediate results, so that the next build reads only new data; 'auto' "
        "selects the user's cache folder.",
        metavar="DIR|auto",
        group="Speed",
    )

    def __post_init__(self) -> None:
        """Validate the values, and put DEFAULT_PAD_TOKENS before ``pad_tokens``."""
        super().__post_init__()
        # Each token once: ``part`` makes options of ones that have the default tokens already.
        tokens = tuple(dict.fromkeys((*DEFAULT_PAD_TOKENS, *self.pad_tokens)))
        object.__setattr__(self, "pad_tokens", tokens)
        object.__setattr__(self, "restarts", _chosen_starts(self.restarts))
        if self.tokenizer is not None:
            path = os.fspath(self.tokenizer)  # the API takes a Path, too
            object.__setattr__(self, "tokenizer", path)


@dataclass(frozen=True, kw_only=True)
class GaeOptions(_Checked):
    """Parameters of generalized advantage estimation (GAE)."""

    gamma: float = option(
        1.0,
        "Discount factor γ of GAE.",
        low=0,
        high=1,
        metavar="NUMBER",
        group="Input",
        from_file="value",
    )
    lam: float = option(
        0.95,
        "λ of GAE.",
        low=0,
        high=1,
        metavar="NUMBER",
        group="Input",
        from_file="value",
    )


class SetBy(NamedTuple):
    """Options that a file, or variables of the environment, set for a command."""

    file: str  # its name without folders; "" for variables
    values: tuple[tuple[str, str], ...]  # (option or variable, its value as text)


@dataclass(frozen=True, kw_only=True)
class OutputOptions(_Checked):
    """Options that the reports of runs and of comparisons share."""

    form: str | None = option(
        None,
        "Output format by its name, such as html. Default: by the suffix of OUT.",
        "--format",
        metavar="FORMAT",
        group="Output",
        from_file="value",
    )
    title: str | None = option(
        None,
        "Title. Default: the log folder, or for a comparison both runs.",
        metavar="TEXT",
        group="Content",
        from_file="value",
    )
    max_size: int | None = option(
        None,
        "Maximum size, e.g. 10MB; texts and pages are left out to fit. Default: 100MB for a folder "
        "or zip, 10MB for all others.",
        low=1,
        size=True,
        metavar="SIZE",
        group="Output",
        from_file="value",
    )
    thresholds: str | Path | None = option(
        None,
        "TOML file with thresholds of the checks; see 'rlreport checks'.",
        metavar="FILE",
        group="Checks",
        from_file="path",
    )
    redact: bool | Literal["names"] = option(
        False,
        "Omit all text of prompts, responses and tokens; --redact=names also omits the names of "
        "extra fields and of files.",
        choices=(False, True, "names"),
        group="Content",
        from_file="value",
    )
    public: bool = option(
        False,
        "For everybody to read: omit names of files, folders, hosts, people and projects; texts of "
        "prompts and responses stay. See docs/publish.md.",
        group="Content",
        from_file="value",
    )
    omit_prompts: Sequence[str] = option(
        (),
        "Omit all text of prompts whose logged FIELD is VALUE, and of responses to them, e.g. "
        "data_source=gpqa.",
        metavar="FIELD=VALUE",
        group="Content",
        from_file="value",
    )
    to: Sequence[str] = option(
        (), "Recipient of the mail.", metavar="ADDRESS", group="Sharing"
    )
    sender: str | None = option(
        None,
        "Sender of the mail.",
        "--from",
        metavar="ADDRESS",
        group="Sharing",
    )
    subject: str | None = option(
        None,
        "Subject of the mail. Default: title and verdict.",
        metavar="TEXT",
        group="Sharing",
        from_file="value",
    )
    github_summary: bool = option(
        False,
        "Also append a summary to the GitHub Actions job summary.",
        group="Sharing",
    )
    lang: str = option(
        Language().code,
        "Language of the output. Data files (JSON, CSV) stay English.",
        choices=TAGS,
        variable="RLREPORT_LANG",
        group="Content",
        from_file="value",
    )
    set_by: Sequence[SetBy] = ()
    """What files and variables set on the command line, which the report lists."""

    def __post_init__(self) -> None:
        """Validate the values; replace invalid characters in ``title`` and ``subject``."""
        super().__post_init__()
        for name in ("title", "subject"):
            text = getattr(self, name)
            if text:
                object.__setattr__(self, name, safe_text(text))
        omitted = self.omit_prompts
        # One text instead of a list of texts
        texts = (omitted,) if isinstance(omitted, str) else tuple(omitted or ())
        object.__setattr__(self, "omit_prompts", tuple(map(str, texts)))

    @property
    def language(self) -> Language:
        return language(self.lang)

    @property
    def set_by_texts(self) -> list[str]:
        """What files and variables set, a message each; values only if nothing is hidden."""
        texts = []
        for file, values in self.set_by:
            set_options = [
                f"{name} = {value}" if value and not self.hides else name
                for name, value in values
            ]
            listed = tuple(safe_text(one) for one in set_options)
            if file:
                text = message("Set by {file}: {options}.", file=file, options=listed)
            else:
                text = message(
                    "Set by variables of the environment: {options}.", options=listed
                )
            texts.append(text)
        return texts

    @property
    def hides(self) -> bool:
        """Whether an option leaves out texts or names that the logs contain."""
        return bool(self.redact or self.public or self.omit_prompts)

    @property
    def redact_names(self) -> bool:
        """Whether the names of extra fields and of files are omitted."""
        return self.redact == "names"


@dataclass(frozen=True, kw_only=True)
class ReportOptions(OutputOptions):
    """Options for the content of a run's report."""

    max_responses: int = option(
        128,
        "Maximum responses shown per step; statistics do not depend on it.",
        low=1,
        metavar="N",
        group="Content",
        from_file="value",
    )
    mute: Mapping[str, str] = option(
        {},
        "Mute the findings of check ID; they are listed separately with REASON.",
        metavar="ID=REASON",
        group="Checks",
        from_file="value",
    )
    charts: Paths = option(
        (),
        "Python file that defines custom charts; its code is executed. See docs/charts.md.",
        metavar="FILE.py",
        group="Content",
    )
    score: str | Path | None = option(
        None,
        "Score the responses anew with a reward function, which becomes the second reward; its "
        "code is executed. See docs/score.md.",
        metavar="FILE.py[:FUNCTION]",
        group="Checks",
    )
    score_timeout: float = option(
        10.0,
        "Time limit of a call of the function of --score.",
        low=0.1,
        high=86_400,
        show="10",
        metavar="SECONDS",
        group="Checks",
        from_file="value",
    )
    config: Paths = option(
        (),
        "Configuration file of the run (.yaml, .json or .toml) to show. Default: files next to "
        "the logs. Likely secrets are omitted.",
        metavar="FILE",
        group="Content",
        from_file="path",
    )
    meta: Mapping[str, object] = option(
        {},
        "Additional entry of the run's configuration.",
        metavar="KEY=VALUE",
        group="Content",
        from_file="value",
    )
    notes: str | Path | None = option(
        None,
        "Markdown file shown at the top of the overview, see docs/notes.md. Default: notes.md in "
        "the folder of the logs.",
        metavar="FILE.md",
        group="Content",
        from_file="path",
    )
    git: bool = option(
        False, "Show the git commit and branch of the current folder.", group="Content"
    )
    merge: bool = option(
        False,
        "Treat folders as one run, and starts in one log, as --restarts all does.",
        group="Input",
        from_file="value",
    )
    in_progress: bool = option(
        False,
        "Treat the newest step as incomplete: mark it and exclude it from the checks.",
        group="Checks",
        from_file="value",
    )
    live: int = 0
    """Seconds between checks of a page open in a browser for a newer report; 0: no checks."""
    one_run: bool = False
    """Whether logs that look like several runs are refused, instead of noted."""
    built_from: str = ""
    """Text of the file BUILT_FROM in a folder, by which ``index`` knows what it was built from."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions(ReadOptions, GaeOptions, ReportOptions):
    """All options of ``rlreport.build`` and ``rlreport build``."""

    quiet: bool = option(True, "Print errors only.", "-q", "--quiet", group="Other")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ReadOptions, GaeOptions, OutputOptions):
    """All options of ``rlreport.compare`` and ``rlreport compare``."""

    pair_by: str = option(
        "prompt",
        "Field that identifies the same prompt in both runs: prompt (its text), group (the logged "
        "group_id), or another logged field such as id.",
        metavar="FIELD",
        group="Input",
        from_file="value",
    )
    fail_on: Sequence[str] = option(
        (),
        "Exit with status 1 if the reward fell significantly and by more than --margin (worse), a "
        "guardrail such as KL or length got worse (guardrail), NEW has a critical finding that "
        "BASE lacks (new-critical), or any of these.",
        choices=FAIL_ON,
        group="Checks",
        from_file="value",
    )
    margin: float = option(
        0.0,
        "Reward drop tolerated by --fail-on worse.",
        low=0,
        metavar="NUMBER",
        group="Checks",
        from_file="value",
    )
    redact: bool | Literal["names"] = option(
        False,
        "Omit all text of prompts and responses.",
        choices=(False, True),
        group="Content",
        from_file="value",
    )
    require_evidence: bool = option(
        False,
        "Exit with status 3 if the reward is neither significantly higher nor lower than BASE's.",
        group="Checks",
        from_file="value",
    )
    quiet: bool = option(True, "Print errors only.", "-q", "--quiet", group="Other")


# Names of the options for reading logs and for GAE, and of all that ``rlreport check`` has
READING = tuple(entry.name for entry in (*declared(ReadOptions), *declared(GaeOptions)))
CHECKING = (*READING, "thresholds", "mute", "score", "score_timeout", "lang", "quiet")
# Those of ``rlreport index``, for the reports that it builds
BUILDING = (
    "log_format",
    "mapping",
    "split",
    "roles",
    "config",
    "workers",
    "cache",
    "thresholds",
    "mute",
    "redact",
    "public",
    "omit_prompts",
    "max_size",
    "lang",
    "quiet",
)
