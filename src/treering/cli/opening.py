"""Opening a session to look at it, and telling on stderr what of it is damaged."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import click

from ..actors.host import SessionHost
from ..actors.naming import SUFFIX
from ..actors.session import Session
from ..events.disk import OsDisk
from ..events.doctor import places
from ..events.errors import EntryNotFound, InvalidSessionId, NotFound, SessionNotFound, TreeringError
from ..events.kinds import Kind
from ..events.stores.files.packed import packed_forms
from .home import Home, session_completion
from .logs import telling_logs, warn

if TYPE_CHECKING:
    from ..actors.open_log import OpenLog

session_file = click.argument(
    "file", metavar="SESSION", type=click.Path(readable=False), shell_complete=session_completion
)
"""The session that a command looks at: the path of its file, or, where no file is there, what a root's session is called."""

leaf_option = click.option(
    "--leaf", metavar="ID", help="Look from this entry instead of the leaf; its first characters do."
)
"""Another leaf than the session's own."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
"""What is asked for in a form for programs."""


class Damage:
    """Tells of the damaged lines of one file, each once.

    Args:
        file: The path, as it was given.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._told = sys.maxsize

    def tell(self, log: OpenLog) -> None:
        """Tell of what is damaged so far; from here on, of each line as it is met."""
        index = log.index
        if index.damaged:
            self._tell({seq for seq in range(1, index.head + 1) if index.kinds[seq] == Kind.DAMAGED})
        self._tell_tail(log)
        self._told = index.head

    def met(self, seq: int) -> None:
        """Tell of a damaged line that was just met."""
        if seq > self._told:
            self._told = seq
            with suppress(TreeringError, OSError):  # the file may be another one by now, which is told elsewhere
                self._tell({seq})

    def _tell(self, seqs: set[int]) -> None:
        for where in places(self._file, seqs).values():
            warn(f"{where}: this line is no JSON object and was skipped")

    def _tell_tail(self, log: OpenLog) -> None:
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
    """Open a session read-only, and tell of its damage.

    Args:
        file: The path of its file; or an id, the beginning of one, a name or `last`.
        root: Where sessions are looked for that are no path; see `Home.at`.

    Raises:
        OSError: It is not there, is no file, or cannot be read.
        TreeringError: It is no session that can be read; no session or several are called so.
    """
    if not _is_path(file):
        file = await _found(file, root)
    path, packed = _located(file)
    damage = None if packed else Damage(file)  # in what is packed, lines have no place that helps anybody
    with telling_logs(None if damage is None else damage.met):
        async with SessionHost(os.path.dirname(path)) as host:
            session = await host.load(path, read_only=True)
            if damage is not None:
                damage.tell(await session.log())
            yield session


async def find_entry(session: Session, given: str) -> str:
    """Return the id of the entry that a text means, which is its id or the unique beginning of one.

    Raises:
        EntryNotFound: No entry has this id.
        NotFound: Several begin like this.
    """
    index = (await session.log()).index
    if index.find(given):
        return given
    found = {each for seq in range(1, index.head + 1) if (each := index.ids[seq]).startswith(given) and given}
    if len(found) > 1:
        raise NotFound(f"{len(found)} entries begin with {given!r}: give more of the id")
    if not found:
        raise EntryNotFound(given)
    return found.pop()


async def find_leaf(session: Session, given: str | None) -> int | None:
    """Return the ordinal of the entry that `--leaf` names, None where it names none; see `find_entry`."""
    if given is None:
        return None
    entry_id = await find_entry(session, given)
    return (await session.log()).index.find(entry_id)


def _is_path(text: str) -> bool:
    return os.sep in text or text.endswith(SUFFIX) or os.path.isfile(text)


def _is_there(text: str) -> bool:
    return os.path.lexists(text)


async def _found(text: str, root: str | None) -> str:
    """Return the path of the session of a root that a text means."""
    async with Home.at(root).opened() as host:
        try:
            row = await host.resolve(text)
        except (SessionNotFound, InvalidSessionId):
            if _is_there(text):
                return text  # whoever opens it says what it is
            raise
    return row.path or row.ref


def _located(file: str) -> tuple[str, bool]:
    """Return the path of a file that can be read, and whether it is packed; errors name it as it was given."""
    path = os.path.abspath(file)
    if not os.path.lexists(path) and packed_forms(OsDisk(), path):
        return path, True
    found = os.stat(file)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "this is a directory: give the path of a session file", file)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "this is no regular file: give the path of a session file", file)
    if not found.st_size:
        raise SessionNotFound(f"{file}: the file is empty, so there is nothing to show yet")
    with open(file, "rb"):
        return path, False
