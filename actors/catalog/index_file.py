"""The file of the index: one line of JSON for each session under a root, in `.treering/index.jsonl`.

    {"treering_index":1,"bytes":118}
    {"ref":"abc.jsonl","size":811,"modified_ns":1767261607000000000,"inode":42,"session":{"id":"abc",...},"crc32":7}

It is derived. A line whose checksum differs is damaged, and one without a checksum was written before there was one. A
line is valid while the session's file has the size, time and inode in the line; of two lines about one session, the
later one is valid. Changes are appended, so that a short-lived program writes one line and not all of them; when the
file has grown to more than twice its size, it is rewritten under another name and renamed. Two processes may do all of
this to one file at the same time: at worst a line is missing, and is rebuilt.

Nothing here is an error: an index that is missing, torn, foreign or of a newer version is treated as empty.

It lies in `.treering` and not beside the sessions, where it would conflict with a session whose id is "index".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from ...events.disk import Disk, FileStat, opened, write_all
from ...events.disk.atomic_files import write_atomically
from ...events.disk.disk import PRIVATE_FOLDER
from ...events.entries import ARCHIVED
from ...events.stores.base import Ref
from ...projections.summary import SessionSummary

NAME = "index.jsonl"
"""The name of the file, in the folder `.treering`."""

VERSION = 1
"""The version of its lines."""

_READ_BYTES = 1024 * 1024
_SLACK_BYTES = 64 * 1024
"""The bytes of outdated lines that are tolerated without a rewrite."""


class IndexLine(Struct, frozen=True, gc=False):
    """A line of the index: the row of a session, and the state of its file at that time."""

    ref: Ref
    size: int
    modified_ns: int
    inode: int
    session: SessionSummary

    def holds(self, stat: FileStat) -> bool:
        """Return whether the session's file is unchanged since the line was made."""
        return self.size == stat.size and self.modified_ns == stat.modified_ns and self.inode == stat.inode


class _Head(Struct, frozen=True):
    """The first line: the version, and the size of the lines when the file was last rewritten."""

    treering_index: int
    bytes: int = 0


_HEAD_BYTES_MAX = 256
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_line = msgspec.json.Decoder(IndexLine).decode
_encode = msgspec.json.Encoder().encode


class IndexContents(Struct, frozen=True):
    """The contents of an index file.

    Attributes:
        lines: The lines, by session.
        damaged: The line numbers (the first line is 1) of lines that cannot be read.
        usable: Whether it is an index of this version; otherwise it must be rewritten.
    """

    lines: dict[Ref, IndexLine]
    damaged: tuple[int, ...] = ()
    usable: bool = True


class IndexFile:
    """The index of one root, on its disk; every call may wait for the disk.

    Args:
        disk: The disk.
        root: The real path of the root.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root.rstrip("/")
        self.path = f"{self._root}/{PRIVATE_FOLDER}/{NAME}"

    def exists(self) -> bool:
        """Return whether there is an index file of any kind."""
        try:
            self._disk.stat(self.path)
        except OSError:
            return False
        return True

    def read(self) -> IndexContents:
        """Return the contents of the index; a missing or unusable one is empty."""
        try:
            data = self._read_all()
        except OSError:
            return IndexContents({}, usable=False)
        first, _, rest = data.partition(b"\n")
        if _head(first) is None:
            return IndexContents({}, usable=False)
        lines: dict[Ref, IndexLine] = {}
        damaged: list[int] = []
        for number, line in enumerate(rest.split(b"\n"), 2):
            decoded = _decoded(line)
            if decoded is None:
                if line:
                    damaged.append(number)
            else:
                # The index does not store the root's location, so that the root may be moved.
                force_setattr(decoded.session, "path", f"{self._root}/{decoded.ref}")
                if decoded.session.status == ARCHIVED:  # in a line from before rows had `archived`
                    force_setattr(decoded.session, "archived", True)
                lines[decoded.ref] = decoded
        return IndexContents(lines, tuple(damaged))

    def append(self, lines: Iterable[IndexLine]) -> bool:
        """Append lines in one write.

        Returns:
            Whether they were appended; False if the file is missing or must be rewritten.

        Raises:
            OSError: The write failed.
        """
        data = b"".join(map(_encoded, lines))
        try:
            fd = self._disk.open(self.path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            return False
        try:
            size = self._disk.fstat(fd).size
            head = _head(self._disk.pread(fd, _HEAD_BYTES_MAX, 0).partition(b"\n")[0])
            if head is None or size > 2 * head.bytes + _SLACK_BYTES:
                return False
            ends_in_newline = self._disk.pread(fd, 1, size - 1) == b"\n"
            write_all(self._disk, fd, data if ends_in_newline else b"\n" + data)
        finally:
            self._disk.close(fd)
        return True

    def replace(self, lines: Mapping[Ref, IndexLine], *, make_folder: bool) -> None:
        """Rewrite the whole index.

        Args:
            lines: The new lines.
            make_folder: Create the folder of the index if it is missing; otherwise no index is written then.

        Raises:
            OSError: A write failed; the index is unchanged.
        """
        folder = os.path.dirname(self.path)
        if make_folder:
            self._disk.make_directory(folder)
        else:
            try:
                self._disk.stat(folder)
            except FileNotFoundError:
                return
        body = b"".join(map(_encoded, lines.values()))
        head = _encode(_Head(VERSION, len(body))) + b"\n"
        write_atomically(self._disk, self.path, [head, body], sync=False)

    def forget(self, ref: Ref) -> None:
        """Remove the line of a session that is gone.

        Raises:
            OSError: A write failed; the index is unchanged.
        """
        lines = self.read().lines
        if lines.pop(ref, None) is not None:
            self.replace(lines, make_folder=False)

    def _read_all(self) -> bytes:
        with opened(self._disk, self.path) as fd:
            size = self._disk.fstat(fd).size
            return b"".join(self._disk.pread(fd, _READ_BYTES, at) for at in range(0, size, _READ_BYTES))


_CHECKSUM = b',"crc32":'
"""What begins the last field of a line: the checksum of the line without that field."""


def _encoded(line: IndexLine) -> bytes:
    whole = _encode(replace(line, session=replace(line.session, path=None)))
    return b"%b%b%d}\n" % (whole[:-1], _CHECKSUM, crc32(whole))


def _decoded(line: bytes) -> IndexLine | None:
    """Return a line, or None if it is damaged; one that was written before lines had a checksum is taken as it is."""
    fields, mark, checksum = line.rpartition(_CHECKSUM)
    if mark and checksum != b"%d}" % crc32(fields + b"}"):
        return None
    try:
        return _decode_line(line)
    except (ValueError, RecursionError):
        return None


def _head(line: bytes) -> _Head | None:
    try:
        head = _decode_head(line)
    except (ValueError, RecursionError):
        return None
    return head if head.treering_index == VERSION else None
