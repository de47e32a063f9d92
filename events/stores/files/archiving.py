"""Packing a log that is at rest, and unpacking it again: after a crash at any point, it is there, once and whole.

To pack, the compressed form is written under another name, flushed, read back and compared with the log, renamed, and its
folder flushed. Only then is the log itself removed. Unpacking is the same the other way round. So at one point both
forms are there: then the log counts, and not its packed form, and the next owner removes that one once it has
seen that nothing stands there that is not in the log as well.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from zlib import crc32

from ...disk import Disk
from ...errors import Conflict, ExtraMissing, LogDamaged
from ...telemetry import logger
from . import beside
from .beside import flush_file, open_temporary, write_all
from .codecs import best_suffix, codec_of
from .packed import PIECE, PackedFile, packed_forms


def pack(disk: Disk, path: str, same: Callable[[], bool]) -> None:
    """Replace a log by its packed form.

    Args:
        disk: The disk.
        path: The log, which the caller owns.
        same: Tells whether the file is still as its owner knows it.

    Raises:
        Conflict: Another program appended to it meanwhile, or a packed form is there that is another session's.
        OSError: The packed form cannot be written; the log is as it was.
    """
    if not remove_leftovers(disk, path):
        raise Conflict(f"{path} has a packed form beside it that says otherwise: move that away, then archive again")
    packed = path + best_suffix()
    codec = codec_of(packed)
    content = _Content()
    _flush(disk, path)  # while both forms are there, this one counts: it must not have lost anything then
    fd = disk.open(path, os.O_RDONLY)
    try:
        size = disk.fstat(fd).size
        whole = (disk.pread(fd, min(PIECE, size - at), at) for at in range(0, size, PIECE))

        def check(temporary: str) -> None:
            if _content_of(disk, temporary, packed) != content:
                raise OSError(errno.EIO, "the disk does not give back what was written", packed)
            if not same():
                raise Conflict(f"{path} was changed by another program while it was archived: archive it again")

        write_whole(disk, packed, (codec.pack(content.take(piece)) for piece in whole), check)
    finally:
        disk.close(fd)
    disk.unlink(path)
    beside.remove_derived(disk, path)
    disk.sync_directory(os.path.dirname(path))


def unpack(disk: Disk, path: str) -> None:
    """Replace a log's packed form by the log; nothing happens where it is not packed.

    Raises:
        LogDamaged: The packed form is damaged; it was left as it is.
        ExtraMissing: Reading it needs a package that is not installed.
        OSError: The log cannot be written; the packed form is as it was.
    """
    forms = packed_forms(disk, path)
    if not forms:
        return
    packed = forms[0]
    fd = disk.open(packed, os.O_RDONLY)
    try:
        file = PackedFile(disk, fd, packed)
        content = _Content()

        def check(temporary: str) -> None:
            if _content_of(disk, temporary) != content:
                raise OSError(errno.EIO, "the disk does not give back what was written", path)

        write_whole(disk, path, (content.take(file.read(PIECE, at)) for at in range(0, file.size, PIECE)), check)
    finally:
        disk.close(fd)
    disk.unlink(packed)
    if len(forms) > 1:  # as when folders of two machines were brought together
        remove_leftovers(disk, path)
    disk.sync_directory(os.path.dirname(path))


def remove_leftovers(disk: Disk, path: str) -> bool:
    """Remove packed forms of a log that is there, as a crash leaves them; False where one holds something else.

    Raises:
        OSError: The disk refuses.
    """
    alone = True
    forms = packed_forms(disk, path)
    if forms:  # whoever unpacked the log may have been killed before its name was flushed
        _flush(disk, path)
    for packed in forms:
        try:
            is_left = disk.stat(packed).size == 0 or _begins_with(disk, path, packed)
        except (LogDamaged, ExtraMissing):
            is_left = False
        if is_left:
            disk.unlink(packed)
        else:
            alone = False
            logger().warning("archive_left", path=packed, why="the session is there unpacked, and says otherwise")
    return alone


def _flush(disk: Disk, path: str) -> None:
    """Make a log survive a power cut, its name included."""
    flush_file(disk, path)
    disk.sync_directory(os.path.dirname(path))


def remove_packed(disk: Disk, path: str) -> None:
    """Delete the packed forms of a log."""
    for packed in packed_forms(disk, path):
        disk.unlink(packed)


def write_whole(disk: Disk, path: str, parts: Iterable[bytes], check: Callable[[str], None]) -> None:
    """Write a file under another name, have that one checked, and rename it; after a crash it is there whole or not at all.

    Raises:
        OSError: It cannot be written, and is not there.
    """
    fd, temporary = open_temporary(disk, path)
    try:
        try:
            for part in parts:
                write_all(disk, fd, part)
            disk.datasync(fd)
        finally:
            disk.close(fd)
        check(temporary)
        disk.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            disk.unlink(temporary)
        raise
    disk.sync_directory(os.path.dirname(path))


class _Content:
    """What tells one content from another: its size and its checksum."""

    def __init__(self) -> None:
        self._size = 0
        self._crc = 0

    def take(self, data: bytes) -> bytes:
        """Take in the next bytes, and return them."""
        self._size += len(data)
        self._crc = crc32(data, self._crc)
        return data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and (self._size, self._crc) == (other._size, other._crc)

    __hash__ = None  # type: ignore[assignment]  # it changes


def _content_of(disk: Disk, path: str, packed: str | None = None) -> _Content:
    """Read a file, or what is packed in it; `packed` is then the name that it will have."""
    content = _Content()
    fd = disk.open(path, os.O_RDONLY)
    try:
        file = None if packed is None else PackedFile(disk, fd, packed)
        size = disk.fstat(fd).size if file is None else file.size
        for at in range(0, size, PIECE):
            content.take(disk.pread(fd, PIECE, at) if file is None else file.read(PIECE, at))
    finally:
        disk.close(fd)
    return content


def _begins_with(disk: Disk, path: str, packed: str) -> bool:
    """Tell whether a log begins with all that its packed form holds."""
    log = disk.open(path, os.O_RDONLY)
    try:
        fd = disk.open(packed, os.O_RDONLY)
        try:
            file = PackedFile(disk, fd, packed)
            return all(
                file.read(PIECE, at) == disk.pread(log, min(PIECE, file.size - at), at)
                for at in range(0, file.size, PIECE)
            )
        finally:
            disk.close(fd)
    finally:
        disk.close(log)
