"""What a store holds: its leases, and the row that keeps them alive.

A host has one row, with the time until which it counts as alive by the server's clock. Renewing that row renews the
leases on all its logs. Whoever takes over a log of a host that is not alive gives the log a new epoch, and what the old
owner still writes names an old one.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Sequence

from msgspec import Struct

from ...events.dialects.detect import detect
from ...events.errors import LeaseLost, SessionLocked, StoreUnavailable
from ...events.stores.base import Cursor, Lease, Ref
from ...events.telemetry import logger
from .connections import Connections
from .schema import Connection
from .statements import Statements

_ANSWER_LEAST_S = 1.0
_TRIES_MAX = 3  # how often a log is tried that changed hands between two looks


class Held(Struct):
    """A log that this store holds.

    Attributes:
        lease: The lease, as the caller knows it.
        epoch: The epoch in the database, which is a later one after an append in doubt.
        doubtful: Whether a statement may still be under way that names `epoch`.
    """

    lease: Lease
    epoch: int
    doubtful: bool = False


class State(Struct, frozen=True):
    """The row of a log, as far as writing needs it."""

    owner: str | None
    epoch: int
    head: Cursor


class Holdings:
    """The leases of one store.

    Args:
        connections: The connections.
        statements: The SQL.

    Attributes:
        owner: The name of this store in the rows of its logs.
    """

    def __init__(self, connections: Connections, statements: Statements) -> None:
        self._connections = connections
        self._statements = statements
        self._held: dict[Ref, Held] = {}
        self._is_known = False  # whether the database may have a row of this host
        # Several tries to renew fit into a lease, and none waits behind an acquisition for longer.
        self._answer_s = max(connections.address.lease_s / 3, _ANSWER_LEAST_S)
        self._lock = threading.Lock()
        self.owner = uuid.uuid4().hex
        self.name = f"{socket.gethostname()}:{os.getpid()}"

    # -- on any thread, without waiting

    def epoch_of(self, lease: Lease) -> int:
        """Return the epoch by which a lease writes at present; one that names no log's if it is over."""
        held = self._held.get(lease.ref)
        return held.epoch if held is not None and held.lease.epoch == lease.epoch else lease.epoch

    def doubt(self, lease: Lease) -> None:
        """Note that a statement of a lease may still be under way."""
        held = self._held.get(lease.ref)
        if held is not None and held.lease.epoch == lease.epoch:
            held.doubtful = True

    # -- in a worker thread

    def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Acquire logs; see `Store.acquire`."""
        with self._lock, self._connections.use(self._answer_s) as connection:
            found: dict[Ref, Lease | SessionLocked] = {
                ref: SessionLocked(f"{ref} is owned by {self._held[ref].lease.owner} in this program: read it, or wait")
                for ref in refs
                if ref in self._held
            }
            for _ in range(_TRIES_MAX):
                wanted = [ref for ref in dict.fromkeys(refs) if ref not in found]
                if not wanted:
                    break
                self._acquire(connection, wanted, owner, found)
            locked = [ref for ref in dict.fromkeys(refs) if ref not in found]
            if locked:
                self._end_unfinished(connection, locked, found)
            return [found.get(ref) or _changing_hands(ref) for ref in refs]

    def _acquire(
        self, connection: Connection, refs: Sequence[Ref], owner: str, found: dict[Ref, Lease | SessionLocked]
    ) -> None:
        self._is_known = True
        rows = connection.execute(self._statements.acquire, {**self._me(), "refs": list(refs)}).fetchall()
        try:
            for ref, epoch, history, head, header in rows:
                if header is None:
                    lease = Lease(ref, owner, epoch, Cursor("", 0))
                else:
                    opened = detect(header, ref)
                    lease = Lease(ref, owner, epoch, self.cursor(history, head), opened.header, opened.dialect)
                self._held[ref] = Held(lease, epoch)
                found[ref] = lease
        except BaseException:
            self._give_up(connection, [(row[0], row[1]) for row in rows])
            raise
        if len(rows) < len(refs):
            missing = [ref for ref in refs if ref not in found]
            for ref, name, _, left_s in connection.execute(self._statements.holders, {"refs": missing}):
                found[ref] = SessionLocked(
                    f"{ref} is owned by the host {name} for {max(left_s, 0):.0f} s more, or as long as it lives: "
                    f"read it, or wait",
                    host=name,
                    left_s=left_s,
                )

    def _end_unfinished(
        self, connection: Connection, refs: Sequence[Ref], found: dict[Ref, Lease | SessionLocked]
    ) -> None:
        """End statements that hosts without a lease left unfinished, whose rows nobody could take meanwhile."""
        for ref, left_s, _ in connection.execute(self._statements.end_unfinished, {"refs": refs}):
            found[ref] = SessionLocked(
                f"{ref} is being written by a host that does not answer: try again", left_s=left_s
            )

    def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Renew the lease on all logs; see `Store.renew`."""
        if not leases:
            return []
        with self._lock, self._connections.use(self._answer_s) as connection:
            before = {ref: held.epoch for ref, held in self._held.items()}
            epochs = self._renew(connection)
            for ref, epoch in before.items():
                held = self._held[ref]
                # While a log is resolved, the epochs here and there differ for a moment, or until the next try.
                is_resolved = ref in epochs and (held.doubtful or held.epoch != epoch)
                if epochs.get(ref) != epoch and not is_resolved:
                    del self._held[ref]
            strays = [(ref, epoch) for ref, epoch in epochs.items() if ref not in self._held]
            if strays:  # acquired or released by a statement whose answer did not arrive
                self._give_up(connection, strays)
            return [self._is_held(lease) for lease in leases]

    def _renew(self, connection: Connection) -> dict[Ref, int]:
        """Renew, and return the epochs of all logs that are ours."""
        self._is_known = True
        return dict(connection.execute(self._statements.renew, self._me()).fetchall())

    def _me(self) -> dict[str, object]:
        return {"owner": self.owner, "name": self.name, "lease_s": self._connections.address.lease_s}

    def release(self, leases: Sequence[Lease]) -> None:
        """Release leases; see `Store.release`.

        If the server does not answer, the next renewal releases them, or they end with this host.
        """
        with self._lock:
            ours = [(lease.ref, self._held.pop(lease.ref).epoch) for lease in leases if self._is_held(lease)]
            if not ours:
                return
            try:
                with self._connections.use() as connection:
                    self._give_up(connection, ours)
            except StoreUnavailable as error:
                logger().warning("release_failed", refs=len(ours), error=str(error))

    def _give_up(self, connection: Connection, refs: Sequence[tuple[Ref, int]]) -> None:
        connection.execute(
            self._statements.release,
            {"owner": self.owner, "refs": [ref for ref, _ in refs], "epochs": [epoch for _, epoch in refs]},
        )

    def holder(self, ref: Ref) -> str | None:
        """Return who holds a log, in words for people; None if nobody does."""
        statement, wanted = self._statements.holders, {"refs": [ref]}
        row = self._connections.ask(lambda connection: connection.execute(statement, wanted).fetchone())
        return None if row is None else f"the host {row[1]}"

    def leave(self) -> None:
        """Release everything at once, and end being a host."""
        with self._lock:
            self._held.clear()
            if self._is_known:
                with self._connections.use() as connection:
                    connection.execute(self._statements.leave, {"owner": self.owner})

    def resolve(self, lease: Lease) -> Cursor:
        """Return the present end of a log, after which no earlier statement of ours can change it.

        Raises:
            LeaseLost: The lease is over.
        """
        with self._connections.use() as connection:
            held = self._held.get(lease.ref)
            if held is None or held.lease.epoch != lease.epoch:
                raise self.over(lease)
            epoch = held.epoch
            for _ in range(_TRIES_MAX):
                if held.doubtful:
                    row = connection.execute(
                        self._statements.fence, {"owner": self.owner, "ref": lease.ref, "epoch": epoch}
                    ).fetchone()
                    if row is not None:
                        held.epoch, held.doubtful = row[0], False
                        return self.cursor(row[1], row[2]) if row[3] else Cursor("", 0)
                state = self.states(connection, [lease.ref]).get(lease.ref)
                if state is None or state.owner != self.owner:
                    break
                if held.doubtful:
                    epoch = state.epoch  # that of an earlier try, whose answer did not arrive
                elif state.epoch == held.epoch:
                    return state.head
                else:
                    break
            raise self.over(lease)

    def states(self, connection: Connection, refs: Sequence[Ref]) -> dict[Ref, State]:
        """Return the rows of logs; those that do not exist are left out."""
        rows = connection.execute(self._statements.state, {"refs": list(refs)})
        return {
            ref: State(owner, epoch, self.cursor(history, head) if exists else Cursor("", 0))
            for ref, epoch, history, head, exists, owner in rows
        }

    def forget(self, lease: Lease) -> None:
        """Note that a lease has ended with its log."""
        with self._lock:
            if self._is_held(lease):
                del self._held[lease.ref]

    def over(self, lease: Lease) -> LeaseLost:
        """Return the error for a lease that has ended."""
        return LeaseLost(
            f"{self._connections.address.place}: this host no longer holds {lease.ref}, since it did not answer for "
            f"{self._connections.address.lease_s:g} s, or let it go: open the session again; nothing was written"
        )

    def cursor(self, history: int, head: int) -> Cursor:
        """Return a place in a log."""
        return Cursor(f"{self._connections.restored}.{history}", head)

    def _is_held(self, lease: Lease) -> bool:
        held = self._held.get(lease.ref)
        return held is not None and held.lease.epoch == lease.epoch


def history_of(generation: str, restored: int) -> int:
    """Return the number of a history from the generation of a cursor; one that no log has if it is another's."""
    before, _, number = generation.partition(".")
    if before != str(restored) or not number.isascii() or not number.isdigit() or len(number) > 18:
        return -1
    return int(number)


def _changing_hands(ref: Ref) -> SessionLocked:
    return SessionLocked(f"{ref} keeps changing hands: try again", left_s=0)
