"""The host of a root: it opens without holding up a loop, and several processes write to one conversation by turns."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from treering import Session, SessionHost
from treering.adapters.hosting import Hosting
from treering.adapters.session_index import CustomIndex, SessionIndexes, append_and_let_go
from treering.entries import Custom
from treering.events.json_values import raw_json
from treering.sync import SyncHost


@pytest.fixture
def anyio_backend() -> str:
    """The frameworks know no other loop."""
    return "asyncio"


async def append(host: SessionHost) -> int:
    """Append a message to a session, and return how many it holds."""
    session = await host.get_or_create("shared")
    await session.append_message("user", "Hello")
    return session.message_count


async def test_a_loop_goes_on_while_the_host_of_a_root_is_opened(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opening, may_open = threading.Event(), threading.Event()
    enter = SyncHost.__enter__

    def enter_late(self: SyncHost) -> SyncHost:
        opening.set()
        assert may_open.wait(60), "the loop was held up, and nobody let the host be opened"
        return enter(self)

    monkeypatch.setattr(SyncHost, "__enter__", enter_late)
    asked = [asyncio.ensure_future(Hosting(root).run(append)) for _ in range(2)]
    await asyncio.to_thread(opening.wait)
    assert not any(each.done() for each in asked)
    may_open.set()
    assert sorted(await asyncio.gather(*asked)) == [1, 2]  # one host has served both


WRITER = """
import asyncio, sys
from treering import Limits
from treering.adapters import hosting

hosting.OF_ROOTS = Limits(idle_after_s=0.05)

async def append(host):
    await (await host.get_or_create("shared")).append_message("user", "Hello")

asyncio.run(hosting.Hosting(sys.argv[1]).run(append))
print("appended", flush=True)
sys.stdin.read()
"""


def test_a_process_waits_until_another_one_lets_the_conversation_go(root: str) -> None:
    command = [sys.executable, "-c", WRITER, root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"appended\n"
        assert asyncio.run(Hosting(root).run(append)) == 2  # while the other one holds it, or just did
        assert writer.poll() is None
        writer.communicate()


class Noted(CustomIndex):
    """An index that notes what entries hold."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.seen: list[object] = []

    def _note(self, entry_id: str, custom: Custom) -> None:
        self.seen.append(custom.data)


async def test_a_session_that_all_processes_write_to_is_left_locked_by_none(root: str) -> None:
    async with SessionHost(root) as host, SessionHost(root) as other:
        known = [(each, SessionIndexes(Noted, shared=True)) for each in (host, other)]
        for number in range(3):
            for each, indexes in known:
                noted = await indexes.made(each, "all")
                await append_and_let_go(noted.session, Custom("count", raw_json(number)))
        await SessionIndexes(Noted, shared=True).made(host, "all")  # nor by who reads it
        last = await known[1][1].made(other, "all")
        await append_and_let_go(last.session, Custom("count", raw_json(3)))
        for each, indexes in known:
            assert (await indexes.made(each, "all")).seen == [0, 0, 1, 1, 2, 2, 3]
