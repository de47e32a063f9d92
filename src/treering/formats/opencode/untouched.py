"""opencode: a connection to its database that changes neither the database nor the files beside it.

SQLite creates files beside a database that has a log, even when it only reads. A database is therefore opened as
immutable, and callers can check afterwards that it did not change while they read. If its log is not empty, both are
copied, and the copy is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

_LOG, _JOURNAL = "-wal", "-journal"
_LOG_HEAD = 32  # rewritten when the log restarts
_TRIES = 5

_State: TypeAlias = tuple[tuple[int, int], tuple[int, int], bytes]


class UnmodifiedDatabase(NamedTuple):
    """A connection, and a check that raises `sqlite3.OperationalError` if data read so far may be inconsistent."""

    connection: sqlite3.Connection
    check: Callable[[], None]


@contextmanager
def open_unmodified(path: Path) -> Generator[UnmodifiedDatabase]:
    """Connect to a database, including the content of its log.

    Raises:
        sqlite3.Error: The database cannot be opened.
        OSError: The database cannot be copied.
    """
    path = path.resolve()  # logs are beside the file itself, not beside a link to it
    if any(_stamp(_beside(path, end))[1] for end in (_LOG, _JOURNAL)):
        with TemporaryDirectory(prefix="treering-") as folder:
            copy = Path(folder) / path.name
            _copy(path, copy)
            with closing(_connect(copy, "mode=rw")) as connection:
                yield UnmodifiedDatabase(connection, lambda: None)
        return
    before = _stamp(path)

    def check() -> None:
        if _stamp(path) != before:
            raise sqlite3.OperationalError("it was modified while it was read: import it again")

    with open_without_log(path) as connection:
        yield UnmodifiedDatabase(connection, check)


@contextmanager
def open_without_log(path: Path) -> Generator[sqlite3.Connection]:
    """Connect to a database without reading its log.

    Raises:
        sqlite3.Error: The database cannot be opened.
    """
    with closing(_connect(path.resolve(), "immutable=1")) as connection:
        yield connection


def _connect(path: Path, uri_options: str) -> sqlite3.Connection:
    # The next session may be requested from another thread, but never from two at once.
    connection = sqlite3.connect(f"{path.as_uri()}?{uri_options}", uri=True, check_same_thread=False)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _copy(path: Path, target: Path) -> None:
    """Copy a consistent state of a database and its log, trying again if they change during the copy.

    A log that grows during the copy is harmless, since SQLite ignores its incomplete end. A checkpoint, which moves
    pages from the log into the database, is not, and neither is a log that restarts.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # opencode exited during the copy, which removed its log
            before = _state(path)
            copyfile(path, target)
            for end in (_LOG, _JOURNAL):
                _beside(target, end).unlink(missing_ok=True)
                if _stamp(_beside(path, end))[1]:
                    copyfile(_beside(path, end), _beside(target, end))
            if _state(path) == before:
                return
    raise sqlite3.OperationalError("it is modified all the time: import it when opencode is idle")


def _state(path: Path) -> _State:
    """Return a value that changes if a copy in progress becomes inconsistent."""
    log = _beside(path, _LOG)
    head = b""
    if _stamp(log)[1]:
        with log.open("rb") as file:
            head = file.read(_LOG_HEAD)
    return _stamp(path), _stamp(_beside(path, _JOURNAL)), head


def _beside(path: Path, end: str) -> Path:
    return path.with_name(f"{path.name}{end}")


def _stamp(path: Path) -> tuple[int, int]:
    """Return the modification time and size of a file; zeros if it does not exist."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)
