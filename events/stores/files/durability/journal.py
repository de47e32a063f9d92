"""The journal of a host: its appends to all sessions in one file, so that a single flush makes them all durable.

Under durability "group", an append is first written to its session file and then, together with the waiting appends of
all other sessions, to the journal, which is flushed. The journal is read only after a power cut: see `journal_replay`.

A journal is a file in `.treering/journal` under the root, named after the process and a number, and locked like a
session while its host runs. Before it is used, its header and the folders above it are flushed.

    {"format":"treering-journal","version":1,"nonce":"6a0e2f6c-1d3b-4f7e-9c58-7b2f0d4e91aa"}
    7c1e6f0a 0 61 420 1 1 3 2f1a.9c0b7e55.0 work/a.jsonl
    {"type":"session","version":1,...}
    {"type":"message","id":"5f0c...",...}
    0b52d3c9 481 0 388 2 1 3 2f1a.9c0b7e55.0 work/a.jsonl
    {"type":"message","id":"c1d9...",...}

A record is a line of nine fields, followed by the bytes of a header block (if any) and of the lines:

    checksum    crc32 over the journal's header line, the other fields and the bytes, as 8 hex digits
    offset      where in the session file the lines begin; 0 if the record creates the file, including its header block
    block       the size of the header block, which comes first; each session's first record in a journal has one
    size        the size of the lines
    seq         the seq of the first line
    count       the number of lines
    epoch       the epoch of the ownership under which they were appended
    generation  the generation that they belong to
    ref         the session file, relative to the root, percent-encoded

Bytes after the last whole record were never acknowledged. Records may be void: see `void`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes
from zlib import crc32

import msgspec
from msgspec import Struct

from ....disk import Disk, opened, write_all
from ....disk.disk import PRIVATE_FOLDER
from ....disk.disk_errors import naming_errors
from ....json_values import UNDECODABLE

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
    """A record to be written: lines that were appended to one session.

    Attributes:
        name: The session file, relative to the root, percent-encoded.
        offset: Where in the file the lines begin; 0 if the record creates the file, including its header block.
        block: The header block, if the journal does not hold it yet.
        lines: The lines.
        seq: The seq of the first line.
        epoch: The epoch of the ownership.
        generation: The generation that the lines belong to.
    """

    name: bytes
    offset: int
    block: bytes
    lines: Sequence[bytes]
    seq: int
    epoch: int
    generation: str


class StoredRecord(Struct, frozen=True):
    """A record in a journal; its bytes are read when they are needed.

    Attributes:
        disk: The disk.
        fd: The journal.
        name: The session file, relative to the root.
        offset: Where in the session file its bytes begin; 0 if it creates the file, including its header block.
        at: Where in the journal its bytes begin.
        block_size: The size of the header block, which comes first; 0 if there is none.
        lines_size: The size of the lines.
        epoch: The epoch of the ownership.
    """

    disk: Disk
    fd: int
    name: str
    offset: int
    at: int
    block_size: int
    lines_size: int
    epoch: int

    @property
    def creates_file(self) -> bool:
        """Whether the record creates the session file."""
        return self.offset == 0

    @property
    def end(self) -> int:
        """Where in the session file its bytes end."""
        return self.offset + self.lines_size + (self.block_size if self.creates_file else 0)

    @property
    def ends_at(self) -> int:
        """Where in the journal its bytes end."""
        return self.at + self.block_size + self.lines_size

    def block(self) -> bytes:
        """Return the header block; empty if there is none."""
        return self.disk.pread(self.fd, self.block_size, self.at)

    def lines(self) -> bytes:
        """Return the lines."""
        return self.disk.pread(self.fd, self.lines_size, self.at + self.block_size)

    def data(self) -> bytes:
        """Return the bytes that belong in the session file."""
        return self.block() + self.lines() if self.creates_file else self.lines()


def encoded_name(name: str) -> bytes:
    """Encode the name of a session file so that it contains neither blanks nor newlines."""
    return quote(os.fsencode(name)).encode()


def decoded_name(name: bytes) -> str:
    """Decode a name that `encoded_name` encoded."""
    return os.fsdecode(unquote_to_bytes(name))


def encode_records(records: Iterable[Record], seed: int) -> bytes:
    """Encode records as the bytes of one round.

    Args:
        seed: The checksum of the journal's header line.
    """
    parts: list[bytes] = []
    for name, offset, block, lines, seq, epoch, generation in records:
        data = block + b"".join(lines)
        fields = b" %d %d %d %d %d %d %s %s\n" % (
            offset,
            len(block),
            len(data) - len(block),
            seq,
            len(lines),
            epoch,
            generation.encode(),
            name,
        )
        parts += (b"%08x" % crc32(data, crc32(fields, seed)), fields, data)
    return b"".join(parts)


class Segment:
    """A journal that is open for writing.

    Args:
        header: Its header line.

    Attributes:
        path: The path of the journal.
        size: Its size in bytes.
        seed: The checksum of its header line.
        broken: Whether a write or a flush failed; nothing more is written to it then.
    """

    def __init__(self, disk: Disk, path: str, fd: int, header: bytes) -> None:
        self._disk = disk
        self._fd = fd
        self.path = path
        self.size = len(header)
        self.seed = crc32(header)
        self.broken = False

    @classmethod
    def begin(cls, disk: Disk, path: str, nonce: str, flush: Sequence[str]) -> Segment:
        """Create a journal with its header, and make it durable.

        Args:
            nonce: A unique id, so that the checksums differ from those of every other journal with this path.
            flush: The folders above it that have to be flushed.

        Raises:
            FileExistsError: The name is taken.
            OSError: The file cannot be created.
        """
        line = msgspec.json.encode(JournalHeader(_FORMAT, _VERSION, nonce)) + b"\n"
        fd = disk.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        try:
            with suppress(FileNotFoundError):
                disk.unlink(void_of(path))  # left by an older journal of this name
            with naming_errors(path):
                write_all(disk, fd, line)
                disk.datasync(fd)
            for folder in flush:
                with suppress(PermissionError):
                    disk.sync_directory(folder)
        except BaseException:
            with suppress(OSError):
                disk.close(fd)
            with suppress(OSError):
                disk.unlink(path)
            raise
        return cls(disk, path, fd, line)

    def write(self, records: Iterable[Record]) -> None:
        """Append records and flush them. After an error, nothing more may be written to the journal.

        Raises:
            OSError: A write or the flush failed. It is unknown which of the records are in the journal.
        """
        data = encode_records(records, self.seed)
        try:
            with naming_errors(self.path):
                write_all(self._disk, self._fd, data)
                self.size += len(data)
                self._disk.datasync(self._fd)
        except BaseException:
            self.broken = True
            raise

    def close(self) -> None:
        """Close the file without deleting it; closed again, it leaves alone what has its descriptor by then."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                self._disk.close(fd)


