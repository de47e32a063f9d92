"""The batcher: all appends that wait, of all sessions, go to the database in one statement and one commit.

No task or thread is dedicated to it. An append that finds less than `IN_FLIGHT_MAX` statements under way leads the next
one: it lets every append join that is ready, has a worker thread send the statement, and wakes the others. If the
server refuses a statement, its appends are sent again in halves, so that one that cannot be stored fails alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate

import psycopg
from anyio import CancelScope, Event, current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import cancel_shielded_checkpoint

from ...events.errors import AppendFailed, AppendInDoubt, TreeringError
from ...events.offload import Offload, carried_out
from ...events.stores.base import Append, Committed, Cursor, Failed, Fenced, InDoubt, Outcome
from .connections import Connections, is_lost
from .owning import Holdings, history_of
from .schema import Connection
from .statements import Statements

IN_FLIGHT_MAX = 2
"""How many statements of one store are under way at the same time."""

BATCH_APPENDS_MAX = 4096
"""The most appends in one statement."""

BATCH_BYTES_MAX = 8 * 1024 * 1024
"""The most bytes in one statement, unless a single append is larger."""

WAITING_MAX = 65536
"""The most appends that wait for a statement; further ones fail, and nothing of them is written."""

_PAYLOAD_BYTES_MAX = 7900  # a notification holds less than 8000


class _Waiting:
    """An append that waits for its outcome, and wakes its caller."""

    __slots__ = ("append", "outcome", "size", "woken")

    def __init__(self, append: Append, woken: Event) -> None:
        self.append = append
        self.outcome: Outcome | None = None
        self.size = sum(map(len, append.lines)) + len(append.header or b"")
        self.woken = woken


class Committer:
    """Sends appends to the database.

    Args:
        connections: The connections.
        holdings: What this store holds.
        statements: The SQL.
        channel: The channel on which changes are told.
        offload: Runs blocking work.
    """

    def __init__(
        self,
        connections: Connections,
        holdings: Holdings,
        statements: Statements,
        channel: str,
        offload: Offload,
    ) -> None:
        self._connections = connections
        self._holdings = holdings
        self._statements = statements
        self._channel = channel
        self._offload = offload
        self._queue: deque[_Waiting] = deque()
        self._in_flight = 0
        self.batches = 0

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        """Append, and return the outcomes; see `Store.append`."""
        if len(self._queue) + len(appends) > WAITING_MAX:
            error = AppendFailed(
                f"{self._connections.address.place}: {len(self._queue)} appends wait for the database: try again later"
            )
            return [Failed(each.expected_head, error) for each in appends]
        woken = Event()
        mine = [_Waiting(each, woken) for each in appends]
        self._queue.extend(mine)
        cancellation: BaseException | None = None
        with CancelScope(shield=True):
            while any(each.outcome is None for each in mine):
                try:
                    if self._in_flight < IN_FLIGHT_MAX and self._queue:
                        await self._lead()
                    else:
                        await woken.wait()
                        if woken.is_set():
                            woken = self._rearmed(mine)
                except get_cancelled_exc_class() as error:
                    cancellation = error
        if cancellation is not None and current_effective_deadline() != float("-inf"):
            raise cancellation  # that of a cancelled scope is delivered again, after the caller received its outcome
        return [each.outcome for each in mine if each.outcome is not None]

    @staticmethod
    def _rearmed(mine: Sequence[_Waiting]) -> Event:
        woken = Event()
        for each in mine:
            each.woken = woken
        return woken

    async def _lead(self) -> None:
        """Send one statement for what waits."""
        self._in_flight += 1
        batch: list[_Waiting] = []
        try:
            await cancel_shielded_checkpoint()  # lets all appends that are ready join
            batch = self._next_batch()
            if batch:
                await carried_out(self._offload, self._commit, batch)
        finally:
            self._in_flight -= 1
            for each in batch:
                each.woken.set()
            if self._queue:
                self._queue[0].woken.set()  # someone has to lead the next one
            self.batches += 1

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._queue and len(batch) < BATCH_APPENDS_MAX:
            size += self._queue[0].size
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(self._queue.popleft())
        return batch

    # -- in a worker thread

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        """Send a batch; every append of it has an outcome when this returns."""
        place = self._connections.address.place
        try:
            try:
                with self._connections.lent() as connection:
                    self._send(connection, batch)
            except psycopg.Error as error:
                self._note_failure(batch, error)
        except TreeringError as error:  # no connection: nothing was sent
            failure = AppendFailed(f"nothing was appended: {error}")
            failure.__cause__ = error
            _settle(batch, lambda each: Failed(each.expected_head, failure))
        except BaseException as error:
            doubt = AppendInDoubt(f"{place}: the append broke off ({error!r}): retry with the same command id")
            _settle(batch, lambda _: InDoubt(doubt))
            raise

    def _note_failure(self, batch: Sequence[_Waiting], error: psycopg.Error) -> None:
        told = self._connections.told(error)
        unsettled = [each for each in batch if each.outcome is None]
        if is_lost(error):
            for each in unsettled:
                self._holdings.doubt(each.append.lease)
            doubt = AppendInDoubt(f"{told}; the append may be stored: retry with the same command id")
            doubt.__cause__ = error
            _settle(unsettled, lambda _: InDoubt(doubt))
        elif len(unsettled) > 1:
            half = len(unsettled) // 2
            self._commit(unsettled[:half])
            self._commit(unsettled[half:])
        else:
            failure = AppendFailed(f"nothing was appended: {told}")
            failure.__cause__ = error
            _settle(unsettled, lambda each: Failed(each.expected_head, failure))

    def _send(self, connection: Connection, batch: Sequence[_Waiting]) -> None:
        appends = [each.append for each in batch]
        lines = [line[:-1] for each in appends for line in each.lines]
        seqs = [seq for each in appends for seq in range(each.expected_head.seq + 1, _end(each) + 1)]
        of = [n for n, each in enumerate(appends, 1) for _ in each.lines]
        restored = self._connections.restored
        rows = connection.execute(
            self._statements.append,
            {
                "owner": self._holdings.owner,
                "refs": [each.lease.ref for each in appends],
                "epochs": [self._holdings.epoch_of(each.lease) for each in appends],
                "histories": [history_of(each.expected_head.generation, restored) for each in appends],
                "heads": [each.expected_head.seq for each in appends],
                "counts": [len(each.lines) for each in appends],
                "sizes": [each.size for each in batch],
                "headers": [each.header for each in appends],
                "of": of,
                "seqs": seqs,
                "lines": lines,
                "channel": self._channel,
                "payloads": payloads_of([each.lease.ref for each in appends]),
            },
        ).fetchall()
        landed = {n: Cursor(f"{restored}.{history}", head) for n, history, head in rows}
        for n, each in enumerate(batch, 1):
            if n in landed:
                each.outcome = Committed(landed[n])
        missing = [each for each in batch if each.outcome is None]
        if missing:
            states = self._holdings.states(connection, [each.append.lease.ref for each in missing])
            for each in missing:
                state = states.get(each.append.lease.ref)
                each.outcome = Fenced(Cursor("", 0), 0) if state is None else Fenced(state.head, state.epoch)


def payloads_of(refs: Sequence[str]) -> list[str]:
    """Return notifications that name logs, a line each, within the bound of the server on their size."""
    ends = list(accumulate(len(ref.encode()) + 1 for ref in refs))
    payloads: list[str] = []
    begin, base = 0, 0
    for n, end in enumerate(ends):
        if end - base > _PAYLOAD_BYTES_MAX:
            payloads.append("\n".join(refs[begin:n]))
            begin, base = n, ends[n - 1]
    if refs:
        payloads.append("\n".join(refs[begin:]))
    return payloads


def _end(append: Append) -> int:
    return append.expected_head.seq + len(append.lines)


def _settle(batch: Sequence[_Waiting], outcome: Callable[[Append], Outcome]) -> None:
    for each in batch:
        if each.outcome is None:
            each.outcome = outcome(each.append)
