"""Creating and opening sessions in pi's and oh-my-pi's formats: file paths, first writes, and headers."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import treering
from treering import NotASession, SessionHost, SessionNotFound, UnsupportedVersion
from treering.events.dialects.detect import DialectName

AT = datetime(2026, 11, 21, 20, 55, 54, 39000, UTC)
UUID = "01a1ffe4-e7b6-761f-804f-fd94109d518e"
DATA = Path(__file__).resolve().parents[1] / "data"


def file_bytes(path: str | Path | None) -> bytes:
    assert path is not None
    return Path(path).read_bytes()


def lines(path: str | Path | None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file_bytes(path).splitlines()]


def files(folder: Path) -> list[str]:
    """All files in a folder, except for those in the store's own folder."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and ".treering" not in path.parts
    )


@pytest.mark.feature("O-3")
@pytest.mark.parametrize(
    ("cwd", "folder"),
    [("/tmp/research", "--tmp-research--"), ("/", "----"), ("/a.b/c d", "--a.b-c d--"), ("/é", "--é--")],
)
async def test_new_sessions_have_documented_paths(tmp_path: Path, dialect: DialectName, cwd: str, folder: str) -> None:
    async with SessionHost(tmp_path, dialect=dialect, clock=lambda: AT, new_id=lambda: UUID) as host:
        session = await host.create(cwd=cwd)
        assert session.file_path == str(tmp_path / folder / f"2026-11-21T20-55-54-039Z_{UUID}.jsonl")
        await session.append_message("user", "hello")
    assert files(tmp_path) == [f"{folder}/2026-11-21T20-55-54-039Z_{UUID}.jsonl"]


@pytest.mark.feature("O-10")
@pytest.mark.parametrize(("dialect", "version"), [("omp", 3), ("pi", 3), ("native", 1)])
async def test_a_new_header_has_the_required_fields(tmp_path: Path, dialect: DialectName, version: int) -> None:
    async with SessionHost(tmp_path, dialect=dialect, clock=lambda: AT) as host:
        session = await host.create(UUID, cwd="/work/rings")
        await session.append_message("user", "hello")
        header = lines(session.file_path)[1 if dialect == "omp" else 0]
    assert datetime.fromisoformat(header.pop("timestamp")) == AT
    assert header == {"type": "session", "version": version, "id": UUID, "cwd": "/work/rings"}


@pytest.mark.feature("O-11")
async def test_a_session_created_from_another_names_its_file_as_parent(tmp_path: Path) -> None:
    async with SessionHost(tmp_path, dialect="pi") as host:
        session = await host.create(cwd="/work/rings")
        leaf = await session.append_message("user", "hello")
        branched = await session.create_branched_session(leaf)
        assert lines(branched.file_path)[0]["parentSession"] == session.file_path
        started = await host.create(parent_session=session.file_path)
        await started.append_message("user", "hello")
        assert lines(started.file_path)[0]["parentSession"] == session.file_path
        assert "parentSession" not in lines(session.file_path)[0]
        assert branched.header.parent_session == started.header.parent_session == session.file_path


