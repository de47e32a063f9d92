"""The session stores of the OpenAI Agents SDK: one SQLite database for all sessions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..driving import append_all, on_loop
from ..jobs import TEXT_1_KB, Appends, Branches, Descriptors, Reads
from ..peer import Peer
from ..process import open_descriptors
from ..timing import Sample, timed
from ..workspace import Workspace

if TYPE_CHECKING:
    from agents.memory import SQLiteSession

_ITEM: Any = {"role": "user", "content": TEXT_1_KB}


class OpenAIAgents(Peer):
    """`SQLiteSession`: one thread hop and one transaction per call."""

    name = "openai-agents SQLiteSession"
    durability = "a power cut (WAL, one flush per commit)"
    requirements = ("openai-agents==0.24.0", "sqlalchemy==2.1.9", "aiosqlite==0.22.1")
    with_treering = True

    def _session(self, folder: Path, name: str) -> SQLiteSession:
        from agents.memory import SQLiteSession

        return SQLiteSession(name, folder / "sessions.db")

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Add one item per call."""
        folder = space.new_folder()

        async def run() -> Sample:
            sessions = [self._session(folder, str(number)) for number in range(job.sessions)]
            try:
                return await append_all(job, [partial(each.add_items, [_ITEM]) for each in sessions])
            finally:
                for each in sessions:
                    each.close()

        return on_loop(run)

    def read(self, job: Reads, space: Workspace) -> Sample:
        """Get all items of one session."""
        folder = self._filled(job.entries, space)

        async def run() -> Sample:
            sample = Sample()
            with timed(sample):
                session = self._session(folder, "long")
                items = await session.get_items()
            assert len(items) == job.entries
            session.close()
            return sample

        return on_loop(run)

    def descriptors(self, job: Descriptors, space: Workspace) -> Sample:
        """Count the files that are open after adding one item to each session; all sessions share one database."""
        folder = space.new_folder()

        async def run() -> Sample:
            before = open_descriptors()
            sessions = [self._session(folder, str(number)) for number in range(job.sessions)]
            for each in sessions:
                await each.add_items([_ITEM])
            sample = Sample(job.sessions, value=float(open_descriptors() - before))
            for each in sessions:
                each.close()
            return sample

        return on_loop(run)

    def _filled(self, entries: int, space: Workspace) -> Path:
        def make(folder: Path) -> None:
            async def fill() -> Sample:
                session = self._session(folder, "long")
                for at in range(0, entries, 1000):
                    await session.add_items([_ITEM] * min(1000, entries - at))
                session.close()
                return Sample()

            on_loop(fill)

        return space.cached_folder(f"{type(self).__name__}-{entries}", make)


class AdvancedOpenAIAgents(OpenAIAgents):
    """`AdvancedSQLiteSession`: a structure row beside each message; branching copies the rows of all earlier ones."""

    name = "openai-agents AdvancedSQLiteSession"
    full_only = True

    def _session(self, folder: Path, name: str) -> SQLiteSession:
        from agents.extensions.memory import AdvancedSQLiteSession

        return AdvancedSQLiteSession(session_id=name, db_path=folder / "advanced.db", create_tables=True)

    def branch(self, job: Branches, space: Workspace) -> Sample:
        """Branch from the middle turn and add an item there."""
        from agents.extensions.memory import AdvancedSQLiteSession

        folder = space.new_folder()

        async def run() -> Sample:
            sample = Sample(job.count)
            session = AdvancedSQLiteSession(session_id="long", db_path=folder / "advanced.db", create_tables=True)
            for at in range(0, job.entries, 1000):
                await session.add_items([_ITEM] * min(1000, job.entries - at))
            with timed(sample):
                for _ in range(job.count):
                    await session.switch_to_branch("main")
                    await session.create_branch_from_turn(job.entries // 2)
                    await session.add_items([_ITEM])
            session.close()
            return sample

        return on_loop(run)


PEERS: list[Peer] = [OpenAIAgents(), AdvancedOpenAIAgents()]
