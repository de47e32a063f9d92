"""The network that fails as a test says: what arrives, what does not, and what a client notices."""

import time
from collections.abc import Iterator
from typing import TypeAlias

import psycopg
import pytest

from treering.stores.postgres.local_server import LocalServer

from .network import Network, Side, network

Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]

STATEMENT = ["Parse", "Bind", "Describe", "Execute", "Sync"]
ANSWER = ["ParseComplete", "BindComplete", "RowDescription", "DataRow", "CommandComplete", "ReadyForQuery"]


class Numbers:
    """A table, a connection to it through the network, and one that no fault touches."""

    def __init__(self, net: Network, schema: str, direct: Connection) -> None:
        self.net = net
        self.table = f"{schema}.t"
        self.direct = direct
        direct.execute(f"CREATE SCHEMA {schema} CREATE TABLE t (n int)".encode())
        self.connection = self.connect()

    def connect(self) -> Connection:
        """Connect anew through the network."""
        self.connection = psycopg.connect(self.net.url(), autocommit=True, prepare_threshold=None)
        return self.connection

    def insert(self) -> None:
        """Insert one number by one statement."""
        self.connection.execute(f"INSERT INTO {self.table} VALUES (%s) RETURNING n".encode(), [7])

    def count(self) -> int:
        """Return how many numbers the table has."""
        (count,) = self.direct.execute(f"SELECT count(*) FROM {self.table}".encode()).fetchone() or (None,)
        assert isinstance(count, int)
        return count


@pytest.fixture(params=["unix", "tcp"])
def numbers(server: LocalServer, schema: str, url: str, request: pytest.FixtureRequest) -> Iterator[Numbers]:
    assert url
    with network(server, tcp=request.param == "tcp") as net, psycopg.connect(server.url(), autocommit=True) as direct:
        numbers = Numbers(net, schema, direct)
        yield numbers
        numbers.connection.close()


def test_a_connection_is_cut_at_each_message_of_a_statement(numbers: Numbers) -> None:
    before = len(numbers.net.messages)
    numbers.insert()
    seen = [(message.toward, message.name) for message in numbers.net.messages[before:]]
    assert [name for toward, name in seen if toward == "server"] == STATEMENT
    assert [name for toward, name in seen if toward == "client"] == ANSWER
    expected = 1
    for toward, name in seen:
        for at in ("before", "within", "after"):
            numbers.connection.close()
            numbers.connect()
            fault = numbers.net.fault(toward, name, at=at)
            if (name, at) == ("ReadyForQuery", "after"):
                numbers.insert()
            else:
                with pytest.raises(psycopg.OperationalError):
                    numbers.insert()
            assert fault.happened.wait(60)
            if (name, at) == ("Sync", "after"):  # only the server knows when it has done that
                while numbers.count() == expected:
                    continue
            expected += toward == "client" or (name, at) == ("Sync", "after")
            assert numbers.count() == expected, (toward, name, at)


def test_a_connection_is_cut_after_each_byte_of_a_statement(numbers: Numbers) -> None:
    before = len(numbers.net.messages)
    numbers.insert()
    sent = sum(len(message.data) for message in numbers.net.messages[before:] if message.toward == "server")
    for count in (0, 1, sent // 2, sent - 1):
        numbers.connection.close()
        numbers.connect()
        numbers.net.cut_after(count, "server")
        with pytest.raises(psycopg.OperationalError):
            numbers.insert()
    assert numbers.count() == 1
    numbers.connect()
    numbers.net.cut_after(sent, "server")
    numbers.insert()
    with pytest.raises(psycopg.OperationalError):
        numbers.insert()
    assert numbers.count() == 2


def test_a_late_statement_arrives_after_its_client_has_lost_the_connection(numbers: Numbers) -> None:
    fault = numbers.net.fault("server", "Parse", deed="late")
    with pytest.raises(psycopg.OperationalError):
        numbers.insert()
    assert fault.happened.wait(60)
    assert numbers.count() == 0
    fault.release()
    assert fault.landed.wait(60)
    assert (fault.answer, numbers.count()) == (ANSWER, 1)


def test_what_is_held_silenced_split_or_slow_arrives_at_last_and_what_is_lost_never(numbers: Numbers) -> None:
    net, raw = numbers.net, numbers.connection.pgconn
    insert = f"INSERT INTO {numbers.table} VALUES (7)".encode()

    def done() -> bool:
        raw.consume_input()
        return not raw.is_busy()

    def finish() -> None:
        for ends in (False, True):
            while not done():  # libpq would wait with all threads stopped, the network's too
                time.sleep(0.001)
            assert (raw.get_result() is None) == ends

    sides: tuple[Side, ...] = ("server", "client")
    for toward in sides:
        fault = net.fault(toward, deed="hold")
        raw.send_query(insert)
        assert fault.happened.wait(60)
        assert not done()
        fault.release()
        finish()
    assert numbers.count() == 2
    net.silence()
    raw.send_query(insert)
    assert not done()
    assert numbers.count() == 2
    net.resume()
    net.piece, net.delay_s = 3, 0.0001
    finish()
    assert numbers.count() == 3
    fault = net.fault("client", "CommandComplete", deed="lose")
    raw.send_query(insert)
    assert fault.happened.wait(60)
    assert not done()
    assert numbers.count() == 4
    net.refuses = True
    net.cut()
    with pytest.raises(psycopg.OperationalError):
        finish()
    with pytest.raises(psycopg.OperationalError):
        numbers.connect()
    net.resume()
    numbers.connect()