@pytest.mark.feature("O-9", "O-57")
@pytest.mark.parametrize("name", ["pi_v1.jsonl", "pi_v2.jsonl", "pi_v3.jsonl", "omp_v3.jsonl"])
async def test_the_header_is_not_an_entry(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes((DATA / name).read_bytes())
    async with SessionHost(tmp_path) as host:
        session = await host.load(tmp_path / name)
        raw = next(line for line in lines(session.file_path) if line["type"] == "session")
        header = session.header
        assert (header.id, header.version, header.cwd) == (raw["id"], 3, raw["cwd"])
        assert header.timestamp == session.created == datetime.fromisoformat(raw["timestamp"])
        entries = await session.entries()
        assert "session" not in {entry.type for entry in entries}
        assert header.id not in {entry.id for entry in entries}
        assert header.id not in {node.id for node in session.tree().nodes}
        assert await session.entry(header.id) is None


@pytest.mark.feature("O-38")
async def test_a_file_appears_with_the_first_append(tmp_path: Path, dialect: DialectName) -> None:
    root = tmp_path / "sessions"
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.create(cwd="/work/rings")
        assert session.header.cwd == "/work/rings"
        assert not root.exists() or files(root) == []
        assert Path(session.file_path or "").is_relative_to(root)
        await session.append_custom_entry("any", {"kind": "counts"})
        assert [str(root / name) for name in files(root)] == [session.file_path]


@pytest.mark.feature("O-39")
async def test_a_file_is_opened_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "my session.jsonl"
    path.parent.mkdir()
    path.write_bytes(file_bytes(DATA / "pi_v3.jsonl"))
    async with SessionHost(tmp_path / "sessions", dialect="pi") as host:
        for named in (path, str(path)):
            session = await host.load(named)
            assert (session.id, session.name) == ("0195f0a0-0000-7000-8000-0000000000a3", "Rings")
        await session.append_message("user", "hello")
        copy = await session.fork()
        assert lines(path)[-1]["message"]["content"] == "hello"
        assert Path(copy.file_path or "").is_relative_to(tmp_path / "sessions")
        with pytest.raises(SessionNotFound):
            await host.load(path.with_name("another.jsonl"))


@pytest.mark.feature("O-40")
async def test_the_most_recent_session_is_continued_or_a_new_one_begins(tmp_path: Path, dialect: DialectName) -> None:
    root = tmp_path / "not there yet"
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.continue_recent(cwd="/work/rings")
        assert (session.header.cwd, await session.entries()) == ("/work/rings", [])
        await session.append_message("user", "hello")
        await session.append_message("assistant", "hi", provider="anthropic", model="claude-oak")
        assert (await host.continue_recent(cwd="/work/rings")).id == session.id
        assert (await host.continue_recent(cwd="/work/other")).id != session.id
    async with SessionHost(root, dialect=dialect) as host:
        assert (await host.continue_recent()).id == session.id


IN_MEMORY = """
import os, sys
import anyio
import treering
from treering import SessionHost

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
changes = []

def watch(event, given):
    if event == "open" and isinstance(given[2], int) and given[2] & WRITING and given[0] != os.devnull:
        changes.append(given[0])
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate"):
        changes.append((event, given))

async def main():
    async with SessionHost(dialect=sys.argv[1]) as host:
        session = await host.create(cwd="/work/rings")
        assert session.file_path is None
        first = await session.append_message("user", "hello")
        await session.append_message("assistant", "hi", provider="p", model="m")
        await session.append_model_change("p", "m")
        await session.append_thinking_level_change("high")
        await session.append_session_info("name")
        await session.append_custom_entry("x", {})
        await session.append_custom_message("x", "y")
        await session.append_tool_execution("c", "t", {}, "r")
        await session.set_label(first, "here")
        await session.branch(first)
        await session.branch_with_summary(first, "summary")
        await session.append_compaction("all", None, 1)
        await session.reset_leaf()
        await session.append_message("user", "again")
        for other in (await session.fork(), await session.create_branched_session(first)):
            await other.append_message("user", "more")
        await session.context()
        session.tree()
        await session.entries()
        assert len(await host.list_sessions()) == 3
        await session.passivate()
        await session.refresh()
        await session.flush()
        await host.delete(session)
        await host.continue_recent()

anyio.run(main)  # the first run is not watched, so files opened by imports and event loops do not count
sys.addaudithook(watch)
anyio.run(main)
print(changes)
"""


@pytest.mark.feature("O-41")
@pytest.mark.parametrize("dialect", ["native", "pi"])
def test_sessions_in_memory_create_no_file(tmp_path: Path, dialect: str) -> None:
    command = [sys.executable, "-B", "-c", IN_MEMORY, dialect]
    environment = {**os.environ, "PYTHONPATH": str(Path(treering.__file__).parents[1])}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    assert list(tmp_path.iterdir()) == []


def modes(root: Path) -> Iterator[tuple[bool, str, int]]:
    for path in (root, *root.rglob("*")):
        yield path.is_dir(), str(path), stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Clear the umask, so that files have exactly the requested modes."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.feature("U-22")
@pytest.mark.usefixtures("no_umask")
@pytest.mark.parametrize("dialect", ["native", "omp", "pi"])
async def test_only_the_owner_can_read_the_files(tmp_path: Path, dialect: DialectName) -> None:
    root = tmp_path / "a" / "b"
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.create(cwd="/work/rings")
        first = await session.append_message("user", "hello")
        await session.append_message("user", "hello")
        await session.branch(first)
        await session.fork()
        path = session.file_path or ""
        await session.passivate()
        tear(path)
        await session.refresh()
    (root / "old.jsonl").write_bytes(file_bytes(DATA / "pi_v1.jsonl"))
    (root / "old.jsonl").chmod(0o600)
    async with SessionHost(root) as host:
        await host.load(root / "old.jsonl")
    found = [*modes(tmp_path / "a")]
    assert {mode for is_folder, _, mode in found if is_folder} == {0o700}
    assert {(path, mode) for is_folder, path, mode in found if not is_folder and mode != 0o600} == set()
    assert any(path.endswith(".bak") for _, path, _ in found)


def tear(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b'{"half a')


@pytest.mark.feature("N-160")
@pytest.mark.parametrize(
    "header",
    [
        '{"type":"session","version":99,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}',
        '{"type":"session","version":4,"id":"x","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}',
        '{"type":"title","v":1,"title":"t"}\n{"type":"session","version":4,"id":"x","timestamp":"2026-01-01T00:00:00Z"}',
    ],
)
async def test_a_newer_version_is_refused_and_its_file_unchanged(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(header + '\n{"type":"message","id":"1","parentId":null,"brandNew":1}\n{"torn', encoding="utf-8")
    before = file_bytes(path)
    async with SessionHost(tmp_path) as host:
        for read_only in (False, True):
            with pytest.raises(UnsupportedVersion, match=r"x\.jsonl:.*version (99|4)"):
                await host.load(path, read_only=read_only)
        with pytest.raises(UnsupportedVersion):
            await host.fork_from(path)
        [row] = await host.list_sessions()
        assert (row.status, row.message_count) == ("corrupted", 0)
        assert "version" in (row.problem or "")
    assert file_bytes(path) == before
    assert files(tmp_path) == ["x.jsonl"]


@pytest.mark.feature("N-160")
async def test_every_new_header_has_a_version(tmp_path: Path) -> None:
    dialects: tuple[DialectName, ...] = ("native", "pi", "omp")
    for dialect in dialects:
        async with SessionHost(tmp_path / dialect, dialect=dialect) as host:
            session = await host.create()
            await session.append_message("user", "hello")
            for each in (session, await session.fork(), await session.create_branched_session(session.leaf_id or "")):
                header = next(line for line in lines(each.file_path) if line["type"] == "session")
                assert header["version"] == (1 if dialect == "native" else 3)


@pytest.mark.feature("N-160")
async def test_a_header_whose_version_is_not_a_number_is_not_a_session(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"type":"session","version":"three","id":"x"}\n', encoding="utf-8")
    async with SessionHost(tmp_path) as host:
        with pytest.raises(NotASession, match=re.escape("x.jsonl:1:0")):
            await host.load(path)
    assert file_bytes(path) == b'{"type":"session","version":"three","id":"x"}\n'
