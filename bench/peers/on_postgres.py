"""Stores of conversations in PostgreSQL: treering's, LangGraph's and that of the OpenAI Agents SDK, on one server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from ..driving import Call, append_all, on_loop
from ..jobs import TEXT_1_KB, Appends, DatabaseAppends
from ..peer import Peer
from ..timing import Sample
from ..workspace import Workspace

CONNECTIONS = 10
"""How many connections a peer's pool has."""


async def _append(job: DatabaseAppends, first: Sequence[Call], rest: Sequence[Call]) -> Sample:
    """Make every session exist, and then time the appends."""
    for call in first:
        await call()
    return await append_all(Appends(job.sessions, job.calls, seconds_max=job.seconds_max), rest)


class TreeringOnPostgres(Peer):
    """All appends that wait go in one statement and one commit."""

    name = "treering on PostgreSQL"
    durability = "a power cut"
    modules = ("psycopg",)

    def append_to_database(self, job: DatabaseAppends, space: Workspace) -> Sample:
        """Append from one task per session."""
        from treering import SessionHost

        async def run() -> Sample:
            async with SessionHost(f"{job.url}&schema=peer_{uuid4().hex}") as host:
                sessions = [await host.create() for _ in range(job.sessions)]
                calls = [partial(each.append_message, "user", TEXT_1_KB) for each in sessions]
                await asyncio.gather(*(call() for call in calls))
                return await _append(job, (), calls)

        return on_loop(run)


class LangGraphOnPostgres(Peer):
    """`AsyncPostgresSaver` with a pool: each checkpoint holds the whole list of messages as it was."""

    name = "langgraph AsyncPostgresSaver"
    durability = "a power cut"
    requirements = (
        "langgraph-checkpoint==4.3.2",
        "langgraph-checkpoint-postgres==3.2.0",
        "psycopg[binary]==3.3.4",
        "psycopg-pool",
    )

    def append_to_database(self, job: DatabaseAppends, space: Workspace) -> Sample:
        """Write one checkpoint per message."""
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        async def run() -> Sample:
            async with AsyncExitStack() as stack:
                options: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
                pool: Any = AsyncConnectionPool(job.url, max_size=CONNECTIONS, kwargs=options, open=False)
                await stack.enter_async_context(pool)
                saver = AsyncPostgresSaver(pool)
                await saver.setup()

                def thread() -> Call:
                    config: Any = {"configurable": {"thread_id": uuid4().hex, "checkpoint_ns": ""}}
                    messages: list[dict[str, str]] = []

                    async def append() -> None:
                        nonlocal config
                        messages.append({"id": str(uuid4()), "role": "user", "content": TEXT_1_KB})
                        version = str(len(messages))
                        checkpoint = empty_checkpoint()
                        checkpoint["channel_values"] = {"messages": messages}
                        checkpoint["channel_versions"] = {"messages": version}
                        metadata: Any = {"source": "loop", "step": len(messages), "parents": {}}
                        config = await saver.aput(config, checkpoint, metadata, {"messages": version})

                    return append

                threads = [thread() for _ in range(job.sessions)]
                return await _append(job, threads, threads)

        return on_loop(run)


class OpenAIAgentsOnPostgres(Peer):
    """`SQLAlchemySession`: one transaction per call, by asyncpg."""

    name = "openai-agents SQLAlchemySession"
    durability = "a power cut"
    requirements = ("openai-agents==0.24.0", "sqlalchemy==2.1.9", "asyncpg==0.32.0", "greenlet")

    def append_to_database(self, job: DatabaseAppends, space: Workspace) -> Sample:
        """Add one item per call."""
        from agents.extensions.memory import SQLAlchemySession
        from sqlalchemy.ext.asyncio import create_async_engine

        async def run() -> Sample:
            folder = parse_qs(urlsplit(job.url).query)["host"][0]
            engine = create_async_engine(
                f"postgresql+asyncpg://postgres@/postgres?host={folder}", pool_size=CONNECTIONS, max_overflow=0
            )
            sessions = [SQLAlchemySession(uuid4().hex, engine=engine, create_tables=True) for _ in range(job.sessions)]
            item: Any = {"role": "user", "content": TEXT_1_KB}
            calls = [partial(each.add_items, [item]) for each in sessions]
            try:
                return await _append(job, calls, calls)
            finally:
                await engine.dispose()

        return on_loop(run)


PEERS: list[Peer] = [TreeringOnPostgres(), LangGraphOnPostgres(), OpenAIAgentsOnPostgres()]
