"""Waiting for what is not in a log yet, for readers that ask page by page instead of following a stream."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from ..actors.session.session import Session
from ..events.entries import Entry
from ..events.errors import TreeringError
from ..events.stores.base import Cursor
from ..projections.feed_events import Reset
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

    async def until_stopping() -> None:
        await service.stopping.wait()
        tasks.cancel_scope.cancel()

    def counts(item: Entry | Reset) -> bool:
        return isinstance(item, Reset) or not types or item.type in types

    failure: TreeringError | None = None  # which the task group would wrap
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_stopping)
        with anyio.move_on_after(wait_s):
            try:
                async with session.subscribe(after=Cursor(session.cursor.generation, after)) as entries:
                    while not any(map(counts, await entries.receive_many())):
                        pass
            except StopAsyncIteration:
                failure = not_found(session.id)
            except TreeringError as error:
                failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
