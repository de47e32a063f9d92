"""opencode: a connection to its database that changes nothing, also not beside it.

SQLite makes files beside a database that has a log, even for those who only read. So a database is read as it lies, with
the promise that nobody writes to it; whether that was kept can be checked after anything was read. Where its log holds
something, both are copied, and the copy is read.
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
_LOG_HEAD = 32  # it is written anew when the log begins anew
_TRIES = 5

_State: TypeAlias = tuple[tuple[int, int], tuple[int, int], bytes]


class Untouched(NamedTuple):
    """A connection, and what raises `sqlite3.OperationalError` where what was read so far may be torn."""

    connection: sqlite3.Connection
    check: Callable[[], None]


@contextmanager
def untouched(path: Path) -> Generator[Untouched]:
    """Connect to all that a database holds.

    Raises:
        sqlite3.Error: It cannot be opened.
        OSError: It cannot be copied.
    """
    path = path.resolve()  # logs lie beside the file itself
    if any(_stamp(_beside(path, end))[1] for end in (_LOG, _JOURNAL)):
        with TemporaryDirectory(prefix="treering-") as folder:
            copy = Path(folder) / path.name
            _copy(path, copy)
            with closing(_connected(copy, "mode=rw")) as connection:
                yield Untouched(connection, lambda: None)
        return
    before = _stamp(path)

    def check() -> None:
        if _stamp(path) != before:
            raise sqlite3.OperationalError("it was written to while it was read: import it again")

    with as_it_lies(path) as connection:
        yield Untouched(connection, check)


@contextmanager
def as_it_lies(path: Path) -> Generator[sqlite3.Connection]:
    """Connect to a database without its log.

    Raises:
        sqlite3.Error: It cannot be opened.
    """
    with closing(_connected(path.resolve(), "immutable=1")) as connection:
        yield connection


def _connected(path: Path, how: str) -> sqlite3.Connection:
    # Whoever asks for the next session may do so from another thread, but never from two at once.
    connection = sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, check_same_thread=False)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _copy(path: Path, to: Path) -> None:
    """Copy a database and its log as they stood at one moment.

    A log that grows meanwhile does no harm, since what is torn off its end is not read. Pages that go over from the log
    into the database do, and so does a log that begins anew.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # opencode ended meanwhile, and its log with it
            before = _state(path)
            copyfile(path, to)
            for end in (_LOG, _JOURNAL):
                _beside(to, end).unlink(missing_ok=True)
                if _stamp(_beside(path, end))[1]:
                    copyfile(_beside(path, end), _beside(to, end))
            if _state(path) == before:
                return
    raise sqlite3.OperationalError("it is written to all the time: import it when opencode is at rest")


def _state(path: Path) -> _State:
    """Return what changes when a copy that is being made is no longer that of one moment."""
    log = _beside(path, _LOG)
    head = b""
    if _stamp(log)[1]:
        with log.open("rb") as file:
            head = file.read(_LOG_HEAD)
    return _stamp(path), _stamp(_beside(path, _JOURNAL)), head


def _beside(path: Path, end: str) -> Path:
    return path.with_name(f"{path.name}{end}")


def _stamp(path: Path) -> tuple[int, int]:
    """Return when a file was last written, and its size; nothing of one that is not there."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (stat.st_mtime_ns, stat.st_size)
