"""What a store holds: its leases, and the row that keeps them alive.

A host has one row, with the time until which it counts as alive by the server's clock. Renewing that row renews the
leases on all its logs. Whoever takes over a log of a host that is not alive gives the log a new epoch, and what the old
owner still writes names an old one.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence

from msgspec import Struct

from ...events.dialects.detect import detect
from ...events.errors import LeaseLost, ReadOnly, SessionLocked, StoreUnavailable
from ...events.stores.base import Cursor, Lease, Ref
from ...events.stores.hosts import HostRow
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
        name: The name of this host, for people.
        address: Where this host answers requests, for other hosts; None if it does not.
        announced: Whether this store is a host even while it holds nothing.
        draining: Whether this host was told to take no more logs, when it last renewed.
    """

    def __init__(self, connections: Connections, statements: Statements) -> None:
        self._connections = connections
        self._statements = statements
        self._held: dict[Ref, Held] = {}
        self._alive_until = float("-inf")
        self._is_known = False  # whether the database may have a row of this host
        # Several tries to renew fit into a lease, and none waits behind an acquisition for longer.
        self._answer_s = max(connections.address.lease_s / 3, _ANSWER_LEAST_S)
        self._lock = threading.Lock()
        self.owner = uuid.uuid4().hex
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.address: str | None = None
        self.announced = False
        self.draining = False

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

    @property
    def is_alive(self) -> bool:
        """Whether this host counts as alive for sure: its clock began to count before the server's did."""
        return time.monotonic() < self._alive_until

    def holds(self, lease: Lease) -> bool:
        """Return whether a lease is not known to be over."""
        held = self._held.get(lease.ref)
        return held is not None and held.lease.epoch == lease.epoch

    # -- in a worker thread

    def confirm(self, lease: Lease) -> bool:
        """Return whether a lease holds for sure; renew all of them if this host may count as dead."""
        if not self.is_alive:
            self.renew([lease])
        return self.holds(lease)

    def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Acquire logs; see `Store.acquire`."""
        with self._lock, self._connections.use(self._answer_s, reserved=True) as connection:
            found: dict[Ref, Lease | SessionLocked] = {
                ref: SessionLocked(f"{ref} is owned by {self._held[ref].lease.owner} in this program: read it, or wait")
                for ref in refs
                if ref in self._held
            }
            try:
                self._acquire_all(connection, refs, owner, found)
            except BaseException:
                for ref, each in found.items():
                    if isinstance(each, Lease):  # what the database keeps of it goes with the next renewal
                        self._held.pop(ref, None)
                raise
            return [found.get(ref) or SessionLocked(f"{ref} keeps changing hands: try again", left_s=0) for ref in refs]

    def _acquire_all(
        self, connection: Connection, refs: Sequence[Ref], owner: str, found: dict[Ref, Lease | SessionLocked]
    ) -> None:
        for _ in range(_TRIES_MAX):
            wanted = [ref for ref in dict.fromkeys(refs) if ref not in found]
            if wanted:
                self._acquire(connection, wanted, owner, found)
        locked = [ref for ref in dict.fromkeys(refs) if ref not in found]
        if locked:
            self._end_unfinished(connection, locked, found)

    def _acquire(
        self, connection: Connection, refs: Sequence[Ref], owner: str, found: dict[Ref, Lease | SessionLocked]
    ) -> None:
        began, self._is_known = time.monotonic(), True
        rows = connection.execute(self._statements.acquire, {**self._me(), "refs": list(refs)}).fetchall()
        half_s = self._connections.address.lease_s / 2  # the statement leaves the row alone if as much is left
        self._alive_until = max(self._alive_until, began + half_s)
        try:
            for ref, epoch, history, seq, header, packed in rows:
                if header is None:
                    lease = Lease(ref, owner, epoch, Cursor("", 0))
                else:
                    opened = detect(header, ref)
                    head = self.cursor(history, seq)
                    lease = Lease(ref, owner, epoch, head, opened.header, opened.dialect, packed=packed)
                self._held[ref] = Held(lease, epoch)
                found[ref] = lease
        except BaseException:
            self._give_up(connection, [(row[0], row[1]) for row in rows])
            raise
        if len(rows) < len(refs):
            missing = [ref for ref in refs if ref not in found]
            for ref, name, address, left_s in connection.execute(self._statements.holders, {"refs": missing}):
                found[ref] = SessionLocked(
                    f"{ref} is owned by the host {name} for {max(left_s, 0):.0f} s more, or as long as it lives: "
                    f"read it, or wait",
                    host=name,
                    left_s=left_s,
                    address=address,
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
        if not (leases or self.announced):
            return []
        with self._lock:
            before = {ref: held.epoch for ref, held in self._held.items()}
            epochs = self._connections.ask(self._renew, self._answer_s, reserved=True)
            for ref, epoch in before.items():
                held = self._held[ref]
                # While a log is resolved, the epochs here and there differ for a moment, or until the next try.
                is_resolved = ref in epochs and (held.doubtful or held.epoch != epoch)
                if epochs.get(ref) != epoch and not is_resolved:
                    del self._held[ref]
            strays = [(ref, epoch) for ref, epoch in epochs.items() if ref not in self._held]
            if strays:  # acquired or released by a statement whose answer did not arrive
                with self._connections.use(self._answer_s, reserved=True) as connection:
                    self._give_up(connection, strays)
            return [self.holds(lease) for lease in leases]

    def _renew(self, connection: Connection) -> dict[Ref, int]:
        """Renew, and return the epochs of all logs that are ours."""
        began, self._is_known = time.monotonic(), True
        rows = connection.execute(self._statements.renew, self._me()).fetchall()
        self._alive_until = began + self._connections.address.lease_s
        self.draining = any(draining for draining, _, _ in rows)
        return {ref: epoch for _, ref, epoch in rows if ref is not None}

    def _me(self) -> dict[str, object]:
        lease_s = self._connections.address.lease_s
        return {"owner": self.owner, "name": self.name, "address": self.address, "lease_s": lease_s}

    def hosts(self) -> list[HostRow]:
        """Return the hosts; see `Hosts.hosts`."""
        with self._connections.use() as connection:
            rows = connection.execute(self._statements.hosts).fetchall()
        names = HostRow.__struct_fields__
        return [HostRow(**dict(zip(names, row, strict=True))) for row in rows]

    def drain(self, name: str) -> bool:
        """Tell a host to take no more logs; see `Hosts.drain`."""
        with self._connections.use() as connection:
            return connection.execute(self._statements.drain, {"name": name}).fetchone() is not None

    def release(self, leases: Sequence[Lease]) -> None:
        """Release leases; see `Store.release`.

        If the server does not answer, the next renewal releases them, or they end with this host.
        """
        with self._lock:
            ours = [(lease.ref, self._held.pop(lease.ref).epoch) for lease in leases if self.holds(lease)]
            if not ours:
                return
            try:
                with self._connections.use(self._answer_s, reserved=True) as connection:
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
        """Release everything at once, and end being a host; if the server does not answer, the lease ends by itself."""
        with self._lock:
            left = len(self._held)
            self._held.clear()
            if not self._is_known:
                return
            try:
                with self._connections.use(self._answer_s, reserved=True) as connection:
                    connection.execute(self._statements.leave, {"owner": self.owner})
            except StoreUnavailable as error:
                logger().warning("release_failed", refs=left, error=str(error))
            except ReadOnly as error:  # who may not write holds nothing, unless the server became a standby
                if left:
                    logger().warning("release_failed", refs=left, error=str(error))

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
            if self.holds(lease):
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


def history_of(generation: str, restored: int) -> int:
    """Return the number of a history from the generation of a cursor; one that no log has if it is another's."""
    before, _, number = generation.partition(".")
    if before != str(restored) or not number.isascii() or not number.isdigit() or len(number) > 18:
        return -1
    return int(number)
