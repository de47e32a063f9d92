"""Plain loops, which only write a line: a lower bound for appends, not rivals, since they keep no tree and no view."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

import msgspec

from ..jobs import TEXT_1_KB, Appends, Begins, Descriptors, Opens, Reads, Searches
from ..peer import Peer
from ..process import open_descriptors
from ..search_data import write_sessions
from ..timing import Sample, timed
from ..workspace import Workspace

Encode: TypeAlias = Callable[[str, str | None], bytes]
"""Encodes a message, given its id and its parent's."""


class Message(msgspec.Struct):
    """A line that the plain loop writes."""

    id: str
    parent: str | None
    timestamp: datetime
    role: str
    text: str


class Line(msgspec.Struct):
    """The fields of a line that are needed to build the tree."""

    type: str
    id: str
    parent: str | None = msgspec.field(default=None, name="parent_id")


def _fields(own: str, parent: str | None) -> dict[str, object]:
    now = datetime.now(UTC).isoformat()
    return {"id": own, "parent": parent, "timestamp": now, "role": "user", "text": TEXT_1_KB}


def _with_msgspec() -> Encode:
    encode = msgspec.json.Encoder().encode
    return lambda own, parent: encode(Message(own, parent, datetime.now(UTC), "user", TEXT_1_KB)) + b"\n"


def _with_json() -> Encode:
    return lambda own, parent: json.dumps(_fields(own, parent)).encode() + b"\n"


def _with_orjson() -> Encode:
    import orjson

    return lambda own, parent: orjson.dumps(_fields(own, parent)) + b"\n"


_ENCODERS: dict[str, Callable[[], Encode]] = {"msgspec": _with_msgspec, "json": _with_json, "orjson": _with_orjson}


class PlainLoop(Peer):
    """A loop that writes lines: a uuid4, a timestamp, an encode, and one `os.write` each.

    Args:
        name: Its name in the tables.
        library: The library that encodes: "msgspec", "json" or "orjson".
        handles: "held" keeps all files open, "opened" opens one for each line, "synced" flushes after each line.
    """

    def __init__(
        self, name: str, library: str = "msgspec", handles: Literal["held", "opened", "synced"] = "held"
    ) -> None:
        self.name = name
        self.durability = "a power cut" if handles == "synced" else "a process crash"
        self.modules = (library,)
        self.full_only = name != "plain loop"
        self._library = library
        self._handles = handles

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append to the files in turn."""
        folder = space.new_folder()
        files = [_open(folder, number) for number in range(job.sessions)] if self._handles != "opened" else []
        sample = Sample(0)
        encode, clock, spent = _ENCODERS[self._library](), time.perf_counter, sample.latencies_s
        parents: list[str | None] = [None] * job.sessions
        sync = getattr(os, "fdatasync", os.fsync) if self._handles == "synced" else None
        with timed(sample):
            until = clock() + job.seconds_max
            for _ in range(job.calls * job.batch):
                for number, parent in enumerate(parents):
                    began = clock()
                    own = str(uuid4())
                    file = files[number] if files else _open(folder, number)
                    os.write(file, encode(own, parent))
                    if sync is not None:
                        sync(file)
                    if not files:
                        os.close(file)
                    parents[number] = own
                    spent.append(clock() - began)
                if clock() > until:
                    break
        sample.operations = len(spent)
        for file in files:
            os.close(file)
        return sample

    def descriptors(self, job: Descriptors, space: Workspace) -> Sample | None:
        """Count the files that are open after one line in each; encoding and flushing make no difference."""
        if self._library != "msgspec" or self._handles == "synced":
            return None
        folder, encode, before = space.new_folder(), _with_msgspec(), open_descriptors()
        open_files: list[int] = []
        for number in range(job.sessions):
            file = _open(folder, number)
            os.write(file, encode(str(uuid4()), None))
            if self._handles == "held":
                open_files.append(file)
            else:
                os.close(file)
        sample = Sample(job.sessions, value=float(open_descriptors() - before))
        for file in open_files:
            os.close(file)
        return sample


class Floor(PlainLoop):
    """The plain loop that is the yardstick for the others; it also reads."""

    def open(self, job: Opens, space: Workspace) -> Sample | None:
        """Read the file and decode three fields of each line."""
        if job.prepared or job.context:
            return None
        path = space.log(job.entries, compacted=job.compacted).path
        sample = Sample()
        decoder = msgspec.json.Decoder(Line)
        with timed(sample):
            lines = decoder.decode_lines(_body(path))
        assert len(lines) == job.entries
        return sample

    def begin(self, job: Begins, space: Workspace) -> Sample:
        """Open each file, write a line for each message, and close it."""
        folder, encode, sample = space.new_folder(), _with_msgspec(), Sample(job.sessions)
        for number in range(job.sessions if job.again else 0):
            os.close(_open(folder, number))
        with timed(sample):
            for number in range(job.sessions):
                file = _open(folder, number)
                for _ in range(job.messages):
                    os.write(file, encode(str(uuid4()), None))
                os.close(file)
        return sample

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Read the file and decode each line as a dictionary."""
        path = space.log(job.entries).path
        sample = Sample()
        with timed(sample):
            lines = msgspec.json.Decoder().decode_lines(_body(path))
        assert len(lines) == job.entries
        return sample

    def search(self, job: Searches, space: Workspace) -> Sample:
        """Read the files and search for the bytes of the word, until there are enough hits."""

        def make(folder: Path) -> None:
            write_sessions(folder / "sessions", job.sessions, job.entries)

        root = space.cached_folder(f"search-{job.sessions}-{job.entries}", make) / "sessions"
        word = job.word.encode()
        sample = Sample()
        with timed(sample):
            hits: list[bytes] = []
            for path in sorted(root.glob("*.jsonl")):
                if word in (data := path.read_bytes()):
                    hits += [line for line in data.splitlines()[1:] if word in line]
                if len(hits) > 50:
                    break
        assert len(hits) >= job.hits
        return sample


def _open(folder: Path, number: int) -> int:
    return os.open(folder / f"{number}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _body(path: Path) -> memoryview:
    data = path.read_bytes()
    return memoryview(data)[data.index(b"\n") + 1 :]


PEERS: list[Peer] = [
    Floor("plain loop"),
    PlainLoop("plain loop, json", "json"),
    PlainLoop("plain loop, orjson", "orjson"),
    PlainLoop("plain loop, opened each time", handles="opened"),
    PlainLoop("plain loop, fdatasync", handles="synced"),
]
