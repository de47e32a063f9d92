"""The files in which the programs of this machine keep sessions: found, and looked at, by blocking calls."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from os import scandir
from pathlib import Path
from typing import NamedTuple

from ...events.errors import ForeignFormatError, TreeringError, Where
from ...formats.base import Format
from ...formats.glances import Glance, glances
from ...formats.opening import cannot_read
from ...formats.programs import formats

_DATABASE = ".db"
_LOG_OF_DATABASE = "-wal"


class SessionFile(NamedTuple):
    """A file that may hold sessions.

    Attributes:
        path: Where it is.
        format: The format of its program.
        changed_ns: When it was modified.
        stamp: Its size and times, which change with it.
    """

    path: Path
    format: Format
    changed_ns: int
    stamp: tuple[int, ...]


class Home(NamedTuple):
    """A program's folder.

    Attributes:
        folder: Where the program keeps its files.
        format: The format of its files.
    """

    folder: Path
    format: Format


class Looked(NamedTuple):
    """What was seen in a file.

    Attributes:
        file: The file.
        sessions: How its sessions begin and end, of a database only of those that changed.
        ids: The ids of all sessions that a database holds, also of those that did not change or cannot be read.
        error: Why it could not be read.
        is_gone: Whether it does not exist any more.
        cost_s: How long it took.
    """

    file: SessionFile
    sessions: tuple[Glance, ...]
    ids: frozenset[str]
    error: TreeringError | None
    is_gone: bool
    cost_s: float


def homes_of(environ: Mapping[str, str], programs: Sequence[str]) -> list[Home]:
    """Return the folders of all programs, or of these."""
    found = ((each.folder(environ), each) for each in formats() if not programs or each.name in programs)
    return [Home(folder, each) for folder, each in found if folder is not None]


class Search:
    """One search of all folders.

    Args:
        homes: The programs' folders.

    Attributes:
        files: The files that may hold sessions.
        unreadable: The folders that cannot be listed, and why.
        watched: Whose changes are to be told: what is in the folders, those with the latest changes first, and then
            what would lead to the folders that are missing.
    """

    def __init__(self, homes: Iterable[Home]) -> None:
        self.files: dict[Path, SessionFile] = {}
        self.unreadable: dict[str, str] = {}
        self._latest_ns: dict[str, int] = {}
        for home in homes:
            if os.path.isdir(home.folder):
                self._search(home)
            else:
                self._latest_ns[str(_topmost_missing(home.folder))] = 0
        self.watched = sorted(self._latest_ns, key=lambda each: self._latest_ns[each], reverse=True)

    def _search(self, home: Home) -> None:
        pending = [home.folder]
        while pending:
            folder = pending.pop()
            latest_ns = 1
            try:
                contents = [*_contents(folder)]
            except FileNotFoundError:  # it vanished
                continue
            except OSError as error:
                self.unreadable[str(folder)] = error.strerror or str(error)
                continue
            for path, is_folder in contents:
                if not home.format.may_hold(home.folder, path, is_folder=is_folder):
                    continue
                if is_folder:
                    pending.append(path)
                elif (file := look_up(home, path)) is not None:
                    self.files[path] = file
                    latest_ns = max(latest_ns, file.changed_ns)
            self._latest_ns[f"{folder}/"] = latest_ns


def look_up(home: Home, path: Path) -> SessionFile | None:
    """Return a file as it is now; None if it is none, or not there."""
    stamp: list[int] = []
    try:
        for name in (path, path.with_name(path.name + _LOG_OF_DATABASE)) if path.suffix == _DATABASE else (path,):
            if name == path or name.exists():
                status = name.stat()
                stamp += [status.st_mtime_ns, status.st_size, status.st_ino]
        return SessionFile(path, home.format, max(stamp[::3]), tuple(stamp)) if path.is_file() else None
    except OSError:
        return None


def look_at(files: Sequence[tuple[SessionFile, datetime | None]]) -> list[Looked]:
    """Look at files; of one with many sessions, only at those in which something happened from a time on."""
    return [_looked(file, since) for file, since in files]


def _looked(file: SessionFile, since: datetime | None) -> Looked:
    started = time.monotonic()
    sessions: tuple[Glance, ...] = ()
    ids: frozenset[str] = frozenset()
    error: TreeringError | None = None
    is_gone = False
    try:
        found = [*glances(file.format, file.path, since)]
        sessions = tuple(each for each in found if not isinstance(each, str))
        ids = frozenset(each for each in found if isinstance(each, str))
    except FileNotFoundError:
        is_gone = True
    except OSError as failure:
        error = cannot_read(failure, file.path)
    except TreeringError as failure:
        error = failure
    except Exception as failure:  # noqa: BLE001  # whatever the code of another package raises: others go on
        error = ForeignFormatError(f"the format {file.format.name!r} failed: {failure!r}", where=Where(str(file.path)))
    if error is not None and not os.path.lexists(file.path):
        error, is_gone = None, True
    return Looked(file, sessions, ids, error, is_gone, time.monotonic() - started)


def _topmost_missing(folder: Path) -> Path:
    missing = folder
    while not os.path.isdir(missing.parent):
        missing = missing.parent
    return missing


def _contents(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield what is in a folder, and whether it is a folder; links to folders are not followed."""
    with scandir(folder) as items:
        for item in items:
            is_folder = item.is_dir(follow_symlinks=False)
            if is_folder or item.is_file():
                yield folder / item.name, is_folder
