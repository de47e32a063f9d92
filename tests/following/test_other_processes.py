"""Following a session that another process writes, with real processes and real files, and without taking the lock."""

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
                    answer = await session.append_many([user_message(each) for each in args])
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

def user_message(text):
    from treering import message
    return message("user", text)

anyio.run(main, sys.argv[1])
"""


class Writer:
    """A process that carries out the commands sent to it."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)

    async def run(self, *command: object) -> Any:  # noqa: ANN401  # an answer is any JSON
        """Send a command, and return its answer."""
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


def seq_and_text(entry: object) -> tuple[int, str]:
    assert isinstance(entry, MessageEntry)
    return entry.seq, plain_text(entry.message.content)


@pytest.mark.feature("X-22")
async def test_a_follower_receives_what_another_process_appends_and_takes_no_lock(tmp_path: Path) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        first = await writer.run("append", "one")
        with pytest.raises(SessionLocked):
            await host.load("shared")
        session = await host.load("shared", read_only=True)
        assert session.leaf_id == first
        async with session.subscribe() as entries, session.subscribe("context") as contexts:
            assert seq_and_text(await anext(entries)) == (1, "one")
            held = await anext(contexts)
            assert isinstance(held, Snapshot)
            second = await writer.run("append", "two")
            assert seq_and_text(await anext(entries)) == (2, "two")
            changed = await anext(contexts)
            assert isinstance(changed, Changed)
            assert changed.change.leaf_id == second
            assert await writer.run("passivate")
            await writer.run("append", "three")  # the follower does not hold the lock
            assert seq_and_text(await anext(entries)) == (3, "three")
            assert (await anext(contexts)).cursor.seq == 3
            await writer.run("batch", "four", "five")
            assert [seq_and_text(await anext(entries)) for _ in range(2)] == [(4, "four"), (5, "five")]
            assert [(await anext(contexts)).cursor.seq for _ in range(2)] == [4, 5]
            await writer.run("branch", first)
            moved = await anext(contexts)
            assert isinstance(moved, Changed)
            assert moved.change.leaf_id == first
        assert isinstance(await session.context(), Context)
        assert session.leaf_id == first


@pytest.mark.feature("X-22")
async def test_a_follower_never_sees_a_torn_tail(tmp_path: Path) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        await writer.run("append", "one")
        await writer.run("append", "two")
        await writer.run("passivate")
        line = (tmp_path / "shared.jsonl").read_text().splitlines()[-1]
        line = line.replace('"two"', '"three"').replace('"seq":2', '"seq":3')
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries:
            assert [seq_and_text(await anext(entries)) for _ in range(2)] == [(1, "one"), (2, "two")]
            for end in range(0, len(line) - 1, 25):
                await writer.run("raw", line[end : min(end + 25, len(line) - 1)])
                await session.refresh()
                assert session.cursor.seq == 2
                assert len(await session.entries()) == 2
            await writer.run("raw", line[-1] + "\n")
            assert seq_and_text(await anext(entries)) == (3, "three")


@pytest.mark.feature("X-22")
@pytest.mark.parametrize("how", ["replace", "cut"])
async def test_a_replaced_or_shortened_file_is_a_reset(tmp_path: Path, how: str) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        for text in "one", "two", "three":
            await writer.run("append", text)
        await writer.run("passivate")
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries, session.subscribe("tree") as trees:
            assert [seq_and_text(await anext(entries)) for _ in range(3)] == [(1, "one"), (2, "two"), (3, "three")]
            before = (await anext(trees)).cursor
            await writer.run(how, 2)
            reset = await anext(entries)
            assert reset == Reset(Cursor(session.cursor.generation, 0))
            assert session.cursor.generation != before.generation
            assert seq_and_text(await anext(entries)) == (1, "one")
            snapshot = await anext(trees)
            assert isinstance(snapshot, Snapshot)
            assert snapshot.value == session.tree()
            assert snapshot.cursor == session.cursor
            await writer.run("append", "goes on")
            assert seq_and_text(await anext(entries)) == (2, "goes on")
            assert (await anext(trees)).cursor.seq == 2


async def test_a_subscription_survives_the_deletion_and_recreation_of_the_file(tmp_path: Path) -> None:
    async with another_process(tmp_path) as writer, SessionHost(tmp_path) as host:
        await writer.run("append", "one")
        await writer.run("passivate")
        session = await host.load("shared", read_only=True)
        async with session.subscribe() as entries:
            assert seq_and_text(await anext(entries)) == (1, "one")
            await writer.run("unlink")
            with pytest.raises(SessionNotFound):
                await session.refresh()
            await writer.run("append", "another history")
            assert isinstance(await anext(entries), Reset)
            found = await anext(entries)
            assert isinstance(found, Entry)
            assert seq_and_text(found) == (1, "another history")
