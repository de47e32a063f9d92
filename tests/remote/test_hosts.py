"""Remote hosts: what they find, in which loops and threads they run, and what they leave alone."""

import gc
import subprocess
import sys
import warnings
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from tests.remote.over_server import ServedHost
from tests.server.conftest import Client, served

from treering import Limits, Message, Reset, Session, SessionHost, SyncHost, Usage, text
from treering.errors import HostClosed, InvalidInput, NotAuthorized, SessionExists, SessionNotFound
from treering.events.disk.disk import OsDisk
from treering.remote import RemoteHost
from treering.server import ServerLimits, Tokens
from treering.sessions import SessionSummary
from treering.subscriptions import TextPiece

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def test_a_remote_host_finds_what_its_host_finds(local: SessionHost, remote: RemoteHost, tmp_path: Path) -> None:
    for number in range(4):
        project = tmp_path / ("first" if number % 2 else "second")
        session = await local.create(f"session-{number}", cwd=project, parent_session=f"parent-{number}")
        await session.append_message("user", f"the word {'odd' if number % 2 else 'even'} in {number}")
        await session.append_session_info(f"name {number}")
    await local.archive("session-3")
    keyed = await remote.get_or_create("chat:17", cwd=tmp_path)
    await keyed.append_message("assistant", "The word of a chat", usage=Usage(input_tokens=7, output_tokens=3))

    fields = set(SessionSummary.__struct_fields__) - {"ref", "path"}  # what only the server's own host has

    def shown(rows: list[SessionSummary]) -> list[object]:
        return [{name: getattr(row, name) for name in fields} for row in rows]

    for filters in (
        {}, {"status": "any"}, {"status": "archived"}, {"limit": 2}, {"limit": 2, "offset": 1}, {"offset": 3},
        {"project": tmp_path / "first"}, {"project": str(tmp_path / "second"), "limit": 1}, {"status": "ours"},
    ):  # fmt: skip
        assert shown(await remote.list_sessions(**filters)) == shown(await local.list_sessions(**filters)), filters
    for name in ("session-1", "session-3", "name 2", "last", "chat"):
        assert (await remote.resolve(name)).id == (await local.resolve(name)).id
    for name in ("session", "nothing", ""):
        with pytest.raises(Exception, match=r".") as there:
            await local.resolve(name)
        with pytest.raises(type(there.value)) as here:
            await remote.resolve(name)
        assert str(here.value) == str(there.value)
    searches: tuple[tuple[str, dict[str, Any]], ...] = (
        ("word", {}), ("word", {"limit": 2, "offset": 1}), ('"the word"', {"role": "user"}), 
        ("even", {"project": tmp_path / "second"}),
        ("word", {"after": datetime(2100, 1, 1, tzinfo=UTC)}), ("word", {"limit": 0}),
    )  # fmt: skip
    for query, options in searches:
        ours = [
            (hit.session_id, hit.entry_id, hit.snippet, hit.ranges) async for hit in remote.search(query, **options)
        ]
        theirs = [
            (hit.session_id, hit.entry_id, hit.snippet, hit.ranges) async for hit in local.search(query, **options)
        ]
        assert ours == theirs, query
    with pytest.raises(InvalidInput, match="has no words"):
        remote.search('""')
    assert await remote.current_session(tmp_path / "first") is None
    await remote.set_current_session(tmp_path / "first", "session-1")
    for host in (remote, local):
        assert (await host.current_session(tmp_path / "first")).id == "session-1"  # type: ignore[union-attr]
        assert (await host.find_recent(cwd=tmp_path / "first")).id == "session-1"  # type: ignore[union-attr]
    assert await remote.get_session("nothing") is None
    assert await remote.find_by_key("nobody") is None


async def test_the_listing_is_followed_whoever_changes_it(local: SessionHost, remote: RemoteHost) -> None:
    await (await local.create("first")).append_message("user", "one")
    async with remote.subscribe_sessions() as changes:
        rows = await anext(changes)
        assert isinstance(rows, list)
        assert [row.id for row in rows] == ["first"]
        await (await local.create("second")).append_message("user", "two")
        second = await anext(changes)
        assert (second.ref, second.summary.message_count) == ("second", 1)  # type: ignore[union-attr]
        await remote.delete("first")
        assert (await anext(changes)).summary is None  # type: ignore[union-attr]
        position = changes.position
    await (await local.create("unseen")).append_message("user", "three")
    async with remote.subscribe_sessions(after=position) as changes:
        assert (await anext(changes)).ref == "unseen"  # type: ignore[union-attr]
    async with remote.subscribe_sessions(after=remote.sessions_position()) as changes:
        assert {row.id for row in await anext(changes)} == {"second", "unseen"}  # type: ignore[union-attr]


