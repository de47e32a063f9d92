"""A host belongs to its loop: any task opens it, any task closes it, and if none does, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskStatus

from treering import HostClosed, InvalidInput, SessionHost, plain_text

WHO: ContextVar[str] = ContextVar("who", default="nobody")

UNCLOSED = """
import sys
from treering import SessionHost

async def main() -> None:
    host = await SessionHost.start(sys.argv[1])
    session = await host.open("a")
    await session.append_message("user", "kept")

if sys.argv[2] == "trio":
    import trio
    trio.run(main)
elif sys.argv[2] == "uvloop":
    import uvloop
    uvloop.run(main())
elif sys.argv[2] == "asyncio":
    import asyncio
    asyncio.run(main())
else:
    import asyncio
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
"""


async def texts(root: Path) -> list[str]:
    async with SessionHost(root) as host:
        session = await host.load("a")
        return [plain_text(message.content) for message in await session.all_messages()]


async def test_a_host_is_opened_in_one_task_used_in_another_and_closed_in_a_third(root: Path) -> None:
    hosts: list[SessionHost] = []

    async def opening() -> None:
        hosts.append(await SessionHost.start(root))

    async def using() -> None:
        await (await hosts[0].open("a")).append_message("user", "Hello")

    for step in (opening, using, lambda: hosts[0].aclose()):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(step)
    with pytest.raises(HostClosed, match="is closed"):
        await hosts[0].list_sessions()
    assert await texts(root) == ["Hello"]


async def test_a_block_may_be_left_in_another_task(root: Path) -> None:
    host = SessionHost(root)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.__aenter__)
    await (await host.open("a")).append_message("user", "Hello")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.__aexit__, None, None, None)
    assert await texts(root) == ["Hello"]


async def test_the_cancellation_of_the_task_that_opened_a_host_leaves_it_open(root: Path) -> None:
    async def opening(*, task_status: TaskStatus[SessionHost]) -> None:
        task_status.started(await SessionHost.start(root))
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        host: SessionHost = await tasks.start(opening)
        tasks.cancel_scope.cancel()
    session = await host.open("a")
    async with anyio.create_task_group() as tasks:  # the mailbox serves what does not run at once
        for number in range(3):
            tasks.start_soon(session.append_message, "user", str(number))
    await host.aclose()
    assert sorted(await texts(root)) == ["0", "1", "2"]


async def test_closing_again_and_at_once_returns_when_the_host_is_closed(root: Path) -> None:
    host = await SessionHost.start(root)
    await (await host.open("a")).append_message("user", "Hello")
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(host.aclose)
    await host.aclose()
    assert await texts(root) == ["Hello"]


async def test_a_host_that_was_never_opened_needs_no_closing(root: Path) -> None:
    await SessionHost(root).aclose()


async def test_closing_answers_what_others_asked_before(root: Path) -> None:
    host = await SessionHost.start(root)
    session = await host.open("a")
    accepted: list[str] = []

    async def appending(number: int) -> None:
        try:
            accepted.append(await session.append_message("user", str(number)))
        except HostClosed:
            return

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(appending, number)
        tasks.start_soon(host.aclose)
    async with SessionHost(root) as after:
        rows = await after.list_sessions()
        kept = [entry.id for entry in await (await after.load("a")).entries()] if rows else []
    assert set(kept) == set(accepted)


async def test_closing_finishes_although_its_caller_is_cancelled(root: Path) -> None:
    host = await SessionHost.start(root)
    await (await host.open("a")).append_message("user", "Hello")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await host.aclose()
    assert scope.cancelled_caught
    assert await texts(root) == ["Hello"]  # its lock is released


async def test_the_tasks_of_a_host_have_the_context_of_the_task_that_opened_it(root: Path) -> None:
    seen: set[str] = set()

    def clock() -> datetime:
        seen.add(WHO.get())
        return datetime.now(UTC)

    WHO.set("opener")
    host = await SessionHost.start(root, clock=clock)
    WHO.set("another")
    await (await host.open("a")).append_message("user", "Hello")
    await host.aclose()
    assert seen <= {"opener", "another"}


async def test_a_failure_of_the_hosts_own_tasks_reaches_who_uses_and_who_closes_it(root: Path) -> None:
    host = await SessionHost.start(root)
    await (await host.open("a")).append_message("user", "Hello")

    async def failing() -> None:
        raise ZeroDivisionError("a bug")

    host.core.runtime.spawn(failing)
    with pytest.raises(ExceptionGroup) as closed:
        await host.aclose()
    assert closed.group_contains(ZeroDivisionError, match="a bug")
    with pytest.raises(HostClosed, match="a bug") as used:
        await host.open("a")
    assert used.value.__cause__ is closed.value
    assert await texts(root) == ["Hello"]


async def test_work_that_the_host_itself_runs_may_close_it(root: Path) -> None:
    host = await SessionHost.start(root)
    session = await host.open("a")
    await session.append_message("user", "Hello")

    async def closing() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(host.aclose)  # nor does a task that this work waits for
        await host.aclose()

    host.core.runtime.spawn(closing)
    await anyio.wait_all_tasks_blocked()
    await host.aclose()
    with pytest.raises(HostClosed):
        await session.append_message("user", "late")
    assert await texts(root) == ["Hello"]


async def test_signals_need_a_block(root: Path) -> None:
    with pytest.raises(InvalidInput, match="async with"):
        await SessionHost.start(root, signals=True)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio", "a loop that is only stopped"])
def test_a_host_that_is_never_closed_loses_nothing_and_is_named_in_a_warning(root: Path, loop: str) -> None:
    command = [sys.executable, "-W", "default", "-c", UNCLOSED, str(root), loop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"ResourceWarning: unclosed SessionHost('{root}')" in done.stderr
    (file,) = root.glob("*.jsonl")
    assert "kept" in file.read_text().splitlines()[1]
