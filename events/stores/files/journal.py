"""The journal of a host: what it appended to all of its sessions, in one file, so that one flush makes all of it durable.

Under durability "group" an append is first written to its session's file and then, with the appends of all other
sessions that wait, to the journal, which is flushed. Only a power cut makes anyone read it: see `journal_replay`.

A journal lies in `.treering/journal` under the root, is named by the process and a number, and is locked like a session
for as long as its host lives. It is made whole before it is used: its header is flushed, and so are the folders above it.

    {"format":"treering-journal","version":1,"nonce":"6a0e2f6c-1d3b-4f7e-9c58-7b2f0d4e91aa"}
    7c1e6f0a 0 61 420 1 1 3 2f1a.9c0b7e55.0 work/a.jsonl
    {"type":"session","version":1,...}
    {"type":"message","id":"5f0c...",...}
    0b52d3c9 481 0 388 2 1 3 2f1a.9c0b7e55.0 work/a.jsonl
    {"type":"message","id":"c1d9...",...}

A record is a line of nine fields and the bytes that it announces:

    checksum    crc32 over the header line, the other fields and the bytes, as 8 hex digits
    offset      where in the session's file the lines begin; 0: the record makes the file, header block and all
    block       the size of the header block that comes first; each session's first record in a journal has one
    size        the size of the lines after it
    seq         the ordinal of the first line
    count       how many lines there are
    epoch       the epoch of the ownership under which they were appended
    generation  the history that they belong to
    ref         the session's file, relative to the root, percent-encoded

What stands after the last record that is whole was never acknowledged. A session that is removed or rewritten, by whoever
owns it, leaves a line in `<journal>.void` beside every journal first, so that none brings it back:

    <checksum> <checksum of the journal's header line> <size of the journal> <ref>

Records of that session up to that size are of no use any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes
from zlib import crc32

import msgspec
from msgspec import Struct

from ...disk import Disk
from ...undecodable import UNDECODABLE
from .beside import write_all
from .private_folder import PRIVATE_FOLDER

JOURNALS = os.path.join(PRIVATE_FOLDER, "journal")
"""The folder of the journals, under a root."""
SUFFIX = ".journal"
VOID_SUFFIX = ".void"

_FORMAT = "treering-journal"
_VERSION = 1
_HEADER_MAX = 1024
_LINE_MAX = 64 * 1024
_CHUNK = 1024 * 1024


class JournalHeader(Struct, frozen=True):
    """A journal's first line."""

    format: str
    version: int
    nonce: str


class Record(NamedTuple):
    """Lines that were appended to one session.

    Attributes:
        name: The session's file, relative to the root, percent-encoded.
        offset: Where in it the lines begin; 0 where they make it, together with the block.
        block: The header block, where the journal does not have it yet.
        lines: The lines.
        seq: The ordinal of the first of them.
        epoch: The epoch of the ownership.
        generation: The history that they belong to.
    """

    name: bytes
    offset: int
    block: bytes
    lines: Sequence[bytes]
    seq: int
    epoch: int
    generation: str


class Entry(NamedTuple):
    """A record that was found in a journal, without its bytes.

    Attributes:
        name: The session's file, relative to the root.
        offset: Where in it the lines begin.
        at: Where in the journal the header block begins, or the lines, where there is none.
        block: The size of the header block.
        size: The size of the lines.
        epoch: The epoch of the ownership.
    """

    name: str
    offset: int
    at: int
    block: int
    size: int
    epoch: int

    @property
    def end(self) -> int:
        """Where in the session's file the lines end."""
        return self.offset + self.size + (0 if self.offset else self.block)


def encoded_name(name: str) -> bytes:
    """Write the name of a session's file so that it has neither blanks nor newlines."""
    return quote(os.fsencode(name)).encode()


def decoded_name(name: bytes) -> str:
    """Read what `encoded_name` wrote."""
    return os.fsdecode(unquote_to_bytes(name))


def encode_records(records: Iterable[Record], seed: int) -> bytes:
    """Write records as the bytes of one round.

    Args:
        records: What to write.
        seed: The checksum of the journal's header line.
    """
    parts: list[bytes] = []
    for name, offset, block, lines, seq, epoch, generation in records:
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        size = len(data)
        if block:
            data = block + data
        fields = b" %d %d %d %d %d %d %s %s\n" % (
            offset,
            len(block),
            size,
            seq,
            len(lines),
            epoch,
            generation.encode(),
            name,
        )
        parts += (b"%08x" % crc32(data, crc32(fields, seed)), fields, data)
    return b"".join(parts)


