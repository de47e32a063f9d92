"""Migrating old files to the current version: in one step, with the old bytes kept, whatever fails on the way."""

import errno
import json
from pathlib import Path

import pytest

from treering import Session, SessionHost
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk

DATA = Path(__file__).resolve().parents[1] / "data"
OLD = ["pi_v1.jsonl", "pi_v2.jsonl"]


def copy_sample(name: str, folder: Path) -> Path:
    folder.mkdir()
    path = folder / name
    path.write_bytes((DATA / name).read_bytes())
    return path


def file_bytes(path: Path) -> bytes:
    return path.read_bytes()


def logs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def view_of(session: Session) -> object:
    return await session.entries(), (await session.context()).messages, session.tree()


@pytest.mark.feature("O-4", "O-6")
@pytest.mark.parametrize("name", OLD)
@pytest.mark.parametrize("call", ["open", "write", "datasync", "rename", "sync_directory"])
async def test_a_failure_at_any_step_leaves_the_old_or_the_new_file(tmp_path: Path, name: str, call: str) -> None:
    clean = copy_sample(name, tmp_path / "clean")
    async with SessionHost(clean.parent) as host:
        expected = await view_of(await host.load(clean))
    new = file_bytes(clean)
    failed = 0
    for nth in range(1, 40):
        path = copy_sample(name, tmp_path / str(nth))
        before = file_bytes(path)
        disk = FaultyDisk(OsDisk())
        fault = disk.fail(call, errno.EIO, path=f"*{name}*" if call != "sync_directory" else "*", nth=nth)
        async with SessionHost(path.parent, disk=disk) as host:
            try:
                await host.load(path)
            except OSError:
                failed += 1
            assert file_bytes(path) in (before, new)
            assert file_bytes(path) == before or file_bytes(path.with_name(name + ".bak")) == before
            disk.heal()
            assert await view_of(await host.load(path)) == expected
        assert logs(path.parent)[name] == new
        assert before in logs(path.parent).values()
        assert {each.partition(".jsonl")[2] for each in logs(path.parent)} <= {"", ".bak", ".bak-2", ".index"}
        if not fault.hits:
            break
    assert failed, "no fault was triggered"


@pytest.mark.feature("O-6")
@pytest.mark.parametrize("name", OLD)
async def test_a_read_only_open_changes_nothing(tmp_path: Path, name: str) -> None:
    path = copy_sample(name, tmp_path / "root")
    before = logs(path.parent)
    disk = FaultyDisk(OsDisk())
    async with SessionHost(path.parent, disk=disk) as host:
        reader = await host.load(path, read_only=True)
        read = await view_of(reader)
        await host.list_sessions()
        async with SessionHost() as elsewhere:  # what is added there need not follow the last line, as in version 1
            copied = await elsewhere.put(reader)
            await copied.branch(first := copied.path()[0])
            await copied.append_message("user", "another branch")
            assert (await copied.entries())[-1].parent_id == first
        await reader.close()
        assert (disk.counts["write"], disk.counts["rename"], disk.counts["truncate"]) == (0, 0, 0)
        assert logs(path.parent) == before
        copy = await host.fork_from(path)
        assert logs(path.parent)[name] == before[name]
        assert f"{name}.bak" not in logs(path.parent)
        assert await view_of(copy) == read


@pytest.mark.feature("O-4")
async def test_a_second_migration_keeps_the_first_copy(tmp_path: Path) -> None:
    path = copy_sample("pi_v1.jsonl", tmp_path / "root")
    path.with_name("pi_v1.jsonl.bak").write_bytes(b"another file")
    before = file_bytes(path)
    async with SessionHost(path.parent) as host:
        await host.load(path)
    assert file_bytes(path.with_name("pi_v1.jsonl.bak")) == b"another file"
    assert file_bytes(path.with_name("pi_v1.jsonl.bak-2")) == before


@pytest.mark.feature("O-5", "U-25")
async def test_unknown_fields_and_lines_survive_a_migration(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    rows = [
        '{"type":"session","version":2,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","mood":{"a":[1]}}',
        '{"type":"bark","id":"1","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z", "deep" : {"z":1,"a":1.50}}',
        '{"type":"message","id":"2","parentId":"1","timestamp":"t","message":{"role":"user","content":null,"x":"\\ud800"}}',
        "no JSON at all",
        '{"type":"message","id":"3","parentId":"2","n":1e400,"message":{"role":"hookMessage","content":"c","extra":true}}',
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    async with SessionHost(tmp_path) as host:
        await host.load(path)
    after = file_bytes(path).decode().splitlines()
    assert after[1:4] == rows[1:4], "lines that need no change keep every byte"
    assert json.loads(after[0]) == {**json.loads(rows[0]), "version": 3}
    assert json.loads(after[4])["message"] == {"role": "custom", "content": "c", "extra": True}
    assert '"n":1e400' in after[4]
