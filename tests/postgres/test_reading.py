"""Reading beside faults: what changes nothing is asked again, and no host shows less than another one has shown."""

import anyio
import pytest

from treering import Session, SessionHost
from treering.entries import MessageEntry, plain_text
from treering.errors import AppendInDoubt
from treering.events.errors import StoreUnavailable
from treering.stores.postgres import connections
from treering.stores.postgres.local_server import LocalServer

from .load import insist
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


async def shown(session: Session) -> list[str]:
    """Return the texts of a session."""
    return [plain_text(entry.message.content) for entry in await session.entries() if isinstance(entry, MessageEntry)]


@pytest.mark.feature("C-21")
async def test_an_owner_shows_what_another_host_showed_of_an_append(server: LocalServer, schema: str, url: str) -> None:
    with network(server) as net:
        async with SessionHost(net.url(schema=schema, lease_s="600")) as host, SessionHost(url) as other:
            session = await host.create()
            await session.append_message("user", "first")
            elsewhere = await other.load(session.id, read_only=True)
            fault = net.fault("client", "DataRow", deed="hold")
            seen: list[list[str]] = []

            async def look() -> None:
                seen.append(await shown(session))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.append_message, "user", "second")
                while await shown(elsewhere) != ["first", "second"]:
                    continue
                tasks.start_soon(look)
                await shown(elsewhere)
                assert seen == []
                fault.release()
            assert seen == [["first", "second"]]
            net.fault("client", "DataRow")
            with pytest.raises(AppendInDoubt):
                await session.append_message("user", "third")
            assert await shown(elsewhere) == ["first", "second", "third"]
            assert await shown(session) == ["first", "second", "third"]


async def test_a_connection_that_breaks_off_while_it_is_opened_is_opened_once_more(
    server: LocalServer, schema: str, url: str
) -> None:
    assert url
    with network(server) as net:
        async with SessionHost(net.url(schema=schema)) as host:
            session = await host.create()
            await session.append_message("user", "first")
            for times in (1, 2):
                faults = [net.fault("server", containing=b"select restored") for _ in range(times)]
                net.cut()
                if times == 1:
                    assert len(await host.list_sessions()) == 1
                else:
                    with pytest.raises(StoreUnavailable):
                        await host.list_sessions()
                assert all(fault.happened.is_set() for fault in faults)


@pytest.mark.feature("C-21")
async def test_a_host_that_may_have_lost_a_session_shows_nothing_that_may_be_old(
    server: LocalServer, schema: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 0.3)
    with network(server) as net:
        async with (
            SessionHost(net.url(schema=schema, lease_s="0.5", connect_timeout="2")) as host,
            SessionHost(url + "&lease_s=0.5&wait_s=5") as other,
        ):
            session = await host.create()
            await session.append_message("user", "first")
            net.silence()
            taken = await other.load(session.id)
            await insist(taken, "second", lambda _: None)
            with pytest.raises(StoreUnavailable):
                await shown(session)
            net.resume()
            net.cut()
            assert await shown(session) == ["first", "second"]
