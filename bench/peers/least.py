"""The least that a host's promises take, without a host: the wall that its figures stand at.

The same system calls at the same places, the same lines, and the same facts kept in memory, in functions made for one
job each: no sessions, no batches, no dialects or damage, one durability, nobody to be told. What treering takes beyond
it is what its structure costs, and what it can do besides.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel
import msgspec

from ..driving import call_repeatedly, list_all, on_loop
from ..jobs import Appends, Begins, FanOuts, Holds, Lists, Opens, Searches
from ..least import Columns, Entry, Log, Message, Owner, blocks_of
from ..many_sessions import listed_sessions
from ..peer import Peer
from ..search_data import write_sessions
from ..timing import Sample, timed
from ..workspace import Workspace

SLICE_S = 0.000_06
"""For how long the appends of one session may go on before those of the others: a host's default."""


class Least(Peer):
    """What the jobs take at the least, on one event loop."""

    name = "the least"
    durability = "a process crash"
    full_only = True

    # -- one session

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Append from one task for each log, in slices."""
        folder = space.new_folder()
        logs = [Log(folder, f"{number}.jsonl") for number in range(job.sessions)]
        for log in logs:
            log.create()

        async def run() -> Sample:
            sample = Sample(0)
            slices = _Slices(alone=job.sessions == 1)
            with timed(sample):
                until = time.perf_counter() + job.seconds_max
                async with asyncio.TaskGroup() as group:
                    for log in logs:
                        call = partial(slices.run, log.append, job.batch)
                        group.create_task(call_repeatedly(call, job.calls, until, sample.latencies_s))
            sample.operations = len(sample.latencies_s) * job.batch
            return sample

        sample = on_loop(run)
        for log in logs:
            os.close(log.fd)
        return sample

    def begin(self, job: Begins, space: Workspace) -> Sample:
        """Take each log, append to it, and give it back if it is closed."""
        folder, locks = space.new_folder(), space.new_folder()
        (locks / "journals").mkdir()
        owner, sample = Owner(locks), Sample(job.sessions)
        logs = [Log(folder, f"{number}.jsonl") for number in range(job.sessions)]
        if job.again:
            for log in logs:
                log.append_first()
                os.close(log.fd)
            logs = [Log(folder, f"{number}.jsonl") for number in range(job.sessions)]
        with timed(sample):
            for number, log in enumerate(logs):
                owner.take(number)
                if job.again:
                    log.open()
                    log.append()
                    continue
                if os.path.exists(log.path):
                    raise FileExistsError(log.path)
                log.append_first()
                for _ in range(job.messages - 1):
                    log.append()
                if job.messages > 1:
                    os.close(log.fd)
                    owner.give_back(number)
        for log in logs if job.messages == 1 else ():
            os.close(log.fd)
        owner.close()
        return sample

    def open(self, job: Opens, space: Workspace) -> Sample | None:
        """Read the file, decode each line once, and keep what an index keeps; with the context, all messages too."""
        if job.prepared or job.compacted:
            return None
        path, sample = space.log(job.entries).path, Sample()
        columns = Columns()
        messages: list[Message] = []
        with timed(sample):
            for entries, block in blocks_of(path):
                columns.add_all(entries)
                columns.ends.extend(accumulate(map(len, BytesIO(block))))
                if job.context:
                    messages += [each.message for each in entries]
        assert len(columns.parents) == job.entries
        assert len(messages) == (job.entries if job.context else 0)
        return sample

    def fan_out(self, job: FanOuts, space: Workspace) -> Sample:
        """Append, and wake one task for each subscriber, which takes what it has not got."""
        log = Log(space.new_folder(), "0.jsonl")
        log.create()

        async def run() -> Sample:
            sample = Sample(job.subscribers * job.events)
            feed = _Feed()
            async with anyio.create_task_group() as group:
                for _ in range(job.subscribers):
                    group.start_soon(feed.follow, job.events, job.at_once)
                await anyio.wait_all_tasks_blocked()
                with timed(sample):
                    for _ in range(job.events // job.burst):
                        log.append(job.burst)
                        feed.publish(log.bodies[seq] for seq in range(log.seq - job.burst + 1, log.seq + 1))
                        await anyio.lowlevel.checkpoint()
                    while feed.finished < job.subscribers:
                        await anyio.lowlevel.checkpoint()
            return sample

        sample = on_loop(run)
        os.close(log.fd)
        return sample

    # -- many sessions

    def list(self, job: Lists, space: Workspace) -> Sample:
        """Ask for each file whether it has changed; cold, also read it whole, and decode each line."""
        root = listed_sessions(job, space)

        async def listing() -> None:
            files = _look_at(root)
            if not job.warm:
                for path in files:
                    columns = Columns()
                    for entries, _ in blocks_of(Path(path)):
                        columns.add_all(entries)
            rows = sorted(files.items(), key=lambda each: each[1].st_mtime_ns)
            assert len(rows) == job.sessions

        return on_loop(lambda: list_all(job, listing))

    def search(self, job: Searches, space: Workspace) -> Sample | None:
        """Ask for each file whether it has changed, and search an index of the trigrams of all texts."""
        root = space.cached_folder(
            f"search-{job.sessions}-{job.entries}",
            lambda folder: write_sessions(folder / "sessions", job.sessions, job.entries),
        )
        index = space.cached_folder(f"grams-{job.sessions}-{job.entries}", partial(_write_index, root / "sessions"))
        sample = Sample()
        database = sqlite3.connect(index / "grams")
        query = "SELECT texts.text FROM grams JOIN texts ON texts.id = grams.rowid WHERE grams MATCH ? LIMIT 50"
        for _ in range(2):
            sample = Sample()
            with timed(sample):
                files = _look_at(root / "sessions")
                hits = database.execute(query, (job.word,)).fetchall()
            assert len(files) == job.sessions
            assert len(hits) == job.hits
        database.close()
        return sample

    def hold(self, job: Holds, space: Workspace) -> Sample:
        """Keep what finds each session: a handle with its id, in a table by that id; live, also its columns."""
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            held = [_Handle(str(uuid4()), space.folder, live=job.live) for _ in range(job.sessions)]
            table = {each.id: each for each in held}
            gc.collect()
            allocated = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert len(table) == job.sessions
        return Sample(job.sessions, value=allocated / job.sessions)


class _Handle:
    """What a program holds of a session, and what a host remembers of it: its id, its header and its end."""

    __slots__ = ("__weakref__", "end", "header", "id", "log")

    def __init__(self, own: str, folder: Path, *, live: bool) -> None:
        self.id = own
        self.header = (own, datetime.now(UTC))
        self.end = (1, 2**20, uuid4().int)
        self.log = Log(folder, own) if live else None


class _Slices:
    """Lets calls run to completion, and the other tasks run once a slice is over."""

    def __init__(self, *, alone: bool) -> None:
        self._length_s = 0.001 if alone else SLICE_S
        self._until = 0.0

    async def run(self, call: Callable[[int], object], batch: int) -> None:
        """Make a call."""
        if time.perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + self._length_s
        call(batch)


class _Feed:
    """Entries that wait for tasks to take them.

    Attributes:
        finished: How many tasks have taken all.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._more = anyio.Event()
        self.finished = 0

    def publish(self, entries: Iterable[Entry]) -> None:
        """Add entries, and wake all who wait."""
        self._entries += entries
        self._more.set()
        self._more = anyio.Event()

    async def follow(self, count: int, at_once: bool) -> None:
        """Take entries one by one, or all that there are."""
        at = 0
        while at < count:
            if at == len(self._entries):
                await self._more.wait()
            at += len(await self._take(at, at_once))
        self.finished += 1

    async def _take(self, at: int, at_once: bool) -> Sequence[Entry]:
        return self._entries[at:] if at_once else (self._entries[at],)


def _look_at(root: Path) -> dict[str, os.stat_result]:
    with os.scandir(root) as found:
        return {each.path: each.stat() for each in found if each.name.endswith(".jsonl")}


def _write_index(root: Path, folder: Path) -> None:
    lines: list[dict[str, Any]] = []
    for path in root.glob("*.jsonl"):
        lines += map(msgspec.json.decode, path.read_bytes().splitlines()[1:])
    texts = [(each["message"]["content"][0]["text"]["content"],) for each in lines]
    database = sqlite3.connect(folder / "grams")
    database.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT)")
    database.execute("CREATE VIRTUAL TABLE grams USING fts5(text, content='', tokenize='trigram')")
    database.executemany("INSERT INTO texts (text) VALUES (?)", texts)
    database.execute("INSERT INTO grams (rowid, text) SELECT id, text FROM texts")
    database.commit()
    database.close()


PEERS: list[Peer] = [Least()]
