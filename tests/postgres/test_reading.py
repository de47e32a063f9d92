"""Reading over a network that breaks off: what changes nothing is asked again, and the caller is told nothing."""

from __future__ import annotations

import pytest

from treering import SessionHost
from treering.entries import MessageEntry, plain_text
from treering.events.errors import StoreUnavailable
from treering.stores.postgres.local_server import LocalServer

from .network import Side, network


@pytest.mark.feature("C-20")
async def test_a_read_whose_connection_is_cut_is_asked_again_once(server: LocalServer, schema: str, url: str) -> None:
    assert url
    with network(server) as net:
        async with SessionHost(net.url(schema=schema, lease_s="600")) as host:
            session = await host.create()
            await session.append_message("user", "hello")
            await session.passivate()
            places: tuple[tuple[Side, str], ...] = (
                ("server", "Sync"),
                ("client", "DataRow"),
                ("client", "ReadyForQuery"),
            )
            for toward, name in places:
                reader = await host.load(session.id, read_only=True)
                fault = net.fault(toward, name)
                (entry,) = await reader.entries()
                assert fault.happened.is_set()
                assert isinstance(entry, MessageEntry)
                assert plain_text(entry.message.content) == "hello"
                await reader.close()
            reader = await host.load(session.id, read_only=True)
            net.refuses = True
            net.cut()
            with pytest.raises(StoreUnavailable):
                await reader.entries()
            net.resume()
            assert len(await reader.entries()) == 1