async def test_moves_of_the_leaf_and_pieces_of_texts_come_from_others(local: SessionHost, remote: RemoteHost) -> None:
    own = await local.create("main")
    first = await own.append_message("user", "one")
    second = await own.append_message("user", "two")
    session = await remote.load("main")
    async with session.subscribe(after=2, leaf=True, transient=True) as items:
        assert (await anext(items)).entry_id == second  # type: ignore[union-attr]
        await own.branch(first)
        assert (await anext(items)).entry_id == first == session.leaf_id  # type: ignore[union-attr]
        own.emit_text("answer", "all of ", message="m")
        piece = await anext(items)
        assert isinstance(piece, TextPiece)
        own.emit_text("answer", "it", message="m")
        assert (await anext(items)).offset == piece.end == 7  # type: ignore[union-attr]
        async with session.subscribe(after=2, transient=True) as late:
            assert (await anext(late)).text == "all of it"  # type: ignore[union-attr]
        with pytest.raises(InvalidInput, match="not valid text"):
            session.emit_text("answer", "\ud800", message="m")
        with pytest.raises(InvalidInput, match="not valid text"):
            session.emit("\ud800", 1)


async def test_hosts_of_a_server_and_its_own_follow_a_session(
    local: SessionHost, url: str, remote: RemoteHost, caplog: pytest.LogCaptureFixture
) -> None:
    own = await local.create("main")
    first = await own.append_message("user", "one")
    async with RemoteHost(url) as other:
        ours, theirs = await remote.load("main"), await other.load("main")
        assert isinstance(ours, Session)
        async with (
            ours.subscribe() as entries,
            ours.subscribe("context") as context,
            theirs.subscribe(transient=True) as both,
        ):
            assert (await anext(entries)).id == first  # type: ignore[union-attr]
            assert len((await anext(context)).value.messages) == 1  # type: ignore[union-attr]
            assert (await anext(both)).id == first  # type: ignore[union-attr]
            second = await theirs.append_message("assistant", "two")
            assert (await anext(entries)).id == second  # type: ignore[union-attr]
            assert (await anext(both)).id == second  # type: ignore[union-attr]
            await anext(context)
            ours.emit("progress", {"done": 0.5})
            event = await anext(both)
            assert (event.name, event.data) == ("progress", {"done": 0.5})  # type: ignore[union-attr]
            await own.branch(first)
            third = await ours.append_message("assistant", "three")
            assert ours.path() == own.path() == [first, third]
            await theirs.refresh()
            assert theirs.path() == [first, third]
            assert theirs.tree() == own.tree()
        async with theirs.subscribe(after=theirs.cursor) as left:
            await remote.delete("main")
            with pytest.raises(SessionNotFound, match="no longer"):
                await theirs.append_message("user", "four")
            anew = await (await local.create("main")).append_message("user", "one")
            assert isinstance(await anext(left), Reset)
            assert (await anext(left)).id == anew  # type: ignore[union-attr]
    warnings = [record for record in caplog.records if record.name == "treering"]
    assert len(warnings) <= 1, "a look that met the deletion, and none from then on"


async def test_a_session_moves_between_hosts_with_all_its_branches(local: SessionHost, remote: RemoteHost) -> None:
    async with SessionHost() as memory:
        draft = await memory.create("draft")
        first = await draft.append_message("user", "one")
        await draft.append_message("assistant", "two")
        await draft.branch(first)
        moved = await remote.put(draft)
        copy = await remote.fork_from(draft, session_id="copy")
        back = await memory.fork_from(moved, session_id="back")
        for each in (moved, copy, back):
            assert (each.path(), each.leaf_id, each.message_count) == (draft.path(), first, 2)
            assert await each.entries() == await draft.entries()
        with pytest.raises(SessionExists):
            await remote.put(draft)
        third = await draft.append_message("user", "three")
        again = await remote.put(draft, replace=True)
        assert again.leaf_id == third == (await local.load("draft")).leaf_id
        assert moved.path() == [first, third]
        await draft.reset_leaf()
        assert (await remote.put(draft, replace=True)).leaf_id is None
    assert (await local.load("copy")).header.parent_session == "draft"


