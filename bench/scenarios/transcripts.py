"""Importing another program's transcript into a folder of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio

import treering

from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, millis
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


def _sides(_: Sequence[Peer], scale: Scale) -> list[Side]:
    return [Side("Claude Code", partial(_import, scale.entries))]


SCENARIOS = [
    Scenario(
        "import-transcript",
        "import a transcript of Claude Code into files",
        "ms/MB",
        millis,
        _sides,
        (Goal("Claude Code", "figure", 10),),
        rounds_max=3,
        note="An operation is a megabyte; 10 ms/MB is 100 MB/s. "
        "Most lines have 1 to 3 KB, and tool results appear in them twice, as in real transcripts.",
    )
]
