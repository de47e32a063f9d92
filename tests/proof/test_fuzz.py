"""Session files with arbitrary bytes: reading changes nothing, opening loses no line, and all errors are typed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from treering import NotASession, SessionHost, TreeringError, UnsupportedVersion
from treering.events.dialects.torn_header import is_torn_header
from treering.events.stores.files import FileStore
from treering.testing.disks import MemoryDisk
from treering.testing.simulation import run
from treering.testing.simulation.determinism import AtOnce, SeededIds, VirtualClock

ROOT = "/sessions"
FILE = f"{ROOT}/a.jsonl"
DATA = Path(__file__).parents[1] / "data"
TIME = b'"timestamp":"2026-01-01T00:00:00.000Z"'

Lines: TypeAlias = list[bytes]

NATIVE = b'{"type":"session","id":"a","version":1,' + TIME + b"}\n"
HEADERS = [
    NATIVE,
    b'{"type":"session","id":"a",' + TIME + b',"cwd":"/w"}\n',
    b'{"type":"session","version":2,"id":"a",' + TIME + b',"cwd":"/w"}\n',
    b'{"type":"session","version":3,"id":"a",' + TIME + b',"cwd":"/w"}\n',
    b'{"type":"session","version":3,"id":"a",' + TIME + b',"cwd":"/w","titleSource":"user"}\n',
    (DATA / "omp_v3.jsonl").read_bytes().partition(b'{"type":"message"')[0].rpartition(b"\n")[0] + b"\n",
    b"\xef\xbb\xbf\r\n" + NATIVE.replace(b"\n", b"\r\n"),
]
SAMPLES = [
    line
    for name in ("pi_v1", "pi_v2", "pi_v3", "omp_v3")
    for line in (DATA / f"{name}.jsonl").read_bytes().splitlines()[1:]
] + [
    b'{"type":"message","id":"1","parent_id":null,' + TIME + b',"seq":1,"message":{"role":"user","content":"Hi"}}',
    b'{"type":"label","id":"2","parent_id":"1",' + TIME + b',"label":{"target_id":"1","label":"x"}}',
    b'{"type":"compaction","id":"3","parent_id":"3",' + TIME + b',"compaction":{"summary":"s","tokens_before":1}}',
    b'{"type":"custom","id":"4","parent_id":"9",' + TIME + b',"custom":{"custom_type":"c","data":{"a":[1,null]}},'
    b'"batch":{"session":"a","id":"b","i":0,"n":2}}',
    b'{"type":"session","id":"a","version":1}',
    b"null",
    b"{}",
    b"[" * 5000,
    b'{"type":"message","id":"5","parentId":null,"message":{"role":"user","content":"\\ud800"}}',
]


def mutated(line: bytes) -> SearchStrategy[bytes]:
    """Change a line somewhere: truncate it, double a part, or insert bytes."""
    places = st.integers(0, len(line))
    return st.one_of(
        places.map(lambda end: line[:end]),
        st.tuples(places, places).map(lambda two: line[: max(two)] + line[min(two) :]),
        st.tuples(places, st.binary(max_size=4)).map(lambda cut: line[: cut[0]] + cut[1] + line[cut[0] + 1 :]),
    )


def without_line_breaks(line: bytes) -> bytes:
    """Replace the line breaks in a line."""
    return line.replace(b"\n", b" ")


@st.composite
def files(draw: DrawFn) -> bytes:
    """Files that begin like a session of some dialect and continue arbitrarily."""
    header = draw(st.sampled_from(HEADERS))
    if draw(st.integers(0, 5)) == 0:
        header = draw(mutated(header))
    lines: Lines = draw(
        st.lists(st.sampled_from(SAMPLES).flatmap(lambda line: st.just(line) | mutated(line)), max_size=8)
    )
    breaks = draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
    body = b"".join(without_line_breaks(line) + breaks for line in lines)
    return (
        header
        + body
        + draw(
            st.just(b"") | st.sampled_from(SAMPLES).flatmap(mutated).map(without_line_breaks) | st.binary(max_size=40)
        )
    )


def disk_with(data: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(ROOT)
    disk.write(disk.open(FILE, os.O_RDWR | os.O_CREAT), data)
    disk.settle()
    return disk


def host_on(disk: MemoryDisk) -> SessionHost:
    offload, random = AtOnce(), Random(0)
    store = FileStore(ROOT, disk=disk, offload=offload)
    return SessionHost(store=store, offload=offload, clock=VirtualClock(random), new_id=SeededIds(random))


async def read(disk: MemoryDisk) -> None:
    """Read everything from a session that is opened read-only."""
    async with host_on(disk) as host:
        session = await host.load(FILE, read_only=True)
        entries = await session.entries()
        for leaf in [None, *(entry.id for entry in entries[-3:])]:
            try:
                await session.context(leaf)
                session.path(leaf)
            except TreeringError:
                pass
        session.tree()
        session.labels()
        await host.list_sessions()


async def append(disk: MemoryDisk) -> None:
    async with host_on(disk) as host:
        session = await host.load(FILE)
        entry_id = await session.append_message("user", "appended")
        assert session.leaf_id == entry_id
        again = [entry.id for entry in await session.entries()]
        assert again[-1] == entry_id
    async with host_on(disk) as host:
        session = await host.load(FILE)
        assert [entry.id for entry in await session.entries()] == again


def lost_lines(before: bytes, disk: MemoryDisk) -> Sequence[bytes]:
    """Return the complete lines of a file that are, in order, neither in it afterwards nor in its backup."""
    kept = disk.files()
    if kept.get(f"{FILE}.bak") == before:
        return []
    after = iter(kept[FILE].split(b"\n"))
    return [line for line in before.split(b"\n")[:-1] if line.strip() and not any(line == each for each in after)]


def is_new(data: bytes) -> bool:
    """Tell whether a file is no session yet: it is empty, or its first write was cut short."""
    return not data.strip() or is_torn_header(data)


def prove(data: bytes) -> int:
    """Open a file for reading and for writing, and return the number of lost lines."""
    disk = disk_with(data)
    refusal: TreeringError | None = None
    try:
        run(0, read, disk)
    except (NotASession, UnsupportedVersion) as error:
        refusal = error
    except TreeringError:
        assert is_new(data)
    assert disk.files() == {FILE: data}, "reading changed something"
    try:
        run(0, append, disk)
    except (NotASession, UnsupportedVersion):
        assert disk.files()[FILE] == data, "a refused file was changed"
        assert refusal is not None
        return 0
    except TreeringError:
        assert is_new(data)
        assert data in disk.files().values(), "the beginning of a header was not kept"
        return 0
    fragment = data.rpartition(b"\n")[2]
    if fragment.strip():
        assert any(fragment.rstrip(b"\r") in content for content in disk.files().values()), "the fragment is gone"
    return len(lost_lines(data, disk))


def fuzz(count: int, strategy: SearchStrategy[bytes], tally: Counter[str]) -> None:
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
    @given(strategy)
    @example(b"")
    @example(b"\n")
    @example(NATIVE[:-1])
    @example(NATIVE + b"\0" * 600)
    @example(NATIVE + b'{"\x80ype":"message"}')
    def one(data: bytes) -> None:
        missing = prove(data)
        tally["inputs fuzzed"] += 1
        tally["lines lost"] += missing
        assert not missing

    one()


STRATEGIES = [
    pytest.param(files, id="lines"),
    pytest.param(lambda: st.binary(max_size=300), id="bytes"),
    pytest.param(lambda: st.sampled_from(HEADERS).flatmap(mutated), id="headers"),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_opening_a_file_loses_no_line(strategy: Callable[[], SearchStrategy[bytes]], tally: Counter[str]) -> None:
    fuzz(100, strategy(), tally)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_opening_many_more_files_loses_no_line(
    strategy: Callable[[], SearchStrategy[bytes]], tally: Counter[str]
) -> None:
    fuzz(10_000, strategy(), tally)
