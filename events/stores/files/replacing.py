"""Replacing and removing whole logs.

A log is replaced atomically: after a crash, either the old or the new one exists, and the old one is kept.

To remove a log permanently, first all copies of its content are deleted, then the log itself. Only the leaf record,
which is meaningless without the log, is removed after it. So as long as any other part of a session exists, the session
is listed and can be deleted again. In the opposite order, a crash would leave copies that no listing shows. The folder
is flushed in between, since a power cut could otherwise keep the copies and remove the log. This is done under every
durability, because a session that was reported as deleted must not come back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain

from ...disk import Disk
from ...disk.atomic_files import removed_on_error, write_temporary
from ...disk.disk import ASIDE
from ...disk.disk_errors import naming_errors
from ...disk.packed import stat_if_exists
from ...errors import AppendInDoubt, Conflict, LogReplaced
from ..base import Cursor, Ref
from ..checks import check_lines
from . import packing
from .log.backups import back_up
from .log.log import Log
from .log.table import CHUNK
from .logs import Logs
from .names import BESIDE, LEAF_SUFFIX, folders_between, make_folders
from .ownership import Ownership

_NUMBERED = re.compile(r"-\d+$")  # appended when a repair moved several files of one name aside


class WholeLogs:
    """The blocking operations on whole logs that are owned, and on which nothing else works meanwhile.

    Args:
        ownership: Keeps journals from restoring what was there before.
    """

    def __init__(self, logs: Logs, ownership: Ownership) -> None:
        self._disk = logs.disk
        self._root = logs.names.root
        self._ownership = ownership

    def put(self, log: Log, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """Write a whole log anew; see `FileStore.put`."""
        self.unpack(log)
        self._ownership.detach_from_journals(log)
        with naming_errors(log.path, "write the session again"):
            head = _put(self._disk, log, header, lines)
        log.unjournaled = False
        return head

    def remove(self, log: Log) -> None:
        """Delete a log with the files beside it; see `FileStore.remove`."""
        with naming_errors(log.path, "delete the session again"):
            self._ownership.detach_from_journals(log)
            remove(self._disk, self._root, log.path)

    def remove_damaged(self, ref: Ref) -> None:
        """Delete what has the place of a log, with the files beside it; see `FileStore.remove_damaged`."""
        with self._ownership.damaged(ref) as log:
            self.remove(log)

    def pack(self, log: Log) -> None:
        """Pack a log; see `FileStore.pack`."""
        if log.header is None or log.packed is not None:
            return
        if log.doubt is not None:
            raise Conflict(f"the content of {log.path} is in doubt: load the session, then archive it")
        with naming_errors(log.path, "archive the session again"):
            self._ownership.detach_from_journals(log)
            self._ownership.flush(log)
            packing.pack(
                self._disk,
                log.path,
                lambda: log.is_as_left(self._disk.stat(log.path)),
                partial(log.keep_generation, self._disk),
            )

    def unpack(self, log: Log) -> None:
        """Unpack a log, if it is packed; see `FileStore.unpack`."""
        if log.packed is not None:
            try:
                with log.naming_errors():
                    packing.unpack(self._disk, log.path, partial(log.keep_generation, self._disk))
            except LogReplaced:
                log.note_unpacked(self._disk)
                raise
            log.note_unpacked(self._disk)


def _put(disk: Disk, log: Log, header: bytes, lines: Iterable[bytes]) -> Cursor:
    """Write a log under a temporary name, rename it, and return its head. An existing log is kept as `.bak`.

    Raises:
        Conflict: Another program appended to the existing log, or replaced it.
        InvalidInput: A line is not whole.
        AppendInDoubt: The log was written, but may not survive a power cut, or cannot be read.
        OSError: The log cannot be written. The existing log is unchanged.
    """
    _check_unchanged(disk, log)
    log.unflushed_folders.put_first(make_folders(disk, os.path.dirname(log.path)))
    with _existing_backed_up(disk, log):
        _replace(disk, log, header, lines)
    flush_error = _error_of(lambda: log.unflushed_folders.flush(disk))
    with suppress(OSError):
        disk.unlink(log.path + LEAF_SUFFIX)
    read_error = _error_of(log.reload_changed)
    log.note_certain()
    if flush_error is not None:
        log.unsynced = True
        doubt = AppendInDoubt(
            f"{log.path} was written, but a power cut may undo that ({flush_error.strerror or flush_error}): "
            "check the disk, then repeat the call"
        )
        log.note_background_doubt(doubt)  # so that the next append flushes the folders first
        raise doubt from flush_error
    if read_error is not None:
        raise AppendInDoubt(
            f"{log.path} was written, but cannot be read ({read_error.strerror or read_error}): "
            "check the disk, read the session again, then repeat the call"
        ) from read_error
    return log.head


def _error_of(step: Callable[[], None]) -> OSError | None:
    """Take a step after the log was replaced, and return its disk error: what follows it has to be done anyway."""
    try:
        step()
    except OSError as error:
        return error
    return None


def _replace(disk: Disk, log: Log, header: bytes, lines: Iterable[bytes]) -> None:
    temporary = write_temporary(disk, log.path, chain((header,), _parts(lines)), sync=True)
    with removed_on_error(disk, temporary):
        _check_unchanged(disk, log)
        disk.rename(temporary, log.path)


@contextmanager
def _existing_backed_up(disk: Disk, log: Log) -> Generator[None]:
    """Copy the existing log, if there is one that is not empty, to a backup, which is deleted if the block raises."""
    with ExitStack() as stack:
        if log.size:
            with suppress(FileNotFoundError), log.opened(os.O_RDONLY) as fd:
                stack.enter_context(removed_on_error(disk, back_up(disk, log.path, fd, log.size)))
        yield


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into chunks, and check them."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if size >= CHUNK:
            check_lines(part)
            yield b"".join(part)
            part, size = [], 0
    check_lines(part)
    if part:
        yield b"".join(part)


def _check_unchanged(disk: Disk, log: Log) -> None:
    """Make sure that the replacement does not lose lines that the caller has not seen."""
    try:
        stat = disk.stat(log.path)
    except FileNotFoundError:
        return
    if stat.size and not log.is_as_left(stat):
        raise Conflict(f"{log.path} was changed by another program: read it again, then retry")


def remove(disk: Disk, root: str, path: str) -> None:
    """Delete a log, all copies of its content, and the files beside it.

    Args:
        root: The root of the store.
        path: The real path of the log, under the root or elsewhere.

    Raises:
        OSError: A file cannot be deleted. The log still exists.
    """
    folder, name = os.path.split(path)
    for copies_folder in _folders_of_copies(root, path):
        _remove_copies(disk, copies_folder, name)
        _flush_names(disk, copies_folder)
    packing.remove_packed(disk, path)  # before the log: an older packed form would take its place after a crash
    with suppress(FileNotFoundError):
        disk.unlink(path)
    if stat_if_exists(disk, leaf := path + LEAF_SUFFIX) is not None:
        disk.unlink(leaf)
    _flush_names(disk, folder)


def _folders_of_copies(root: str, path: str) -> list[str]:
    """Return the folders with copies of a log: its own, and those where a repair of it or of a parent moves them."""
    own_folder = os.path.dirname(path)
    top = root if path.startswith(root.rstrip("/") + "/") else own_folder
    repairable = folders_between(top, path)
    return [
        own_folder,
        *(os.path.normpath(os.path.join(each, ASIDE, os.path.relpath(own_folder, each))) for each in repairable),
    ]


def _flush_names(disk: Disk, folder: str) -> None:
    """Make the removal of names survive a power cut."""
    with suppress(FileNotFoundError):
        disk.sync_directory(folder)


def _remove_copies(disk: Disk, folder: str, name: str) -> None:
    """Delete all files beside a log in a folder, except the log, its packed form and its leaf record.

    These are the fragments and backups of the log, unfinished temporary files, and derived files. A folder that does
    not exist is treated as empty.

    Args:
        name: The file name of the log.
    """
    try:
        names = disk.list_directory(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for file_name in names:
        if file_name in (name, name + LEAF_SUFFIX) or not file_name.startswith(name):
            continue
        if BESIDE.fullmatch(file_name, len(name)) or BESIDE.fullmatch(_NUMBERED.sub("", file_name), len(name)):
            with suppress(FileNotFoundError):
                disk.unlink(os.path.join(folder, file_name))
