"""The plain loop: what appending costs when nothing is kept but the line, with the fastest tools that there are."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import msgspec

from ..jobs import TEXT_1_KB, Appends, Peer
from ..timing import Sample, timed
from ..workspace import Log, Workspace


class Message(msgspec.Struct):
    """A line of the plain loop."""

    id: str
    parent: str | None
    timestamp: datetime
    role: str
    text: str


class Line(msgspec.Struct):
    """What has to be known of a line to build a tree of them."""

    type: str
    id: str
    parent: str | None = msgspec.field(default=None, name="parent_id")


class PlainLoop:
    """A uuid4, a timestamp, a struct, an encode, one `os.write` to a file that is open."""

    name = "plain loop"
    durability = "the process"

    def absent(self) -> str | None:
        """It runs everywhere."""
        return None

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append in turn to each of the files."""
        folder = space.fresh()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [os.open(folder / f"{number}.jsonl", flags, 0o600) for number in range(job.sessions)]
        try:
            return self._append(job, files)
        finally:
            for file in files:
                os.close(file)

    def _append(self, job: Appends, files: list[int]) -> Sample:
        sample = Sample(job.messages)
        encode, clock, spent = msgspec.json.Encoder().encode, time.perf_counter, sample.latencies_s
        parents: list[str | None] = [None] * len(files)
        with timed(sample):
            for _ in range(job.calls * job.batch):
                for number, file in enumerate(files):
                    began = clock()
                    own = str(uuid4())
                    line = encode(Message(own, parents[number], datetime.now(UTC), "user", TEXT_1_KB))
                    os.write(file, line + b"\n")
                    parents[number] = own
                    spent.append(clock() - began)
        return sample

    def open(self, log: Log, *, prepared: bool) -> Sample | None:
        """Read the file and decode three fields of each line."""
        if prepared:
            return None
        sample = Sample()
        decoder = msgspec.json.Decoder(Line)
        with timed(sample):
            lines = decoder.decode_lines(_body(log.path))
        assert len(lines) == log.entries
        return sample


def _body(path: Path) -> memoryview:
    data = path.read_bytes()
    return memoryview(data)[data.index(b"\n") + 1 :]


PEERS: list[Peer] = [PlainLoop()]
