"""Treering with appends that survive a power cut, to compare with stores that flush every message as well."""

from __future__ import annotations

from typing import Literal

import anyio

from ..jobs import Appends
from ..peer import Peer
from ..timing import Sample
from ..workspace import Workspace
from .ours import append_to_sessions


class FlushedTreering(Peer):
    """A treering host on uvloop that flushes what it appends.

    Args:
        level: The durability of the host: "file" flushes each file, "group" one journal for all sessions.
    """

    modules = ("uvloop",)
    full_only = True

    def __init__(self, level: Literal["file", "group"]) -> None:
        self.name = f"treering/uvloop, {level}"
        self.durability = "a power cut (one flush per append)" if level == "file" else "a power cut (shared flushes)"
        self._level: Literal["file", "group"] = level

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append from one task per session."""
        from treering import SessionHost

        async def run() -> Sample:
            return await append_to_sessions(SessionHost(space.new_folder(), durability=self._level), job)

        return anyio.run(run, backend="asyncio", backend_options={"use_uvloop": True})


PEERS: list[Peer] = [FlushedTreering("file"), FlushedTreering("group")]
