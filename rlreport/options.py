"""Declare all options once; command-line flags and API keywords are derived from them."""

# ruff: noqa: RUF009
from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from rlreport.errors import UsageError
from rlreport.text.clean import safe_text
from rlreport.text.language import TAGS, Language, language

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

Options = TypeVar("Options")
Paths = Sequence[str | Path]


def option(default: Any, help: str, *flags: str, **settings: Any) -> Any:
    """Return a dataclass field that declares an option.

    Args:
        default: default value; ``{}`` declares an option that is a mapping.
        help: description shown by ``--help`` and in the docstrings of the API.
        flags: flags on the command line; by default the field's name with hyphens.
        settings: ``choices``, ``low`` and ``high`` restrict the value. For the command line only:
            ``metavar``, ``show`` (the default as text), ``size`` (True: accept ``10MB``).
    """
    metadata = {"help": help, "flags": flags, **settings}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def declared(options: type) -> list[Field[Any]]:
    """Return the fields of an options class that were declared with ``option``."""
    return [entry for entry in fields(options) if "help" in entry.metadata]


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
    )
    system_end_token: str | None = option(
        None,
        "Text that ends a system prompt; everything up to its last occurrence is removed from "
        "prompts.",
        metavar="TEXT",
    )
    log_format: str | None = option(
        None, "Log format, see 'rlreport formats'. Default: detected.", metavar="ID"
    )
    mapping: Mapping[str, str] = option(
        {},
        "Read FIELD from the dotted PATH of each object, e.g. reward=score.",
        "--map",
        metavar="FIELD=PATH",
    )
    step_from_path: str | None = option(
        None,
        "Read the step from the file path: from the group named 'step', else the first group.",
        metavar="REGEX",
    )
    split: str | None = option(
        None,
        "Split to report on. Default: the training split; a logged validation split is shown as "
        "well, but not checked.",
        metavar="NAME",
    )
    tokenizer: str | None = option(
        None,
        "tokenizer.json that converts logged token ids to strings.",
        metavar="FILE",
    )
    restarts: str | int | None = option(
        None,
        "Which starts to read of a run that one log has from its first step several times: all, "
        "as one training; the last one; or start number N, from 1. After a resumption, 'all' keeps "
        "all rollouts of a step, others the later ones. Default: the last start if it is the "
        "longest, else the run is not judged; all rollouts of a step after a resumption.",
        metavar="all|last|N",
    )
    metrics: Paths = option(
        (),
        "File of trainer metrics. Default: files in the log folders.",
        metavar="FILE",
    )
    roles: Mapping[str, str] = option(
        {},
        "Take COLUMN of the trainer metrics for ROLE, e.g. reward=score; see docs/metrics.md.",
        "--role",
        metavar="ROLE=COLUMN",
    )
    run: str = option(
        "",
        "Run to read if a file of metrics has several, or the logs: a folder's or file's name.",
        metavar="NAME",
    )
    strict: bool = option(
        False, "Fail instead of skipping or repairing anything in the logs."
    )
    workers: int = option(
        0, "Number of processes.", low=0, high=256, show="one per core", metavar="N"
    )
    ray: str | None = option(
        None,
        "Use the Ray cluster at ADDRESS (HOST:PORT, or 'auto' for this machine's cluster); see "
        "docs/integrations.md.",
        metavar="ADDRESS",
    )
    cache: str | Path = option(
        "",
        "Folder for intermediate results, so that the next build reads only new data; 'auto' "
        "selects the user's cache folder.",
        metavar="DIR|auto",
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

    gamma: float = option(1.0, "Discount factor γ of GAE.", low=0, high=1)
    lam: float = option(0.95, "λ of GAE.", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class OutputOptions(_Checked):
    """Options that the reports of runs and of comparisons share."""

    form: str | None = option(
        None,
        "Output format by its name, such as html. Default: by the suffix of OUT.",
        "--format",
        metavar="FORMAT",
    )
    title: str | None = option(
        None,
        "Title. Default: the log folder, or for a comparison both runs.",
        metavar="TEXT",
    )
    max_size: int | None = option(
        None,
        "Maximum size, e.g. 10MB; texts and pages are left out to fit. Default: 100MB for a folder "
        "or zip, 10MB for all others.",
        low=1,
        size=True,
    )
    thresholds: str | Path | None = option(
        None,
        "TOML file with thresholds of the checks; see 'rlreport checks'.",
        metavar="FILE",
    )
    redact: bool | Literal["names"] = option(
        False,
        "Omit all text of prompts, responses and tokens; --redact=names also omits the names of "
        "extra fields and of files.",
        choices=(False, True, "names"),
    )
    to: Sequence[str] = option((), "Recipient of the mail.", metavar="ADDRESS")
    sender: str | None = option(
        None, "Sender of the mail.", "--from", metavar="ADDRESS"
    )
    subject: str | None = option(
        None, "Subject of the mail. Default: title and verdict.", metavar="TEXT"
    )
    github_summary: bool = option(
        False, "Also append a summary to the GitHub Actions job summary."
    )
    lang: str = option(
        Language().code,
        "Language of the output. Data files (JSON, CSV) stay English.",
        choices=TAGS,
    )

    def __post_init__(self) -> None:
        """Validate the values; replace invalid characters in ``title`` and ``subject``."""
        super().__post_init__()
        for name in ("title", "subject"):
            text = getattr(self, name)
            if text:
                object.__setattr__(self, name, safe_text(text))

    @property
    def language(self) -> Language:
        return language(self.lang)

    @property
    def redact_names(self) -> bool:
        """Whether the names of extra fields and of files are omitted."""
        return self.redact == "names"


@dataclass(frozen=True, kw_only=True)
class ReportOptions(OutputOptions):
    """Options for the content of a run's report."""

    max_responses: int = option(
        128, "Maximum responses shown per step; statistics do not depend on it.", low=1
    )
    mute: Mapping[str, str] = option(
        {},
        "Mute the findings of check ID; they are listed separately with REASON.",
        metavar="ID=REASON",
    )
    charts: Paths = option(
        (),
        "Python file that defines custom charts; its code is executed. See docs/charts.md.",
        metavar="FILE.py",
    )
    score: str | Path | None = option(
        None,
        "Score the responses anew with a reward function, which becomes the second reward; its "
        "code is executed. See docs/score.md.",
        metavar="FILE.py[:FUNCTION]",
    )
    score_timeout: float = option(
        10.0,
        "Time limit of a call of the function of --score.",
        low=0.1,
        high=86_400,
        metavar="SECONDS",
    )
    config: Paths = option(
        (),
        "Configuration file of the run (.yaml, .json or .toml) to show. Default: files next to "
        "the logs. Likely secrets are omitted.",
        metavar="FILE",
    )
    meta: Mapping[str, object] = option(
        {}, "Additional entry of the run's configuration.", metavar="KEY=VALUE"
    )
    notes: str | Path | None = option(
        None,
        "Markdown file shown at the top of the overview, see docs/notes.md. Default: notes.md in "
        "the folder of the logs.",
        metavar="FILE.md",
    )
    git: bool = option(False, "Show the git commit and branch of the current folder.")
    merge: bool = option(
        False,
        "Treat folders as one run, and starts in one log, as --restarts all does.",
    )
    in_progress: bool = option(
        False,
        "Treat the newest step as incomplete: mark it and exclude it from the checks.",
    )
    live: int = 0
    """Seconds between checks of a page open in a browser for a newer report; 0: no checks."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions(ReadOptions, GaeOptions, ReportOptions):
    """All options of ``rlreport.build`` and ``rlreport build``."""

    quiet: bool = option(True, "Print errors only.", "-q", "--quiet")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ReadOptions, GaeOptions, OutputOptions):
    """All options of ``rlreport.compare`` and ``rlreport compare``."""

    pair_by: str = option(
        "prompt",
        "Field that identifies the same prompt in both runs: prompt (its text), group (the logged "
        "group_id), or another logged field such as id.",
        metavar="FIELD",
    )
    fail_on: Sequence[str] = option(
        (),
        "Exit with status 1 if the reward fell significantly and by more than --margin (worse), a "
        "guardrail such as KL or length got worse (guardrail), NEW has a critical finding that "
        "BASE lacks (new-critical), or any of these.",
        choices=FAIL_ON,
    )
    margin: float = option(0.0, "Reward drop tolerated by --fail-on worse.", low=0)
    redact: bool | Literal["names"] = option(
        False, "Omit all text of prompts and responses.", choices=(False, True)
    )
    require_evidence: bool = option(
        False,
        "Exit with status 3 if the reward is neither significantly higher nor lower than BASE's.",
    )
    quiet: bool = option(True, "Print errors only.", "-q", "--quiet")


# Names of the options for reading logs and for GAE, and of all that ``rlreport check`` has
READING = tuple(entry.name for entry in (*declared(ReadOptions), *declared(GaeOptions)))
CHECKING = (*READING, "thresholds", "mute", "score", "score_timeout", "lang", "quiet")
