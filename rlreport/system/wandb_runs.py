"""Copy runs from a server of Weights & Biases to a local folder: ``wandb://ENTITY/PROJECT/RUN``.

W&B's own client (extra ``wandb``) speaks to the server. The copy has the shape of a folder that
W&B writes itself, so that it is read like any other: the history in full resolution, the
configuration, and the tables, such as completions.
"""

from __future__ import annotations

import json
import netrc
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import signature
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import xxhash

from rlreport.errors import MissingExtraError, RlreportError, UsageError
from rlreport.errors import UnusableInputError as Unusable

SCHEME = "wandb://"
_NAME = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f]{1,128}")
_PAGE = 1_000  # rows of the history per request
_TIMEOUT = 60  # seconds per request
_MAX_ROWS = 2_000_000  # rows of a history
_MAX_TABLES = 2_000  # of a run
_NAME_BYTES = 100  # of the name of a run, and of its id
_ENDED = ("finished", "crashed", "failed", "killed")  # states of a run
_TABLE = "table-file"  # type of a table among the values of a row


class WandbPath(NamedTuple):
    """The names in ``wandb://ENTITY/PROJECT/RUN``; ``run`` is "" for a project."""

    entity: str
    project: str
    run: str = ""

    @classmethod
    def of(cls, url: str) -> WandbPath:
        """Return the names in a URL; raise UsageError if it has another form."""
        parts = [unquote(part) for part in url.removeprefix(SCHEME).split("/") if part]
        are_names = all(map(_NAME.fullmatch, parts))
        if not are_names or len(parts) not in (2, 3):
            raise UsageError(
                f"{url:.200}: give {SCHEME}ENTITY/PROJECT/RUN; RUN is the id in the address of "
                "its page"
            )
        return cls(*parts)

    def __str__(self) -> str:
        return SCHEME + "/".join(part for part in self if part)


class WandbRun(NamedTuple):
    """A run on the server; equal ones have the same data."""

    path: WandbPath
    name: str  # with its id, as names are not unique; fit for files
    # what changes with its data, "" while it goes on
    version: str


def is_wandb(path: str | Path) -> bool:
    return isinstance(path, str) and path.startswith(SCHEME)


@contextmanager
def local_copies(
    given: Mapping[str, Sequence[str | Path]],
) -> Iterator[dict[str, list[str | Path]]]:
    """Yield the paths by name, with a local folder in place of each run of W&B.

    The folders are removed at the end.

    Raises:
        UsageError: a path names a project, not a run.
        MissingExtraError: W&B's client is not installed.
        UnusableInputError: the server does not answer, or refuses.
    """
    paths = {name: list(values) for name, values in given.items()}
    if not any(map(is_wandb, chain(*paths.values()))):
        yield paths
        return
    with tempfile.TemporaryDirectory(prefix="rlreport-wandb-") as folder:
        for name, values in paths.items():
            for number, value in enumerate(values):
                if is_wandb(value):
                    # A folder of its own, as two runs may have the same name.
                    place = Path(folder) / f"{name}-{number}"
                    values[number] = copy_run(_run_named(str(value)), place)
        yield paths


def _run_named(url: str) -> WandbPath:
    named = WandbPath.of(url)
    if not named.run:
        raise UsageError(
            f"{named}: is a project; add the id of a run, or list its runs with "
            f"'rlreport index {named}'"
        )
    return named


def runs_at(path: WandbPath, limit: int) -> list[WandbRun]:
    """Return the run that a path names, or the newest of a project, at most ``limit``."""
    place = f"{path.entity}/{path.project}"
    with _answered(path):
        if path.run:
            found: Any = [_client().run(f"{place}/{path.run}")]
        else:
            list_runs = _client().runs
            # Not lazy: configurations and summaries come with the list, not one by one. Older
            # clients know no other way.
            has_lazy = "lazy" in signature(list_runs).parameters
            not_lazy = {"lazy": False} if has_lazy else {}
            found = list_runs(
                place, order="-created_at", per_page=min(limit, 100), **not_lazy
            )
        return [
            WandbRun(path._replace(run=run.id), _name_of(run), _version_of(run))
            for run in islice(found, limit)
        ]


def _name_of(run: Any) -> str:
    return f"{_file_name(run.name)}-{_file_name(run.id)}"


