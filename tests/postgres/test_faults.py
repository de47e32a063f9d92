"""Servers and networks that fail under load: nothing acknowledged is lost or doubled, and work goes on by itself."""

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import anyio
import anyio.to_thread
import psycopg
import pytest

from treering import SessionHost
from treering.errors import AppendFailed, AppendInDoubt, TreeringError
from treering.events.errors import StoreUnavailable
from treering.stores.postgres import connections
from treering.stores.postgres.local_server import LocalServer

from .load import Load, check, insist, load, texts
from .network import Network, network

ANSWER_S = 0.3
"""How long an answer is waited for in these tests."""


@pytest.fixture
def net(server: LocalServer) -> Iterator[Network]:
    with network(server) as made:
        yield made


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", ANSWER_S)


async def stricken(under: Load, strike: Callable[[], object], heal: Callable[[], object]) -> None:
    """Let something fail until a client is told so, and heal it; then the work goes on."""
    await anyio.to_thread.run_sync(strike)
    await under.trouble()
    await anyio.to_thread.run_sync(heal)
    await under.progress()


@pytest.mark.feature("C-19")
async def test_a_server_killed_restarted_or_stopped_loses_nothing(server: LocalServer, schema: str, url: str) -> None:
    async with load(server.url(schema=schema, lease_s="600")) as under:
        await stricken(under, lambda: server.stop("kill"), server.start)
        await stricken(under, lambda: server.stop("immediate"), server.start)
        await stricken(under, lambda: server.stop("fast"), server.start)
        await stricken(under, server.pause, server.resume)
        while not under.told[AppendInDoubt]:  # it may have failed in no moment in which an append was on its way
            await stricken(under, lambda: server.stop("immediate"), server.start)
    await check(url, under)


def wait_for_standby(server: LocalServer) -> None:
    """Wait until the server has read its settings, and commits wait for the standby."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        while connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != [("sync",)]:
            time.sleep(0.01)


@pytest.mark.feature("C-19")
async def test_a_failover_to_a_synchronous_standby_loses_nothing(server: LocalServer, schema: str, url: str) -> None:
    with server.standby() as standby:
        server.configure(synchronous_standby_names="*")
        await anyio.to_thread.run_sync(wait_for_standby, server)
        either = f"{server.folder},{standby.folder}"
        both = server.url(host=either, port="5432,5432", target_session_attrs="read-write", schema=schema)
        async with load(both + "&lease_s=600") as under:
            await stricken(under, lambda: server.stop("kill"), standby.promote)
        await check(standby.url(schema=schema), under)
    server.configure(synchronous_standby_names="")
    server.start()
    assert url


def take_all(url: str, taken: ExitStack) -> None:
    """Take all connections that a server has left."""
    with pytest.raises(psycopg.OperationalError, match="too many clients"):  # noqa: PT012  # the last one fails
        while True:
            taken.enter_context(psycopg.connect(url))


@pytest.mark.feature("C-19")
async def test_a_server_without_free_connections_refuses_by_name_and_serves_again(
    server: LocalServer, schema: str, url: str
) -> None:
    server.configure(max_connections="10")
    server.restart()
    async with load(server.url(schema=schema, lease_s="600")) as under:
        with ExitStack() as taken:
            take_all(server.url(), taken)
            async with SessionHost(url) as host:
                session = await host.create()
                with pytest.raises((AppendFailed, StoreUnavailable), match="too many clients"):
                    await session.append_message("user", "refused")
                await under.progress()
                taken.close()
                await insist(session, "accepted", under.note)  # the server notices after a while that they are gone
    assert await texts(url, session.id) == ["accepted"]
    await check(url, under)


@pytest.fixture
def small_space(server: LocalServer, schema: str) -> Iterator[str]:
    """The name of a tablespace of 8 MB, on a disk of its own."""
    folder = server.folder / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "small", str(folder)]
    if os.getuid() != 0 or subprocess.run(command, check=False).returncode != 0:
        folder.rmdir()
        pytest.skip("no small disk can be mounted here")
    try:
        owner = server.data.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'".encode())
            yield "small"
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
            connection.execute("DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.feature("C-19")
async def test_a_full_disk_refuses_what_does_not_fit_and_serves_once_there_is_room(
    server: LocalServer, schema: str, small_space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 30.0)  # these lines are long
    options = f"-c default_tablespace={small_space}"
    full = server.url(schema=schema, lease_s="600", options=options)
    long = os.urandom(300_000).hex()
    small = server.folder / "small"
    written = ["short"]
    async with SessionHost(full) as host:
        session = await host.create()
        await session.append_message("user", "short")
        with pytest.raises(AppendFailed, match="No space left on device"):  # noqa: PT012  # the last one fails
            while True:
                text = f"{len(written)} {long}"
                await session.append_message("user", text, command_id=f"say {len(written)}")
                written.append(text)
        assert len(written) > 1
        assert await texts(full, session.id) == written
        await anyio.run_process(["mount", "-o", "remount,size=64m", str(small)])
        await session.append_message("user", text, command_id=f"say {len(written)}")
        written.append(text)
    assert await texts(full, session.id) == written


def restart_with_limit(server: LocalServer, size: int) -> None:
    """Start the server anew, which may write files up to this size: what goes beyond is refused as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        server.restart()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.feature("C-19")
async def test_a_log_that_may_not_grow_refuses_what_does_not_fit_and_serves_once_it_may(
    server: LocalServer, schema: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 30.0)  # these lines are long
    long = os.urandom(1_000_000).hex()
    told: list[TreeringError] = []
    async with SessionHost(server.url(schema=schema, lease_s="600")) as host:
        session = await host.create()
        await session.append_message("user", "short")
        written = ["short"]
        restart_with_limit(server, 17 * 2**20)  # a segment of the log of writes has 16 MB
        await insist(session, "again", told.append)
        written.append("again")
        with pytest.raises(AppendFailed, match="File too large"):  # noqa: PT012  # the last one fails
            while len(written) < 30:
                text = f"{len(written)} {long}"
                await session.append_message("user", text, command_id=f"say {text}")
                written.append(text)
        assert await texts(url, session.id) == written
        server.restart()
        await insist(session, text, told.append)
        written.append(text)
    assert await texts(url, session.id) == written


@pytest.mark.feature("C-20")
async def test_a_network_that_drops_delays_splits_swallows_loses_nothing(net: Network, schema: str, url: str) -> None:
    async with load(net.url(schema=schema, lease_s="600")) as under:
        net.piece, net.delay_s = 97, 0.0002  # splits and delays
        await under.progress()
        net.resume()
        await stricken(under, net.silence, net.resume)  # a black hole

        def refuse() -> None:
            net.refuses = True
            net.cut()

        await stricken(under, refuse, net.resume)
        for name in ("CommandComplete", "BindComplete", "ReadyForQuery"):
            await stricken(under, partial(net.fault, "client", name, deed="lose"), net.resume)
        await stricken(under, lambda: net.fault("server", "Sync", deed="lose"), net.resume)
        for count in (1, 40, 1000):
            await stricken(under, partial(net.cut_after, count, "server"), net.resume)
            await stricken(under, partial(net.cut_after, count, "client"), net.resume)
        while not under.told[AppendInDoubt]:  # it may have failed in no moment in which an append was on its way
            await stricken(under, partial(net.fault, "client", "CommandComplete", deed="lose"), net.resume)
    await check(url, under)
