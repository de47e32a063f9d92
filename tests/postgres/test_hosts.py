"""The hosts that share a database: how they are listed, and how one hands over its sessions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.cli.conftest import Cli

from treering import SessionHost
from treering.errors import SessionLocked
from treering.server.cluster import forwarding
from treering.stores.postgres import PostgresStore

from .load import texts
from .test_forwarding import node, say

pytestmark = pytest.mark.feature("C-9")

LEASE = "&lease_s=1.5"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> Cli:
    """The command, for which the database is the root."""
    cli = Cli(tmp_path)
    monkeypatch.setenv("TREERING_ROOT", url + LEASE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(forwarding, "AGAIN_S", 0.05)
    return cli


def named(url: str, name: str) -> PostgresStore:
    """Return a store whose host has this name: those of one process have the same one otherwise."""
    store = PostgresStore(url + LEASE)
    vars(store)["_holdings"].name = name
    return store


class Signal:
    """Wakes who waits until something holds."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        """Say that something changed."""
        event, self._event = self._event, anyio.Event()
        event.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds."""
        while not holds():
            await self._event.wait()


async def test_hosts_are_listed_with_their_sessions_lag_lease_and_address(cli: Cli, url: str) -> None:
    assert await anyio.to_thread.run_sync(cli.json, "hosts") == []
    async with (
        SessionHost(store=named(url, "one"), placement="forward", address="http://10.0.0.1:8765") as one,
        SessionHost(store=named(url, "two")) as two,
    ):
        for host, count in ((one, 2), (two, 1)):
            for _ in range(count):
                await (await host.create()).append_message("user", "Hello")
        first, second = await anyio.to_thread.run_sync(cli.json, "hosts")
        assert (first["name"], first["sessions"], first["address"]) == ("one", 2, "http://10.0.0.1:8765")
        assert (second["name"], second["sessions"], second["address"]) == ("two", 1, None)
        for each in (first, second):
            assert 0 <= each["lag_s"] < 1.5
            assert 0 < each["left_s"] <= 1.5
            assert not each["draining"]
        lines = await anyio.to_thread.run_sync(cli.lines, "hosts")
        assert [line.split()[:3] for line in lines] == [["one", "2", "sessions"], ["two", "1", "session"]]
        assert lines[0].endswith("http://10.0.0.1:8765")
    assert await anyio.to_thread.run_sync(cli.json, "hosts") == []


async def test_a_server_is_listed_before_it_holds_anything(cli: Cli, url: str) -> None:
    async with SessionHost(store=named(url, "one"), placement="forward", address="http://10.0.0.1:8765"):
        found: list[Any] = []
        for _ in range(100):
            found = found or await anyio.to_thread.run_sync(cli.json, "hosts")
        assert (found[0]["name"], found[0]["sessions"]) == ("one", 0)


async def test_a_drained_host_loses_nothing_refuses_nothing_and_takes_no_more(cli: Cli, url: str) -> None:
    async with node(store=named(url, "one")) as one, node(store=named(url, "two")) as two:
        sessions = [await one.host.create(f"session-{number}") for number in range(3)]
        for session in sessions:
            await session.append_message("user", "0")
        said = {session.id: 1 for session in sessions}

        async def talk(session_id: str) -> None:
            while True:
                reply = await say(one.client, session_id, f"{said[session_id]}", status=201)
                assert reply["seqs"] == [said[session_id] + 1]
                said[session_id] += 1
                changed.set()

        streamed: list[int] = []

        async def follow() -> None:
            async with one.client.follow("/v1/sessions/session-0/events") as events:
                async for event in events:
                    if event.event == "entry":
                        streamed.append(event.data["seq"])
                        changed.set()

        changed = Signal()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            for session in sessions:
                tasks.start_soon(talk, session.id)
            result = await anyio.to_thread.run_sync(cli, "hosts", "drain", "one")
            assert result.exit_code == 0, result.output
            assert "let go of all" in result.output
            at = dict(said)
            with anyio.fail_after(20):
                await changed.until(lambda: all(said[each] > count + 3 for each, count in at.items()))
                goal = said["session-0"]
                await changed.until(lambda: len(streamed) >= goal)
            tasks.cancel_scope.cancel()
        assert streamed == list(range(1, len(streamed) + 1))
        assert one.host.statistics().live == 0
        assert {each.session_id for each in two.host.statistics().sessions} == set(said)
        found = {each["name"]: each for each in await anyio.to_thread.run_sync(cli.json, "hosts")}
        assert (found["one"]["sessions"], found["one"]["draining"]) == (0, True)
        assert (found["two"]["sessions"], found["two"]["draining"]) == (3, False)
        await one.client.ask("POST", "/v1/sessions", {"id": "new"}, status=201)
        await say(one.client, "new", "hello", status=201)
        assert "new" in {each.session_id for each in two.host.statistics().sessions}
        with pytest.raises(SessionLocked, match="drained"):
            await one.host.get_or_create("key:1")
    for session_id, count in said.items():
        assert (await texts(url, session_id))[:count] == [f"{number}" for number in range(count)]


async def test_a_busy_host_is_waited_for_no_longer_than_asked(cli: Cli, url: str) -> None:
    class Busy(PostgresStore):
        async def release(self, leases: object) -> None:
            """Release nothing."""

    store = Busy(url + LEASE)
    vars(store)["_holdings"].name = "one"
    async with SessionHost(store=store, placement="forward") as host:
        await (await host.create()).append_message("user", "Hello")
        result = await anyio.to_thread.run_sync(cli, "hosts", "drain", "one", "--wait", "0.1")
        assert result.exit_code == 1
        assert "still has 1 session" in result.output


def test_what_cannot_be_drained_or_listed_is_refused_by_name(cli: Cli, tmp_path: Path) -> None:
    result = cli("hosts", "drain", "nobody")
    assert result.exit_code == 1
    assert "no host lives that is called 'nobody'" in result.output
    assert cli("hosts", "--root", tmp_path, "drain", "nobody").output.startswith("treering: hosts share a database")
    for words in (("hosts", "--root", tmp_path), ("hosts", "drain", "one", "--root", tmp_path)):
        result = cli(*words)
        assert result.exit_code == 1
        assert "hosts share a database" in result.output
