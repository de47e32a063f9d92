"""A plain loop with aiofiles: one open file per session, one awaited write per line."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import msgspec

from ..driving import append_all, on_loop
from ..jobs import TEXT_1_KB, Appends
from ..peer import Peer
from ..timing import Sample
from ..workspace import Workspace


class Aiofiles(Peer):
    """Writes lines with aiofiles, each in the thread pool."""

    name = "aiofiles loop"
    durability = "a process crash"
    requirements = ("aiofiles==25.1.0",)
    full_only = True

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append a line to each file, and flush it to the operating system."""
        import aiofiles
        from aiofiles.threadpool.binary import AsyncBufferedIOBase

        folder = space.new_folder()

        async def one(file: AsyncBufferedIOBase) -> None:
            fields = {"id": str(uuid4()), "timestamp": datetime.now(UTC), "role": "user", "text": TEXT_1_KB}
            await file.write(msgspec.json.encode(fields) + b"\n")
            await file.flush()

        async def run() -> Sample:
            files = [await aiofiles.open(folder / f"{number}.jsonl", "ab") for number in range(job.sessions)]
            try:
                return await append_all(job, [partial(one, file) for file in files])
            finally:
                for file in files:
                    await file.close()

        return on_loop(run)


PEERS: list[Peer] = [Aiofiles()]
