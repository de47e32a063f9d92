"""The batcher: all appends that wait, of all sessions, go to the database in one statement and one commit.

No task or thread is dedicated to it. Whoever finds no batch that can be joined opens one, and leads it: when less than
`IN_FLIGHT_MAX` statements are under way, it lets every append join that is ready, has a worker thread send the
statement, and wakes the others, who wait for one event. If the server refuses a statement, its appends are sent again
in halves, so that one that cannot be stored fails alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

import psycopg
from anyio import Event, current_effective_deadline, get_cancelled_exc_class
from anyio.lowlevel import cancel_shielded_checkpoint

from ...events.errors import AppendFailed, AppendInDoubt, TreeringError
from ...events.offload import Offload, carried_out, seen_through
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


class _Batch:
    """The appends of one statement, and what became of each.

    Attributes:
        appends: The appends.
        sizes: The bytes of each.
        size: The bytes of all.
        outcomes: What became of each; None as long as that is not known.
        done: Set when everything has an outcome.
    """

    __slots__ = ("appends", "done", "outcomes", "size", "sizes")

    def __init__(self) -> None:
        self.appends: list[Append] = []
        self.sizes: list[int] = []
        self.size = 0
        self.outcomes: list[Outcome | None] = []
        self.done = Event()

    def add(self, append: Append, size: int) -> None:
        """Add an append."""
        self.appends.append(append)
        self.sizes.append(size)
        self.outcomes.append(None)
        self.size += size

    def has_room(self, size: int) -> bool:
        """Return whether one more append of this size fits."""
        return not self.appends or (len(self.appends) < BATCH_APPENDS_MAX and self.size + size <= BATCH_BYTES_MAX)

    def unsettled(self, among: Sequence[int]) -> list[int]:
        """Return which appends have no outcome yet."""
        return [n for n in among if self.outcomes[n] is None]

    def settle(self, among: Sequence[int], outcome: Callable[[Append], Outcome]) -> None:
        """Give an outcome to each append that has none."""
        for n in self.unsettled(among):
            self.outcomes[n] = outcome(self.appends[n])


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
        self, connections: Connections, holdings: Holdings, statements: Statements, channel: str, offload: Offload
    ) -> None:
        self._connections = connections
        self._holdings = holdings
        self._statements = statements
        self._channel = channel
        self._offload = offload
        self._open: _Batch | None = None  # what further appends join
        self._waiting = 0  # how many appends no statement was sent for
        self._leaders: deque[Event] = deque()
        self._in_flight = 0

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        """Append, and return the outcomes; see `Store.append`."""
        if self._waiting + len(appends) > WAITING_MAX:
            error = AppendFailed(
                f"{self._connections.address.place}: {self._waiting} appends wait for the database: try again later"
            )
            return [Failed(each.expected_head, error) for each in appends]
        cancellation: BaseException | None = None
        broken: Exception | None = None
        outcomes: list[Outcome | None] = []
        for batch, begin, end, is_led in self._join(appends):
            if not is_led:
                try:
                    await batch.done.wait()
                except get_cancelled_exc_class() as error:
                    cancellation = error
            if not batch.done.is_set():
                try:
                    step = partial(self._lead, batch) if is_led else batch.done.wait
                    cancellation = await seen_through(step, batch.done.is_set) or cancellation
                except Exception as error:  # noqa: BLE001  # the next batch may be this caller's to lead, too
                    broken = error
            outcomes += batch.outcomes[begin:end]
        if broken is not None:
            raise broken
        if cancellation is not None and current_effective_deadline() != float("-inf"):
            raise cancellation  # that of a cancelled scope is delivered again, after the caller received its outcome
        return [each for each in outcomes if each is not None]

    def _join(self, appends: Sequence[Append]) -> list[tuple[_Batch, int, int, bool]]:
        """Add appends to the batch that is open, and to new ones if they do not fit.

        Returns:
            The batches, each with the range of the appends in it, and whether it is new, so that the caller leads it.
        """
        joined: list[tuple[_Batch, int, int, bool]] = []
        batch, is_led = self._open, False
        begin = 0 if batch is None else len(batch.appends)
        for each in appends:
            size = len(each.lines[0]) if len(each.lines) == 1 else sum(map(len, each.lines))
            if each.header is not None:
                size += len(each.header)
            if batch is None or not batch.has_room(size):
                if batch is not None and len(batch.appends) > begin:
                    joined.append((batch, begin, len(batch.appends), is_led))
                self._open = batch = _Batch()
                begin, is_led = 0, True
            batch.add(each, size)
        if batch is not None:
            joined.append((batch, begin, len(batch.appends), is_led))
        self._waiting += len(appends)
        return joined

    async def _lead(self, batch: _Batch) -> None:
        """Send a batch when there is a place for its statement."""
        await self._enter()
        is_closed = False
        everything: Sequence[int] = ()
        try:
            await cancel_shielded_checkpoint()  # lets all appends that are ready join
            if self._open is batch:
                self._open = None
            is_closed, everything = True, range(len(batch.appends))
            self._waiting -= len(everything)
            await carried_out(self._offload, self._commit, batch, everything)
        finally:
            self._leave()
            if is_closed:
                failure = AppendFailed("nothing was appended: no thread could be started to send it: try again")
                batch.settle(everything, lambda each: Failed(each.expected_head, failure))
                batch.done.set()

    async def _enter(self) -> None:
        """Wait until less than `IN_FLIGHT_MAX` statements are under way, in the order of those that wait."""
        if self._in_flight < IN_FLIGHT_MAX:
            self._in_flight += 1
            return
        entered = Event()
        self._leaders.append(entered)
        try:
            await entered.wait()
        except BaseException:
            if entered.is_set():
                self._leave()
            else:
                self._leaders.remove(entered)
            raise

    def _leave(self) -> None:
        """Let the next leader enter."""
        if self._leaders:
            self._leaders.popleft().set()
        else:
            self._in_flight -= 1

    # -- in a worker thread

    def _commit(self, batch: _Batch, among: Sequence[int]) -> None:
        """Send some appends of a batch; every one of them has an outcome when this returns."""
        place = self._connections.address.place
        try:
            try:
                with self._connections.lent() as connection:
                    self._send(connection, batch, among)
            except psycopg.Error as error:
                self._note_failure(batch, among, error)
        except TreeringError as error:  # no connection: nothing was sent
            failure = AppendFailed(f"nothing was appended: {error}")
            failure.__cause__ = error
            batch.settle(among, lambda each: Failed(each.expected_head, failure))
        except BaseException as error:
            doubt = AppendInDoubt(f"{place}: the append broke off ({error!r}): retry with the same command id")
            batch.settle(among, lambda _: InDoubt(doubt))
            raise

    def _note_failure(self, batch: _Batch, among: Sequence[int], error: psycopg.Error) -> None:
        told = self._connections.told(error)
        unsettled = batch.unsettled(among)
        if is_lost(error):
            for n in unsettled:
                self._holdings.doubt(batch.appends[n].lease)
            doubt = AppendInDoubt(f"{told}; the append may be stored: retry with the same command id")
            doubt.__cause__ = error
            batch.settle(unsettled, lambda _: InDoubt(doubt))
        elif len(unsettled) > 1:
            half = len(unsettled) // 2
            self._commit(batch, unsettled[:half])
            self._commit(batch, unsettled[half:])
        else:
            failure = AppendFailed(f"nothing was appended: {told}")
            failure.__cause__ = error
            batch.settle(unsettled, lambda each: Failed(each.expected_head, failure))

    def _send(self, connection: Connection, batch: _Batch, among: Sequence[int]) -> None:
        appends = [batch.appends[n] for n in among]
        heads = [each.expected_head for each in appends]
        refs = [each.lease.ref for each in appends]
        counts = [len(each.lines) for each in appends]
        restored = self._connections.restored
        rows = connection.execute(
            self._statements.append,
            {
                "owner": self._holdings.owner,
                "refs": refs,
                "epochs": [self._holdings.epoch_of(each.lease) for each in appends],
                "histories": [history_of(each.generation, restored) for each in heads],
                "heads": [each.seq for each in heads],
                "counts": counts,
                "sizes": [batch.sizes[n] for n in among],
                "headers": [each.header for each in appends],
                "of": [n for n, count in enumerate(counts, 1) for _ in range(count)],
                "seqs": [
                    seq for head, n in zip(heads, counts, strict=True) for seq in range(head.seq + 1, head.seq + 1 + n)
                ],
                "lines": [line[:-1] for each in appends for line in each.lines],
                "channel": self._channel,
                "payloads": payloads_of(refs),
            },
        ).fetchall()
        for n, history, head in rows:
            batch.outcomes[among[n - 1]] = Committed(Cursor(f"{restored}.{history}", head))
        if len(rows) < len(among):
            missing = batch.unsettled(among)
            states = self._holdings.states(connection, [batch.appends[n].lease.ref for n in missing])
            for n in missing:
                state = states.get(batch.appends[n].lease.ref)
                batch.outcomes[n] = Fenced(Cursor("", 0), 0) if state is None else Fenced(state.head, state.epoch)


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
