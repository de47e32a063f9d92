"""Reading: a replayed log equals the live session, and a large one takes little memory."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import treering
from treering import Limits, Session, SessionHost, Usage, message, plain_text, tool_use
from treering.entries import ThinkingLevel
from treering.errors import UnsafeCut
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk

from ..sampling import some_of
from .conftest import state_of


async def act(session: Session, rng: random.Random, ids: list[str]) -> None:
    """Perform one random operation on a session."""
    chosen = rng.choice(ids) if ids else None
    match rng.randrange(12):
        case 0 if chosen:
            await session.branch(chosen)
        case 1 if chosen:
            ids.append(await session.branch_with_summary(chosen, "left it"))
        case 2 if chosen:
            ids.append(await session.set_label(chosen, rng.choice(["one", "two", ""])))
        case 3 if session.path():
            try:
                ids.append(await session.append_compaction("so far", rng.choice(session.path()), 100))
            except UnsafeCut:
                return
        case 4:
            await session.append_message("assistant", tool_use("call", "read", {"path": "a"}))
            ids.extend(await session.append_tool_execution("call", "read", {"path": "a"}, "text"))
        case 5:
            ids.append(await session.append_model_change("maker", rng.choice("abc")))
        case 6:
            ids.append(await session.append(ThinkingLevel(rng.choice(["low", "high"]))))
        case 7:
            ids.append(await session.append_session_info(rng.choice(["a name", "another", ""])))
        case 8:
            ids.append(await session.append_custom_entry("mine", {"n": rng.random()}))
        case 9:
            ids.append(await session.append_usage("summary", Usage(3, 4)))
        case 10 if rng.random() < 0.2:
            await session.reset_leaf()
        case _:
            ids.append(await session.append_message(rng.choice(["user", "assistant"]), f"words {rng.random()}"))


@pytest.mark.feature("G-10", "G-127")
@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_replayed_log_equals_the_live_session(
    root: Path, clock: Callable[[], Any], dialect: Literal["native", "pi"], seed: int
) -> None:
    rng = random.Random(seed)
    ids: list[str] = []
    async with SessionHost(root, dialect=dialect, clock=clock) as host:
        session = await host.create("main")
        path = session.file_path
        assert path is not None
        for _ in range(60):
            await act(session, rng, ids)
        await session.append_message("user", "last")
        live = await state_of(session)
        follower = await host.load(path, read_only=True)
        assert await state_of(follower) == live
        await session.passivate()
        assert await state_of(await host.load(path)) == live
    async with SessionHost(root) as other:
        assert await state_of(await other.load(path)) == live


@pytest.mark.parametrize("cache_bytes_max", [0, 1_000_000])
async def test_a_context_is_read_whole_however_its_entries_lie_in_the_log(root: Path, cache_bytes_max: int) -> None:
    """The path is in runs of these lengths, each followed by an entry that is not on it."""
    expected: list[str] = []
    limits = Limits(cache_bytes_max=cache_bytes_max)
    async with SessionHost(root, limits=limits) as host:
        session = await host.create("main")
        for number, length in enumerate((1, 63, 64, 2, 65, 1, 1, 130)):
            texts = [f"{number} {place}" for place in range(length)]
            *_, leaf = await session.append_many([message("user", each) for each in texts])
            await session.append_message("user", "aside")
            await session.branch(leaf)
            expected += texts
        assert [plain_text(each.content) for each in await session.messages()] == expected
    async with SessionHost(root, limits=limits) as host:
        session = await host.load("main")
        assert [plain_text(each.content) for each in await session.messages()] == expected


@pytest.mark.parametrize(("count", "from_snapshot"), [(99, False), (100, True)])
@pytest.mark.parametrize("read_only", [True, False])
async def test_a_long_session_is_opened_from_its_snapshot_instead_of_its_lines(
    root: Path, count: int, from_snapshot: bool, read_only: bool
) -> None:
    limits = Limits(snapshot_after_lines=100)
    async with SessionHost(root, limits=limits) as host:
        session = await host.create("main")
        ids = [await session.append_message("user", "x" * 10_000) for _ in range(count)]
    disk = FaultyDisk(OsDisk())
    async with SessionHost(root, limits=limits, disk=disk) as host:
        session = await host.load("main", read_only=read_only)
        assert session.path() == ids
        assert (disk.bytes_read < 100_000) is from_snapshot
        written = disk.bytes_written
        if from_snapshot and not read_only:  # there is nothing new to save
            await session.passivate()
            assert disk.bytes_written == written
            assert session.path() == ids


ENTRIES = 100_000
PER_ENTRY = 250
PER_LINE = 2.5

OPEN = """
import resource, sys
import anyio
from treering import SessionHost