def _version_of(run: Any) -> str:
    """Return what changes with the data of a run that has ended, "" of one that goes on."""
    if run.state not in _ENDED:
        return ""
    # What a server of another version does not tell is the same at each call.
    told = [getattr(run, name, None) for name in ("heartbeatAt", "historyLineCount")]
    facts = [run.name, run.state, told, run.config, dict(run.summary)]
    text = json.dumps(facts, default=str, sort_keys=True)
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


def copy_run(path: WandbPath, folder: Path) -> Path:
    """Copy a run to a new folder in ``folder``, named after the run; return that folder."""
    with _answered(path):
        run = _client().run(f"{path.entity}/{path.project}/{path.run}")
        copy = folder / _name_of(run)
        copy.mkdir(parents=True)
        tables = _write_history(run, copy / "history.jsonl")
        config = {key: value for key, value in run.config.items() if key != "_wandb"}
        if config:
            text = json.dumps(config, default=str)
            (copy / "config.json").write_text(text, "utf-8")
        for name in tables:
            _copy_table(run, name, copy)
    return copy


def _copy_table(run: Any, name: str, folder: Path) -> None:
    """Copy a table of a run; warn if the server does not have it, as the metrics are worth it."""
    try:
        run.file(name).download(root=str(folder), replace=True)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        warnings.warn(f"W&B: table {name!r:.200} not read: {reason}", stacklevel=2)


def _write_history(run: Any, file: Path) -> list[str]:
    """Write the history, a row per line; return the paths of the tables that were logged."""
    tables: dict[str, None] = {}
    with file.open("w", encoding="utf-8") as stream:
        for count, row in enumerate(run.scan_history(page_size=_PAGE)):
            if count == _MAX_ROWS:
                warnings.warn(
                    f"W&B: only the first {_MAX_ROWS:,} rows of the history are read",
                    stacklevel=2,
                )
                break
            tables |= dict.fromkeys(_tables_in(row))
            stream.write(json.dumps(row, default=str) + "\n")
    if len(tables) > _MAX_TABLES:
        warnings.warn(
            f"W&B: only the first {_MAX_TABLES:,} of {len(tables):,} tables are read",
            stacklevel=2,
        )
    return list(tables)[:_MAX_TABLES]


def _tables_in(row: dict[str, Any]) -> Iterator[str]:
    """Yield the path of each table in a row; of one outside the run's folder for media, none."""
    for value in row.values():
        if isinstance(value, dict) and value.get("_type") == _TABLE:
            name = str(value.get("path", ""))
            if name.startswith("media/table/") and ".." not in Path(name).parts:
                yield name


def _file_name(text: str) -> str:
    """Return a part of the name of a folder; of two, no system finds that too long."""
    name = re.sub(r"[^\w.-]+", "-", text or "run").strip("-.").encode()
    return name[:_NAME_BYTES].decode(errors="ignore") or "run"


def _client() -> Any:
    """Return W&B's client, with the key of the environment or of netrc; it never asks for one."""
    try:
        import wandb
    except ImportError:
        raise MissingExtraError(
            "reading runs of W&B by name needs its client: pip install 'rlreport[wandb]'"
        ) from None
    settings = wandb.setup().settings
    address = os.environ.get("WANDB_BASE_URL") or str(settings.base_url)
    key = os.environ.get("WANDB_API_KEY") or _key_in_netrc(address)
    if not key:
        raise Unusable(
            f"no key for {urlsplit(address).hostname}: set WANDB_API_KEY, or run 'wandb login'"
        )
    return wandb.Api({"base_url": address}, timeout=_TIMEOUT, api_key=key)


def _key_in_netrc(address: str) -> str:
    """Return the key that ``wandb login`` stored for a server, "" without one."""
    files = [os.environ.get("NETRC", ""), "~/.netrc", "~/_netrc"]
    for file in filter(None, files):
        with suppress(OSError, netrc.NetrcParseError):
            entry = netrc.netrc(Path(file).expanduser()).authenticators(
                urlsplit(address).hostname or ""
            )
            if entry:
                return entry[2] or ""
    return ""


@contextmanager
def _answered(path: WandbPath) -> Iterator[None]:
    """Convert the client's errors to UnusableInputError, which says what the server answered.

    The client raises many kinds of errors, of the network, of GraphQL and its own.
    """
    try:
        yield
    except RlreportError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        why = words[:200] or type(error).__name__
        raise Unusable(f"{path}: W&B's server does not give this run: {why}") from None
