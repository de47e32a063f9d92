"""Waiting as long as a client does: for its answer, or for what is not in a log yet if it reads page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

from ..actors.session.session import Session
from ..events.entries import Entry
from ..events.errors import TreeringError
from ..events.stores.base import Cursor
from ..projections.feed_events import Reset
from .routing import Call
from .service import Service, not_found


async def until_newer(service: Service, session: Session, after: int, types: Sequence[str], wait_s: float) -> None:
    """Wait until a session has an entry after a seq or another log, the wait is over, or the server stops.

    Args:
        service: The server.
        session: The session.
        after: The seq.
        types: The types of entries that count; none for all.
        wait_s: Seconds.

    Raises:
        SessionNotFound: The session was deleted meanwhile.
    """

    def counts(item: Entry | Reset) -> bool:
        return isinstance(item, Reset) or not types or item.type in types

    async with _until(service.stopping.wait):
        with anyio.move_on_after(wait_s):
            try:
                async with session.subscribe(after=Cursor(session.cursor.generation, after)) as entries:
                    while not any(map(counts, await entries.receive_many())):
                        pass
            except StopAsyncIteration:
                raise not_found(session.id) from None


@asynccontextmanager
async def while_there(call: Call[object, object]) -> AsyncGenerator[None]:
    """Do something as long as the client waits for it.

    Raises:
        ConnectionResetError: The client left.
    """
    is_gone = False

    async def until_gone() -> None:
        nonlocal is_gone
        while (await call.incoming.receive())["type"] != "http.disconnect":
            pass
        is_gone = True

    async with _until(until_gone):
        yield
    if is_gone:
        call.service.metrics.abandoned.inc()
        raise ConnectionResetError("the client left before its answer was there")


@asynccontextmanager
async def _until(over: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
    """Do something until it is done, or something else is over."""
    failure: TreeringError | None = None  # which the task group would wrap

    async def leave_when_over() -> None:
        await over()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave_when_over)
        try:
            yield
        except TreeringError as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
