"""Hosts that are killed or lose a session while they archive it: nothing is lost, and what is left is swept."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import psycopg
import pytest
from anyio import to_thread
from tests.cli.conftest import Cli
from tests.stores.copies import content

from treering import SessionHost, SyncHost
from treering.entries import plain_text
from treering.events.errors import LeafMoved, LeaseLost
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.administration import Administration
from treering.stores.postgres.archive import objects

pytest.importorskip("fsspec", reason="objects need the package fsspec")

from .archives import SAID, archived, fill, leased, said, stored
from .host_child import HostChild

KILLED = (
    "pack before object",
    "pack after object",
    "pack before commit",
    "pack after commit",
    "unpack before commit",
    "unpack within commit",
    "unpack after commit",
    "remove after commit",
)
"""Where the child is killed; see `archive_child`."""


def kill_at_every_step(url: str) -> None:
    """Kill a host at each step, with a session of its own: the first one at the first step, and so on."""
    subprocess.run([sys.executable, "-m", "tests.postgres.archive_child", url, *KILLED], check=True, timeout=60)


@pytest.mark.feature("C-15")
async def test_a_host_that_is_killed_at_any_step_leaves_whole_sessions_and_at_most_objects_that_a_sweep_finds(
    archiving: str, folder: Path, database: psycopg.Connection
) -> None:
    names = [str(number) for number in range(len(KILLED))]
    store = PostgresStore(archiving)
    async with SessionHost(archiving) as host:
        await fill(host, *names)
        before = await content(store)
        for name, step in zip(names, KILLED, strict=True):
            if not step.startswith("pack"):
                assert await (await host.load(name)).passivate()
                await store.pack(await leased(store, f"{name}.jsonl"))
        objects_before = len(stored(f"file://{folder}"))
    await to_thread.run_sync(kill_at_every_step, f"{archiving}&lease_s=0.5")
    removed = f"{KILLED.index('remove after commit')}.jsonl"
    before.pop(removed)
    assert await content(store) == before
    names.remove(removed.removesuffix(".jsonl"))
    in_objects = {KILLED[int(name)] for name in names if archived(database, name)[0] is not None}
    assert in_objects == {"pack after commit", "unpack before commit", "unpack within commit"}
    assert len(stored(f"file://{folder}")) == objects_before + 3
    async with SessionHost(archiving) as host:  # it waits for the leases of the dead
        for name in names:
            session = await host.load(name)
            await session.append_message("user", "after")
            assert await said(host, name) == [*SAID, "after"]
        sweeper = Administration(archiving)
        dry = sweeper.sweep(dry_run=True)
        # Two of packing that no row names, one of unpacking, one of removing; loading brought back the others.
        assert (dry.objects, len(dry.unused), len(stored(f"file://{folder}"))) == (4, 4, 4)
        await host.archive("0")
        assert sweeper.sweep().unused == dry.unused
        assert len(stored(f"file://{folder}")) == 1
        assert len(await said(host, "0")) == 6
    await store.aclose()


async def test_a_sweep_spares_an_object_that_a_host_will_note(archiving: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SessionHost(archiving) as host:
        await fill(host, "old")
        hash_of, swept = objects.hash_of, list[str]()

        def sweeping(uri: str, size: int) -> bytes:
            swept.extend(Administration(archiving).sweep().unused)
            return hash_of(uri, size)

        monkeypatch.setattr(objects, "hash_of", sweeping)
        await host.archive("old")
        assert swept == []
        assert len(await said(host, "old")) == 5


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        ("update logs set owner = 'another', epoch = nextval('epochs')", LeaseLost),
        ("update logs set epoch = nextval('epochs')", LeaseLost),  # let go of, and taken again
        ("update logs set head = head + 1", LeafMoved),
        ("update logs set history = nextval('histories')", LeafMoved),
    ],
)
async def test_a_host_whose_session_changed_while_it_packed_changes_nothing_and_removes_its_object(
    meanwhile: str,
    error: type[Exception],
    archiving: str,
    folder: Path,
    database: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with SessionHost(archiving) as host:
        await fill(host, "old")
    slow, hash_of = PostgresStore(archiving), objects.hash_of
    lease = await leased(slow, "old.jsonl")

    def change(uri: str, size: int) -> bytes:
        database.execute(meanwhile.encode())
        return hash_of(uri, size)

    monkeypatch.setattr(objects, "hash_of", change)
    with pytest.raises(error):
        await slow.pack(lease)
    assert database.execute("select count(*) from lines").fetchone() == (5,)
    assert archived(database, "old") == (None, None, None)
    assert stored(f"file://{folder}") == []
    await slow.aclose()


async def test_the_object_of_a_session_that_is_replaced_is_deleted(
    archiving: str, folder: Path, database: psycopg.Connection
) -> None:
    async with SessionHost(archiving) as host:
        await fill(host, "old")
        await host.archive("old")
    store = PostgresStore(archiving)
    before = (await content(store))["old.jsonl"]
    lease = await leased(store, "old.jsonl")
    assert lease.dialect is not None
    await store.put(lease, lease.dialect, before[0], [line + b"\n" for line in before[1][:3]])
    assert (await content(store))["old.jsonl"][1] == before[1][:3]
    assert archived(database, "old") == (None, None, None)
    assert stored(f"file://{folder}") == []
    await store.aclose()


def test_status_counts_objects_and_a_command_sweeps(archiving: str, folder: Path, url: str, tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    refused = cli("postgres", "sweep", "--root", url)
    assert refused.exit_code
    assert "add 'archive=" in refused.stderr
    with SyncHost(archiving) as host:
        for name in ("old", "new"):
            host.create(name).append_message("user", "hello")
        host.archive("old")
    (path,) = (each for each in folder.rglob("*") if each.is_file())
    shown = cli.json("postgres", "status", "--root", url)
    assert (shown["archived"], shown["archived_bytes"]) == (1, path.stat().st_size)
    assert "1 session as objects" in cli("postgres", "status", "--root", url).stdout
    orphan = path.with_name(f"{'0' * 64}-99.jsonl.gz")
    orphan.write_bytes(b"")
    path.with_name("not ours").write_bytes(b"")
    assert str(orphan) in cli("postgres", "sweep", "--root", archiving, "--dry-run").stdout
    swept = cli.json("postgres", "sweep", "--root", archiving)
    assert (swept["objects"], len(swept["unused"])) == (2, 1)
    assert not orphan.exists()
    assert len(stored(f"file://{folder}")) == 2


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.feature("C-15")
def test_hosts_that_are_killed_at_any_time_while_they_archive_and_bring_back_lose_nothing(
    archiving: str, folder: Path, database: psycopg.Connection
) -> None:
    names = [f"session-{number}" for number in range(5)]
    acknowledged = {name: list[str]() for name in names}
    chance = Random(7)
    for turn in range(60):
        with HostChild(f"{archiving}&lease_s=0.5") as child:
            asked = [(name, verb) for name in names for verb in ("say", "archive") if chance.random() < 0.8]
            end = chance.randrange(len(asked))
            for name, verb in asked[:end]:
                assert child.ask(f"say {name} {turn}" if verb == "say" else f"archive {name}") in (
                    "",
                    "SessionNotFound",
                )
                if verb == "say":
                    acknowledged[name].append(str(turn))
            name, verb = asked[end]
            child.send(f"say {name} {turn}" if verb == "say" else f"archive {name}")
            time.sleep(chance.random() * 0.05)
            child.signal(signal.SIGKILL)
        with SyncHost(f"{archiving}&lease_s=0.5") as host:
            for each, texts in acknowledged.items():
                if texts:
                    found = [plain_text(message.content) for message in host.load(each, read_only=True).messages()]
                    if each == name and verb == "say" and found == [*texts, str(turn)]:
                        texts.append(str(turn))  # it was stored, and the answer did not arrive
                    assert found == texts
    with SyncHost(archiving) as host:
        for name in names:
            host.load(name).append_message("user", "last")  # waits for the leases of the dead
            host.archive(name)
    Administration(archiving).sweep()
    assert all(archived(database, name)[0] is not None for name in names)
    assert len(stored(f"file://{folder}")) == len(names)
