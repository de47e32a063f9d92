"""PgBouncer in transaction mode: with a direct address to listen at it serves, without one it is refused by name."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from treering import InvalidInput, MessageEntry, SessionHost
from treering.entries import plain_text
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.local_server import LocalServer

PORT = "6543"  # it names the socket
STARTS_WITHIN_S = 60.0


@pytest.fixture
def pooler(server: LocalServer) -> Iterator[str]:
    """The folder of the socket of a PgBouncer."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed here (Debian: apt-get install pgbouncer)")
    folder = server.folder / "pooler"
    folder.mkdir()
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host={server.folder} port=5432\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\n"
        f"listen_port = {PORT}\nauth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n"
        "default_pool_size = 3\nignore_startup_parameters = extra_float_digits\n"
    )
    owner = server.data.stat()
    for path in (folder, *folder.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)
    is_root = os.getuid() == 0  # which PgBouncer refuses
    running = subprocess.Popen(
        [program, "-q", str(folder / "ini")],
        stderr=subprocess.DEVNULL,
        user=owner.st_uid if is_root else None,
        group=owner.st_gid if is_root else None,
    )
    try:
        wait_for(folder / f".s.PGSQL.{PORT}")
        yield str(folder)
    finally:
        running.terminate()
        running.wait()
        shutil.rmtree(folder)


def wait_for(path: Path) -> None:
    """Wait until somebody listens at a socket."""
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as probe:
            if not probe.connect_ex(str(path)):
                return
        time.sleep(0.01)
    pytest.fail("PgBouncer did not start")


async def test_a_pooler_without_a_direct_address_is_refused_by_name(
    server: LocalServer, schema: str, url: str, pooler: str
) -> None:
    store = PostgresStore(server.url(schema=schema, host=pooler, port=PORT))
    with pytest.raises(InvalidInput, match=r"this is a pooler such as PgBouncer, .* as '&listen_url=…'"):
        await store.page()
    await store.aclose()
    assert url


async def test_hosts_share_sessions_through_a_pooler_and_hear_of_changes_at_once(
    server: LocalServer, schema: str, url: str, pooler: str
) -> None:
    pooled = server.url(schema=schema, host=pooler, port=PORT)
    address = f"{pooled}&listen_url={quote(server.url(), safe='')}"
    async with SessionHost(address) as host, SessionHost(address) as other:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                session = await host.create(f"s{number}")
                for each in range(7):  # a statement that is repeated would be prepared
                    tasks.start_soon(session.append_message, "user", f"{each}")
        followed = await other.load("s0", read_only=True)
        assert len(await followed.entries()) == 7
        assert len(await other.list_sessions()) == 20
        async with followed.subscribe(after=followed.cursor) as entries:
            await (await host.load("s0")).append_message("user", "told")
            with anyio.fail_after(20):
                entry = await anext(entries)
            assert isinstance(entry, MessageEntry)
            assert plain_text(entry.message.content) == "told"
    wrong = PostgresStore(f"{pooled}&listen_url={quote(pooled, safe='')}")
    watch = wrong.watch(["s0.jsonl"])
    await anext(watch)
    with pytest.raises(InvalidInput, match="'listen_url' leads through a pooler, too"), anyio.fail_after(20):
        await anext(watch)
    await wrong.aclose()
    assert url
