"""Entries over HTTP: appended and read as by the library, once each, and only where the caller's state still holds."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from treering import Limits, SessionHost
from treering.events.disk.disk import OsDisk
from treering.events.entries import payload_of
from treering.server import ServerLimits
from treering.testing.disks import FaultyDisk

from .conftest import Client, Json, Serve

HELLO = {"type": "message", "message": {"role": "user", "content": "Hello"}}

PAYLOADS: list[dict[str, Any]] = [
    {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": {"content": "Read it"}}]}},
    {"type": "message", "message": {"role": "assistant", "model": "m", "provider": "p", "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 5, "cost": 0.25},
        "content": [{"type": "thinking", "thinking": {"content": "hm", "signature": "s"}},
                    {"type": "tool_use", "tool_use": {"id": "c1", "name": "read", "input": {"p": [{"b": 1.5}]}}}]}},
    {"type": "message", "message": {"role": "tool", "tool_name": "read", "duration_ms": 2.5,
        "metadata": {"x": [None]},
        "content": [{"type": "tool_result",
                     "tool_result": {"tool_use_id": "c1", "content": "é\u2028", "is_error": True}}]}},
    {"type": "model_change", "model_change": {"provider": "p", "model_id": "m2"}},
    {"type": "thinking_level", "thinking_level": {"thinking_level": "high"}},
    {"type": "session_info", "session_info": {"name": "T", "metadata": {"a": 1}}},
    {"type": "branch_summary", "branch_summary": {"summary": "left", "from_id": "root"}},
    {"type": "custom", "custom": {"custom_type": "x", "data": {"deep": [1, [2]]}}},
    {"type": "custom_message", "custom_message": {"custom_type": "x", "display": False,
        "content": [{"type": "text", "text": {"content": "for the model"}}]}},
    {"type": "tool_execution", "tool_execution":
        {"tool_call_id": "c1", "tool_name": "read", "arguments": {"p": 1}, "success": False}},
    {"type": "usage", "usage": {"kind": "title", "usage": {"input_tokens": 7}}},
    {"type": "compaction", "compaction": {"summary": "so far", "first_kept_entry_id": None, "tokens_before": 10}},
]  # fmt: skip


@pytest.mark.feature("S-4")
async def test_what_is_posted_reads_back_in_the_library_and_vice_versa(client: Client, host: SessionHost) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    session = await host.load("a")
    for payload in PAYLOADS:
        appended = await client.ask("POST", "/v1/sessions/a/entries", payload, status=201)
        (entry_id,) = appended["ids"]
        stored = await session.entry(entry_id)
        assert stored is not None
        assert stored.seq == appended["seqs"][0]
        assert as_json(payload_of(stored)) == payload[payload["type"]]  # type: ignore[arg-type]  # of a known type
        assert (await client.ask("GET", f"/v1/sessions/a/entries/{entry_id}"))[payload["type"]] == payload[
            payload["type"]
        ]
        assert appended["leaf"] == session.leaf_id
        assert appended["cursor"] == str(session.cursor)
    target = appended["ids"][0]
    label = {"type": "label", "label": {"target_id": target, "label": "here"}}
    edit = {"type": "context_edit", "context_edit": {"target_id": (await session.entries())[0].id}}
    await client.ask("POST", "/v1/sessions/a/entries", {"entries": [label, edit]}, status=201)

    stored_all = await session.entries()
    assert len(stored_all) == len(PAYLOADS) + 2
    assert await pages(client, "/v1/sessions/a/entries?limit=3") == [as_json(entry) for entry in stored_all]
    path = session.path()
    assert (await client.ask("GET", "/v1/sessions/a/path?limit=1000"))["ids"] == path
    first = await client.ask("GET", "/v1/sessions/a/path?limit=4&bodies=true")
    assert [entry["id"] for entry in first["entries"]] == path[:4]
    assert first["next"] == path[3]
    rest = await client.ask("GET", f"/v1/sessions/a/path?limit=1000&after={first['next']}")
    assert rest["ids"] == path[4:]
    assert rest["next"] is None
    picked = await client.ask("GET", f"/v1/sessions/a/entries?ids={path[2]},{path[0]}")
    assert [entry["id"] for entry in picked["items"]] == [path[2], path[0]]
    chosen = await client.ask("GET", f"/v1/sessions/a/entries?ids={path[0]},{stored_all[-2].id}&types=label")
    assert [entry["id"] for entry in chosen["items"]] == [stored_all[-2].id]
    many = ",".join(str(number) for number in range(1001))
    await client.ask("GET", f"/v1/sessions/a/entries?ids={many}", status=422)
    typed = await client.ask("GET", "/v1/sessions/a/entries?types=label,usage")
    assert [entry["type"] for entry in typed["items"]] == ["usage", "label"]


def as_json(value: object) -> Json:
    return msgspec.json.decode(msgspec.json.encode(value))


async def pages(client: Client, path: str) -> list[Any]:
    items: list[Any] = []
    page = await client.ask("GET", path)
    while not page["up_to_date"]:
        items += page["items"]
        page = await client.ask("GET", f"{path}&after={page['cursor']}")
    items += page["items"]
    return items


async def test_a_batch_is_appended_whole_or_not_at_all(client: Client, host: SessionHost) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    bad = {"type": "message", "message": {"role": "", "content": "x"}}
    problem = await client.ask("POST", "/v1/sessions/a/entries", {"entries": [HELLO, HELLO, bad]}, status=422)
    assert problem["error"] == "InvalidEntry"
    assert "entry 2 of 3" in problem["detail"]
    assert problem["field"] == "message.role"
    assert (await host.load("a")).cursor.seq == 0
    done = await client.ask("POST", "/v1/sessions/a/entries", {"entries": [HELLO, HELLO]}, status=201)
    assert done["seqs"] == [1, 2]


async def test_what_a_caller_prefers_counts_beside_other_preferences(client: Client) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    url, body, kind = "/v1/sessions/a/entries", msgspec.json.encode(HELLO), ("content-type", "application/json")
    for prefer, is_whole in (
        (["wait=10, Return=Representation"], True),
        (['handling=lenient; x="a, b"', 'return = "representation"; y'], True),
        (["return=minimal", "return=representation"], False),
        (['x="a, return=representation'], False),
    ):
        reply = await client.http.post(url, content=body, headers=[kind, *(("prefer", each) for each in prefer)])
        assert reply.headers.get("preference-applied") == ("return=representation" if is_whole else None), prefer
        assert len(reply.json().get("entries", [])) == is_whole


@pytest.mark.feature("S-7")
async def test_the_same_key_gets_the_same_reply_after_a_restart_too(tmp_path: Path, served: Serve) -> None:
    key = {"Idempotency-Key": "k-1"}
    async with SessionHost(tmp_path / "r") as host, served(host) as client:
        await client.ask("POST", "/v1/sessions", {"id": "a"})
        first = await client.reply("POST", "/v1/sessions/a/entries", HELLO, headers=key)
        assert first.status_code == 201
        assert "idempotent-replayed" not in first.headers
    async with SessionHost(tmp_path / "r") as host, served(host) as client:
        await client.ask("POST", "/v1/sessions/a/entries", HELLO)
        again = await client.reply("POST", "/v1/sessions/a/entries", HELLO, headers={**key, "If-Match": '"leaf:old"'})
        assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
        assert again.json()["ids"] == first.json()["ids"]
        assert again.json()["seqs"] == [1]
        other = {"type": "message", "message": {"role": "user", "content": "Other"}}
        refused = await client.reply("POST", "/v1/sessions/a/entries", other, headers=key)
        assert refused.status_code == 409
        assert refused.json()["error"] == "CommandConflict"
        assert (await host.load("a")).cursor.seq == 2


@pytest.mark.feature("S-7")
async def test_what_is_appended_twice_is_there_once_and_the_reply_says_so(tmp_path: Path, served: Serve) -> None:
    url, conversation = "/v1/sessions/a", "/openai/v1/conversations/a"
    async with SessionHost(tmp_path / "r") as host:
        session = await host.create("a")
        ids = [await session.append_message("user", str(number)) for number in range(4)]
    item = {"type": "message", "role": "user", "content": "Hello"}
    writes: list[tuple[str, str, Json]] = [
        ("POST", f"{url}/entries", {"entries": [HELLO, HELLO]}),
        ("POST", f"{url}/entries", {"entries": [HELLO], "command_id": "é"}),
        ("PUT", f"{url}/labels/{ids[0]}", {"label": "x"}),
        ("DELETE", f"{url}/labels/{ids[0]}", None),
        ("POST", f"{url}/branch", {"entry_id": ids[3], "summary": "s"}),
        ("POST", f"{url}/truncate", {"keep_last": 1, "summary": "s"}),
        ("POST", f"{url}/compact", {"summary": "s", "first_kept_entry_id": None, "tokens_before": 9}),
        ("PATCH", url, {"title": "t"}),
        ("POST", conversation, {"metadata": {"a": "b"}}),
        ("POST", f"{conversation}/items", {"items": [item]}),
    ]
    for is_later in (False, True):
        async with SessionHost(tmp_path / "r") as host, served(host) as client:
            for number, (verb, path, body) in enumerate(writes):
                said: list[str] = []

                async def write(ask: tuple[str, str, Json], key: str, said: list[str], client: Client = client) -> None:
                    reply = await client.reply(*ask, headers={"Idempotency-Key": key})
                    assert reply.is_success, reply.text
                    said.append(reply.headers.get("idempotent-replayed", "no"))

                async with anyio.create_task_group() as tasks:
                    for _ in range(3):  # at once
                        tasks.start_soon(write, (verb, path, body), f"k-{number}", said)
                assert sorted(said) == (["true"] * 3 if is_later else ["no", "true", "true"]), (verb, path)
            assert (await host.load("a")).cursor.seq == len(ids) + 12


async def test_a_key_is_for_an_append_or_for_a_move(client: Client) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    url, top = "/v1/sessions/a", {"entry_id": None}
    appends: list[tuple[str, str, Json]] = [
        ("POST", f"{url}/entries", HELLO),
        ("POST", f"{url}/branch", {**top, "summary": "s"}),
        ("PATCH", url, {"title": "t"}),
    ]
    moves: list[tuple[str, str, Json]] = [("POST", f"{url}/branch", top), ("PUT", f"{url}/leaf", top)]
    for number, (append, move) in enumerate(product(appends, moves)):
        for first, second in ((append, move), (move, append)):
            key = {"Idempotency-Key": f"{number}-{first is move}"}
            for _ in range(2):
                await client.ask(*first, headers=key)
                assert (await client.ask(*second, headers=key, status=409))["error"] == "CommandConflict"
    assert len((await client.ask("GET", f"{url}/entries"))["items"]) == len(appends) * len(moves)


async def test_an_outdated_precondition_writes_nothing_and_says_what_holds(client: Client, host: SessionHost) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    url = "/v1/sessions/a/entries"
    one = await client.ask("POST", url, HELLO, headers={"If-Match": '"leaf:"'})
    two = await client.ask("POST", url, HELLO, headers={"If-Match": f'W/"leaf:{one["leaf"]}"'})
    for tag in (f'"leaf:{one["leaf"]}"', f'"head:{one["cursor"]}"', '"head:1-elsewhere"', '"leaf:"'):
        for verb, path, body in (
            ("POST", url, HELLO),
            ("POST", url, {"entries": [HELLO], "expected_leaf": two["leaf"], "expected_seq": 2}),
            ("PUT", f"/v1/sessions/a/labels/{one['leaf']}", {"label": "x"}),
            ("PUT", "/v1/sessions/a/leaf", {"entry_id": one["leaf"]}),
            ("POST", "/v1/sessions/a/branch", {"entry_id": one["leaf"], "summary": "s"}),
            ("PATCH", "/v1/sessions/a", {"title": "t"}),
            ("PATCH", "/v1/sessions/a", {"project": "/work/other"}),
            ("POST", "/v1/sessions/a/archive", None),
            ("DELETE", "/v1/sessions/a", None),
        ):
            problem = await client.ask(verb, path, body, status=412, headers={"If-Match": tag})
            assert problem["error"] == "LeafMoved", (verb, path)
            assert problem["current"] == {"leaf": two["leaf"], "cursor": two["cursor"]}
    for given in ({"expected_leaf": one["leaf"]}, {"expected_seq": 1}):
        assert (await client.ask("POST", url, {"entries": [HELLO], **given}, status=412))["current"]["leaf"] == two[
            "leaf"
        ]
    session = await host.load("a")
    assert (session.cursor.seq, session.leaf_id) == (2, two["leaf"])
    for read in ("tree", "entries?limit=1", "path", "context", "outline", "state"):
        state = (await client.reply("GET", f"/v1/sessions/a/{read}")).headers["etag"]
        await client.ask("PUT", "/v1/sessions/a/leaf", {"entry_id": session.leaf_id}, headers={"If-Match": state})
        await client.ask("POST", url, HELLO, status=201, headers={"If-Match": f'{state[:-1]}-gzip"'})
        await client.ask("POST", url, HELLO, status=412, headers={"If-Match": state})
    await client.ask("POST", url, HELLO, status=412, headers={"If-Match": "leaf"})


@pytest.mark.feature("S-8")
async def test_one_of_the_listed_states_is_enough(client: Client) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    url, move = "/v1/sessions/a/entries", "/v1/sessions/a/leaf"
    one, two = [await client.ask("POST", url, HELLO) for _ in range(2)]
    there = f'"leaf:{two["leaf"]}"'
    for tags in (
        there,
        f'"leaf:x,y", W/{there}',
        f'"head:{one["cursor"]}",{there} , ""',
        f"leaf:x, {there[1:-1]}",
        "*",
    ):
        await client.ask("PUT", move, {"entry_id": two["leaf"]}, headers={"If-Match": tags})
        for write, body in ((url, HELLO), ("/v1/sessions/a/branch", {"entry_id": two["leaf"], "summary": "s"})):
            await client.ask("POST", write, body, headers={"If-Match": tags})
            await client.ask("PUT", move, {"entry_id": two["leaf"]})
    for tags in ("", ",", '"x", "y"', f'"x, {there[1:]}', f'"leaf:", "head:{one["cursor"]}"'):
        for verb, path, body in (("POST", url, HELLO), ("PUT", move, {"entry_id": None})):
            assert (await client.ask(verb, path, body, headers={"If-Match": tags}, status=412))["error"] == "LeafMoved"


async def test_a_state_that_another_process_left_behind_does_not_hold(
    client: Client, host: SessionHost, tmp_path: Path
) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    url = "/v1/sessions/a"
    (entry_id,) = (await client.ask("POST", f"{url}/entries", HELLO))["ids"]
    label, replies = f"{url}/labels/{entry_id}", list[int]()
    for path, body in ((f"{url}/leaf", {"entry_id": None}), (label, {"label": "x"})):
        await client.ask("PUT", label, {"label": "x"})
        await host.passivate_idle()
        head = {"If-Match": f'"head:{(await client.ask("GET", url))["cursor"]}"'}
        async with SessionHost(tmp_path / "root") as other:
            await (await other.load("a")).set_label(entry_id, "y")
        replies.append((await client.reply("PUT", path, body, headers=head)).status_code)
    assert replies == [412, 412]
    await host.passivate_idle()
    await client.ask("GET", url)
    async with SessionHost(tmp_path / "root") as other:
        await (await other.load("a")).set_label(entry_id, "z")
    assert (await client.ask("PUT", label, {"label": "y"}))["entry_id"] is not None


async def test_what_the_caller_has_is_not_read_again_nor_what_it_lacks_written(tmp_path: Path, served: Serve) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, limits=Limits(cache_bytes_max=0)) as host, served(host) as client:
        await client.ask("POST", "/v1/sessions", {"id": "a"})
        one = await client.ask("POST", "/v1/sessions/a/entries", {"entries": [HELLO, HELLO]})
        bodies = {"context", "entries", "path?bodies=true", f"entries/{one['leaf']}"}
        for path in ("tree", "labels", "path", "leaf", "views/usage", "views/stats", *bodies):
            disk.reset_counts()
            reply = await client.reply("GET", f"/v1/sessions/a/{path}")
            assert disk.bytes_read or path not in bodies, "nothing is cached, so that each body is read"
            etag = reply.headers["etag"]
            await host.flush()  # the index of sessions reads what each is doing
            disk.reset_counts()
            for sent in (etag, f"W/{etag}", f'"x", {etag[:-1]}-gzip"', "*"):
                tags = [("If-None-Match", sent), ("If-None-Match", '"y"')]
                known = await client.http.get(f"/v1/sessions/a/{path}", headers=tags)
                assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", etag)
            assert (disk.bytes_read, disk.bytes_written) == (0, 0), path
            await client.ask("PUT", f"/v1/sessions/a/labels/{one['leaf']}", {"label": path})
            changed = await client.reply("GET", f"/v1/sessions/a/{path}", headers={"If-None-Match": etag})
            assert changed.status_code == (304 if path.startswith("entries/") else 200), path
        disk.reset_counts()
        old = {"If-Match": f'"leaf:{one["ids"][0]}"'}
        problem = await client.ask("POST", "/v1/sessions/a/entries", HELLO, status=412, headers=old)
        assert problem["current"]["leaf"] == (await host.load("a")).leaf_id
        assert disk.bytes_written == 0


async def test_a_read_waits_for_what_is_new_as_long_as_it_says(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as host, served(host, limits=ServerLimits(wait_max_s=60)) as client:
        session = await host.create("a")
        await session.append_message("user", "one")
        end = session.cursor

        async def waiting(more: str = "") -> tuple[list[str], bool]:
            page = await client.ask("GET", f"/v1/sessions/a/entries?after={end}&wait=60{more}")
            return [each["id"] for each in page["items"]], page["up_to_date"]

        async def until_followed(count: int) -> None:
            while host.statistics().subscribers < count:
                await anyio.lowlevel.checkpoint()

        # what is there already is read at once, and what never comes is an empty page
        assert len((await client.ask("GET", "/v1/sessions/a/entries?wait=60"))["items"]) == 1
        tag = (await client.reply("GET", f"/v1/sessions/a/entries?after={end}&wait=0.01")).headers["etag"]
        path = f"/v1/sessions/a/entries?after={end}&wait=0.01"
        assert (await client.reply("GET", path, headers={"if-none-match": tag})).status_code == 304
        page = await client.ask("GET", path)
        assert (page["items"], page["cursor"], page["up_to_date"]) == ([], str(end), True)

        # one of two waiting reads wants labels alone
        async with anyio.create_task_group() as tasks:
            any_kind = tasks.start_soon
            found: dict[str, list[str]] = {}

            async def note(name: str, more: str) -> None:
                found[name], is_all = await waiting(more)
                assert is_all

            any_kind(note, "all", "")
            any_kind(note, "labels", "&types=label")
            await until_followed(2)
            second = await session.append_message("user", "two")
            while "all" not in found:
                await anyio.lowlevel.checkpoint()
            assert (found["all"], "labels" in found) == ([second], False)
            label = await session.set_label(second, "here")
        assert found["labels"] == [label]

        for wrong, status in (("wait=61", 422), (f"ids={second}&wait=1", 422), ("wait=-1", 400), ("wait=nan", 400)):
            await client.ask("GET", f"/v1/sessions/a/entries?{wrong}", status=status)

        # a caller that leaves is not waited for, one whose session goes is told, and so are all when the server stops
        end = session.cursor
        with anyio.move_on_after(0.05):
            await waiting()
        while host.statistics().subscribers:
            await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(client.ask, "GET", f"/v1/sessions/a/entries?after={end}&wait=60", status=404))
            await until_followed(1)
            await host.delete("a")
        other = await host.create("b")
        await other.append_message("user", "one")
        stopped: list[Json] = []
        async with anyio.create_task_group() as tasks:

            async def until_stopped() -> None:
                stopped.append(await client.ask("GET", f"/v1/sessions/b/entries?after={other.cursor}&wait=60"))

            tasks.start_soon(until_stopped)
            await until_followed(1)
            await client.application.stop()
        assert [each["items"] for each in stopped] == [[]]
