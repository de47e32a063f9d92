"""A bare cancel of asyncio, at each hop to a thread: a copied, imported or archived session is whole, or not there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest

from treering import Session, SessionHost, plain_text
from treering.events.offload import ThreadOffload

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

TEXTS = ["one", "two", "three"]


class Cancelling(ThreadOffload):
    """An offload that cancels a task when it is called for the nth time."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        self.task: asyncio.Task[object] | None = None

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.left -= 1
        if self.left == 0 and self.task is not None:
            self.task.cancel()
        return await super().__call__(fn, *args)


async def converse(session: Session) -> None:
    """Append three messages and go back to the second: the place is kept beside the log, and belongs to the whole."""
    ids = [await session.append_message("user", text) for text in TEXTS]
    await session.branch(ids[1])


async def fork(host: SessionHost, _: Session, outside: Path) -> None:
    await host.fork_from("source", session_id="copy")


async def put(host: SessionHost, _: Session, outside: Path) -> None:
    async with SessionHost(outside) as other:
        await host.put(await other.load("copy"))


async def import_(host: SessionHost, _: Session, outside: Path) -> None:
    await host.import_sessions(outside / "copy.jsonl")


async def archive(host: SessionHost, _: Session, outside: Path) -> None:
    await host.archive("source")


@pytest.mark.parametrize("doing", [fork, put, import_, archive])
async def test_what_is_cancelled_is_whole_or_not_there(
    tmp_path: Path, doing: Callable[[SessionHost, Session, Path], Awaitable[None]]
) -> None:
    outside = tmp_path / "outside"
    async with SessionHost(outside) as other:
        copy = await other.create("copy")
        await converse(copy)
    cancelled = 0
    for nth in range(1, 100):
        root, offload = tmp_path / str(nth), Cancelling()
        async with SessionHost(root, offload=offload) as host:
            source = await host.create("source")
            await converse(source)
            offload.task = asyncio.ensure_future(doing(host, source, outside))
            offload.left = nth
            await asyncio.wait([offload.task])
            reached = offload.left <= 0
            offload.left = 0
            cancelled += offload.task.cancelled()
            for row in await host.list_sessions(status="any"):
                session = await host.load(row, read_only=True)
                kept = TEXTS if doing is import_ and row.id == "copy" else TEXTS[:2]  # a file alone names no place
                assert [plain_text(each.content) for each in await session.messages()] == kept
            assert [plain_text(each.content) for each in await source.messages()] == TEXTS[:2]
            if not reached:
                break
    assert cancelled
    assert offload.task is not None
    assert not offload.task.cancelled()
