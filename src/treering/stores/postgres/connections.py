"""The connections of one store: few, kept for the next use, each used by one thread at a time.

Everything waits in worker threads, so it makes no difference on which event loop the host runs. Each answer is waited
for at most `ANSWER_S` seconds: a network that swallows packets must not hold a thread for ever.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self, TypeVar

import psycopg
from psycopg import Copy
from psycopg.abc import PQGen, Query
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from ...events.errors import HostClosed, InvalidInput, TreeringError, UnsupportedVersion
from .address import Address
from .failures import name_statement, told, told_connecting
from .schema import Connection, migrate

T = TypeVar("T")

ANSWER_S = 30.0
"""The longest time in seconds for which the answer to a statement is waited for."""

MIGRATION_S = 3600.0
"""The longest time in seconds for which a migration is waited for, one's own or that of another host."""

SERVER_VERSION_MIN = 13
"""The oldest version of PostgreSQL that has what the statements need."""

CONNECTIONS_MAX = 8
"""The most connections that one store uses at the same time; further calls wait for one."""

_LOOK_S = 0.2
_CONNECT_S = 10


class _NotingCursor(psycopg.Cursor[TupleRow]):
    """A cursor that notes in its connection what it asks."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401  # the driver overloads it
        """Send a statement."""
        self._note(query)
        return super().execute(query, *args, **kwargs)

    @contextmanager
    def copy(self, statement: Any, *args: Any, **kwargs: Any) -> Generator[Copy]:  # noqa: ANN401  # too
        """Begin to copy rows."""
        self._note(statement)
        with super().copy(statement, *args, **kwargs) as copy:
            yield copy

    def _note(self, query: Query) -> None:
        if isinstance(self.connection, BoundedConnection):
            self.connection.asked = query


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection that gives up when the server does not answer.

    Attributes:
        asked: The last statement that was sent.
        answer_s: For how many seconds an answer is waited for, at most `ANSWER_S`.
        is_migrating: Whether an answer is waited for as long as a migration may take instead.
    """

    asked: Query = b""
    answer_s = math.inf
    is_migrating = False

    def wait(self, gen: PQGen[T], interval: float = _LOOK_S, timeout: float | None = None) -> T:
        """Wait for an answer, but not for ever.

        Raises:
            OperationalError: There was none; the connection is of no use any more.
        """
        answer_s = MIGRATION_S if self.is_migrating else min(ANSWER_S, self.answer_s)
        return super().wait(gen, interval, answer_s if timeout is None else timeout)


def is_lost(error: psycopg.Error) -> bool:
    """Tell whether an error leaves open what became of the statement: the server did not refuse it by itself."""
    state = error.sqlstate
    return state is None or state.startswith(("08", "57P"))


