"""Streams over HTTP: each entry once, in order, over cuts and changes of the log; views, listings and many sessions."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import anyio
import anyio.lowlevel
import msgspec
import pytest

from treering import Cursor, Limits, SessionHost, SessionSummary
from treering.events.errors import StoreUnavailable
from treering.events.stores.base import Page, Ref
from treering.events.stores.memory import MemoryStore
from treering.projections.context import Context
from treering.projections.context_changes import ContextChange, apply_change
from treering.projections.tree import Tree, TreeChange
from treering.server import ServerLimits
from treering.subscriptions import TreeReplica

from .conftest import Client, Event, Serve


async def take(events: AsyncIterator[Event], count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


def seqs(events: list[Event]) -> list[int]:
    return [event.data["seq"] for event in events if event.event == "entry"]


@pytest.mark.feature("S-12")
async def test_a_reader_that_is_cut_off_again_and_again_gets_each_entry_once(client: Client, host: SessionHost) -> None:
    writers, each, cuts = 20, 20, random.Random(7)
    await (await host.create("a")).append_message("user", "first")
    received: list[Event] = []

    async def write(number: int) -> None:
        session = await host.load("a")
        for _ in range(each):
            await session.append_message("user", f"by {number}")
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for number in range(writers):
            tasks.start_soon(write, number)
        while len(received) < writers * each + 1:
            last = {"Last-Event-ID": received[-1].id or ""} if received else {}
            async with (
                client.follow("/v1/sessions/a/events?since=end", headers=last or None)
                if last
                else client.follow("/v1/sessions/a/events") as events
            ):
                received += await take(events, min(cuts.randint(1, 60), writers * each + 1 - len(received)))
    assert seqs(received) == [*range(1, writers * each + 2)]
    stored = await (await host.load("a")).entries()
    assert [event.data["id"] for event in received] == [entry.id for entry in stored]
    assert Cursor.parse(received[-1].id or "") == (await host.load("a")).cursor


async def test_a_stream_begins_where_asked_to_and_says_when_it_caught_up(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    for number in range(5):
        await session.append_message("user", str(number))
    url = "/v1/sessions/a/events?live=false&kinds=entry,ready"
    everything = await client.events(url)
    assert [event.event for event in everything] == ["entry"] * 5 + ["ready"]
    assert everything[-1].data == {"cursor": str(session.cursor), "up_to_date": True}
    assert seqs(await client.events(f"{url}&since={everything[2].id}")) == [4, 5]
    assert [event.event for event in await client.events(f"{url}&since=end")] == ["ready"]
    again = await client.events(f"{url}&since=start", headers={"Last-Event-ID": everything[3].id or ""})
    assert seqs(again) == [5]  # a browser repeats its address
    await client.ask("GET", "/v1/sessions/a/events?since=nowhere", status=400)
    await client.ask("GET", "/v1/sessions/nobody/events", status=404)


async def test_a_cursor_outlives_the_server_and_a_replaced_log_resets_its_reader(tmp_path: Path, served: Serve) -> None:
    root = tmp_path / "root"
    async with SessionHost(root) as host, served(host) as client:
        session = await host.create("a")
        for number in range(3):
            await session.append_message("user", str(number))
        async with client.follow("/v1/sessions/a/events") as events:
            before = await take(events, 3)
    async with SessionHost(root) as host, served(host) as client:
        await (await host.load("a")).append_message("user", "after the restart")
        last = {"Last-Event-ID": before[-1].id or ""}
        async with client.follow("/v1/sessions/a/events", headers=last) as events:
            assert seqs(await take(events, 1)) == [4]
            await host.passivate_idle()
            await (await host.load("a")).append_message("user", "after it was passivated")
            (event,) = await take(events, 1)
            assert event.data["seq"] == 5
            at_five = {"Last-Event-ID": event.id or ""}
        other = await host.create("b")
        await other.append_message("user", "another log")
        await host.passivate_idle()
        (root / "a.jsonl").write_bytes((root / "b.jsonl").read_bytes().replace(b'"id":"b"', b'"id":"a"'))
        events_after = await client.events("/v1/sessions/a/events?live=false", headers=at_five)
        assert [event.event for event in events_after] == ["reset", "entry"]
        assert events_after[0].data | {"had": event.id, "cursor": events_after[0].id} == events_after[0].data
        end = Cursor.parse(events_after[-1].id or "")
        lost = str(Cursor(end.generation, end.seq + 1))  # of an entry that a power cut took back
        url = "/v1/sessions/a/events?live=false&kinds=entry,ready"
        told = await client.events(url, headers={"Last-Event-ID": lost})
        assert [event.event for event in told] == ["reset", "entry", "ready"]
        await client.ask("GET", f"/v1/sessions/a/entries?after={lost}", status=409)


async def test_the_cursor_of_a_session_without_entries_outlives_the_server(tmp_path: Path, served: Serve) -> None:
    root, received = tmp_path / "root", list[Event]()
    url = "/v1/sessions/a/events?live=false&kinds=entry,ready"
    for number in range(3):
        async with SessionHost(root) as host, served(host) as client:
            if not received:
                await client.ask("POST", "/v1/sessions", {"id": "a"}, status=201)
                received += await client.events(url)
            await (await host.load("a")).append_message("user", str(number))
            for had in (received[0], received[-1]):
                told = await client.events(url, headers={"Last-Event-ID": had.id or ""})
                assert seqs(told) == [*range(Cursor.parse(had.id or "").seq + 1, number + 2)]
                assert [event.event for event in told if event.event != "entry"] == ["ready"]
            received += told
    assert len({Cursor.parse(event.id or "").generation for event in received}) == 1


@pytest.mark.feature("S-13")
async def test_a_stream_survives_restarts_sleep_and_the_archive_and_a_replaced_file_resets_it_once(
    tmp_path: Path, served: Serve
) -> None:
    root = tmp_path / "root"
    received: list[Event] = []

    async def read(client: Client, until: int) -> None:
        """Follow from the last event that was received until an entry."""
        last = {"Last-Event-ID": received[-1].id or ""} if received else {}
        async with client.follow("/v1/sessions/a/events", headers=last) as events:
            while not received or received[-1].data.get("seq") != until:
                received.append(await anext(events))

    async with SessionHost(root) as host, served(host) as client:
        session = await host.create("a")
        for number in range(3):
            await session.append_message("user", str(number))
        await read(client, 3)
        async with client.follow("/v1/sessions/a/events?since=end") as staying:
            await client.ask("POST", "/v1/sessions/a/archive")
            assert seqs(await take(staying, 1)) == [4]
            await read(client, 4)  # of the packed file
            await client.ask("POST", "/v1/sessions/a/unarchive")
            assert seqs(await take(staying, 1)) == [5]
            await host.passivate_idle()
            await (await host.load("a")).append_message("user", "awake again")
            assert seqs(await take(staying, 1)) == [6]
        await client.ask("POST", "/v1/sessions/a/archive")
        await read(client, 7)
    async with SessionHost(root) as host, served(host) as client:
        await (await host.load("a")).append_message("user", "which brings it back")
        await read(client, 9)
        await client.ask("POST", "/v1/sessions/a/archive")
    async with SessionHost(root) as writer, SessionHost(root) as host, served(host) as client:
        async with client.follow("/v1/sessions/a/events?since=end") as watching:
            assert seqs([each for each in received if each.event == "entry"][-1:]) == [9]
            await writer.unarchive("a")  # as another process does
            await read(client, 11)
            assert seqs(await take(watching, 1)) == [11]
        await writer.passivate_idle()
        assert seqs(received) == [*range(1, 12)]
        assert [event.event for event in received] == ["entry"] * 11
        assert len({Cursor.parse(event.id or "").generation for event in received}) == 1
        other = await host.create("b")
        await other.append_message("user", "another log")
        await host.passivate_idle()
        replacement = await anyio.Path(root, "b.jsonl").read_bytes()
        await anyio.Path(root, "a.jsonl.new").write_bytes(replacement.replace(b'"b"', b'"a"'))
        await anyio.Path(root, "a.jsonl.new").rename(anyio.Path(root, "a.jsonl"))
        last = {"Last-Event-ID": received[-1].id or ""}
        told = await client.events("/v1/sessions/a/events?live=false", headers=last)
        assert [event.event for event in told] == ["reset", "entry"]
        again = await client.events("/v1/sessions/a/events?live=false", headers={"Last-Event-ID": told[-1].id or ""})
        assert again == []


async def test_a_reader_of_views_holds_what_the_library_shows(client: Client, host: SessionHost) -> None:
    session, chance = await host.create("a"), random.Random(3)
    ids = [await session.append_message("user", "root")]
    context, replica = Context("a"), TreeReplica()
    context_base = ""
    async with (
        client.follow("/v1/sessions/a/events?view=context") as contexts,
        client.follow("/v1/sessions/a/events?view=tree") as trees,
        client.follow("/v1/sessions/a/events?view=labels") as labels,
        client.follow("/v1/sessions/a/events?view=usage") as usages,
    ):
        for events in (labels, usages):
            assert (await anext(events)).event == "view"
        first = await anext(contexts)
        context, context_base = msgspec.convert(first.data["value"], Context), first.data["cursor"]
        replica = TreeReplica(msgspec.convert((await anext(trees)).data["value"], Tree))
        for number in range(40):
            step = chance.random()
            if step < 0.6:
                ids.append(await session.append_message(chance.choice(["user", "assistant"]), f"message {number}"))
            elif step < 0.8:
                await session.branch(chance.choice(ids))
            else:
                await session.set_label(chance.choice(ids), f"label {number}")
        await session.append_message("user", "the end")
        while context.leaf_id != session.leaf_id:
            event = await anext(contexts)
            assert event.data["base"] == context_base
            context_base = event.data["cursor"]
            context = apply_change(context, msgspec.convert(event.data["change"], ContextChange))
        while replica.tree() != session.tree():
            replica.apply(msgspec.convert((await anext(trees)).data["change"], TreeChange))
        assert context.messages == (await session.context()).messages
        assert (await anext(labels)).event == "change"


@pytest.mark.feature("S-15")
async def test_a_reader_of_the_list_holds_the_listing(client: Client, host: SessionHost) -> None:
    held: dict[str, object] = {}

    def apply(event: Event) -> None:
        if event.event == "reset":
            held.clear()
        elif event.event == "session" and event.data["op"] == "deleted":
            del held[event.data["id"]]
        elif event.event == "session":
            held[event.data["id"]] = event.data["row"]

    async def read_until(events: AsyncIterator[Event], wanted: set[str], title: str = "") -> None:
        while set(held) != wanted or title not in str(held):
            apply(await anext(events))

    await client.ask("POST", "/v1/sessions", {"id": "old"})
    async with client.follow("/v1/events") as events:
        assert (await anext(events)).event == "reset"
        await read_until(events, {"old"})
        await client.ask("POST", "/v1/sessions", {"id": "new"})
        await read_until(events, {"old", "new"})
        await (await host.load("new")).append_message("user", "Hello there")
        await client.ask("PATCH", "/v1/sessions/old", {"title": "Renamed"})
        await read_until(events, {"old", "new"}, "Renamed")
        await host.archive("old")
        await read_until(events, {"new"})
        await client.ask("POST", "/v1/sessions/new/fork", {"id": "third"})
        await read_until(events, {"new", "third"})
        await host.delete("new")
        await read_until(events, {"third"})
        await client.ask("PUT", "/v1/keys/k:1", {})
        await (await host.get_or_create("k:1")).append_message("user", "Of a key")
        await (await host.load("third")).append_message("assistant", "And more")
        listed = {row["id"]: row for row in (await client.ask("GET", "/v1/sessions?with=state"))["items"]}
        while held != listed:
            apply(await anext(events))
    assert [*listed] == [row.id for row in await host.list_sessions()]
    assert [row["message_count"] for row in listed.values()] == [2, 1]


@pytest.mark.feature("S-16")
async def test_many_sessions_over_one_connection_whose_set_changes(client: Client, host: SessionHost) -> None:
    chance, total = random.Random(5), 500
    names = [f"s{number}" for number in range(total)]
    for name in names:
        await (await host.create(name)).append_message("user", "first")
    got: dict[str, list[int]] = {name: [] for name in names}
    followed = set(names[:400])
    cursors: dict[str, str] = {}
    body: dict[str, object] = {"sessions": {name: {} for name in followed}}
    appended = 0

    async def append() -> None:
        nonlocal appended
        await (await host.load(chance.choice(names))).append_message("user", "more")
        appended += 1

    async with client.follow("/v1/events", body=body) as events:
        first = await anext(events)
        assert (first.event, first.data["revision"], set(first.data["added"])) == ("set", 0, followed)
        stream, revision = first.data["stream"], 0

        async def read(until: int) -> None:
            """Read up to a revision, and remember what was delivered."""
            nonlocal revision
            while revision < until:
                event = await anext(events)
                if event.event == "set":
                    revision = event.data["revision"]
                    followed.update(event.data["added"])
                    followed.difference_update(event.data["removed"])
                else:
                    name, _, cursor = (event.id or "").partition("/")
                    assert event.event == "entry", event
                    assert name in followed, "nothing comes of a session that is not in the set"
                    got[name].append(event.data["seq"])
                    cursors[name] = cursor

        for step in range(1, 21):
            for _ in range(30):
                await append()
            removed = chance.sample(sorted(followed), 25)
            added = chance.sample(sorted(set(names) - followed), 25)
            change = {
                "revision": step - 1,
                "remove": removed,
                "add": {name: {"since": cursors.get(name, "start")} for name in added},
            }
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.ask, "PATCH", f"/v1/events/{stream}", change)
                await read(step)
        stale = await client.ask("PATCH", f"/v1/events/{stream}", {"revision": 3}, status=409)
        assert "revision 20" in stale["detail"]
        refused = await client.ask("PATCH", f"/v1/events/{stream}", {"revision": 20, "add": {"nobody": {}}})
        assert refused["refused"]["nobody"]["status"] == 404
        rest = {name: {"since": cursors.get(name, "start")} for name in set(names) - followed}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.ask, "PATCH", f"/v1/events/{stream}", {"revision": 21, "add": rest})
            await read(22)
        while sum(map(len, got.values())) < total + appended:
            event = await anext(events)
            got[(event.id or "").partition("/")[0]].append(event.data["seq"])
    for name in names:
        head = (await host.load(name)).cursor.seq
        assert got[name] == [*range(1, head + 1)], name
    revision = 22
    while (reply := await client.reply("PATCH", f"/v1/events/{stream}", {"revision": revision})).is_success:
        revision += 1  # until the server has noticed that the stream was left
    assert reply.status_code == 404


async def test_transient_events_reach_a_reader_and_no_log(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    await session.append_message("user", "Go")
    async with client.follow("/v1/sessions/a/events?kinds=entry,transient") as events:
        assert seqs(await take(events, 1)) == [1]
        for part in ("I", "It", "It is"):
            session.emit("delta", {"text": part})
            event = await anext(events)
            assert (event.event, event.id, event.data) == ("transient", None, {"name": "delta", "data": {"text": part}})
        for number in range(100):
            session.emit("delta", {"n": number})
        await session.append_message("assistant", "It is done.")
        rest: list[Event] = []
        while not rest or rest[-1].event != "entry":
            rest.append(await anext(events))
        assert rest[-2].data["data"] == {"n": 99}
        assert len(rest) < 100  # a reader that lags gets the latest
    assert len(await session.entries()) == 2


async def test_a_stream_says_that_it_lives_and_when_it_ends(tmp_path: Path, served: Serve) -> None:
    limits = ServerLimits(alive_after_s=0.05, stream_for_s=1)
    async with SessionHost(tmp_path) as host, served(host, limits=limits) as client:
        await client.ask("POST", "/v1/sessions", {"id": "a"})
        async with client.http.stream("GET", "/v1/sessions/a/events") as reply:
            text = (await reply.aread()).decode()
    assert text.startswith(": ok\nretry: 2000\n\n")
    assert ": alive\n\n" in text
    assert text.endswith('event: bye\ndata: {"reason":"rotate","reconnect":true,"retry_ms":2000}\n\n')


@pytest.mark.feature("S-1")
async def test_streams_are_told_when_the_server_stops(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as host:
        async with served(host) as client:
            await client.ask("POST", "/v1/sessions", {"id": "a"})
            async with client.follow("/v1/sessions/a/events") as one, client.follow("/v1/events") as two:
                await client.application.stop()
                for events in (one, two):
                    last = [event async for event in events][-1]
                    assert (last.event, last.data["reason"], last.data["reconnect"]) == ("bye", "shutdown", True)
            await client.ask("GET", "/v1/sessions", status=503)
            await client.ask("GET", "/readyz", status=503)
            await client.ask("GET", "/healthz", status=200)
        await (await host.load("a")).append_message("user", "The host is still open")


async def test_a_reader_follows_the_leaf_and_what_the_session_is_doing(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    first = await session.append_message("user", "Go")
    second = await session.append_message("assistant", "Done.")
    kinds = "kinds=entry,leaf,state,ready"
    told = await client.events(f"/v1/sessions/a/events?live=false&{kinds}")
    assert [event.event for event in told] == ["entry", "entry", "leaf", "ready", "state"]
    assert told[2].data == {"leaf": second, "cursor": str(session.cursor)}
    assert (told[2].id, told[4].id, told[4].data["state"]) == (None, None, "idle")
    body = {"sessions": {"a": {"since": "end", "kinds": ["entry", "leaf", "state", "transient"]}}}
    async with (
        client.follow(f"/v1/sessions/a/events?since=end&{kinds}") as alone,
        client.follow("/v1/events", body=body) as many,
    ):
        begun = {event.event: event for event in await take(alone, 3)}
        assert set(begun) == {"leaf", "ready", "state"}
        assert {event.event for event in await take(many, 3)} == {"set", "leaf", "state"}
        await session.branch(first)
        (moved,) = await take(alone, 1)
        assert (moved.event, moved.data["leaf"]) == ("leaf", first)
        (moved,) = await take(many, 1)
        assert (moved.id, moved.data) == (None, {"leaf": first, "cursor": str(session.cursor), "session": "a"})
        await session.append_message("user", "Again")
        for events in (alone, many):
            by_kind = {event.event: event for event in await take(events, 2)}
            assert set(by_kind) == {"entry", "state"}
            assert (by_kind["state"].data["session"], by_kind["state"].data["state"]) == ("a", "working")
        session.emit("progress", 1)
        (progress,) = await take(many, 1)
        assert (progress.event, progress.data) == ("transient", {"name": "progress", "data": 1, "session": "a"})


async def test_an_answers_text_reaches_readers_quick_slow_or_late_whole(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    await session.append_message("user", "Go")
    whole = "".join(f"word{number} " for number in range(400))
    url = "/v1/sessions/a/events?since=end&kinds=entry,transient"

    def apply(text: str, event: Event) -> str:
        piece = event.data["data"]
        if piece["offset"] == 0:
            return str(piece["text"])
        assert piece["offset"] == len(text)
        return text + str(piece["text"])

    async with client.follow(url) as quick:
        text = ""
        for start in range(0, len(whole) // 2, 50):
            session.emit_text("agent.text", whole[start : start + 50], message="m")
            text = apply(text, await anext(quick))
        assert text == whole[: len(text)]
        for start in range(len(text), len(whole), 10):  # faster than anybody reads
            session.emit_text("agent.text", whole[start : start + 10], message="m")
        slow = 0
        while text != whole:
            text = apply(text, await anext(quick))
            slow += 1
        assert slow < 10
        async with client.follow(url) as late:
            assert apply("", await anext(late)) == whole
            await session.append_message("assistant", whole)
            assert [(await anext(events)).event for events in (quick, late)] == ["entry", "entry"]
    async with client.follow(url) as after:
        session.emit("progress", 1)
        assert (await anext(after)).data["name"] == "progress"  # the text is over
    assert len(await session.entries()) == 2


async def test_followers_at_one_place_share_what_is_encoded(client: Client, host: SessionHost) -> None:
    names = ("a", "b")
    sessions = [await host.create(name) for name in names]
    for session in sessions:
        await session.append_message("user", "first")
    encoded = client.application.service.encoded
    async with AsyncExitStack() as stack:
        gathered = {"sessions": {name: {"since": "end"} for name in names}}
        many = [await stack.enter_async_context(client.follow("/v1/events", body=gathered)) for _ in range(5)]
        url = "/v1/sessions/a/events?since=end&kinds=entry,ready"
        alone = [await stack.enter_async_context(client.follow(url)) for _ in range(5)]
        for events in (*many, *alone):
            await anext(events)
        before = encoded.made
        for number in range(10):
            await sessions[0].append_message("user", f"more {number}")
            for events in (*many, *alone):
                assert (await anext(events)).event == "entry"
        assert encoded.made - before == 20  # one for the streams of one session, one for those of many


async def test_a_reader_of_the_list_comes_back_to_where_it_left(tmp_path: Path, served: Serve) -> None:
    limits = ServerLimits(listed_every_s=0)
    async with SessionHost(tmp_path) as host, served(host, limits=limits) as client:
        for name in ("a", "b", "c"):
            await (await host.create(name)).append_message("user", name)
        page = await client.ask("GET", "/v1/sessions")
        await (await host.load("a")).append_message("assistant", "Done.")
        await host.delete("b")
        await host.archive("c")
        url = "/v1/events?kinds=session,state&live=false"
        told = await client.events(f"{url}&since={page['events']}")
        changes = {event.data["id"]: event.data["op"] for event in told if event.event == "session"}
        assert changes == {"a": "changed", "b": "deleted", "c": "deleted"}
        assert [event.event for event in told if event.event not in ("session", "state")] == ["ready"]
        states = [event.data for event in told if event.event == "state"]
        assert [(state["session"], state["state"]) for state in states] == [("a", "idle")]
        assert all(event.id is not None for event in told)
        resumed = await client.events(url, headers={"Last-Event-ID": told[-1].id or ""})
        assert [event.event for event in resumed] == ["ready"]
        gone = await client.events(f"{url}&since={'0' * 12}-7")
        assert [event.event for event in gone] == ["reset", "session", "state", "ready"]
        await client.ask("GET", "/v1/events?since=nowhere", status=400)
        everything = await client.events("/v1/events?status=any&live=false&kinds=session")
        assert {event.data["id"] for event in everything if event.event == "session"} == {"a", "c"}
        async with client.follow("/v1/events?kinds=state") as events:
            assert [event.event for event in await take(events, 3)] == ["reset", "state", "ready"]
            await (await host.load("a")).passivate()
            asleep = await anext(events)
            assert (asleep.event, asleep.data["live"]) == ("state", False)


async def test_a_busy_session_is_told_a_few_times_a_second_its_last_always(tmp_path: Path, served: Serve) -> None:
    every_s = 0.2
    async with SessionHost(tmp_path) as host, served(host, limits=ServerLimits(listed_every_s=every_s)) as client:
        session = await host.create("a")
        await session.append_message("user", "begin")
        async with client.follow("/v1/events") as events:
            assert [event.event for event in await take(events, 3)] == ["reset", "session", "ready"]
            began = monotonic()
            for number in range(300):
                await session.append_message("user", f"line {number}")
            told = [await anext(events)]
            while told[-1].data["row"]["state"]["line"] != "line 299":
                told.append(await anext(events))
            assert len(told) <= 2 + (monotonic() - began) / every_s


class Unreachable(MemoryStore):
    """A store that cannot be reached while it is told so."""

    is_out = False

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        if self.is_out:
            raise StoreUnavailable("the database cannot be reached")
        return await super().bodies(ref, generation, seqs)

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        if self.is_out:
            raise StoreUnavailable("the database cannot be reached")
        return await super().read(ref, generation, after, through=through)


async def test_a_stream_is_opened_again_after_what_passes(served: Serve) -> None:
    store = Unreachable()
    async with SessionHost(store=store, limits=Limits(cache_bytes_max=0)) as host, served(host) as client:
        session = await host.create("a")
        for number in range(3):
            await session.append_message("user", str(number))
        await client.ask("GET", "/v1/sessions/a")
        store.is_out = True
        told = await client.events("/v1/sessions/a/events")
        async with client.follow("/v1/events", body={"sessions": {"a": {}}}) as events:
            assert (await anext(events)).event == "set"
            with anyio.fail_after(20):
                told += [each async for each in events]
        assert [(each.event, each.data["reconnect"]) for each in told] == [("bye", True)] * 2
        store.is_out = False
        assert seqs(await client.events("/v1/sessions/a/events?live=false")) == [1, 2, 3]


async def test_a_set_is_not_changed_of_a_stream_that_has_ended_meanwhile(
    client: Client, host: SessionHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await host.create("a")).append_message("user", "Hello")
    resolve, asked, ended, statuses = host.resolve, anyio.Event(), anyio.Event(), list[int]()

    async def resolved(session: str) -> SessionSummary:
        asked.set()
        await ended.wait()
        return await resolve(session)

    async with client.follow("/v1/events", body={"sessions": {}}) as events, anyio.create_task_group() as tasks:
        address = f"/v1/events/{(await anext(events)).data['stream']}"
        monkeypatch.setattr(host, "resolve", resolved)

        async def change() -> None:
            statuses.append((await client.reply("PATCH", address, {"revision": 0, "add": {"a": {}}})).status_code)

        tasks.start_soon(change)
        await asked.wait()
        client.application.service.stopping.set()
        assert [event.event async for event in events] == ["bye"]
        ended.set()
    assert statuses == [404]