def drop(disk: Disk, paths: Sequence[str]) -> None:
    """Delete journals of one folder, and after them the files that void their records."""
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
    """Read a journal's header line; return the decoded header, or None if it is not valid, and the line.

    The line is empty if the creation of the journal was never completed, so that it was never used.
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


def read_records(disk: Disk, fd: int, header: bytes) -> Iterator[StoredRecord]:
    """Yield the records of a journal up to the first one that is incomplete or damaged.

    Args:
        header: Its header line.
    """
    seed, at, size = crc32(header), len(header), disk.fstat(fd).size
    buffer, start = b"", at
    while at < size:
        if at + _LINE_MAX > start + len(buffer) < size:
            buffer, start = disk.pread(fd, _CHUNK, at), at
        line = buffer[at - start : buffer.find(b"\n", at - start) + 1]  # empty without a newline
        fields = line.split()
        try:
            crc, (offset, block_size, lines_size, _, _, epoch) = int(fields[0], 16), map(int, fields[1:7])
            name = decoded_name(fields[8])
        except (ValueError, IndexError):
            return
        at += len(line)
        record = StoredRecord(disk, fd, name, offset, at, block_size, lines_size, epoch)
        if min(offset, block_size, lines_size) < 0 or record.ends_at > size:
            return
        if record.ends_at > start + len(buffer):
            buffer, start = disk.pread(fd, record.ends_at - at + _LINE_MAX, at), at
        data = buffer[at - start : record.ends_at - start]
        if crc32(data, crc32(line[8:], seed)) != crc:
            return
        yield record
        at = record.ends_at


# -- paths


def journals_in(disk: Disk, folder: str) -> list[str]:
    """Return the paths of the journals in a folder; nothing if it does not exist or cannot be listed."""
    try:
        names = disk.list_directory(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [f"{folder}/{name}" for name in names if name.endswith(SUFFIX)]


def free_paths(folder: str) -> Iterator[str]:
    """Yield candidate paths for a new journal."""
    for number in count(1):
        yield f"{folder}/{os.getpid()}-{number}{SUFFIX}"


def void_of(path: str) -> str:
    """Return the path of the file that voids records of a journal."""
    return path.removesuffix(SUFFIX) + VOID_SUFFIX


def void(disk: Disk, journal: str, name: str) -> None:
    """Void the records of a session that a journal holds so far; the caller must own the session."""
    try:
        with naming_errors(journal), opened(disk, journal) as fd:
            _, header = read_header(disk, fd)
            size = disk.fstat(fd).size
    except FileNotFoundError:
        return
    fields = b" %08x %d %s\n" % (crc32(header), size, encoded_name(name))
    path = void_of(journal)
    with opened(disk, path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as fd:
        write_all(disk, fd, b"\n%08x%s" % (crc32(fields), fields))  # the newline terminates a torn line before it
        disk.datasync(fd)
    disk.sync_directory(os.path.dirname(path))


def read_voids(disk: Disk, journal: str, header: bytes) -> Counter[str]:
    """Return the offsets in a journal up to which records are void, by the names of the session files; 0 for others."""
    try:
        with opened(disk, void_of(journal)) as fd:
            data = disk.pread(fd, disk.fstat(fd).size, 0)
    except FileNotFoundError:
        return Counter()
    void_until: Counter[str] = Counter()
    for line in data.splitlines(keepends=True):
        fields = line.split()
        with suppress(ValueError, IndexError):
            if int(fields[0], 16) == crc32(line[8:]) and int(fields[1], 16) == crc32(header):
                name = decoded_name(fields[3])
                void_until[name] = max(void_until[name], int(fields[2]))
    return void_until
