"""Packing a log at rest, and unpacking it again. After a crash at any point, the log exists once and is whole.

To pack a log, the compressed form is written under a temporary name, flushed, read back and compared with the log, and
renamed; then its folder is flushed. Only after that is the log itself removed. Unpacking does the same in the opposite
direction. A crash in between leaves both forms: the log then takes precedence, and its next owner removes the packed
form after checking that the log contains all of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import TypeAlias

from ...disk import Disk, FileStat, flush_file, opened
from ...disk.atomic_files import removed_on_error, write_temporary
from ...disk.packed import PIECE, PackedFile, best_suffix, codec_of, packed_forms, stat_if_exists
from ...errors import Conflict, ExtraMissing, LogDamaged, LogReplaced
from ...telemetry import logger
from ..checks import VIEW

Moved: TypeAlias = Callable[[FileStat, FileStat], None]
"""Notes which files are the log and its packed form, before the one that is made of the other gets its name."""


def pack(disk: Disk, path: str, is_unchanged: Callable[[], bool], moved: Moved) -> None:
    """Replace a log by its packed form.

    Args:
        path: The log, which the caller owns and has flushed: while both forms exist, the log takes precedence, so a
            power cut must not shorten it.
        is_unchanged: Tells whether the file is still as its owner left it.
        moved: Notes where the log is.

    Raises:
        Conflict: Another program appended to the log meanwhile, or there is a packed form with other content.
        OSError: The packed form cannot be written. The log is unchanged.
    """
    if not remove_leftovers(disk, path):
        raise Conflict(
            f"{path} has a packed form beside it with other content: move the packed form away, then archive again"
        )
    packed = path + best_suffix()
    codec = codec_of(packed)
    content = _Content()
    with opened(disk, path) as fd:
        before = disk.fstat(fd)
        size = before.size
        pieces = (disk.pread(fd, min(PIECE, size - at), at) for at in range(0, size, PIECE))

        def refuse_change() -> None:
            if not is_unchanged():
                raise Conflict(f"{path} was changed by another program while it was being archived: archive it again")

        def check(temporary: str) -> None:
            refuse_change()  # a file that was emptied meanwhile has no valid packed form
            if _content_of(disk, temporary, packed) != content:
                raise OSError(errno.EIO, "the file read back differs from what was written", packed)
            refuse_change()
            moved(before, disk.stat(temporary))

        write_checked(disk, packed, (codec.pack(content.add(piece)) for piece in pieces), check)
    disk.unlink(path)
    _remove_checkpoints(disk, path)
    disk.sync_directory(os.path.dirname(path))


def unpack(disk: Disk, path: str, moved: Moved) -> None:
    """Replace a log's packed form by the log; do nothing if it is not packed.

    Args:
        path: The log.
        moved: Notes where the log is.

    Raises:
        LogReplaced: Another program has put a file in the log's place. Both are left unchanged.
        LogDamaged: The packed form is damaged. It is left unchanged.
        ExtraMissing: Reading the packed form needs a package that is not installed.
        OSError: The log cannot be written. The packed form is unchanged.
    """
    forms = packed_forms(disk, path)
    if not forms:
        return
    if stat_if_exists(disk, path) is not None:  # the packed form could not be removed when the log was unpacked
        if not remove_leftovers(disk, path):
            raise _replaced_error(path)
        return
    packed = forms[0]
    with opened(disk, packed) as fd:
        file, before = PackedFile(disk, fd, packed), disk.fstat(fd)
        content = _Content()

        def check(temporary: str) -> None:
            if _content_of(disk, temporary) != content:
                raise OSError(errno.EIO, "the file read back differs from what was written", path)
            if stat_if_exists(disk, path) is not None:
                raise _replaced_error(path)
            moved(disk.stat(temporary), before)

        write_checked(disk, path, (content.add(file.read(PIECE, at)) for at in range(0, file.size, PIECE)), check)
    disk.unlink(packed)
    if len(forms) > 1:  # for example after the folders of two machines were merged
        remove_leftovers(disk, path)
    disk.sync_directory(os.path.dirname(path))


def _replaced_error(path: str) -> LogReplaced:
    return LogReplaced(
        f"{path} was put in the place of the archived session by another program: read it from the start"
    )


def remove_leftovers(disk: Disk, path: str) -> bool:
    """Remove the packed forms that a crash left beside an unpacked log; return False if one has other content."""
    all_removed = True
    forms = packed_forms(disk, path)
    if forms:  # the process that unpacked the log may have been killed before it flushed the log's name
        _flush(disk, path)
    for packed in forms:
        try:
            is_leftover = disk.stat(packed).size == 0 or _begins_with(disk, path, packed)
        except (LogDamaged, ExtraMissing):
            is_leftover = False
        if is_leftover:
            disk.unlink(packed)
        else:
            all_removed = False
            logger().warning("archive_left", path=packed, why="the unpacked session beside it has other content")
    return all_removed


def _flush(disk: Disk, path: str) -> None:
    """Make a log survive a power cut, with its name."""
    flush_file(disk, path)
    disk.sync_directory(os.path.dirname(path))


def remove_packed(disk: Disk, path: str) -> None:
    """Delete the packed forms of a log."""
    for packed in packed_forms(disk, path):
        disk.unlink(packed)


def write_checked(disk: Disk, path: str, parts: Iterable[bytes], check: Callable[[str], None]) -> None:
    """Write a file under a temporary name, check it, and rename it. After a crash it exists whole or not at all.

    Raises:
        OSError: The file cannot be written. It does not exist then.
    """
    temporary = write_temporary(disk, path, parts, sync=True)
    with removed_on_error(disk, temporary):
        check(temporary)
        disk.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path))


class _Content:
    """A content, for comparison."""

    def __init__(self) -> None:
        self._hash = blake2b()

    def add(self, data: bytes) -> bytes:
        """Add the next bytes, and return them."""
        self._hash.update(data)
        return data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self._hash.digest() == other._hash.digest()

    __hash__ = None  # type: ignore[assignment]  # mutable


def _content_of(disk: Disk, path: str, packed: str | None = None) -> _Content:
    """Read a file, or the log that is packed in it. `packed` is the final name of a packed file and tells its codec."""
    content = _Content()
    with opened(disk, path) as fd:
        file = None if packed is None else PackedFile(disk, fd, packed)
        size = disk.fstat(fd).size if file is None else file.size
        for at in range(0, size, PIECE):
            content.add(disk.pread(fd, PIECE, at) if file is None else file.read(PIECE, at))
    return content


def _begins_with(disk: Disk, path: str, packed: str) -> bool:
    """Tell whether a log begins with the whole content of its packed form."""
    with opened(disk, path) as log, opened(disk, packed) as fd:
        file = PackedFile(disk, fd, packed)
        return all(
            file.read(PIECE, at) == disk.pread(log, min(PIECE, file.size - at), at) for at in range(0, file.size, PIECE)
        )


def _remove_checkpoints(disk: Disk, path: str) -> None:
    """Delete the checkpoints of projections beside a log."""
    folder, name = os.path.split(path)
    names = list[str]()
    with suppress(FileNotFoundError):
        names = [each for each in disk.list_directory(folder) if each.startswith(f"{name}.{VIEW}")]
    for file_name in sorted(names):
        with suppress(FileNotFoundError):
            disk.unlink(f"{folder}/{file_name}")
