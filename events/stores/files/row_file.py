"""The rows of a listing, kept in a file: one line of JSON for each log under a root, in `.treering/index.jsonl`.

    {"treering_index":1,"bytes":118}
    {"ref":"abc.jsonl","size":811,"modified_ns":1767261607000000000,"inode":42,"session":{"id":"abc",...},"crc32":7}

It is derived. A line whose checksum differs is damaged, and one without a checksum was written before there was one. Of
two lines about one log, the later one is valid. Changes are appended, so that a short-lived program writes one line and
not all of them; when the file has grown to more than twice its size, it is rewritten under another name and renamed.
Two processes may do all of this to one file at the same time: at worst a line is missing, and is made again.

It lies in `.treering` and not beside the sessions, where it would conflict with a session whose id is "index".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from zlib import crc32

import msgspec
from msgspec import Struct

from ...disk import Disk, opened, write_all
from ...disk.atomic_files import write_atomically
from ...disk.disk import PRIVATE_FOLDER
from ...telemetry import failure_of, logger
from ..base import Ref, Stamp
from ..capabilities import KeepsRows, KeptRow, KeptRows
from .current import Pointers

NAME = "index.jsonl"
"""The name of the file, in the folder `.treering`."""

VERSION = 1
"""The version of its lines."""

_READ_BYTES = 1024 * 1024
_SLACK_BYTES = 64 * 1024
"""The bytes of outdated lines that are tolerated without a rewrite."""


class _Head(Struct, frozen=True):
    """The first line: the version, and the size of the lines when the file was last rewritten."""

    treering_index: int
    bytes: int = 0


class _Line(Struct, frozen=True, gc=False):
    """A line after the first: a row, and the state of the log's file when it was made."""

    ref: Ref
    size: int
    modified_ns: int
    inode: int
    session: msgspec.Raw


_HEAD_BYTES_MAX = 256
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_line = msgspec.json.Decoder(_Line).decode
_encode = msgspec.json.Encoder().encode


class RowFile:
    """The rows under one root; every call may wait for the disk.

    Args:
        disk: The disk.
        root: The real path of the root.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.path = f"{root.rstrip('/')}/{PRIVATE_FOLDER}/{NAME}"

    def rows(self) -> KeptRows | None:
        """Return all rows; None if there is no file."""
        try:
            data = self._read_all()
        except OSError:
            return KeptRows({}, self.path, usable=False) if self._exists() else None
        first, _, rest = data.partition(b"\n")
        if _head(first) is None:
            return KeptRows({}, self.path, usable=False)
        rows: dict[Ref, KeptRow] = {}
        damaged: list[int] = []
        for number, line in enumerate(rest.split(b"\n"), 2):
            row = _decoded(line)
            if row is not None:
                rows[row.ref] = row
            elif line:
                damaged.append(number)
        return KeptRows(rows, self.path, tuple(damaged))

    def keep(self, rows: Sequence[KeptRow], gone: Collection[Ref]) -> bool:
        """Append rows in one write, if the file is there and need not be rewritten; see `KeepsRows.keep`."""
        if gone:
            return False
        data = b"".join(map(_encoded, rows))
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

    def rewrite(self, rows: Mapping[Ref, KeptRow], *, may_create: bool) -> None:
        """Write the whole file anew, unless its folder is missing and may not be created; see `KeepsRows.rewrite`."""
        folder = os.path.dirname(self.path)
        if may_create:
            self._disk.make_directory(folder)
        else:
            try:
                self._disk.stat(folder)
            except FileNotFoundError:
                return
        body = b"".join(map(_encoded, rows.values()))
        head = _encode(_Head(VERSION, len(body))) + b"\n"
        write_atomically(self._disk, self.path, [head, body], sync=False)

    def drop(self, ref: Ref) -> None:
        """Remove the row of a log that is gone.

        Raises:
            OSError: A write failed; the file is unchanged.
        """
        kept = self.rows()
        if kept is not None and kept.rows.pop(ref, None) is not None:
            self.rewrite(kept.rows, may_create=False)

    def _exists(self) -> bool:
        try:
            self._disk.stat(self.path)
        except OSError:
            return False
        return True

    def _read_all(self) -> bytes:
        with opened(self._disk, self.path) as fd:
            size = self._disk.fstat(fd).size
            return b"".join(self._disk.pread(fd, _READ_BYTES, at) for at in range(0, size, _READ_BYTES))


_CHECKSUM = b',"crc32":'
"""What begins the last field of a line: the checksum of the line without that field."""


def _encoded(row: KeptRow) -> bytes:
    stamp = row.stamp
    whole = _encode(_Line(row.ref, stamp.size, stamp.changed, stamp.identity, msgspec.Raw(row.data)))
    return b"%b%b%d}\n" % (whole[:-1], _CHECKSUM, crc32(whole))


def _decoded(line: bytes) -> KeptRow | None:
    """Return a row, or None if it is damaged; one that was written before lines had a checksum is taken as it is."""
    fields, mark, checksum = line.rpartition(_CHECKSUM)
    if mark and checksum != b"%d}" % crc32(fields + b"}"):
        return None
    try:
        row = _decode_line(line)
    except (ValueError, RecursionError):
        return None
    return KeptRow(row.ref, Stamp(row.size, row.modified_ns, row.inode), bytes(row.session))


def _head(line: bytes) -> _Head | None:
    try:
        head = _decode_head(line)
    except (ValueError, RecursionError):
        return None
    return head if head.treering_index == VERSION else None


class FileRows(RowFile, KeepsRows):
    """What is kept of the logs under a root; see `KeepsRows`.

    Args:
        disk: The disk.
        root: The real path of the root.
        pointers: The current logs of projects.
        inner_roots: Returns the folders between a log and the root, and the log's name in each.
    """

    def __init__(
        self, disk: Disk, root: str, pointers: Pointers, inner_roots: Callable[[Ref], Sequence[tuple[str, Ref]]]
    ) -> None:
        super().__init__(disk, root)
        self._pointers = pointers
        self._inner_roots = inner_roots

    def forget(self, ref: Ref) -> None:
        """Remove the pointers to a log, and its rows in nested folders that are roots of other hosts."""
        self._pointers.forget(ref)
        for folder, inner in self._inner_roots(ref):
            try:
                RowFile(self._disk, folder).drop(inner)
            except OSError as error:
                logger().debug("index_not_written", **failure_of(error))

    def currents(self) -> dict[str, Ref]:
        """Return the current logs of all projects."""
        return self._pointers.all()

    def current(self, project_hash: str) -> Ref | None:
        """Return the current log of a project; None if none is set, or it is gone."""
        return self._pointers.get(project_hash)

    def current_among(self, refs: Collection[Ref]) -> frozenset[Ref]:
        """Return those of the logs that are the current one of some project; see `KeepsRows.current_among`."""
        return self._pointers.among(refs)

    def set_current(self, project_hash: str, ref: Ref | None) -> None:
        """Set the current log of a project, or clear it; see `KeepsRows.set_current`."""
        if ref is None:
            self._pointers.clear(project_hash)
        else:
            self._pointers.set(project_hash, ref)