async def test_a_file_of_another_program_is_imported_with_the_same_report(
    local: SessionHost, remote: RemoteHost, tmp_path: Path
) -> None:
    lines = [
        *(
            f'{{"type":"user","uuid":"{n}","sessionId":"s","timestamp":"2026-01-01T00:00:0{n}Z","message":'
            '{"role":"user","content":[{"type":"text","text":"one"},{"type":"hologram","n":1}]}}'
            for n in (1, 2)
        ),
        '{"type":"user","uuid":',
    ]
    source = tmp_path / "s.jsonl"
    source.write_text("\n".join(lines))
    (theirs,) = await remote.import_sessions(source)
    async with SessionHost() as memory:
        (ours,) = await memory.import_sessions(source)
    assert msgspec.structs.replace(theirs, ref=ours.ref) == ours
    assert ours.left_out
    assert len(ours.findings) > len(ours.left_out)


def test_programs_without_an_event_loop_use_it(tmp_path: Path, anyio_backend: str) -> None:
    for backend in ("asyncio", "trio"):
        with SyncHost(host=ServedHost(tmp_path / backend), backend=backend) as host:
            session = host.get_or_create("chat:1")
            first = session.append_message("user", "Hello")
            assert [message.role for message in session.history()] == ["user"]
            assert session.leaf_id == first
            with session.subscribe() as entries:
                assert next(iter(entries)).id == first  # type: ignore[union-attr]
            assert [row.key for row in host.list_sessions()] == ["chat:1"]
            assert host.fork_from(session, session_id="copy").path() == [first]
    with pytest.raises(InvalidInput, match="a host is given"):
        SyncHost(tmp_path, host=ServedHost(tmp_path))


def test_a_stream_that_is_left_in_its_midst_leaves_no_generator_behind(tmp_path: Path, anyio_backend: str) -> None:
    """Trio warns of each that it has to end itself; by `-W error` that is an error of whichever test runs then."""

    async def leave() -> None:
        async with ServedHost(tmp_path) as host:
            session = await host.create("a")
            await session.append_message("user", "Hello")
            async with aclosing(host._connection.follow("/v1/sessions/a/events", {}, lambda: None)) as events:
                assert (await anext(events)).event == "entry"

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        anyio.run(leave, backend="trio")
        gc.collect()
    assert [str(each.message) for each in warned] == []


async def test_a_host_that_closes_while_its_streams_begin_leaves_no_connection_behind(
    local: SessionHost, url: str
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for turns in range(20):
            await _close_while_streams_begin(url, turns)
        gc.collect()
    assert [str(each.message) for each in warned] == []


async def _close_while_streams_begin(url: str, turns: int) -> None:
    async def follow(session: Session) -> None:
        with suppress(HostClosed):  # before it has begun to follow
            async with session.subscribe() as entries:
                assert [entry async for entry in entries] == []

    async def follow_listing(host: RemoteHost) -> None:
        with suppress(HostClosed):
            async with host.subscribe_sessions() as changes:
                assert len([change async for change in changes]) < 10  # it ends

    async with anyio.create_task_group() as group, RemoteHost(url) as host:
        group.start_soon(follow_listing, host)
        for _ in range(2):
            group.start_soon(follow, await host.create())
        for _ in range(turns):
            await checkpoint()


async def test_a_large_session_is_kept_by_index_within_a_bound(local: SessionHost, server: Client, url: str) -> None:
    own = await local.create("large")
    async with anyio.create_task_group():
        for _ in range(3):
            await own.append_many([_message(number) for number in range(500)])
    async with RemoteHost(url, limits=Limits(cache_bytes_max=200_000)) as remote:
        session = await remote.load("large", read_only=True)
        assert session.message_count == 1500
        assert session.path() == own.path()
        assert await session.context() == await own.context()
        assert [entry.id async for entry in session.iter_entries()] == own.path()
        assert remote.core.runtime.bodies.size <= 200_000


def _message(number: int) -> Message:
    return Message("user", (text(f"message {number} " + "x" * 1000),))


def test_the_library_does_not_load_it(anyio_backend: str) -> None:
    code = "import sys, treering, treering.cli; print([m for m in ('httpx2', 'treering.remote') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_a_listing_whose_token_is_revoked_ends_with_the_reason(local: SessionHost, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json", OsDisk())
    token = tokens.create("read")
    async with (
        served(local, tokens=tokens, open_without_tokens=False, limits=ServerLimits(known_every_s=0.01)) as client,
        RemoteHost("http://{}:{}".format(*client.address), token=token) as remote,
        remote.subscribe_sessions() as changes,
    ):
        assert await anext(changes) == []
        tokens.revoke(token.split("_")[1])
        with pytest.raises(NotAuthorized, match="revoked"):
            await anext(changes)
