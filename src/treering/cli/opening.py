"""Opening a session read-only, and reporting its damage on stderr."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ..actors.host.host import SessionHost
from ..actors.host.names import SUFFIX
from ..actors.host.runtime import Limits
from ..actors.session.session import Session
from ..events.disk import OsDisk
from ..events.disk.packed import packed_forms
from ..events.errors import EntryNotFound, InvalidSessionId, NotFound, SessionNotFound, TreeringError
from ..events.health.lines import places
from ..events.kinds import Kind
from .home import Home
from .messages import logs_on_stderr, warn

if TYPE_CHECKING:
    from ..actors.log.open_log import OpenLog

_CACHE_BYTES_MAX = 1024 * 1024
"""The maximum size of cached entries: a command reads each entry once, so a cache would only take memory."""


class _DamageReporter:
    """Reports the damaged lines of one file, each once.

    Args:
        file: The path, as the user gave it.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._reported_to = sys.maxsize

    def report(self, log: OpenLog) -> None:
        """Report the damage so far; later lines are reported by `note_line`."""
        index = log.index
        if index.damaged:
            self._report_lines({seq for seq in range(1, index.head + 1) if index.kinds[seq] == Kind.DAMAGED})
        self._report_tail(log)
        self._reported_to = index.head

    def note_line(self, seq: int) -> None:
        """Report a damaged line that was just read."""
        if seq > self._reported_to:
            self._reported_to = seq
            with suppress(TreeringError, OSError):  # the file may have been replaced, which is reported elsewhere
                self._report_lines({seq})

    def _report_lines(self, seqs: set[int]) -> None:
        for where in places(self._file, seqs).values():
            warn(f"{where}: this line is not a JSON object and was skipped")

    def _report_tail(self, log: OpenLog) -> None:
        with open(self._file, "rb") as file:
            if not file.seek(0, os.SEEK_END):
                return
            file.seek(-1, os.SEEK_END)
            if file.read(1) == b"\n":
                return
            where = places(self._file, {0}).get(0)
            if where is not None:
                file.seek(where.byte or 0)
                if log.dialect.decode(file.read(), log.index.head) is None:
                    warn(f"{where}: the file ends in an unfinished line, which was left out")


@asynccontextmanager
async def opened(file: str, root: str | None = None) -> AsyncGenerator[Session, None]:
    """Open a session read-only, and report its damage.

    Args:
        file: The path of its file; or an id, the beginning of one, a name or `last`.
        root: Where to look up a session that is not given as a path; see `Home.at`.

    Raises:
        OSError: The file does not exist, is not a regular file, or cannot be read.
        TreeringError: The file is not a readable session, or the text matches no session or several.
    """
    home = Home.at(root)
    if home.server is not None:
        async with home.opened() as remote:
            yield await remote.load(await remote.resolve(file), read_only=True)
        return
    if not _is_path(file):
        if not home.is_folder:
            async with home.opened() as host:
                yield await host.load(await host.resolve(file), read_only=True)
            return
        file = await _resolved_path(file, root)
    path, packed = _located(file)
    reporter = None if packed else _DamageReporter(file)  # positions in a compressed file are of no use
    with logs_on_stderr(None if reporter is None else reporter.note_line):
        async with SessionHost(os.path.dirname(path), limits=Limits(cache_bytes_max=_CACHE_BYTES_MAX)) as host:
            session = await host.load(path, read_only=True)
            if reporter is not None:
                reporter.report(await session.log())
            yield session


async def find_entry(session: Session, prefix: str) -> str:
    """Return the id of an entry from its id or a unique prefix of it.

    Raises:
        EntryNotFound: No entry has this id.
        NotFound: Several ids have this prefix.
    """
    index = (await session.log()).index
    if index.find(prefix):
        return prefix
    ids = {each for seq in range(1, index.head + 1) if (each := index.ids[seq]).startswith(prefix) and prefix}
    if len(ids) > 1:
        raise NotFound(f"{len(ids)} entries begin with {prefix!r}: give more of the id")
    if not ids:
        raise EntryNotFound(prefix)
    return ids.pop()


async def find_leaf(session: Session, prefix: str | None) -> int | None:
    """Return the seq of the entry given by `--leaf`, or None without that option; see `find_entry`."""
    if prefix is None:
        return None
    entry_id = await find_entry(session, prefix)
    return (await session.log()).index.find(entry_id)


def _is_path(text: str) -> bool:
    return os.sep in text or text.endswith(SUFFIX) or os.path.isfile(text)


def _is_there(text: str) -> bool:
    return os.path.lexists(text)


async def _resolved_path(text: str, root: str | None) -> str:
    """Resolve a text in a root, and return the path of the session."""
    async with Home.at(root).opened() as host:
        try:
            row = await host.resolve(text)
        except (SessionNotFound, InvalidSessionId):
            if _is_there(text):
                return text  # opening it reports what it is
            raise
    return row.path or row.ref


def _located(file: str) -> tuple[str, bool]:
    """Return the path of a readable file, and whether it is compressed; errors show the path as given."""
    path = os.path.abspath(file)
    if not os.path.lexists(path) and packed_forms(OsDisk(), path):
        return path, True
    status = os.stat(file)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "this is a directory: give the path of a session file", file)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "this is not a regular file: give the path of a session file", file)
    if not status.st_size:
        raise SessionNotFound(f"{file}: the file is empty, so there is nothing to show")
    with open(file, "rb"):
        return path, False
