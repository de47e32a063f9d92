"""Following a session that another process writes: real processes, real files, no lock."""

# a test may look at files

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from treering import (
    Changed,
    Context,
    Cursor,
    Entry,
    MessageEntry,
    Reset,
    SessionHost,
    SessionLocked,
    SessionNotFound,
    Snapshot,
    plain_text,
)

PATIENCE_S = 60

WRITER = """
import json, os, sys
import anyio
from treering import SessionHost

async def main(root):
    path = os.path.join(root, "shared.jsonl")
    async with SessionHost(root) as host:
        session = await host.open("shared")
        for line in sys.stdin:
            command, *args = json.loads(line)
            answer = None
            match command:
                case "append":
                    answer = await session.append_message("user", *args)
                case "batch":
                    answer = await session.append_many([await_payload(each) for each in args])
                case "branch":
                    await session.branch(*args)
                case "passivate":
                    answer = await session.passivate()
                case "raw":
                    with open(path, "ab", buffering=0) as file:
                        file.write(args[0].encode())
                case "replace":
                    lines = open(path, "rb").readlines()
                    with open(path + ".new", "wb") as file:
                        file.writelines(lines[:args[0]])
                    os.replace(path + ".new", path)
                case "cut":
                    lines = open(path, "rb").readlines()
                    os.truncate(path, sum(map(len, lines[:args[0]])))
                case "unlink":
                    os.unlink(path)
                    session = await host.open("shared")
            print(json.dumps(answer), flush=True)

def await_payload(text):
    from treering import message
    return message("user", text)

anyio.run(main, sys.argv[1])
"""


class Writer:
    """Another process, which does as it is told."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)

    async def do(self, *command: object) -> Any:  # noqa: ANN401  # what a command answers
        """Have something done, and return when it is."""
        await self._stdin.send(json.dumps(command).encode() + b"\n")
        return json.loads(await self._answers.receive_until(b"\n", 1_000_000))


@asynccontextmanager
async def another_process(root: Path) -> AsyncIterator[Writer]:
    with anyio.fail_after(PATIENCE_S):
        async with await anyio.open_process([sys.executable, "-c", WRITER, str(root)], stderr=None) as process:
            yield Writer(process)
            assert process.stdin is not None
            await process.stdin.aclose()
            await process.wait()
            assert process.returncode == 0


def said(entry: object) -> tuple[int, str]:
    assert isinstance(entry, MessageEntry)
    return entry.seq, plain_text(entry.message.content)


@pytest.mark.feature("X-22")
async def test_a_follower_sees_what_another_process_appends_and_takes_no_lock(tmp_path: Path) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        first = await writer.do("append", "one")
        with pytest.raises(SessionLocked):
            await host.load("shared")
        session = await host.load("shared", read_only=True)
        assert session.leaf_id == first
        async with session.subscribe() as entries, session.subscribe("context") as contexts:
            assert said(await anext(entries)) == (1, "one")
            held = await anext(contexts)
            assert isinstance(held, Snapshot)
            second = await writer.do("append", "two")
            assert said(await anext(entries)) == (2, "two")
            changed = await anext(contexts)
            assert isinstance(changed, Changed)
            assert changed.change.leaf_id == second
            assert await writer.do("passivate")
            await writer.do("append", "three")  # the lock was there to be had
            assert said(await anext(entries)) == (3, "three")
            assert (await anext(contexts)).cursor.seq == 3
            await writer.do("batch", "four", "five")
            assert [said(await anext(entries)) for _ in range(2)] == [(4, "four"), (5, "five")]
            assert [(await anext(contexts)).cursor.seq for _ in range(2)] == [4, 5]
            await writer.do("branch", first)
            moved = await anext(contexts)
            assert isinstance(moved, Changed)
            assert moved.change.leaf_id == first
        assert isinstance(await session.context(), Context)
        assert session.leaf_id == first


@pytest.mark.feature("X-22")
async def test_a_torn_tail_is_never_shown(tmp_path: Path) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        await writer.do("append", "one")
        await writer.do("append", "two")
        await writer.do("passivate")
        line = (tmp_path / "shared.jsonl").read_text().splitlines()[-1]
        line = line.replace('"two"', '"three"').replace('"seq":2', '"seq":3')
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries:
            assert [said(await anext(entries)) for _ in range(2)] == [(1, "one"), (2, "two")]
            for end in range(0, len(line) - 1, 25):
                await writer.do("raw", line[end : min(end + 25, len(line) - 1)])
                await session.refresh()
                assert session.cursor.seq == 2
                assert len(await session.entries()) == 2
            await writer.do("raw", line[-1] + "\n")
            assert said(await anext(entries)) == (3, "three")


@pytest.mark.feature("X-22")
@pytest.mark.parametrize("how", ["replace", "cut"])
async def test_a_file_that_is_replaced_or_shortened_is_a_reset(tmp_path: Path, how: str) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        for text in "one", "two", "three":
            await writer.do("append", text)
        await writer.do("passivate")
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries, session.subscribe("tree") as trees:
            assert [said(await anext(entries)) for _ in range(3)] == [(1, "one"), (2, "two"), (3, "three")]
            before = (await anext(trees)).cursor
            await writer.do(how, 2)
            reset = await anext(entries)
            assert reset == Reset(Cursor(session.cursor.generation, 0))
            assert session.cursor.generation != before.generation
            assert said(await anext(entries)) == (1, "one")
            snapshot = await anext(trees)
            assert isinstance(snapshot, Snapshot)
            assert snapshot.value == session.tree()
            assert snapshot.cursor == session.cursor
            await writer.do("append", "goes on")
            assert said(await anext(entries)) == (2, "goes on")
            assert (await anext(trees)).cursor.seq == 2


async def test_a_file_that_is_gone_for_a_while_ends_no_host_and_no_subscription(tmp_path: Path) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        await writer.do("append", "one")
        await writer.do("passivate")
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries:
            assert said(await anext(entries)) == (1, "one")
            await writer.do("unlink")
            with pytest.raises(SessionNotFound):
                await session.refresh()
            await writer.do("append", "another history")
            assert isinstance(await anext(entries), Reset)
            found = await anext(entries)
            assert isinstance(found, Entry)
            assert said(found) == (1, "another history")
