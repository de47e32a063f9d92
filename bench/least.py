"""The pieces of `the least`: a log with what an index keeps of it, and who owns logs.

They make the system calls that treering's promises take, at the same places, write the same lines, and keep the same
facts; `bench.peers.least` does jobs with them.
"""

from __future__ import annotations

import fcntl
import os
import struct
from array import array
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import msgspec

from .jobs import TEXT_1_KB
from .workspace import HEADER

_SLOT = struct.Struct("<QQIB43s")
_FLOCK = struct.Struct("hhqqi0q")
_OFD_SETLK = 37
_NEW = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_SHARDS = 64
_READ_BYTES = 1 << 18


class Text(msgspec.Struct, gc=False):
    """The content of a part."""

    content: str


class Part(msgspec.Struct, tag="text", tag_field="type", gc=False):
    """The text of a message."""

    text: Text


class Message(msgspec.Struct, gc=False):
    """What a line says."""

    role: str
    content: tuple[Part, ...]


class Entry(msgspec.Struct, gc=False):
    """A line of a log."""

    type: str
    id: str
    parent_id: str | None
    timestamp: datetime
    seq: int
    message: Message


_encode = msgspec.json.Encoder().encode
_decode_lines = msgspec.json.Decoder(Entry).decode_lines


class Columns:
    """What an index keeps of each line: its id, its parent, and five numbers."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.texts = bytearray()
        self.parents, self.kinds, self.boundaries = array("i"), array("H"), array("I")
        self.levels, self.edits, self.models = array("I"), array("I"), array("I")
        self.ends = array("Q")

    def add(self, entry: Entry, end: int) -> None:
        """Add a line that ends at an offset of the file."""
        self.ids[entry.id] = entry.seq
        self.texts += entry.id.encode()
        self.parents.append(entry.seq - 1)
        self.kinds.append(1)
        self.boundaries.append(0)
        self.levels.append(0)
        self.edits.append(0)
        self.models.append(0)
        self.ends.append(end)

    def add_all(self, entries: Sequence[Entry]) -> None:
        """Add lines that each follow the one before."""
        count = len(entries)
        self.texts += "".join([each.id for each in entries]).encode()
        self.parents.extend(range(len(self.parents), len(self.parents) + count))
        self.kinds.extend([1 if each.message.role == "user" else 2 for each in entries])
        for column in (self.boundaries, self.levels, self.edits, self.models):
            column.extend(array("I", bytes(4 * count)))


class Log:
    """A log to append to: each append looks whether the file is as it was left, writes, and looks where that landed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = str(folder / name)
        self.fd = -1
        self.size = self.inode = self.seq = 0
        self.leaf: str | None = None
        self.last_time = datetime.min.replace(tzinfo=UTC)
        self.columns = Columns()
        self.bodies: dict[int, Entry] = {}

    def create(self) -> None:
        """Create the file with its header."""
        self.fd = os.open(self.path, _NEW | os.O_EXCL, 0o600)
        self.size = os.write(self.fd, HEADER.encode())
        self.inode = os.fstat(self.fd).st_ino

    def append(self, count: int = 1) -> bytes:
        """Append messages in one write, and return their lines."""
        entries: list[Entry] = []
        lines = [self._next_line(entries) for _ in range(count)]
        found = os.stat(self.path)
        if found.st_ino != self.inode or found.st_size != self.size:
            raise OSError(f"{self.path} was changed by another program")
        return self._write(lines, entries)

    def append_first(self) -> None:
        """Create the file with its header and a message, in one write."""
        entries: list[Entry] = []
        lines = [HEADER.encode(), self._next_line(entries)]
        self.fd = os.open(self.path, _NEW | os.O_EXCL, 0o600)
        self._write(lines, entries)
        self.inode = os.fstat(self.fd).st_ino

    def open(self) -> None:
        """Read a small file whole, and add its lines."""
        self.fd = os.open(self.path, _NEW)
        found = os.fstat(self.fd)
        data = os.pread(self.fd, found.st_size, 0)
        self.size, self.inode = found.st_size, found.st_ino
        end = data.index(b"\n") + 1
        for entry in _decode_lines(memoryview(data)[end:]):
            self.columns.add(entry, end)
            self.seq, self.leaf, self.last_time = entry.seq, entry.id, entry.timestamp

    def _next_line(self, entries: list[Entry]) -> bytes:
        own, now = str(uuid4()), datetime.now(UTC)
        if own in self.columns.ids or not TEXT_1_KB.isascii():
            raise ValueError(own)
        time = max(self.last_time, now)
        text = Part(Text(TEXT_1_KB))
        entry = Entry("message", own, self.leaf, time, self.seq + 1 + len(entries), Message("user", (text,)))
        self.leaf, self.last_time = own, time
        entries.append(entry)
        return _encode(entry) + b"\n"

    def _write(self, lines: Sequence[bytes], entries: Sequence[Entry]) -> bytes:
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        os.write(self.fd, data)
        end = self.size + len(data)
        if os.lseek(self.fd, 0, os.SEEK_CUR) != end:
            raise OSError(f"{self.path} was changed by another program")
        self.size = end
        for entry in entries:
            self.columns.add(entry, end)
            self.bodies[entry.seq] = entry
        self.seq = entries[-1].seq
        return data


class Owner:
    """Takes logs as a host does: the byte of each in one of 64 lock files, signed with an epoch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shards = [os.open(folder / f"{each}.lock", os.O_RDWR | os.O_CREAT, 0o600) for each in range(_SHARDS)]

    def take(self, number: int) -> None:
        """Lock a log, sign for it, and look whether a killed host left a journal that holds some of it."""
        shard = self._shards[number % _SHARDS]
        fcntl.fcntl(shard, _OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
        before = os.pread(shard, _SLOT.size, number * _SLOT.size)
        epoch = 1 + (_SLOT.unpack(before)[1] if len(before) == _SLOT.size else 0)
        os.pwrite(shard, _SLOT.pack(number, epoch, os.getpid(), 4, b"host"), number * _SLOT.size)
        if "journal" in os.listdir(self._folder / "journals"):
            raise OSError("a journal is left")

    def give_back(self, number: int) -> None:
        """Unlock a log."""
        fcntl.fcntl(self._shards[number % _SHARDS], _OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, number, 1, 0))

    def close(self) -> None:
        """Close the lock files."""
        for shard in self._shards:
            os.close(shard)


def blocks_of(path: Path) -> Generator[tuple[list[Entry], bytes]]:
    """Yield the lines of a log after its header, as entries and as bytes, some at a time."""
    with path.open("rb") as file:
        file.readline()
        while block := file.read(_READ_BYTES):
            block += file.readline()
            yield _decode_lines(block), block
