"""Sessions over HTTP are those of the library: created, listed, changed, copied, archived and deleted alike."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.catalog.sessions import CountingDisk

from treering import SessionHost
from treering.events.stores.files import FileStore

from .conftest import Client, Json, Serve

ROW = frozenset(
    [
        "id",
        "key",
        "name",
        "title",
        "created",
        "modified",
        "last_entry",
        "last_accessed",
        "message_count",
        "user_count",
        "assistant_count",
        "parent_session",
        "parent_entry",
        "cwd",
        "project",
        "project_hash",
        "first_message",
        "dialect",
        "status",
        "archived",
        "problem",
        "usage",
        "labels",
    ]
)


async def rows(host: SessionHost, **filters: str) -> list[dict[str, Json]]:
    listed = await host.list_sessions(**filters)  # type: ignore[arg-type]  # any filter
    plain = [msgspec.json.decode(msgspec.json.encode(row)) for row in listed]
    return [{name: value for name, value in row.items() if name in ROW} for row in plain]


async def every_page(client: Client, path: str, limit: int) -> list[object]:
    """Return the items of all pages."""
    items: list[object] = []
    page = await client.ask("GET", f"{path}limit={limit}")
    while True:
        assert len(page["items"]) <= limit
        items += page["items"]
        if page["next"] is None:
            return items
        page = await client.ask("GET", f"{path}limit={limit}&page={page['next']}")


@pytest.mark.feature("S-3")
async def test_sessions_over_http_are_those_of_the_library(client: Client, host: SessionHost) -> None:
    made = await client.ask("POST", "/v1/sessions", {"id": "a", "cwd": "/work/one", "title": "First"}, status=201)
    assert made["title"] == "First"
    await client.ask("POST", "/v1/sessions", {"cwd": "/work/two", "parent_session": "a"}, status=201)
    keyed = await client.ask("PUT", "/v1/keys/telegram%3A1", {"cwd": "/work/one"}, status=201)
    assert (await client.ask("PUT", "/v1/keys/telegram%3A1", {}, status=200))["id"] == keyed["id"]
    assert (await client.ask("GET", "/v1/keys/telegram%3A1"))["id"] == keyed["id"]
    assert "the key 'telegram:2'" in (await client.ask("GET", "/v1/keys/telegram%3A2", status=404))["detail"]
    assert (await host.get_or_create("telegram:1")).id == keyed["id"]
    await (await host.load("a")).append_message("user", "Hello")
    assert (await client.ask("POST", "/v1/sessions/a/fork", {"id": "b"}, status=201))["parent_session"] == "a"
    assert await (await host.load("b")).entries() == await (await host.load("a")).entries()
    await client.ask("POST", "/v1/sessions/b/archive")
    assert [row.id for row in await host.list_sessions(status="archived")] == ["b"]
    changed = await client.ask(
        "PATCH", "/v1/sessions/a", {"title": "New", "status": "waiting", "metadata": {"n": 1}, "project": "/work/three"}
    )
    assert (changed["title"], changed["status"], changed["project"]) == ("New", "waiting", "/work/three")
    session = await host.load("a")
    assert (session.cursor.seq, session.metadata.info.metadata) == (3, {"n": 1})
    for _ in range(2):
        await client.ask("PATCH", "/v1/sessions/a", {"project": "/work/one"}, headers={"Idempotency-Key": "back"})
    assert (session.cursor.seq, session.metadata.project) == (4, "/work/one")
    await session.rebind("/work/three")

    for query, filters in (
        ("", {}),
        ("status=any&", {"status": "any"}),
        ("status=archived&", {"status": "archived"}),
        ("status=waiting&", {"status": "waiting"}),
        ("project=/work/one&", {"project": "/work/one"}),
    ):
        expected = await rows(host, **filters)
        assert (await client.ask("GET", f"/v1/sessions?{query}limit=1000"))["items"] == expected
        assert await every_page(client, f"/v1/sessions?{query}", 1) == expected
    for row in await rows(host, status="any"):
        got = await client.ask("GET", f"/v1/sessions/{row['id']}")
        assert {name: got[name] for name in row if name != "last_accessed"} == {
            name: value for name, value in row.items() if name != "last_accessed"
        }
    by_key = await client.ask("GET", "/v1/sessions?key=telegram:1&count=true")
    assert [row["id"] for row in by_key["items"]] == [keyed["id"]]
    assert by_key["total"] == 1
    assert [row["id"] for row in (await client.ask("GET", "/v1/sessions?parent=a"))["items"]] != []
    titles = [row["title"] for row in (await client.ask("GET", "/v1/sessions?order=title"))["items"]]
    assert titles == sorted(titles, key=lambda title: title or "")

    await client.ask("POST", "/v1/sessions/b/unarchive")
    assert "b" in [row.id for row in await host.list_sessions()]
    await client.ask("DELETE", "/v1/sessions/b", status=204)
    hello = {"type": "message", "message": {"role": "user", "content": "Hello"}}
    for address, status in (("/v1/sessions/c", 204), ("/openai/v1/conversations/c", 200)):
        await client.ask("POST", "/v1/sessions", {"id": "c"}, status=201)
        await client.ask("POST", "/v1/sessions/c/entries", hello, status=201)
        await client.ask("DELETE", address, status=status)
        assert not client.application.service.forget("c")  # nothing of it is kept in memory
    assert "b" not in [row.id for row in await host.list_sessions(status="any")]
    await client.ask("GET", "/v1/sessions/b", status=404)
    await client.ask("DELETE", "/v1/sessions/b", status=404)


async def test_a_session_whose_file_is_garbage_can_be_deleted_and_its_id_be_used_again(
    client: Client, host: SessionHost, tmp_path: Path
) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "bad"}, status=201)
    await client.ask("GET", "/v1/sessions/bad/entries")  # a handle is kept
    await host.passivate_idle()
    (tmp_path / "root" / "bad.jsonl").write_bytes(b"garbage\n")
    assert [row["status"] for row in (await client.ask("GET", "/v1/sessions?status=any"))["items"]] == ["corrupted"]
    await client.ask("POST", "/v1/sessions", {"id": "bad"}, status=409)
    await client.ask("DELETE", "/v1/sessions/bad", status=204)
    await client.ask("DELETE", "/v1/sessions/bad", status=404)
    await client.ask("POST", "/v1/sessions", {"id": "bad"}, status=201)
    assert (await client.ask("GET", "/v1/sessions/bad"))["message_count"] == 0


async def test_a_created_session_exists_before_anything_is_appended(client: Client, host: SessionHost) -> None:
    made = await client.ask("POST", "/v1/sessions", {}, status=201)
    assert (await host.resolve(made["id"])).id == made["id"]
    await client.ask("POST", "/v1/sessions", {"id": made["id"]}, status=409)
    assert (await client.ask("GET", f"/v1/sessions/{made['id']}"))["leaf"] is None


@pytest.mark.feature("S-7")
async def test_a_repeated_creation_is_answered_as_the_first(client: Client, host: SessionHost, served: Serve) -> None:
    key = {"Idempotency-Key": "create-1"}
    first = await client.reply("POST", "/v1/sessions", {"cwd": "/y/../x/"}, headers=key)
    second = await client.reply("POST", "/v1/sessions", {"cwd": "/y/../x/"}, headers=key)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["location"] == first.headers["location"]
    assert len(await host.list_sessions()) == 1
    replies: list[int] = []

    async def create() -> None:
        again = {"Idempotency-Key": "create-2"}
        replies.append((await client.reply("POST", "/v1/sessions", {"id": "chosen"}, headers=again)).status_code)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(create)
    assert replies == [201, 201, 201]
    await host.delete("chosen")
    for body in ({"cwd": "/y"}, {"id": "x"}, {"key": "x"}, {"cwd": "/y/../x/", "title": "x"}):
        other = await client.ask("POST", "/v1/sessions", body, headers=key, status=409)
        assert other["error"] == "CommandConflict"
    assert len(await host.list_sessions()) == 1


@pytest.mark.feature("S-7")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_creation_is_known_by_its_title_after_a_restart(tmp_path: Path, served: Serve, dialect: Any) -> None:  # noqa: ANN401
    titled, untitled = {"Idempotency-Key": "titled"}, {"Idempotency-Key": "untitled"}
    async with SessionHost(tmp_path / "r", dialect=dialect) as host, served(host) as client:
        made = await client.ask("POST", "/v1/sessions", {"title": " a\nb "}, headers=titled)
        await client.ask("POST", "/v1/sessions", {}, headers=untitled)
    async with SessionHost(tmp_path / "r") as host, served(host) as client:
        await client.ask("PATCH", f"/v1/sessions/{made['id']}", {"title": "since then"})
        again = await client.ask("POST", "/v1/sessions", {"title": " a\nb "}, headers=titled)
        assert (again["id"], again["title"]) == (made["id"], "since then")
        for key in (titled, untitled):
            other = await client.ask("POST", "/v1/sessions", {"title": "since then"}, headers=key, status=409)
            assert other["error"] == "CommandConflict"


@pytest.mark.parametrize("name", ["last", "First", "a-", "root/a-session", "a-session.jsonl", "..%2f..%2fetc%2fpasswd"])
async def test_only_a_whole_id_names_a_session(client: Client, name: str) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a-session", "title": "First"})
    assert (await client.ask("GET", f"/v1/sessions/{name}", status=404))["error"] in ("SessionNotFound", "NotFound")


async def test_an_id_of_any_characters_has_an_address(client: Client) -> None:
    for name in ("é?#%", "a b", "😀", "x" * 180, "per%2fcent"):
        made = await client.reply("POST", "/v1/sessions", {"id": name})
        assert made.status_code == 201, made.text
        assert (await client.ask("GET", made.headers["location"]))["id"] == name
    for name in ("", ".", "..", "a/b", "a\\b", "a\x00", "x" * 181, "é" * 91):
        await client.ask("POST", "/v1/sessions", {"id": name}, status=400)


async def test_a_session_that_was_deleted_and_made_anew_is_the_new_one(client: Client, host: SessionHost) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    await client.ask("POST", "/v1/sessions/a/entries", {"type": "message", "message": {"role": "user", "content": "1"}})
    await host.delete("a")
    await client.ask("GET", "/v1/sessions/a/tree", status=404)
    await (await host.create("a")).append_message("user", "2")
    (entry,) = (await client.ask("GET", "/v1/sessions/a/entries"))["items"]
    assert entry["message"]["content"][0]["text"]["content"] == "2"


async def test_a_key_is_for_one_copy(client: Client, host: SessionHost) -> None:
    for name in ("a", "b"):
        await (await host.create(name)).append_message("user", name)
    key = {"Idempotency-Key": "copy-1"}
    copy = await client.ask("POST", "/v1/sessions/a/fork", {}, headers=key)
    assert (await client.ask("POST", "/v1/sessions/a/fork", {}, headers=key))["id"] == copy["id"]
    await client.ask("POST", "/v1/sessions/b/fork", {}, headers=key, status=409)
    await client.ask("POST", "/v1/sessions/a/fork", {"id": "c"}, headers=key, status=409)
    made = {"Idempotency-Key": "made-1"}
    await client.ask("POST", "/v1/sessions", {}, headers=made)
    await client.ask("POST", "/v1/sessions/a/fork", {}, headers=made, status=409)


async def test_what_is_read_is_read_once_and_stays_free_for_other_hosts(tmp_path: Path, served: Serve) -> None:
    store = FileStore(tmp_path, disk=(disk := CountingDisk()))
    async with SessionHost(store=store) as own, SessionHost(tmp_path) as other, served(own) as client:
        await (await other.create("a")).append_message("user", "Hello")
        await other.passivate_idle()
        opened = 0
        for path in ("", "/state", "/tree", "/context", "/entries", "/events?live=false"):
            assert (await client.http.get(f"/v1/sessions/a{path}")).status_code == 200
            opened = opened or len(disk.opened)
        assert len(disk.opened) == opened  # by the first one alone
        await (await other.load("a")).append_message("user", "Mine still")
        assert len((await client.ask("GET", "/v1/sessions/a/entries"))["items"]) == 2
        await other.archive("a")
        assert len((await client.ask("GET", "/v1/sessions/a/entries"))["items"]) == 3
        await other.delete("a")
        await client.ask("GET", "/v1/sessions/a/entries", status=404)
        await (await other.create("a")).append_message("user", "Another one")
        for path in ("/context", "/entries"):
            assert "Hello" not in (await client.reply("GET", f"/v1/sessions/a{path}")).text
