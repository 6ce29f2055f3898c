"""Every setting of a build, in one typed place; the command line and the Python API fill it in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from rlreport.errors import UsageError
from rlreport.text.language import Language

RESTARTS = ("all", "last")
"""What becomes of the rows of a step that a restarted run logged twice."""

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
"""Token strings that are padding when nothing else is said (``--pad-token`` adds to them)."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How logs are read.

    Attributes:
        pad_tokens: strings removed from prompts and responses, and dropped as tokens.
        system_end_token: text up to and including its last occurrence is dropped from prompts.
        log_format: id of the log format, or None to detect it.
        mapping: canonical field -> dotted path in the logged object (``--map reward=score``).
        step_from_path: regular expression with one group (or a group named ``step``).
        split: which split to read where a folder holds several (``train``, ``val``, …).
        tokenizer: path of a ``tokenizers`` JSON file that turns ids into strings.
        restarts: ``all`` keeps every row, ``last`` only the later rows of a restarted step.
        strict: raise StrictError where a row, a line or a file would be skipped or repaired.
        max_line: bytes; a longer line is skipped and reported.
        workers: processes; 0 means one per core.
        ray: address of a Ray cluster whose processes read instead, or ``auto``.
        metrics: files of trainer metrics; none means those beside the logs.
        cache: folder of what is kept for the next build, ``auto`` for the user's; "" keeps nothing.
        cache_size: bytes that it may take.
    """

    pad_tokens: tuple[str, ...] = DEFAULT_PAD_TOKENS
    system_end_token: str | None = None
    log_format: str | None = None
    mapping: dict[str, str] = field(default_factory=dict)
    step_from_path: str | None = None
    split: str | None = None
    tokenizer: str | None = None
    restarts: str = "all"
    strict: bool = False
    max_line: int = 256_000_000
    workers: int = 0
    ray: str | None = None
    metrics: tuple[str, ...] = ()
    cache: str = ""
    cache_size: int = 20_000_000_000

    def __post_init__(self) -> None:
        """Refuse what is no such option.

        Raises:
            UsageError: a number is out of its range, or a word is unknown.
        """
        if self.restarts not in RESTARTS:
            raise UsageError(f"restarts is one of {', '.join(RESTARTS)}, not {self.restarts!r}")
        _within("workers", self.workers, 0)
        _within("max_line", self.max_line, 1)
        _within("cache_size", self.cache_size, 0)


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """Parameters of the formulas: discount γ and GAE's λ, both in [0, 1]."""

    gamma: float = 1.0
    lam: float = 0.95

    def __post_init__(self) -> None:
        """Refuse numbers out of their range.

        Raises:
            UsageError: one is.
        """
        _within("gamma", self.gamma, 0, 1)
        _within("lam", self.lam, 0, 1)


@dataclass(frozen=True, slots=True)
class MailOptions:
    """Headers of the mail form.

    Attributes:
        to: recipients, ``a@b.c`` or ``Name <a@b.c>``; none leaves the header out.
        sender: sender; None takes an address that cannot exist.
        subject: subject; None takes the run's name and the verdict.
    """

    to: tuple[str, ...] = ()
    sender: str | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class CardOptions:
    """Where the run's card comes from.

    Attributes:
        configs: configuration files; none takes those beside the logs.
        meta: further entries, name -> value.
        git: add commit, branch and whether there are changes of the current folder's checkout.
    """

    configs: tuple[Path, ...] = ()
    meta: tuple[tuple[str, str], ...] = ()
    git: bool = False


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What goes into the report and how it is named.

    Attributes:
        title: name of the run shown on every page; None takes the log folder's name.
        band: factor of the ± std band on charts.
        max_responses: responses shown per step; figures do not depend on it.
        max_size: bytes of the whole delivery, None for the form's default.
        seed: seed of the sample of responses.
        redact: leave prompt, response and token text out of every form.
        redact_names: also leave names of further fields and of files out.
        stamp: show the time of building.
        mail: headers of the mail form.
        github_summary: also append a summary to the job's page on GitHub Actions.
        charts: Python files with functions that make charts of the user's own.
        card: where the run's card comes from.
        merge: folders that look like several runs are one.
        live: seconds after which pages of a folder look for a newer report; 0 for never.
        in_progress: the newest step is still written: it is drawn apart and not judged.
        language: of what people read; data stays English.
    """

    title: str | None = None
    band: float = 1.0
    max_responses: int = 128
    max_size: int | None = None
    seed: int = 0
    redact: bool = False
    redact_names: bool = False
    stamp: bool = False
    mail: MailOptions = field(default_factory=MailOptions)
    github_summary: bool = False
    charts: tuple[Path, ...] = ()
    card: CardOptions = field(default_factory=CardOptions)
    merge: bool = False
    in_progress: bool = False
    live: int = 0
    language: Language = field(default_factory=Language)

    def __post_init__(self) -> None:
        """Refuse numbers out of their range.

        Raises:
            UsageError: one is.
        """
        _within("band", self.band, 0, 10)
        _within("max_responses", self.max_responses, 1)
        _within("seed", self.seed, 0)
        if self.max_size is not None:
            _within("max_size", self.max_size, 1)


def _within(name: str, value: float, low: float, high: float = math.inf) -> None:
    if not low <= value <= high:
        most = "" if high == math.inf else f" and at most {high:g}"
        raise UsageError(f"{name} is at least {low:g}{most}, not {value!r:.40}")
