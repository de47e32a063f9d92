"""The PostgreSQL server of the benchmarks, and what its driver does without treering."""

from __future__ import annotations

import atexit
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

import anyio
import psycopg
from psycopg import sql
from psycopg.abc import Params
from psycopg.rows import TupleRow

from treering import SessionHost
from treering.stores.postgres.local_server import LocalServer, find_programs
from treering.stores.postgres.statements import Statements

from .timing import Sample

FLUSH_MS = 2
"""How much longer a flush takes on the slow server."""

_OPTIONS = {"use_uvloop": find_spec("uvloop") is not None}
T = TypeVar("T")

_schemas = itertools.count(1)


def is_installed() -> bool:
    """Return whether a server can be started here."""
    return find_programs() is not None


@cache
def server(*, slow: bool = False) -> LocalServer:
    """Return the server of this run, which flushes each commit, as servers do by default; a slow one waits before."""
    settings = {"shared_buffers": "256MB", "max_wal_size": "4GB"}
    if slow:
        settings |= {"commit_delay": str(FLUSH_MS * 1000), "commit_siblings": "0"}
    started = LocalServer(durable=True, settings=settings)
    atexit.register(started.close)
    return started.__enter__()


def new_schema() -> str:
    """Return the name of a schema that is not there yet."""
    return f"bench_{next(_schemas)}"


def run(job: Callable[[], Awaitable[T]]) -> T:
    """Run a job on the quickest loop."""
    return anyio.run(job, backend="asyncio", backend_options=_OPTIONS)


async def fill(url: str, sessions: int, texts: list[str]) -> list[str]:
    """Create sessions with these messages each, and close their host; return their ids."""
    async with SessionHost(url) as host:
        made = [await host.create() for _ in range(sessions)]
        for text in texts:
            async with anyio.create_task_group() as tasks:
                for session in made:
                    tasks.start_soon(session.append_message, "user", text)
        return [session.id for session in made]


@contextmanager
def recorded(asked: list[tuple[bytes, Params | None]]) -> Iterator[None]:
    """Record the statements that the driver sends, with their parameters, as long as the block runs."""
    execute = psycopg.Cursor.execute

    def record(
        self: psycopg.Cursor[TupleRow],
        query: str | bytes | sql.SQL | sql.Composed,
        params: Params | None = None,
        **options: Any,  # noqa: ANN401  # the driver's
    ) -> psycopg.Cursor[TupleRow]:
        if isinstance(query, bytes):
            asked.append((query, params))
        return execute(self, query, params, **options)

    psycopg.Cursor.execute = record  # type: ignore[assignment, method-assign]  # for the length of the block
    try:
        yield
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]


class BareStatement:
    """The statement by which the store appends, sent by the driver alone: one line to each of some logs.

    Args:
        url: An address of libpq.
        schema: The schema, whose logs are taken.
        line: The line.
    """

    def __init__(self, url: str, schema: str, line: bytes) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._statement = Statements(schema).append
        taken = sql.SQL("update {}.logs set owner = 'bare', epoch = 1 returning ref, history, head")
        rows = self._connection.execute(taken.format(sql.Identifier(schema))).fetchall()
        count = len(rows)
        self._heads = [head for _, _, head in rows]
        self._parameters: dict[str, object] = {
            "owner": "bare",
            "refs": [ref for ref, _, _ in rows],
            "epochs": [1] * count,
            "histories": [history for _, history, _ in rows],
            "counts": [1] * count,
            "sizes": [len(line)] * count,
            "headers": [None] * count,
            "of": list(range(1, count + 1)),
            "lines": [line] * count,
            "channel": "bench_bare",
            "payloads": [],
        }

    def append(self, sample: Sample) -> None:
        """Append a line to each log by one statement, and note how long it took."""
        began = time.perf_counter()
        seqs = [head + 1 for head in self._heads]
        wanted = self._parameters | {"heads": self._heads, "seqs": seqs}
        rows = self._connection.execute(self._statement, wanted).fetchall()
        sample.latencies_s.append(time.perf_counter() - began)
        assert len(rows) == len(seqs)
        self._heads = seqs

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
