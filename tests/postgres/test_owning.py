"""One writer at a time: what was taken from a host is written by its heir alone, wherever the host was paused."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psycopg
import pytest

from treering import SessionHost
from treering.stores.postgres.local_server import LocalServer

from .host_child import HostChild
from .load import texts
from .network import Network, Side, network

STEPS: list[tuple[Side, str]] = [
    ("server", "Parse"),
    ("server", "Bind"),
    ("server", "Describe"),
    ("server", "Execute"),
    ("server", "Sync"),
    ("client", "ParseComplete"),
    ("client", "BindComplete"),
    ("client", "RowDescription"),
    ("client", "DataRow"),
    ("client", "CommandComplete"),
    ("client", "ReadyForQuery"),
]
"""The messages of an append, after each of which its host is paused."""


@pytest.fixture
def net(server: LocalServer) -> Iterator[Network]:
    with network(server) as made:
        yield made


def end_leases(server: LocalServer, schema: str) -> None:
    """Let all leases end now, as if no host had renewed its own for long."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.hosts SET until = now()".encode())


@pytest.mark.feature("C-5")
async def test_a_host_paused_at_any_step_of_an_append_writes_nothing_that_was_taken_from_it(
    server: LocalServer, net: Network, url: str, schema: str
) -> None:
    with HostChild(net.url(schema=schema, lease_s="600", wait_s="0")) as paused:
        for n, (toward, step) in enumerate(STEPS):
            name = f"{n}-{step}"
            assert paused.ask(f"say {name} first") == ""
            fault = net.fault(toward, step, deed="hold")
            paused.send(f"say {name} {toward}")
            assert fault.happened.wait(10)
            paused.signal(signal.SIGSTOP)
            end_leases(server, schema)
            async with SessionHost(url + "&lease_s=600&wait_s=30") as heir:
                session = await heir.load(name)
                await session.append_message("user", "taken")
                fault.release()
                paused.signal(signal.SIGCONT)
                told = paused.answer().split(" ")
                assert (
                    told[3:] == {"server": ["AppendInDoubt" if step == "Sync" else "LeaseLost"], "client": []}[toward]
                )
                assert paused.ask(f"say {name} after") == (
                    "SessionLocked" if told[3:] == ["LeaseLost"] else "LeaseLost"
                )
            committed = ["first"] if toward == "server" else ["first", "client"]
            assert await texts(url, name) == [*committed, "taken"], step
