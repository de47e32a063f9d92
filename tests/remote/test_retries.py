"""A connection that is cut at any point: every command happens once, and every caller has its reply."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream
from structlog.testing import capture_logs
from tests.remote.proxy import FATES, CuttingProxy, HoldingProxy, message_of
from tests.server.conftest import Client

from treering import SessionHost
from treering.entries import Label, Message, MessageEntry
from treering.errors import AppendInDoubt, SessionExists, SessionNotFound, Unavailable
from treering.remote import RemoteHost, connection

ROUNDS = 2
TASKS = 4
APPENDS = 6


@pytest.mark.feature("S-22")
async def test_every_command_happens_once_and_callers_know(local: SessionHost, server: Client, tmp_path: Path) -> None:
    proxy = CuttingProxy(server.address)
    async with proxy.running(), RemoteHost(proxy.url) as remote:
        session = await remote.create("main", cwd="/work")
        with pytest.raises(SessionExists):
            await remote.create("main")
        said: dict[str, str] = {}

        async def speak(name: int) -> None:
            for number in range(APPENDS):
                said[f"{name}.{number}"] = await session.append_message("user", f"{name}.{number}", below=None)

        async with anyio.create_task_group() as tasks:
            for name in range(TASKS):
                tasks.start_soon(speak, name)
        own = await local.load("main")
        kept = [entry async for entry in own.iter_entries() if isinstance(entry, MessageEntry)]
        texts = {entry.message.content[0].text.content: entry.id for entry in kept}  # type: ignore[union-attr]
        assert len(kept) == TASKS * APPENDS
        assert texts == said
        assert [entry async for entry in session.iter_entries()] == kept

        # Each other kind of command, each several times.
        for number in range(ROUNDS):
            before = own.message_count
            ids = await session.append_many([Message("user"), Label(kept[0].id, f"label {number}")])
            await own.refresh()
            assert (own.message_count, own.leaf_id) == (before + 1, ids[-1])
            await session.branch(ids[0])
            assert own.leaf_id == ids[0]
            summary_id = await session.branch_with_summary(kept[number].id, "left")
            assert own.leaf_id == session.leaf_id == summary_id
            assert (await remote.get_or_create(f"chat:{number}")).message_count == 0
            drafted = await remote.create(f"draft {number}")
            copies = [await session.fork(), await session.fork(f"copy {number}")]
            assert (await session.create_branched_session(ids[0])).path() == own.path(ids[0])
            assert await session.export("native") == (tmp_path / "root" / "main.jsonl").read_bytes()
            await remote.archive(drafted)
            await remote.unarchive(drafted)
            await remote.delete(drafted)
            with pytest.raises(SessionNotFound):
                await drafted.append_message("user", "gone")
            for copy in copies:
                assert copy.message_count == own.message_count
        rows = await remote.list_sessions()
        assert len(rows) == 1 + ROUNDS * 4
        assert {row.id for row in rows} == {row.id for row in await local.list_sessions()}
        assert await remote.list_sessions(limit=1, after=rows[0]) == rows[1:2]
        assert await remote.list_sessions(after=rows[0], offset=1) == rows[2:]
    assert min(proxy.fates[fate] for fate in FATES) > 5


class ForgetfulProxy(CuttingProxy):
    """Loses the reply to the first request to move a leaf, and says so before the request is sent again."""

    def __init__(self, address: tuple[str, int], lost: Callable[[], Awaitable[None]]) -> None:
        super().__init__(address)
        self._lost = lost

    def _fate(self, request: bytes) -> str:
        is_move = request.startswith(b"PUT ") and b"/leaf " in request.split(b"\r\n", 1)[0]
        return "unanswered" if is_move and not self.fates["unanswered"] else "answered"

    async def _pass_on(self, client: SocketStream, request: bytes, fate: str) -> None:
        await super()._pass_on(client, request, fate)
        if fate == "unanswered":
            await self._lost()


async def test_a_move_of_the_leaf_sent_again_leaves_that_of_another_program(local: SessionHost, server: Client) -> None:
    own = await local.create("main")
    first, second, _ = [await own.append_message("user", text) for text in ("one", "two", "three")]

    async def another_moves() -> None:
        assert own.leaf_id == first
        await own.branch(second)

    proxy = ForgetfulProxy(server.address, another_moves)
    async with proxy.running(), RemoteHost(proxy.url) as remote:
        session = await remote.load("main")
        await session.branch(first)
        assert own.leaf_id == session.leaf_id == second
        await session.branch(first)  # a move of its own
        assert own.leaf_id == session.leaf_id == first
    assert proxy.fates["unanswered"] == 1


async def test_a_subscription_goes_on_where_its_stream_was_cut(local: SessionHost, server: Client) -> None:
    proxy = CuttingProxy(server.address)
    own = await local.create("main")
    ids = [await own.append_message("user", f"message {number}") for number in range(5)]
    async with proxy.running(), RemoteHost(proxy.url) as remote:
        session = await remote.load("main", read_only=True)
        async with session.subscribe() as entries:
            while proxy.fates.total() <= 5 or len(ids) < 17:  # several entries may come in one chunk
                ids.append(await own.append_message("user", f"message {len(ids)}"))
                if len(ids) % 3 == 0:
                    while entries.cursor.seq < len(ids):
                        entry = await anext(entries)
                        assert entry.id == ids[entries.cursor.seq - 1]  # type: ignore[union-attr]


async def test_streams_end_soon_where_something_hands_on_only_whole_replies(
    local: SessionHost, server: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "OPENED_FOR_S", 0.2)
    monkeypatch.setattr(connection, "WHOLE_AFTER_S", 1)
    proxy, direct = HoldingProxy(server.address), "/v1/sessions/main/events"
    own = await local.create("main")
    ids = [await own.append_message("user", "before")]
    async with proxy.running(), RemoteHost(proxy.url) as remote:
        session = await remote.load("main", read_only=True)
        async with session.subscribe() as entries:
            assert (await anext(entries)).id == ids[-1]  # type: ignore[union-attr]
            while len(proxy.preferred) < 4:
                ids.append(await own.append_message("user", "meanwhile"))
                assert (await anext(entries)).id == ids[-1]  # type: ignore[union-attr]
        assert proxy.preferred == [None, None, "wait=1", "wait=1"]
    told = await server.events(direct, headers={"prefer": "respond-async, wait=1"})
    assert [event.event for event in told] == ["entry"] * len(ids) + ["bye"]
    assert told[-1].data == {"reason": "rotate", "reconnect": True, "retry_ms": 0}


class ClosingProxy(CuttingProxy):
    """Answers one request over each connection, and closes it when the second one comes, as a server that had just
    begun to close it; or when the first one comes, if it is told to."""

    closes_at_once = False
    closed = 0

    async def _serve(self, client: SocketStream) -> None:
        async with client:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                if self.closes_at_once:
                    await client.receive()
                else:
                    await self._pass_on(client, await message_of(client), "answered")
                    await client.receive()
                self.closed += 1


async def test_a_kept_connection_that_the_server_closed_leaves_no_doubt(local: SessionHost, server: Client) -> None:
    proxy = ClosingProxy(server.address)
    own = await local.create("main")
    await own.append_message("user", "begin")
    async with proxy.running(), RemoteHost(proxy.url, retry_for_s=0) as remote:
        session = await remote.load("main")
        ids = [await session.append_message("user", f"{number}") for number in range(5)]
        assert own.path()[1:] == ids
        assert proxy.closed >= 5
        proxy.closes_at_once = True
        proxy.closed = 0
        with pytest.raises(AppendInDoubt):  # a new connection that is cut says nothing of what was done
            await session.append_message("user", "lost")
        assert proxy.closed == 2  # the kept one and a new one
        assert own.path()[1:] == ids


class DeafProxy(CuttingProxy):
    """Passes all on but events that no log keeps, which it never answers."""

    def _fate(self, request: bytes) -> str:
        return "answered"

    async def _pass_on(self, client: SocketStream, request: bytes, fate: str) -> None:
        if b"/transients" in request.split(b"\r\n", 1)[0]:
            await anyio.sleep_forever()
        await super()._pass_on(client, request, fate)


async def test_an_append_waits_for_what_was_emitted_no_longer_than_a_request_is_repeated(
    local: SessionHost, server: Client
) -> None:
    proxy = DeafProxy(server.address)
    await (await local.create("main")).append_message("user", "begin")
    async with proxy.running(), RemoteHost(proxy.url, retry_for_s=0.1) as remote:
        session = await remote.load("main")
        for number in range(1000):
            session.emit("typing", number)
        with anyio.fail_after(20):  # a thousand times as long would be more
            await session.append_message("user", "go on")


async def test_who_waits_for_a_server_is_told_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAUSE_MAX_S", 0.01)
    async with RemoteHost("http://127.0.0.1:9", retry_for_s=0.5) as nobody:
        with capture_logs() as logged, pytest.raises(Unavailable) as refused:
            await nobody.list_sessions()
    assert [(each["event"], each["log_level"]) for each in logged] == [("no_answer", "warning")]
    assert logged[0]["error"] == str(refused.value)
