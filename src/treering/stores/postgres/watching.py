"""Noticing changes: one LISTEN for the whole store, and a look at the rows now and then.

No task or thread is dedicated to it. Of all who wait, one waits on the connection's socket for the others. A lost
notification, or a lost connection, costs `LOOK_S` seconds: then the rows of what is watched tell whether they changed,
also while other logs are told of all the time. A connection that did not tell what such a look finds is opened anew: a
network that swallows packets does not close it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

import anyio
import psycopg
from psycopg import sql

from ...events.errors import StoreUnavailable
from ...events.offload import Offload
from ...events.stores.base import Ref
from .connections import Connections
from .schema import Connection

LOOK_S = 2.0
"""After how many seconds the rows of the watched logs are looked at, whatever was told meanwhile."""

_Mark = tuple[object, ...]


class Watch(AsyncIterator[set[Ref]]):
    """One watch: the logs, and which of them may have changed."""

    def __init__(self, listener: Listener, refs: Sequence[Ref]) -> None:
        self._listener = listener
        self.refs = frozenset(refs)
        self.changed: set[Ref] = set(refs)  # what changes before anybody listens is found by looking
        self.event = anyio.Event()

    def note(self, ref: Ref) -> None:
        """Note that a log may have changed."""
        self.changed.add(ref)
        self.event.set()

    async def __anext__(self) -> set[Ref]:
        """Wait for changes, and return the logs."""
        await self._listener.wait(self)
        changed, self.changed = self.changed, set()
        return changed

    async def aclose(self) -> None:
        """End the watch."""
        self._listener.end(self)


class Listener:
    """The watches of one store.

    Args:
        connections: The connections, of which the one that listens is an extra one.
        look: The statement that finds, for each of `refs`, what changes with it; None if its watchers look themselves.
        channel: The channel on which changes are told.
        offload: Runs blocking work.
    """

    def __init__(self, connections: Connections, look: bytes | None, channel: str, offload: Offload) -> None:
        self._connections = connections
        self._statement = look
        self._channel = channel
        self._offload = offload
        self._watches: dict[Ref, set[Watch]] = {}
        self._sleeping: dict[Watch, None] = {}
        self._marks: dict[Ref, _Mark] = {}
        self._told: set[Ref] = set()  # since the last look
        self._untold: set[Ref] = set()  # what the last look found, and nothing has told of yet
        self._look_at = float("-inf")
        self._connection: Connection | None = None
        self._waiting = False  # whether somebody waits on the socket
        self._closed = False

    def watch(self, refs: Sequence[Ref]) -> Watch:
        """See `Watches.watch`."""
        watch = Watch(self, refs)
        for ref in watch.refs:
            self._watches.setdefault(ref, set()).add(watch)
        return watch

    def end(self, watch: Watch) -> None:
        """Forget a watch."""
        for ref in watch.refs:
            others = self._watches.get(ref, set())
            others.discard(watch)
            if not others:
                self._watches.pop(ref, None)
                self._marks.pop(ref, None)

    async def wait(self, watch: Watch) -> None:
        """Wait until one of the logs of a watch may have changed."""
        while not watch.changed:
            if self._waiting:
                watch.event = anyio.Event()
                self._sleeping[watch] = None
                try:
                    await watch.event.wait()
                finally:
                    self._sleeping.pop(watch, None)
                continue
            self._waiting = True
            try:
                await self._listen()
            finally:
                self._waiting = False
                if self._sleeping:  # one of them waits on the socket next
                    next(iter(self._sleeping)).event.set()

    async def _listen(self) -> None:
        """Wait on the socket for notifications, and look at the rows when it is time to."""
        if self._closed:
            await anyio.sleep_forever()
        if self._connection is None:
            try:
                await self._offload(self._connect)
            except StoreUnavailable:
                await anyio.sleep(LOOK_S)
                return
            if self._closed:
                self._drop()
                return
            self._untold.clear()
            await self._look(is_first=True)  # at what was missed
            return
        try:
            with anyio.move_on_at(self._look_at):
                await anyio.wait_readable(self._connection.fileno())
            told = self._take(self._connection)
        except (psycopg.Error, OSError, anyio.ClosedResourceError):
            self._drop()
            return
        self._told |= told
        self._untold -= told
        self._tell(told)
        if anyio.current_time() >= self._look_at:
            await self._look()

    def _tell(self, refs: Iterable[Ref]) -> None:
        for ref in refs:
            for watch in self._watches.get(ref, ()):
                watch.note(ref)

    @staticmethod
    def _take(connection: Connection) -> set[Ref]:
        pgconn = connection.pgconn
        pgconn.consume_input()
        told: set[Ref] = set()
        while (note := pgconn.notifies()) is not None:
            told.update(note.extra.decode().split("\n"))
        return told

    async def _look(self, *, is_first: bool = False) -> None:
        """Compare the rows of the watched logs with those that were seen before.

        Args:
            is_first: Whether the connection has not listened until now, so that it cannot tell of what is found.
        """
        if self._untold:  # what the look before this one found should have been told since
            self._drop()
            return
        self._look_at = anyio.current_time() + LOOK_S
        if self._statement is None:
            return
        refs = list(self._watches)
        try:
            found = await self._offload(self._marks_of, self._statement, refs)
        except StoreUnavailable:
            self._drop()
            return
        changed = {ref for ref in refs if self._marks.get(ref, ()) != found[ref]}
        self._untold = set() if is_first else {ref for ref in changed if ref in self._marks} - self._told
        self._marks, self._told = found, set()
        self._tell(changed)

    def _marks_of(self, look: bytes, refs: Sequence[Ref]) -> dict[Ref, _Mark]:
        wanted = {"refs": list(refs)}
        rows = self._connections.ask(lambda connection: connection.execute(look, wanted).fetchall())
        found: dict[Ref, _Mark] = dict.fromkeys(refs, (None,))
        for ref, *mark in rows:
            found[ref] = (self._connections.restored, *mark)
        return found

    def _connect(self) -> None:
        """Connect, in a thread whose answer nobody may be waiting for any more."""
        connection = self._connections.listen()
        try:
            connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
        except psycopg.Error as error:
            connection.close()
            raise self._connections.told(error) from error
        self._drop()  # what an earlier one made whose caller was cancelled
        self._connection = connection
        if self._closed:
            self._drop()

    def reset(self) -> None:
        """Listen anew, since the connection does not tell what it should."""
        if self._connection is not None and self._waiting:
            anyio.notify_closing(self._connection.fileno())
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the connection that listens; watches wait on, and see nothing any more."""
        self._closed = True
        self.reset()