def peak():
    try:
        status = open("/proc/self/status").read()
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on systems without /proc
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024  # ru_maxrss would include the parent's peak

async def main():
    small, path, read_only = sys.argv[1], sys.argv[2], sys.argv[3] == "read_only"
    async with SessionHost(small.rpartition("/")[0]) as host:
        await (await host.load(small, read_only=read_only)).context()
        before = peak()
        session = await host.load(path, read_only=read_only)
        grown = peak() - before
        print(grown, session.cursor.seq, session.leaf_id)

anyio.run(main)
"""


def write(path: Path, dialect: str, bodies: list[str]) -> int:
    """Write a session with these messages, and return the length of the longest line."""
    version, parent = (1, "parent_id") if dialect == "native" else (3, "parentId")
    longest = 0
    with path.open("w", encoding="ascii") as file:
        header = {"type": "session", "version": version, "id": path.stem, "timestamp": "2026-01-01T00:00:00.000Z"}
        file.write(json.dumps(header) + "\n")
        before = "null"
        for number, body in enumerate(bodies, 1):
            content = f'[{{"type":"text","text":{{"content":"{body}"}}}}]' if dialect == "native" else f'"{body}"'
            line = (
                f'{{"type":"message","id":"{number:08x}","{parent}":{before},"timestamp":"2026-01-01T00:00:01.000Z",'
                f'"message":{{"role":"user","content":{content}}}}}\n'
            )
            longest = max(longest, file.write(line))
            before = f'"{number:08x}"'
    return longest


def open_in_process(small: Path, path: Path, how: str) -> tuple[int, int, str]:
    """Open a file in another process; return the growth of its peak memory, the head and the leaf."""
    environment = {**os.environ, "PYTHONPATH": str(Path(treering.__file__).parents[1])}
    command = [sys.executable, "-c", OPEN, str(small), str(path), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    grown, head, leaf = done.stdout.split()
    return int(grown), int(head), leaf


@pytest.mark.feature("U-15")
@pytest.mark.skipif(sys.platform == "win32", reason="the resource module, which gives the peak memory, is missing")
@pytest.mark.parametrize(
    ("dialect", "how"), some_of([("native", "write"), ("native", "read_only"), ("pi", "write")], 3)
)
def test_opening_100_000_entries_uses_bounded_memory_per_entry(tmp_path: Path, dialect: str, how: str) -> None:
    write(tmp_path / "small.jsonl", dialect, ["words"] * 2000)
    longest = write(tmp_path / "large.jsonl", dialect, ["words " * 30] * ENTRIES)
    grown, head, leaf = open_in_process(tmp_path / "small.jsonl", tmp_path / "large.jsonl", how)
    assert (head, leaf) == (ENTRIES, f"{ENTRIES:08x}")
    assert 0 < grown < PER_ENTRY * ENTRIES + PER_LINE * longest


@pytest.mark.feature("U-15")
@pytest.mark.skipif(sys.platform == "win32", reason="the resource module, which gives the peak memory, is missing")
@pytest.mark.parametrize(("dialect", "how"), some_of([("native", "write"), ("pi", "read_only")], 2, start=1))
def test_opening_a_line_of_100_megabytes_uses_few_times_its_length(tmp_path: Path, dialect: str, how: str) -> None:
    write(tmp_path / "small.jsonl", dialect, ["words"] * 2000)
    longest = write(tmp_path / "large.jsonl", dialect, ["before", "x" * 100_000_000, "after"])
    grown, head, leaf = open_in_process(tmp_path / "small.jsonl", tmp_path / "large.jsonl", how)
    assert (head, leaf) == (3, "00000003")
    assert 0 < grown < PER_ENTRY * 3 + PER_LINE * longest
