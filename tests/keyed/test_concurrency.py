"""Concurrent tasks and threads, on one conversation and on several: nothing is lost, mixed or torn."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import KeyedSessions, SessionHost, SyncHost, message, plain_text, tool_result, tool_use
from treering.errors import LeafMoved, UnsafeCut, WrongThread
from treering.sync import SyncKeyedSessions

from .conftest import transcript

KEY = "telegram:123456"
KEYS = ["telegram:1", "telegram:2", "telegram_1"]


@pytest.mark.feature("P-36")
async def test_batches_of_concurrent_tasks_stay_contiguous(root: Path) -> None:
    async with SessionHost(root) as host:
        session = await host.get_or_create(KEY)

        async def write(who: str) -> None:
            own = await host.get_or_create(KEY)
            for batch in range(500):
                await own.append_many([message("user", f"{who} {batch} {part}") for part in range(10)])
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, "a")
            tasks.start_soon(write, "b")
        texts = [plain_text(each.content) for each in await session.history()]
    assert len(texts) == 10_000
    for start in range(0, 10_000, 10):
        who, batch, _ = texts[start].split()
        assert texts[start : start + 10] == [f"{who} {batch} {part}" for part in range(10)]
    firsts = [texts[start].split()[0] for start in range(0, 10_000, 10)]
    assert "".join(firsts).strip("ab") == ""
    assert "ab" in "".join(firsts)
    assert "ba" in "".join(firsts)


@pytest.mark.feature("P-37")
async def test_concurrent_conversations_do_not_mix(root: Path) -> None:
    async with SessionHost(root, writes="thread") as host:
        sessions = KeyedSessions(host)

        async def talk(key: str) -> None:
            for number in range(20):
                await sessions.add_message(key, "user", f"{key} {number}")
                assert len(await sessions.history(key)) == number + 1

        async with anyio.create_task_group() as tasks:
            for key in KEYS:
                tasks.start_soon(talk, key)
        for key in KEYS:
            assert transcript(await sessions.history(key)) == [f"user: {key} {number}" for number in range(20)]


@pytest.mark.feature("P-34")
async def test_after_concurrent_operations_the_log_reads_as_the_live_session(root: Path) -> None:
    added: list[str] = []
    async with SessionHost(root, writes="thread") as host:
        sessions = KeyedSessions(host)

        async def add(who: int) -> None:
            for number in range(15):
                await sessions.add_message(KEY, "user", f"{who} {number}")
                added.append(f"{who} {number}")

        async def call() -> None:
            for number in range(10):
                await sessions.add_full_message(KEY, message("assistant", tool_use(f"c{number}", "read", {})))
                await sessions.add_full_message(KEY, message("tool", tool_result(f"c{number}", "x")))

        async def change() -> None:
            for number in range(10):
                await sessions.set_summary(KEY, f"summary {number}")
                try:
                    await sessions.truncate_history(KEY, number)
                except (UnsafeCut, LeafMoved):
                    # A call has no result yet, or the history was replaced; nothing was written.
                    await sessions.history(KEY)
                await sessions.save(KEY)

        async def replace() -> None:
            for number in range(5):
                await sessions.set_history(KEY, [message("user", f"replaced {number} {part}") for part in range(2)])
                added.extend(f"replaced {number} {part}" for part in range(2))

        async def read() -> None:
            for _ in range(30):
                assert all(each.role for each in await sessions.history(KEY))
                assert await sessions.summary(KEY) in {"", *(f"summary {number}" for number in range(10))}

        async with anyio.create_task_group() as tasks:
            for who in range(3):
                tasks.start_soon(add, who)
            for work in (call, change, replace, read, read, host.passivate_idle):
                tasks.start_soon(work)
        session = await host.get_or_create(KEY)
        live = (session.path(), session.tree(), session.summary, await session.history(), await session.entries())
        assert session.summary == "summary 9"
        texts = [plain_text(each.content) for each in await session.all_messages() if each.role == "user"]
        assert sorted(texts) == sorted(added)
        for who in range(3):
            assert [each for each in texts if each.startswith(f"{who} ")] == [f"{who} {number}" for number in range(15)]
    async with SessionHost(root) as host:
        session = await host.get_or_create(KEY)
        again = (session.path(), session.tree(), session.summary, await session.history(), await session.entries())
        assert again == live


@pytest.mark.feature("P-4", "P-58")
def test_any_thread_can_make_any_call(root: Path) -> None:
    with SyncHost(root) as host:
        sessions = SyncKeyedSessions(host)

        def talk(who: int) -> None:
            for number in range(10):
                for key in KEYS:
                    sessions.add_message(key, "user", f"{who} {number}")
                    sessions.history(key)
            sessions.set_summary(KEYS[0], str(who))
            sessions.truncate_history(KEYS[0], 5)
            sessions.save(KEYS[0])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(talk, range(8)))
        for key in KEYS:
            texts = [plain_text(each.content) for each in sessions.get_or_create(key).all_messages()]
            assert len(texts) == 80
            for who in range(8):
                assert [each for each in texts if each.startswith(f"{who} ")] == [f"{who} {n}" for n in range(10)]
        assert sorted(sessions.keys()) == KEYS
        assert len(sessions.history(KEYS[0])) == 5
        assert sessions.summary(KEYS[0]) in {str(who) for who in range(8)}
        assert sessions.history("nobody") == []
        assert sessions.summary("nobody") == ""
        sessions.add_full_message(KEYS[1], message("user", "last"))
        assert plain_text(sessions.history(KEYS[1])[-1].content) == "last"
        sessions.set_history(KEYS[1], [])
        assert sessions.history(KEYS[1]) == []
        sessions.delete(KEYS[1])
        sessions.delete(KEYS[1])
        assert sorted(sessions.keys()) == [KEYS[0], KEYS[2]]


@pytest.mark.feature("P-58")
async def test_a_call_from_another_thread_than_the_hosts_is_refused(sessions: KeyedSessions) -> None:
    await sessions.add_message(KEY, "user", "one")
    for call in (
        lambda: sessions.add_message(KEY, "user", "two"),
        lambda: sessions.history(KEY),
        lambda: sessions.save(KEY),
    ):
        with pytest.raises(WrongThread, match="SyncHost"):
            await anyio.to_thread.run_sync(run_first_step, call)
    assert len(await sessions.history(KEY)) == 1


def run_first_step(call: Callable[[], object]) -> None:
    """Start a coroutine in this thread, as another event loop would."""
    coroutine = call()
    try:
        coroutine.send(None)  # type: ignore[attr-defined]
    finally:
        coroutine.close()  # type: ignore[attr-defined]