class Connections:
    """The connections to one database.

    Args:
        address: The database.

    Attributes:
        restored: How often the database was said to be restored from a backup, when this program connected last.
        names: The names of statements, for messages.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connect_s = conninfo_to_dict(address.conninfo).get("connect_timeout", _CONNECT_S)
        self._idle: list[BoundedConnection] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._checking = threading.Lock()
        self._checked = False
        self._closed = False
        self.restored = 0
        self.names: Mapping[Query, str] = {}

    @contextmanager
    def lent(self, answer_s: float = math.inf, *, reserved: bool = False) -> Generator[Connection]:
        """Lend a connection in autocommit mode to a block, whose errors of the driver pass through.

        Args:
            answer_s: For how many seconds each answer is waited for, at most `ANSWER_S`.
            reserved: Whether not to wait while many connections are in use; for one caller at a time.

        Raises:
            StoreUnavailable: The server cannot be reached; the block did not run.
        """
        with nullcontext() if reserved else self._slots:
            connection = self._take()
            connection.answer_s = answer_s
            try:
                yield connection
            except psycopg.Error as error:
                name_statement(error, self.names.get(connection.asked, ""))
                raise
            finally:
                self._give_back(connection)

    @contextmanager
    def use(self, answer_s: float = math.inf, *, reserved: bool = False) -> Generator[Connection]:
        """Lend a connection to a block, whose errors are told in the words of the tree; see `lent`.

        Raises:
            StoreUnavailable: The server cannot be reached, or broke off.
            ReadOnly: It takes no writes.
        """
        try:
            with self.lent(answer_s, reserved=reserved) as connection:
                yield connection
        except psycopg.Error as error:
            raise self.told(error) from error

    def ask(self, question: Callable[[Connection], T], answer_s: float = math.inf, *, reserved: bool = False) -> T:
        """Return what a function reads, which changes nothing; on a new connection if the one that was kept broke off.

        Args:
            question: The function, which may run twice.
            answer_s: See `lent`.
            reserved: See `lent`.

        Raises:
            StoreUnavailable: The server cannot be reached, or broke off twice.
        """
        try:
            with self.lent(answer_s, reserved=reserved) as connection:
                return question(connection)
        except psycopg.Error as error:
            if not is_lost(error):
                raise self.told(error) from error
        self._forget_idle()  # the others broke off with it
        with self.use(answer_s, reserved=reserved) as connection:
            return question(connection)

    def open(self) -> BoundedConnection:
        """Return a new connection to a database that was looked at and is up to date; the caller closes it.

        One that breaks off while it is looked at is opened once more, as one that was kept would be.

        Raises:
            StoreUnavailable: The server cannot be reached, or broke off twice.
        """
        broke_off = False
        while True:
            connection = self.connect()
            try:
                self._check(connection)
            except psycopg.Error as error:
                is_last = broke_off or not connection.broken
                connection.close()
                if is_last:
                    raise self.told(error) from error
                broke_off = True
            except BaseException:
                connection.close()
                raise
            else:
                return connection

    def listen(self) -> BoundedConnection:
        """Return a new connection that hears of changes: a direct one, where the others lead through a pooler.

        Raises:
            StoreUnavailable: The server cannot be reached.
            InvalidInput: This one leads through a pooler, too.
        """
        if self.address.listening is None:
            return self.open()
        connection = self.connect(self.address.listening)
        try:
            if _is_pooled(connection):
                raise InvalidInput(
                    f"{self.address.place}: 'listen_url' leads through a pooler, too: give the server's own address"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def connect(self, conninfo: str | None = None) -> BoundedConnection:
        """Return a new connection to a database whatever its state is; the caller closes it.

        Args:
            conninfo: What libpq is given; by default that of the address.

        Raises:
            StoreUnavailable: The server cannot be reached.
        """
        if self._closed:
            raise HostClosed("this store was closed: make another one")
        try:
            return BoundedConnection.connect(
                conninfo or self.address.conninfo,
                autocommit=True,
                connect_timeout=self._connect_s,
                application_name=self.address.application,
                client_encoding="utf8",
                cursor_factory=_NotingCursor,
            )
        except psycopg.Error as error:
            raise told_connecting(error, self.address.place) from error

    def told(self, error: psycopg.Error) -> TreeringError:
        """Return the error of the tree for one of the driver; it holds the place, and never a password."""
        return told(error, self.address.place)

    def close(self) -> None:
        """Close all connections; nothing can be borrowed any more."""
        self._closed = True
        self._forget_idle()

    def _forget_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _take(self) -> BoundedConnection:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed and not _broke_off(connection):
                    return connection
                connection.close()
        return self.open()

    def _give_back(self, connection: BoundedConnection) -> None:
        idle = psycopg.pq.TransactionStatus.IDLE
        if connection.closed or self._closed or connection.info.transaction_status != idle:
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)

    def _check(self, connection: BoundedConnection) -> None:
        """Look once at what the server is, and bring its schema up to date; each time, at how often it was restored."""
        if self.address.listening is not None:
            connection.prepare_threshold = None  # a pooler gives each transaction another connection to the server
        with self._checking:
            if not self._checked:
                self._check_server(connection)
                connection.is_migrating = True
                migrate(connection, self.address)
                connection.is_migrating = False
                self._checked = True
            (self.restored,) = row_of(connection, b'select restored from "%s".meta' % self.address.schema.encode())

    def _check_server(self, connection: Connection) -> None:
        """Refuse a server that cannot hold sessions, or would lose some.

        Raises:
            UnsupportedVersion: It is too old.
            InvalidInput: The database has another encoding, or the server does not flush.
        """
        address = self.address
        if connection.info.server_version < SERVER_VERSION_MIN * 10_000:
            raise UnsupportedVersion(
                f"{address.place}: the server is PostgreSQL {connection.info.server_version // 10_000}, and "
                f"{SERVER_VERSION_MIN} is the oldest that serves: use that or a newer one"
            )
        if address.listening is None and _is_pooled(connection):
            raise InvalidInput(
                f"{address.place}: this is a pooler such as PgBouncer, through which a host does not hear of changes: "
                f"give the server's own address, or that too, as '&listen_url=…' in percent encoding"
            )
        (encoding, commit) = row_of(
            connection, "select current_setting('server_encoding'), current_setting('synchronous_commit')"
        )
        if encoding != "UTF8":
            raise InvalidInput(
                f"{address.place}: the database has the encoding {encoding}: create one with encoding UTF8"
            )
        if commit == "off" and not address.asynchronous:
            raise InvalidInput(
                f"{address.place}: the server acknowledges commits before they are on disk "
                f"(synchronous_commit is off): turn it on, or give '?synchronous_commit=off' to accept the loss"
            )


def row_of(connection: Connection, query: bytes | str, parameters: Sequence[object] | None = None) -> TupleRow:
    """Return the row of a query that has one in any case."""
    row = connection.execute(query.encode() if isinstance(query, str) else query, parameters).fetchone()
    assert row is not None
    return row


def _broke_off(connection: Connection) -> bool:
    """Tell whether the server closed an idle connection meanwhile, without sending it anything."""
    try:
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return connection.pgconn.status != psycopg.pq.ConnStatus.OK


def _is_pooled(connection: Connection) -> bool:
    """Tell whether a pooler stands between: it hands out process numbers of its own."""
    (pid,) = row_of(connection, "select pg_backend_pid()")
    return bool(pid != connection.info.backend_pid)
