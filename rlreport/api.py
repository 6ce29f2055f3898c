"""Reports and comparisons from Python: the same options as on the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rlreport.comparing import ComparisonReport, build_comparison
from rlreport.deliver.publish import destination
from rlreport.errors import UsageError
from rlreport.indexing import Index, build_index
from rlreport.options import (
    DEFAULT_PAD_TOKENS,
    CardOptions,
    FigureOptions,
    MailOptions,
    ReadOptions,
    ReportOptions,
)
from rlreport.pipeline import Report, build_report
from rlreport.progress import Progress, Silent, Spoken
from rlreport.text.language import language
from rlreport.workers import Workers


def build(
    logs: str | Path | Sequence[str | Path],
    out: str | Path = "report",
    *,
    form: str | None = None,
    title: str | None = None,
    band: float = 1.0,
    max_responses: int = 128,
    max_size: int | None = None,
    seed: int = 0,
    thresholds: str | Path | None = None,
    mute: Mapping[str, str] | None = None,
    redact: bool | Literal["names"] = False,
    stamp: bool = False,
    to: Sequence[str] = (),
    sender: str | None = None,
    subject: str | None = None,
    github_summary: bool = False,
    charts: Sequence[str | Path] = (),
    config: Sequence[str | Path] = (),
    meta: Mapping[str, object] | None = None,
    git: bool = False,
    merge: bool = False,
    in_progress: bool = False,
    lang: str = "en",
    pad_tokens: Sequence[str] = (),
    system_end_token: str | None = None,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    step_from_path: str | None = None,
    split: str | None = None,
    tokenizer: str | Path | None = None,
    metrics: Sequence[str | Path] = (),
    restarts: Literal["all", "last"] = "all",
    strict: bool = False,
    max_line: int = 256_000_000,
    gamma: float = 1.0,
    lam: float = 0.95,
    workers: int = 0,
    ray: str | None = None,
    cache: str | Path = "",
    cache_size: int = 20_000_000_000,
    quiet: bool = True,
) -> Report:
    """Builds the report of one run.

    Made to be the last line of a training script::

        report = rlreport.build("logs/", "report.html", title="ppo, kl 0.08")
        print(report.verdict.sentence)

    Args:
        logs: files, folders or globs of rollout logs.
        out: where the report goes; its suffix chooses the form (none, ``.html``, ``.eml``,
            ``.md``, ``.zip``). Replaced whole, or left as it was. A URL is written to as well as
            its store lets us: other files first, the page to open last.
        form: id of the form, whatever the suffix: ``folder``, ``html``, ``email``, ``markdown``,
            ``zip``.
        title: name of the run; the log folder's name unless given.
        band: factor of the ± std band on charts.
        max_responses: responses shown a step; figures always come from all.
        max_size: bytes the report may have; 10,000,000 for one file unless given, 100,000,000
            for a folder.
        seed: seed of the sample of responses.
        thresholds: TOML file with thresholds of the checks.
        mute: id of a check -> why its finding is set aside.
        redact: leave all text of prompts, responses and tokens out; ``"names"`` also names of
            further fields and of files.
        stamp: show the time of building (else the same logs give the same bytes).
        to: recipients of the mail form.
        sender: sender of the mail form.
        subject: subject of the mail form.
        github_summary: also append a summary to the job's page on GitHub Actions.
        charts: Python files with charts of your own, which are run.
        config: configuration files (yaml, json, toml) for the run's card; those beside the logs
            unless given. What looks like a secret is left out.
        meta: further entries of the card.
        git: put commit and branch of the current folder on the card.
        merge: folders that look like several runs are one.
        in_progress: the newest step is still written: it is drawn apart and not judged.
        lang: language of what people read, ``en`` or ``zh``; data stays English.
        pad_tokens: further padding tokens to drop; the usual ones are known.
        system_end_token: drop everything of a prompt up to and including its last occurrence.
        log_format: id of the log format; detected unless given.
        mapping: field -> dotted path in the logged objects.
        step_from_path: regular expression that takes the step from the file's path.
        split: which split to read, e.g. ``train`` or ``val``.
        tokenizer: ``tokenizer.json`` that turns logged token ids into strings.
        metrics: files of trainer metrics; those beside the logs unless given.
        restarts: rows of a step that a restarted run logged twice: keep all, or the last.
        strict: raise where anything would be left out.
        max_line: bytes of the longest line that is read.
        gamma: discount of GAE.
        lam: λ of GAE.
        workers: processes that read and draw, 0 is one a core.
        ray: address of a Ray cluster that reads and draws instead, or ``auto``.
        cache: folder to keep what was found in, so that the next build reads what is new;
            ``auto`` is the user's cache.
        cache_size: bytes that it may take.
        quiet: say nothing; else progress goes to standard error.

    Returns:
        Where the report is, its size, the verdict and all tables.

    Raises:
        RlreportError: an option, the logs or the place cannot be used; the message says what
            to do.
    """
    progress: Progress = Silent() if quiet else Spoken()
    with Workers(workers, ray, progress.say) as processes:
        return build_report(
            _several(logs),
            destination(out),
            read=ReadOptions(
                pad_tokens=tuple(dict.fromkeys((*DEFAULT_PAD_TOKENS, *pad_tokens))),
                system_end_token=system_end_token,
                log_format=log_format,
                mapping=dict(mapping or {}),
                step_from_path=step_from_path,
                split=split,
                tokenizer=None if tokenizer is None else str(tokenizer),
                restarts=restarts,
                metrics=tuple(map(str, metrics)),
                strict=strict,
                max_line=max_line,
                workers=workers,
                ray=ray,
                cache=str(cache),
                cache_size=cache_size,
            ),
            figures=FigureOptions(gamma, lam),
            report=ReportOptions(
                title=title,
                band=band,
                max_responses=max_responses,
                max_size=max_size,
                seed=seed,
                redact=_redacts(redact),
                redact_names=redact == "names",
                stamp=stamp,
                mail=MailOptions(tuple(to), sender, subject),
                github_summary=github_summary,
                charts=tuple(map(Path, charts)),
                card=CardOptions(
                    tuple(map(Path, config)),
                    tuple((str(name), str(value)) for name, value in (meta or {}).items()),
                    git,
                ),
                merge=merge,
                in_progress=in_progress,
                language=language(lang),
            ),
            thresholds=None if thresholds is None else Path(thresholds),
            muted=mute,
            form=form,
            progress=progress,
            workers=processes,
        )


def compare(
    base: str | Path | Sequence[str | Path],
    new: str | Path,
    out: str | Path = "comparison",
    *,
    pair_by: str = "prompt",
    fail_on: Collection[str] = (),
    margin: float = 0.0,
    require_evidence: bool = False,
    form: str | None = None,
    title: str | None = None,
    max_size: int | None = None,
    seed: int = 0,
    thresholds: str | Path | None = None,
    redact: bool = False,
    stamp: bool = False,
    to: Sequence[str] = (),
    sender: str | None = None,
    subject: str | None = None,
    github_summary: bool = False,
    lang: str = "en",
    read: ReadOptions | None = None,
    quiet: bool = True,
) -> ComparisonReport:
    """Compares a run with another, or with several seeds of it.

    Args:
        base: logs or an earlier report (folder, zip or one file) of BASE; several are seeds.
        new: the same of NEW.
        out: where the comparison goes; its suffix chooses the form, as in ``build``.
        pair_by: ``prompt`` (its text), ``group`` (the logged group_id), or a further logged field.
        fail_on: what fails the gate: ``worse``, ``guardrail``, ``new-critical``, ``any``.
        margin: loss of reward that the gate lets pass.
        require_evidence: a comparison that shows nothing either way is inconclusive (3).
        form: id of the form, whatever the suffix.
        title: name of the comparison.
        max_size: bytes it may have.
        seed: seed of the resampling.
        thresholds: TOML file with thresholds of the checks.
        redact: leave all text of prompts and responses out.
        stamp: show the time of building.
        to: recipients of the mail form.
        sender: sender of the mail form.
        subject: subject of the mail form.
        github_summary: also append the summary to the job's page on GitHub Actions.
        lang: language of what people read, ``en`` or ``zh``.
        read: how logs are read.
        quiet: say nothing; else progress goes to standard error.

    Returns:
        The comparison, the gate's answer with its exit status, and where it was written.

    Raises:
        RlreportError: a run, an option or the place cannot be used.
    """
    return build_comparison(
        _several(base),
        new,
        destination(out),
        read=read or ReadOptions(),
        figures=FigureOptions(),
        report=ReportOptions(
            title=title,
            max_size=max_size,
            seed=seed,
            redact=_redacts(redact, names=False),
            stamp=stamp,
            mail=MailOptions(tuple(to), sender, subject),
            github_summary=github_summary,
            language=language(lang),
        ),
        pair_by=pair_by,
        fail_on=fail_on,
        margin=margin,
        require_evidence=require_evidence,
        thresholds=None if thresholds is None else Path(thresholds),
        form=form,
        progress=Silent() if quiet else Spoken(),
    )


def index(
    reports: str | Path | Sequence[str | Path],
    out: str | Path = "index.html",
    *,
    title: str = "",
    lang: str = "en",
) -> Index:
    """Lists many reports on one page, a row each; rebuild it whenever one is added.

    Args:
        reports: reports (folder, zip or one file), or folders that hold some.
        out: the page; its links are relative to it.
        title: name of the page, "" for a usual one.
        lang: language of the page, ``en`` or ``zh``.

    Returns:
        Where it is, how many reports it lists, and which could not be read.

    Raises:
        RlreportError: there is nothing at a place, or ``out`` cannot be written.
    """
    return build_index(_several(reports), out, title=title, language=language(lang))


def _several(given: str | Path | Sequence[str | Path]) -> list[str | Path]:
    found = [given] if isinstance(given, str | Path) else list(given)
    if not found:
        raise UsageError("no logs are named: give a file, a folder or a URL")
    return found


def _redacts(redact: object, *, names: bool = True) -> bool:
    known = (False, True, "names") if names else (False, True)
    if redact not in known:
        raise UsageError(f"redact is one of {', '.join(map(repr, known))}, not {redact!r:.40}")
    return bool(redact)
