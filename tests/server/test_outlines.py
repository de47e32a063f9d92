"""What a page shows without bodies: outlines, branches, hits in one session, and the state of each session."""

from pathlib import Path

import anyio

from treering import Limits, Session, SessionHost
from treering.entries import Custom, SessionInfo, Usage, message
from treering.events.content import text, tool_use
from treering.events.json_values import raw_json
from treering.server import ServerLimits

from ..projections.test_large_sessions import ReadingDisk
from .conftest import Client, Json, Serve


async def chat(session: Session, turns: int) -> list[str]:
    ids: list[str] = []
    for number in range(turns):
        ids += await session.append_many(
            [
                message("user", f"question {number}\nmore of it"),
                message("assistant", [text(f"I look {number}"), tool_use(f"c{number}", "bash", {"command": "ls"})]),
            ]
        )
        ids += await session.append_tool_execution(f"c{number}", "bash", {}, "a.py\nb.py", duration_ms=120.0)
        usage = Usage(100, 20, cost=0.25)
        ids.append(await session.append_message("assistant", f"answer {number}", model="m", provider="p", usage=usage))
    return ids


async def test_an_outline_has_the_whole_path_in_parts(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    ids = await chat(session, 60)
    assert session.path() == ids
    page = await client.ask("GET", "/v1/sessions/a/outline?limit=100")
    assert [item["id"] for item in page["items"]] == ids[-100:]
    assert (page["total"], page["start"], page["after"], page["leaf"]) == (300, 200, None, ids[-1])
    items: list[Json] = page["items"]
    while page["before"] is not None:
        page = await client.ask("GET", f"/v1/sessions/a/outline?limit=100&before={page['before']}")
        items = [*page["items"], *items]
    assert [item["id"] for item in items] == ids
    assert [item["place"] for item in items] == [*range(300)]
    down = await client.ask("GET", f"/v1/sessions/a/outline?limit=2&after={ids[0]}")
    assert [item["id"] for item in down["items"]] == ids[1:3]
    assert (down["before"], down["after"]) == (ids[1], ids[2])
    around = await client.ask("GET", f"/v1/sessions/a/outline?limit=5&around={ids[2]}")
    assert [item["id"] for item in around["items"]] == ids[:5]
    asked = await client.ask("GET", "/v1/sessions/a/outline?types=user&limit=1000")
    assert [item["text"] for item in asked["items"]] == [f"question {number} more of it" for number in range(60)]
    assert [item["place"] for item in asked["items"]] == [*range(0, 300, 5)]

    said, called, result, record, answer = items[:5]
    assert (said["role"], said["type"], said["branches"], said["branch"]) == ("user", "message", 1, 1)
    assert called["tools"] == [{"id": "c0", "name": "bash", "argument": "ls"}]
    assert result["results"] == [{"call_id": "c0", "error": False, "bytes": 9}]
    assert (record["type"], record["call_id"], record["duration_ms"]) == ("tool_execution", "c0", 120.0)
    assert (answer["tokens"], answer["model"], answer["in_context"]) == (120, "m", True)
    lines = {entry.id: len(line) for entry, line in zip(await session.entries(), await _lines(session), strict=True)}
    assert all(item["bytes"] == lines[item["id"]] for item in items)

    await client.ask("GET", f"/v1/sessions/a/outline?before={ids[0]}&after={ids[1]}", status=422)
    await client.ask("GET", "/v1/sessions/a/outline?around=nothing", status=404)
    reply = await client.reply("GET", "/v1/sessions/a/outline?limit=100")
    known = await client.reply(
        "GET", "/v1/sessions/a/outline?limit=100", headers={"If-None-Match": reply.headers["etag"]}
    )
    assert known.status_code == 304


async def test_an_outline_of_a_long_path_reads_the_lines_that_it_shows(tmp_path: Path, served: Serve) -> None:
    disk = ReadingDisk()
    async with SessionHost(tmp_path, disk=disk, limits=Limits(cache_bytes_max=0)) as host, served(host) as client:
        session = await host.create("a")
        ids = await session.append_many([message("user", f"{seq} " + "x" * 500) for seq in range(10_000)])
        await client.ask("GET", "/v1/sessions")
        disk.of_logs = 0
        page = await client.ask("GET", f"/v1/sessions/a/outline?limit=100&around={ids[5000]}")
        assert (len(page["items"]), page["total"], page["items"][50]["text"][:4]) == (100, 10_000, "5000")
        assert 0 < disk.of_logs <= sum(item["bytes"] + 1 for item in page["items"])


async def _lines(session: Session) -> list[bytes]:
    assert session.file_path is not None
    return (await anyio.Path(session.file_path).read_bytes()).splitlines()[1:]


async def test_branches_are_counted_on_the_path_and_lead_to_the_newest_leaf(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    root = await session.append_message("user", "root")
    left = [await session.append_message("assistant", "left one"), await session.append_message("user", "left two")]
    await session.branch(root)
    right = [await session.append_message("assistant", "right one")]
    await session.append_compaction("what was", right[0], 1000)
    right.append(await session.append_message("user", "right two needle"))
    page = await client.ask("GET", "/v1/sessions/a/outline")
    shown = [(item["text"], item["branch"], item["branches"], item["in_context"]) for item in page["items"]]
    assert shown == [
        ("root", 1, 1, False),
        ("right one", 2, 2, True),
        ("what was", 1, 1, True),
        ("right two needle", 1, 1, True),
    ]
    other = await client.ask("GET", f"/v1/sessions/a/outline?leaf={left[1]}")
    assert [item["id"] for item in other["items"]] == [root, *left]
    beside = (await client.ask("GET", f"/v1/sessions/a/branches/{right[0]}"))["items"]
    assert [(each["item"]["id"], each["leaf"], each["entries"], each["on_path"]) for each in beside] == [
        (left[0], left[1], 2, False),
        (right[0], right[1], 3, True),
    ]
    await client.ask("GET", "/v1/sessions/a/branches/nothing", status=404)

    await session.append_message("assistant", "a needle on the path")
    await session.append(message("user", "an aside needle"), below=left[0], aside=True)
    hits = (await client.ask("GET", "/v1/sessions/a/search?q=needle"))["items"]
    aside = (await session.entries())[-1].id
    assert [(hit["seq"], hit["place"], hit["branch"]) for hit in hits] == [
        (6, 3, None),
        (7, 4, None),
        (8, None, {"at": root, "leaf": aside}),
    ]
    moved = (await client.ask("GET", f"/v1/sessions/a/search?q=needle&leaf={left[0]}"))["items"]
    assert [(hit["place"], hit["branch"] and hit["branch"]["at"]) for hit in moved] == [
        (None, root),
        (None, root),
        (None, left[0]),
    ]


async def test_every_session_says_what_it_is_doing(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path, limits=Limits(live_max=3)) as host, served(host) as client:
        parent = await host.create("parent")
        spawning = await parent.append_message("assistant", [tool_use("c1", "task", {"description": "look"})])
        child = await host.create("child", parent_session="parent", parent_entry=spawning)
        await child.append_message("user", "Look around")
        failed = await host.create("failed")
        await failed.append(SessionInfo(provider=None, status="active"))
        await failed.append_message("assistant", [tool_use("c2", "bash", {"command": "make"})])
        (result, *_) = await failed.append_tool_execution("c2", "bash", {}, "no rule\n", is_error=True, exit_code=2)
        asks = await host.create("asks")
        await asks.append_message("assistant", [tool_use("c3", "deploy", {"to": "live"})])
        waiting = {"calls": [{"id": "c3", "name": "deploy", "reason": "May I?"}]}
        await asks.append(Custom("treering.suspended", raw_json(waiting)))
        answered = await host.create("answered")
        await chat(answered, 2)
        rows = {row["id"]: row for row in (await client.ask("GET", "/v1/sessions?with=state"))["items"]}
        assert {name: row["state"]["state"] for name, row in rows.items()} == {
            "parent": "working",
            "child": "working",
            "failed": "error",
            "asks": "waits",
            "answered": "idle",
        }
        assert rows["child"]["state"]["parent"] == {"session": "parent", "entry": spawning}
        assert rows["parent"]["state"]["tool"] == {"id": "c1", "name": "task", "argument": "look"}
        assert (rows["failed"]["state"]["error"], rows["failed"]["state"]["error_entry"]) == ("exit code 2", result)
        assert rows["asks"]["state"]["line"] == "May I?"
        assert (rows["answered"]["state"]["cost"], rows["answered"]["state"]["tokens"]) == (0.5, 120)
        assert rows["answered"]["usage"]["output_tokens"] == 40
        live = {name for name, row in rows.items() if row["state"]["live"]}
        assert live == {session.session_id for session in host.statistics().sessions}
        for name, row in rows.items():
            alone = await client.ask("GET", f"/v1/sessions/{name}/state")
            assert {**alone, "live": None} == {**row["state"], "live": None}
            assert (await client.ask("GET", f"/v1/sessions/{name}?with=state"))["state"] == alone
        assert "state" not in (await client.ask("GET", "/v1/sessions"))["items"][0]
        await host.archive("answered")
        assert (await client.ask("GET", "/v1/sessions/answered/state"))["state"] == "done"


async def test_a_read_shows_at_least_a_cursor(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as other, SessionHost(tmp_path) as host, served(host) as client:
        session = await other.create("a")
        await session.append_message("user", "one")
        first = session.cursor
        await client.ask("GET", "/v1/sessions/a/path")
        await session.append_message("user", "two")
        at_least = str(session.cursor)
        for path in ("", "/path", "/outline", "/entries", "/tree", "/leaf", "/labels", "/context", "/state"):
            reply = await client.ask("GET", f"/v1/sessions/a{path}?at_least={at_least}")
            assert reply.get("cursor", at_least) == at_least, path
        gone = f"{first.seq}-another"
        await client.ask("GET", f"/v1/sessions/a/path?at_least={gone}", status=409)
        await client.ask("GET", "/v1/sessions/a/path?at_least=nowhere", status=400)


async def test_a_read_waits_for_a_cursor_and_says_when_it_does_not_come(tmp_path: Path, served: Serve) -> None:
    async with SessionHost(tmp_path) as host, served(host, limits=ServerLimits(at_least_for_s=0.05)) as client:
        session = await host.create("a")
        await session.append_message("user", "one")
        later = f"{session.cursor.seq + 1}-{str(session.cursor).partition('-')[2]}"
        await client.ask("GET", f"/v1/sessions/a/path?at_least={later}", status=503)
        await session.append_message("user", "two")
        assert len((await client.ask("GET", f"/v1/sessions/a/path?at_least={later}"))["ids"]) == 2


async def test_the_places_of_a_path_are_found_in_parts_wherever_they_are(client: Client, host: SessionHost) -> None:
    session = await host.create("a")
    ids = await chat(session, 900)  # 4,500 entries
    await session.set_label(ids[1], "here")
    failed: list[str] = []
    for place in (4, 2_000):
        failed += await session.append_tool_execution(f"d{place}", "bash", {}, "no rule", is_error=True, exit_code=2)
        await session.append_many([message("assistant", f"step {number}") for number in range(place)])
    failed.append(await session.append(message("assistant", (), error="overloaded")))
    beside = await session.append_message("user", "beside", below=ids[6], aside=True)
    summary = await session.append_compaction("what was", session.leaf_id, 1000)

    found: list[Json] = []
    page: Json = {"before": ""}
    asked = 0
    while page["before"] is not None:
        before = page["before"] and f"&before={page['before']}"
        page = await client.ask("GET", f"/v1/sessions/a/outline?places=true&limit=200{before}")
        assert len(page["items"]) <= 200
        assert page["total"] == len(session.path())
        found = [*page["items"], *found]
        asked += 1
    assert asked >= 5
    path = session.path()
    prompts = ids[::5]
    expected = {*prompts, ids[1], ids[7], failed[0], failed[2], failed[-1], summary}
    assert [item["id"] for item in found] == [each for each in path if each in expected]
    assert [item["place"] for item in found] == [path.index(item["id"]) for item in found]
    assert beside not in expected
    by_id = {item["id"]: item for item in found}
    assert by_id[ids[1]]["label"] == "here"
    assert (by_id[ids[7]]["branch"], by_id[ids[7]]["branches"]) == (1, 2)
    assert by_id[failed[0]]["results"][0]["error"]
    assert by_id[failed[-1]]["error"] == "overloaded"

    # a part without any of them still leads on to the one before it
    bare = await host.create("bare")
    first = await bare.append_message("user", "the first")
    await bare.append_many([message("assistant", f"step {number}") for number in range(9_000)])
    page = await client.ask("GET", "/v1/sessions/bare/outline?places=true")
    assert page["items"] == []
    parts = 1
    while page["before"] is not None:
        page = await client.ask("GET", f"/v1/sessions/bare/outline?places=true&before={page['before']}")
        parts += 1
    assert [item["id"] for item in page["items"]] == [first]
    assert parts == 3
    for wrong in ("types=user", f"after={first}", f"around={first}"):
        await client.ask("GET", f"/v1/sessions/bare/outline?places=true&{wrong}", status=422)
    await client.ask("GET", "/v1/sessions/bare/outline?places=true&before=nothing", status=404)
