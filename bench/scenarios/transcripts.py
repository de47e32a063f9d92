"""Importing another program's transcript into a folder of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import anyio
import msgspec

import treering

from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, millis, near_the_least
from ..timing import Sample, timed
from ..transcripts import write_transcript
from ..workspace import Workspace

_BYTES_PER_ENTRY = 1_000


def _import(entries: int, space: Workspace) -> Sample:
    folder = space.new_folder()
    size = write_transcript(folder / "transcript.jsonl", entries * _BYTES_PER_ENTRY)
    sample = Sample(operations=max(round(size / 1e6), 1))

    async def run() -> None:
        async with treering.SessionHost(folder / "sessions") as host:
            with timed(sample):
                (report,) = await host.import_sessions(folder / "transcript.jsonl")
            assert report.added == report.entries > 0

    anyio.run(run)
    return sample


class _Line(msgspec.Struct):
    """The fields of a line that become an entry."""

    type: str
    uuid: str
    timestamp: datetime
    message: Any = None
    parentUuid: str | None = None  # the transcript's name


def _least(entries: int, space: Workspace) -> Sample:
    """Decode each line, encode each message as a line of a log, and write them a megabyte at a time: the wall."""
    folder = space.new_folder()
    size = write_transcript(folder / "transcript.jsonl", entries * _BYTES_PER_ENTRY)
    decode, encode = msgspec.json.Decoder(_Line).decode, msgspec.json.Encoder().encode
    sample = Sample(operations=max(round(size / 1e6), 1))
    with timed(sample), (folder / "transcript.jsonl").open("rb") as read, (folder / "log").open("wb", 1 << 20) as log:
        for seq, data in enumerate(read, 1):
            line = decode(data)
            if line.message is not None:
                message = {"role": line.message["role"], "content": line.message["content"]}
                log.write(encode([line.uuid, line.parentUuid, line.timestamp, seq, message]) + b"\n")
    return sample


def _sides(_: Sequence[Peer], scale: Scale) -> list[Side]:
    return [Side("Claude Code", partial(_import, scale.entries)), Side("the least", partial(_least, scale.entries))]


SCENARIOS = [
    Scenario(
        "import-transcript",
        "import a transcript of Claude Code into files",
        "ms/MB",
        millis,
        _sides,
        (Goal("Claude Code", "figure", 6), near_the_least("Claude Code")),
        rounds_max=3,
        note="An operation is a megabyte; 10 ms/MB is 100 MB/s. "
        "Most lines have 1 to 3 KB, and tool results appear in them twice, as in real transcripts. "
        "The least decodes each line and encodes its message.",
    )
]