class Segment:
    """One journal that is written to.

    Args:
        disk: The disk.
        path: Where it lies.
        nonce: What tells it from every other journal that had this path; its checksums depend on it.

    Attributes:
        path: Where it lies.
        size: How many bytes it has.
        seed: The checksum of its header line.
        broken: A write or a flush failed; nothing is written to it any more.
    """

    def __init__(self, disk: Disk, path: str, nonce: str) -> None:
        self._disk = disk
        self._nonce = nonce
        self._fd = -1
        self.path = path
        self.size = 0
        self.seed = 0
        self.broken = False

    def begin(self, flush: Sequence[str]) -> None:
        """Make the file, whole and durable.

        Args:
            flush: The folders above it to flush, too.

        Raises:
            FileExistsError: The name is taken.
            OSError: It cannot be made.
        """
        disk = self._disk
        line = msgspec.json.encode(JournalHeader(_FORMAT, _VERSION, self._nonce)) + b"\n"
        fd = disk.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        try:
            with suppress(FileNotFoundError):
                disk.unlink(void_of(self.path))  # of an older journal of this name
            write_all(disk, fd, line)
            disk.datasync(fd)
            for folder in flush:
                with suppress(PermissionError):
                    disk.sync_directory(folder)
        except BaseException:
            with suppress(OSError):
                disk.close(fd)
            with suppress(OSError):
                disk.unlink(self.path)
            raise
        self._fd, self.size, self.seed = fd, len(line), crc32(line)

    def write(self, records: Iterable[Record]) -> None:
        """Append records and flush them; after an error, the journal is given up.

        Raises:
            OSError: Nobody knows which of them are there.
        """
        data = encode_records(records, self.seed)
        try:
            write_all(self._disk, self._fd, data)
            self.size += len(data)
            self._disk.datasync(self._fd)
        except BaseException:
            self.broken = True
            raise

    def close(self) -> None:
        """Close the file, which stays where it is."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                self._disk.close(fd)


def drop(disk: Disk, paths: Sequence[str]) -> None:
    """Take journals of one folder away; what voids records of theirs goes last.

    Raises:
        OSError: They cannot be taken away.
    """
    for path in paths:
        with suppress(FileNotFoundError):
            disk.unlink(path)
    if paths:
        disk.sync_directory(os.path.dirname(paths[0]))
    for path in paths:
        with suppress(OSError):
            disk.unlink(void_of(path))


# -- reading


def read_header(disk: Disk, fd: int) -> tuple[JournalHeader | None, bytes]:
    """Read a journal's header line; return what it says, None where it is none, and the line.

    The line is empty where the journal was never finished, and so never used.
    """
    data = disk.pread(fd, _HEADER_MAX, 0)
    line, newline, _ = data.partition(b"\n")
    if not newline:
        torn = data.rstrip(b"\0")
        return None, data if torn and not torn.startswith(b"{") else b""
    try:
        header = msgspec.json.decode(line, type=JournalHeader)
    except UNDECODABLE:
        return None, data
    return (header if (header.format, header.version) == (_FORMAT, _VERSION) else None), line + newline


def read_entries(disk: Disk, fd: int, header: bytes) -> Iterator[Entry]:
    """Yield the records of a journal up to the first one that is not whole.

    Args:
        disk: The disk.
        fd: The journal.
        header: Its header line.
    """
    seed, at, size = crc32(header), len(header), disk.fstat(fd).size
    buffer, start = b"", at
    while at < size:
        if at + _LINE_MAX > start + len(buffer) < size:
            buffer, start = disk.pread(fd, _CHUNK, at), at
        newline = buffer.find(b"\n", at - start)
        if newline < 0:
            return
        line = buffer[at - start : newline + 1]
        fields = line.split()
        try:
            crc, (offset, block, length, _, _, epoch) = int(fields[0], 16), map(int, fields[1:7])
            name = decoded_name(fields[8])
        except (ValueError, IndexError):
            return
        at += len(line)
        if min(offset, block, length) < 0 or at + block + length > size:
            return
        data = buffer[at - start : at - start + block + length]
        if len(data) < block + length:
            data = disk.pread(fd, block + length, at)
        if crc32(data, crc32(line[8:], seed)) != crc:
            return
        yield Entry(name, offset, at, block, length, epoch)
        at += block + length


# -- voiding


def void_of(path: str) -> str:
    """Return the path of what voids records of a journal."""
    return path.removesuffix(SUFFIX) + VOID_SUFFIX


def void(disk: Disk, journal: str, name: str) -> None:
    """Make the records of a session that a journal holds by now of no use; whoever calls this owns the session.

    Raises:
        OSError: It cannot be noted.
    """
    try:
        fd = disk.open(journal, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        _, header = read_header(disk, fd)
        size = disk.fstat(fd).size
    finally:
        disk.close(fd)
    fields = b" %08x %d %s\n" % (crc32(header), size, encoded_name(name))
    path = void_of(journal)
    fd = disk.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        write_all(disk, fd, b"\n%08x%s" % (crc32(fields), fields))  # a torn line may stand before it
        disk.datasync(fd)
    finally:
        disk.close(fd)
    disk.sync_directory(os.path.dirname(path))


def read_voids(disk: Disk, journal: str, header: bytes) -> dict[str, int]:
    """Return up to where in a journal the records of which sessions are void."""
    try:
        fd = disk.open(void_of(journal), os.O_RDONLY)
    except FileNotFoundError:
        return {}
    try:
        data = disk.pread(fd, disk.fstat(fd).size, 0)
    finally:
        disk.close(fd)
    found: dict[str, int] = {}
    for line in data.splitlines(keepends=True):
        fields = line.split()
        with suppress(ValueError, IndexError):
            if int(fields[0], 16) == crc32(line[8:]) and int(fields[1], 16) == crc32(header):
                name = decoded_name(fields[3])
                found[name] = max(found.get(name, 0), int(fields[2]))
    return found


# -- finding


def journals_in(disk: Disk, folder: str) -> list[str]:
    """Return the paths of the journals in a folder, which need not be there."""
    try:
        names = disk.list_directory(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [f"{folder}/{name}" for name in names if name.endswith(SUFFIX)]


def free_paths(folder: str) -> Iterator[str]:
    """Yield names for a new journal, to be tried in turn."""
    for number in count(1):
        yield f"{folder}/{os.getpid()}-{number}{SUFFIX}"
