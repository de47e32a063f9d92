"""A plain loop on aiofiles: one open file for each session, one awaited write for each line."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import msgspec

from ..driving import appended, on_loop
from ..jobs import TEXT_1_KB, Appends
from ..peer import Peer
from ..timing import Sample
from ..workspace import Workspace


class Aiofiles(Peer):
    """Each write goes through the thread pool."""

    name = "aiofiles loop"
    durability = "the process"
    requirements = ("aiofiles==25.1.0",)
    full_only = True

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append a line to each file, and flush it to the operating system."""
        import aiofiles
        from aiofiles.threadpool.binary import AsyncBufferedIOBase

        folder = space.fresh()

        async def one(file: AsyncBufferedIOBase) -> None:
            fields = {"id": str(uuid4()), "timestamp": datetime.now(UTC), "role": "user", "text": TEXT_1_KB}
            await file.write(msgspec.json.encode(fields) + b"\n")
            await file.flush()

        async def run() -> Sample:
            files = [await aiofiles.open(folder / f"{number}.jsonl", "ab") for number in range(job.sessions)]
            try:
                return await appended(job, [partial(one, file) for file in files])
            finally:
                for file in files:
                    await file.close()

        return on_loop(run)


PEERS: list[Peer] = [Aiofiles()]
