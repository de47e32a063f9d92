"""Tasks that asyncio cancels, without a cancel scope: shields do not stop that, and the session still works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Literal, TypeVar, TypeVarTuple

import pytest

from treering import Limits, SessionHost, SessionNotFound, plain_text
from treering.events.offload import ThreadOffload

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class HeldOffload(ThreadOffload):
    """An offload to threads whose work waits until `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()
        self.held = 0

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        def work(*given: *Ts) -> T:
            self.held += not self.go.is_set()
            self.go.wait(30)
            return fn(*given)

        return await super().__call__(work, *args)

    async def cancel(self, task: asyncio.Task[object]) -> None:
        """Cancel a task whose work is held, let the work continue, and wait for the end of the task."""
        while not self.held:  # noqa: ASYNC110  # a thread counts it, and cannot set an event of the loop
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        self.go.set()
        self.held = 0
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("durability", ["os", "file", "group"])
async def test_an_append_after_a_cancelled_append_comes_after_its_entry(
    tmp_path: Path, durability: Literal["os", "file", "group"]
) -> None:
    offload = HeldOffload()
    async with SessionHost(tmp_path, durability=durability, writes="thread", offload=offload) as host:
        session = await host.create("a")
        await session.append_message("user", "one")
        offload.go.clear()
        await offload.cancel(asyncio.create_task(session.append_message("user", "two")))
        await session.append_message("user", "three")
        assert [plain_text(each.content) for each in await session.messages()] == ["one", "two", "three"]


async def test_a_session_whose_passivation_was_cancelled_can_be_used(tmp_path: Path) -> None:
    offload = HeldOffload()
    async with SessionHost(tmp_path, offload=offload, limits=Limits(snapshot_after_lines=1)) as host:
        session = await host.create("a")
        await session.append_message("user", "one")
        offload.go.clear()
        await offload.cancel(asyncio.create_task(session.passivate()))
        await session.append_message("user", "two")
        assert [plain_text(each.content) for each in await session.messages()] == ["one", "two"]


class CancellingOffload(ThreadOffload):
    """An offload that cancels a task at each of the calls that are numbered in `at`."""

    def __init__(self) -> None:
        super().__init__()
        self.cancel: Callable[[], object] = bool
        self.at = range(0)
        self.calls = 0

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.calls += 1
        if self.calls in self.at:
            self.cancel()
        return await super().__call__(fn, *args)


def traces_in(root: Path, content: bytes) -> list[str]:
    """Return the files that hold some content, and the pointers to current sessions."""
    files = [path for path in root.rglob("*") if path.is_file() and content in path.read_bytes()]
    return [path.name for path in (*files, *(root / ".treering" / "current").iterdir())]


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancelled_deletion_leaves_the_session_or_no_trace_of_it(tmp_path: Path, times: int) -> None:
    offload = CancellingOffload()
    completed = 0
    async with SessionHost(tmp_path, offload=offload) as host:
        for nth in range(1, 100):
            session = await host.create("c", cwd="/work")
            await session.append_message("user", "the only pebble")
            await host.set_current_session("/work", session)
            assert [hit.session_id async for hit in host.search("pebble", index=True)] == ["c"]
            task = asyncio.create_task(host.delete("c"))
            offload.cancel, offload.calls, offload.at = task.cancel, 0, range(nth, nth + times)
            await asyncio.wait([task])
            reached = offload.calls >= nth
            assert task.cancelled() is reached
            offload.at = range(0)
            if (tmp_path / "c.jsonl").exists():
                assert [plain_text(each.content) for each in await session.messages()] == ["the only pebble"]
                await host.delete("c")
            else:
                completed += reached
                with pytest.raises(SessionNotFound):
                    await session.messages()
            await host.flush()
            assert traces_in(tmp_path, b"pebble") == []
            if not reached:
                break
    assert completed, "a deletion is cancelled after the file is gone, too"


def is_packed(root: Path) -> bool:
    return any(path.suffix in (".zst", ".gz") for path in root.glob("a.jsonl.*"))


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("call", ["append", "branch", "load", "unarchive", "put"])
async def test_a_session_whose_unpacking_is_cancelled_is_packed_or_unpacked_whole(
    tmp_path: Path, call: str, times: int
) -> None:
    offload = CancellingOffload()
    unpacked = 0
    async with SessionHost(tmp_path, offload=offload) as host, SessionHost() as memory:
        session = await host.create("a")
        first = await session.append_message("user", "one")
        other = await memory.put(session)
        calls: dict[str, Callable[[], Coroutine[None, None, object]]] = {
            "append": lambda: session.append_message("user", "two"),
            "branch": lambda: session.branch(first),
            "load": lambda: host.load("a"),
            "unarchive": lambda: host.unarchive("a"),
            "put": lambda: host.put(other, replace=True),
        }
        for nth in range(1, 100):
            await host.archive("a")
            count = len(await session.all_messages())
            task = asyncio.create_task(calls[call]())
            offload.cancel, offload.calls, offload.at = task.cancel, 0, range(nth, nth + times)
            await asyncio.wait([task])
            reached = offload.calls >= nth
            offload.at = range(0)
            await host.flush()
            is_unpacked = (tmp_path / "a.jsonl").exists()
            assert is_unpacked is not is_packed(tmp_path)
            unpacked += is_unpacked and reached
            texts = [plain_text(each.content) for each in await session.all_messages()]
            assert texts[0] == "one"
            assert len(texts) in ((1,) if call == "put" else (count, count + 1))
            assert (await host.load("a")).message_count == len(texts)
            if not reached:
                break
    assert unpacked, "it is cancelled after the file is unpacked, too"
