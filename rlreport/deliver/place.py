"""Puts a finished report in its place whole, or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rlreport.deliver.form import Form
from rlreport.deliver.ownership import (
    carry_over,
    is_report_file,
    keep_unchanged,
    picture_files,
    report_files,
)
from rlreport.errors import OutputError

try:
    import fcntl
except ImportError:  # no POSIX: leftovers of killed builds stay, builds do not wait for another
    fcntl = None  # type: ignore[assignment]

PICTURES = "_files"
"""What the folder of pictures beside a file is called: ``run.md`` has ``run_files``."""

_PART = ".part"
_PARTS = ("new", "old")
_LOCK = "lock"


def pictures_of(out: Path) -> Path:
    """The folder of pictures that belongs to the file ``out``."""
    return out.with_name(out.stem + PICTURES)


def destination(out: Path, form: Form) -> Path:
    """Where a report for ``out`` is written: what a link leads to, else ``out`` itself.

    Raises:
        OutputError: ``out`` can hold no report, or holds something that is not ours to replace.
    """
    try:
        return _checked(out, form)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {_reason(error)}") from error
    except ValueError as error:  # a NUL in the name
        raise OutputError(f"{out}: is no name for a file") from error


def _checked(out: Path, form: Form) -> Path:
    if out.is_symlink() and not out.exists():
        raise OutputError(f"{out}: is a broken link; remove it or choose another place")
    if out.exists() and not out.is_dir() and not out.is_file():
        raise OutputError(f"{out}: is a device, a pipe or a socket; name a file, or '-o -'")
    if out.is_symlink() or out.name in ("", ".."):
        out = out.resolve()
    if not out.name:
        raise OutputError(f"{out}: is no place for a report; name a file or a folder to make")
    if form.pictures and (beside := pictures_of(out)).exists():
        if not _is_folder(beside):
            raise OutputError(f"{beside}: is not a folder; choose another name than {out}")
        ours = picture_files(beside, out)
        names = [entry.name for entry in beside.iterdir()]
        if names and not any(map(ours, names)):
            raise OutputError(f"{beside}: holds other files; choose another name than {out}")
    if not out.exists():
        return out
    if form.folder:
        if not out.is_dir():
            raise OutputError(f"{out}: is a file; give a folder, or a suffix that names a form")
        if Path.cwd().is_relative_to(out.resolve()):
            raise OutputError(f"{out}: is the current folder; name a folder to make")
        if any(out.iterdir()) and not report_files(out):
            raise OutputError(
                f"{out}: holds files that are not a report of rlreport; choose another folder"
            )
    elif out.is_dir():
        raise OutputError(f"{out}: is a folder; choose another name")
    elif not is_report_file(out):
        raise OutputError(f"{out}: is not a report of rlreport; choose another name or remove it")
    return out


@contextmanager
def staged(out: Path, form: Form) -> Iterator[Path]:
    """Yields a fresh path; on success what was written there takes OUT's place, else it vanishes.

    The path has OUT's own name and lies alone in a hidden folder beside OUT. Whatever the form
    writes next to it (its pictures) is moved together with it. Files of others in a folder that
    is replaced are there again in the new one.

    Args:
        out: where the report goes; its parent is made when missing.
        form: its form.

    Raises:
        OutputError: the place holds something that is not ours to replace, or cannot be written.
    """
    out = destination(out, form)
    made: list[Path] = []
    done = False
    try:
        with ExitStack() as stack:
            _make_parents(out.parent, made)
            holder = stack.enter_context(_holder(out))
            new = holder / "new"
            place = new / out.name
            if form.folder:
                place.mkdir()
            yield place
            stack.enter_context(_alone(out.parent))
            _carry_all(out, new, form)
            if form.folder:
                keep_unchanged(out, place)
            _swap(new, out, holder / "old")
            done = True
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {_reason(error)}") from error
    finally:
        if not done:
            _remove_empty(made)


def size_of(place: Path) -> int:
    """Bytes of a file and of its pictures, or of all files of a folder."""
    if not place.is_file():
        return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return place.stat().st_size + size_of(pictures_of(place))


@contextmanager
def _holder(out: Path) -> Iterator[Path]:
    """A hidden folder beside OUT, locked while in use; leftovers of killed builds go first."""
    prefix = f".{out.name[:40]}."
    _remove_leftovers(out, prefix)
    # Named before it is made: an interrupt in between finds it all the same.
    holder = out.parent / f"{prefix}{secrets.token_hex(8)}{_PART}"
    try:
        holder.mkdir(mode=0o700)
        for part in _PARTS:
            (holder / part).mkdir()
        with (holder / "lock.new").open("wb") as lock:
            # Locked before it has its name: a lock that can be had is that of a killed build.
            if fcntl:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    (holder / "lock.new").rename(holder / _LOCK)
            yield holder
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def _remove_leftovers(out: Path, prefix: str) -> None:
    """Removes what killed builds left beside OUT; an old report they had moved away is put back."""
    names = {out.name, pictures_of(out).name}
    for holder in out.parent.glob("*" + _PART):
        if not holder.name.startswith(prefix) or holder.is_symlink() or not fcntl:
            continue
        held = {path.name for part in ("new", "old") for path in holder.glob(f"{part}/*")}
        with suppress(OSError), (holder / _LOCK).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if held <= names and {p.name for p in holder.iterdir()} <= {*_PARTS, _LOCK}:
                for kept in (holder / "old").iterdir():
                    if not os.path.lexists(out.with_name(kept.name)):
                        kept.rename(out.with_name(kept.name))
                shutil.rmtree(holder, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits until no other build moves its report into ``folder``."""
    if not fcntl:
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _carry_all(out: Path, new: Path, form: Form) -> None:
    """Brings other people's files in what is replaced into what replaces it."""
    destination(out, form)  # which may have changed since the build began
    if form.folder and out.exists():
        carry_over(out, new / out.name, report_files(out) or (lambda path: False))
    beside = pictures_of(out)
    if form.pictures and beside.exists():
        (new / beside.name).mkdir(exist_ok=True)
        carry_over(beside, new / beside.name, picture_files(beside, out))


def _swap(new: Path, out: Path, old: Path) -> None:
    """Moves everything in ``new`` beside ``out``, ``out`` itself last; puts back what it can."""
    # The main file goes last: until then the old report still stands with its own name.
    parts = sorted(new.iterdir(), key=lambda part: (part.name == out.name, part.name))
    moved: list[Path] = []
    try:
        for part in parts:
            target = out.with_name(part.name)
            if part.is_dir() and target.exists():
                target.replace(old / part.name)
            moved.append(target)
            part.replace(target)
    except OSError:
        for target in moved:
            kept = old / target.name
            if kept.exists():
                if target.exists():
                    target.replace(new / target.name)
                kept.replace(target)
        raise
    # The holder is private; the report is for whoever may read the place.
    mask = os.umask(0)
    os.umask(mask)
    for target in moved:
        target.chmod((0o777 if target.is_dir() else 0o666) & ~mask)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _make_parents(folder: Path, made: list[Path]) -> None:
    """Makes a folder and its parents; ``made`` gets those that were missing, the deepest last."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for parent in reversed(missing):
        parent.mkdir()
        made.append(parent)


def _remove_empty(folders: list[Path]) -> None:
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
