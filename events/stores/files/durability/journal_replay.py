"""The replay of journals whose hosts have ended, to restore what a power cut removed from session files.

Before a session is owned, the `.treering/journal` folders from its own folder upwards are checked. A journal whose lock
is free is replayed, under its lock and those of its sessions: see `restoration`. Then the folders are flushed, and the
journal is dropped. All of this can be interrupted at any point and repeated. If a session is owned by another program
or cannot be written, its journal is kept until it is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

from msgspec import Struct, field

from ....disk import Disk
from ....disk.disk_errors import naming_errors
from ....disk.packed import stat_if_exists
from ....errors import Conflict, SessionLocked, TreeringError
from ....telemetry import logger
from ..locks import Held, Locks
from ..names import folders_between
from . import journal
from .journal import JOURNALS, StoredRecord, read_voids, void
from .restoration import Restoration

_STEP_S = 0.001
_TIMEOUT_S = 60.0


class _DeadJournal(Struct, eq=False):
    """A journal whose host has ended, with its lock; `fd` is open for reading.

    Attributes:
        pending: The paths of the sessions that could not be restored.
        readable: Whether its version is known.
    """

    path: str
    held: Held
    fd: int
    pending: set[str] = field(default_factory=set[str])
    readable: bool = True

    @property
    def is_restored(self) -> bool:
        """Whether everything in it was restored, so that it can be dropped."""
        return self.readable and not self.pending


class _KeptJournal(NamedTuple):
    """A journal that could not be dropped, as it was then, and the paths of the sessions that are still pending."""

    inode: int
    size: int
    pending: set[str]


class JournalReplay:
    """The replay of journals for one store. Its methods block, and may be called from any thread.

    Args:
        locks: Tell which hosts are alive, and lock the sessions during the replay.
        own: The paths of this store's own journals.
    """

    def __init__(self, disk: Disk, locks: Locks, own: Collection[str]) -> None:
        self._disk = disk
        self._locks = locks
        self._own = own
        self._kept: dict[str, _KeptJournal] = {}  # by path

    # -- what the store calls

    def before(self, path: str) -> None:
        """Replay the journals that may hold records of a session, before it is owned.

        Raises:
            Conflict: Another host has been replaying for a minute.
            LogError: The session has records, and its file is not a session.
            OSError: The session has records, and its file cannot be written.
        """
        self._replay_folders(_folders_above(path), path)

    def may_restore(self, path: str) -> bool:
        """Tell whether there are journals that may hold records of a session."""
        return any(journal.journals_in(self._disk, folder) for folder in _folders_above(path))

    def under(self, root: str) -> None:
        """Replay the journals of a root before its sessions are listed; sessions that cannot be written stay pending.

        Raises:
            Conflict: Another host has been replaying for a minute.
            OSError: A journal cannot be read.
        """
        self._replay_folders(_folders_above(os.path.join(root, JOURNALS)), None)

    def _replay_folders(self, folders: Iterable[str], required: str | None) -> None:
        """Replay the journals in some folders; a failure is raised only for the session `required`."""
        for folder in folders:
            journals = [each for each in journal.journals_in(self._disk, folder) if each not in self._own]
            if any(self._concerns(each, required) for each in journals):
                with self._exclusively(f"{folder}/replay"):
                    self._replay(folder, journals, required)

    def void(self, path: str) -> None:
        """Void the records of a session in all journals; the caller must own the session."""
        for folder in _folders_above(path):
            root = folder.removesuffix(JOURNALS)
            for each in journal.journals_in(self._disk, folder):
                void(self._disk, each, path.removeprefix(root))

    # -- selecting journals

    def _concerns(self, journal_path: str, path: str | None) -> bool:
        """Tell whether a journal has to be replayed; one that was kept is only needed for its pending sessions."""
        kept = self._kept.get(journal_path)
        if kept is None:
            return True
        stat = stat_if_exists(self._disk, journal_path)
        return stat is None or (kept.inode, kept.size) != (stat.inode, stat.size) or path in kept.pending

    @contextmanager
    def _exclusively(self, name: str) -> Generator[None]:
        """Keep other hosts from replaying the journals of a folder; they wait until this replay is done."""
        deadline = time.monotonic() + _TIMEOUT_S
        while isinstance(held := self._locks.take(name), SessionLocked):
            if time.monotonic() > deadline:
                raise Conflict(f"{os.path.dirname(name)} is being replayed by another host: try again later")
            time.sleep(_STEP_S)
        try:
            yield
        finally:
            self._locks.give_back(held)

    def _replay(self, folder: str, journals: Sequence[str], required: str | None) -> None:
        dead: list[_DeadJournal] = []
        try:
            for path in journals:
                held = self._locks.take(path)
                if isinstance(held, SessionLocked):
                    continue  # its host is alive
                try:
                    fd = self._disk.open(path, os.O_RDONLY)
                except BaseException as error:
                    self._locks.give_back(held)
                    if isinstance(error, FileNotFoundError):
                        continue
                    raise
                dead.append(_DeadJournal(path, held, fd))
            if dead:
                self._restore_sessions(folder, dead, required)
        finally:
            for each in dead:
                with suppress(OSError):
                    self._disk.close(each.fd)
                self._locks.give_back(each.held)

    # -- restoring the sessions of journals

    def _restore_sessions(self, folder: str, dead: Sequence[_DeadJournal], required: str | None) -> None:
        sessions: dict[str, list[tuple[_DeadJournal, StoredRecord]]] = {}
        for each in dead:
            for path, record in self._valid_records(folder, each):
                sessions.setdefault(path, []).append((each, record))
        folders: set[str] = set()
        for path, records in sessions.items():
            if self._restore_session(path, [record for _, record in records], required):
                # The process that created a folder may have been killed before it flushed the folder's name.
                folders.update(folders_between(os.path.dirname(folder.removesuffix(JOURNALS)), path))
            else:
                for each, _ in records:
                    each.pending.add(path)
        for parent in sorted(folders):
            with suppress(FileNotFoundError):  # nothing was restored for a session without usable records
                self._disk.sync_directory(parent)
        for each in dead:
            if each.is_restored:
                self._kept.pop(each.path, None)
            else:
                stat = self._disk.fstat(each.fd)
                self._kept[each.path] = _KeptJournal(stat.inode, stat.size, each.pending)
        journal.drop(self._disk, [each.path for each in dead if each.is_restored])
        logger().info("journals_replayed", journals=len(dead), sessions=len(sessions))

    def _valid_records(self, folder: str, dead: _DeadJournal) -> Iterator[tuple[str, StoredRecord]]:
        """Yield the valid records of a journal, with the paths of their sessions."""
        disk, root = self._disk, folder.removesuffix(JOURNALS)
        with naming_errors(dead.path):
            header, line = journal.read_header(disk, dead.fd)
        if header is None:
            dead.readable = not line  # without a line, its creation was never completed, and it was never used
            if line:
                logger().warning("journal_unknown", journal=dead.path)
            return
        void_until = read_voids(disk, dead.path, line)
        for record in journal.read_records(disk, dead.fd, line):
            if record.at > void_until[record.name]:
                yield root + record.name, record

    def _restore_session(self, path: str, records: list[StoredRecord], required: str | None) -> bool:
        """Restore one session; return False if that has to wait."""
        held = self._locks.take(path)
        if isinstance(held, SessionLocked):
            logger().info("replay_waits", ref=path, why="the session is owned", holder=held.pid)
            return False
        try:
            Restoration(self._disk, path, records).run()
        except (OSError, TreeringError) as error:
            if path == required:
                raise
            logger().warning("replay_waits", ref=path, why=str(error))
            return False
        finally:
            self._locks.give_back(held)
        return True


def _folders_above(path: str) -> tuple[str, ...]:
    """Return the folders whose journals may have records of a file."""
    return _folders_from(os.path.dirname(path))


@lru_cache(maxsize=4096)
def _folders_from(directory: str) -> tuple[str, ...]:
    return tuple(os.path.join(each, JOURNALS) for each in map(str, (directory, *PurePath(directory).parents)))
