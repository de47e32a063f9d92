"""`treering mcp`: an agent looks up its own and its colleagues' sessions, while these go on in another process."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from treering import SessionHost, tool_result, tool_use
from treering.mcp.shown import OUTPUT_CHARS_MAX

from .conftest import Client, Json, Talk, configured

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
LONG = "A line of the log, which goes on.\n" * 2_000


@pytest.fixture
async def host(root: Path) -> AsyncIterator[SessionHost]:
    """A colleague at work: a session with branches, labels, a secret and a long result, and one that is running."""
    async with SessionHost(root) as host:
        session = await host.create("parser", cwd="/work/parser")
        await session.append_message("user", f"Why does parser.py time out? The key is {SECRET}")
        await session.append_message("assistant", [tool_use("call_1", "read_log", {"key": SECRET, "lines": 2_000})])
        await session.append_message("tool", [tool_result("call_1", LONG)], tool_name="read_log")
        answer = await session.append_message("assistant", "The timeout is 30 s.")
        await session.append_message("user", "Raise it.")
        await session.branch(answer)
        await session.append_message("user", "Lower it.")
        await session.set_label(answer, "the cause")
        await session.passivate()
        await (await host.create("running")).append_message("user", "Are you there?")
        yield host


async def initialized(client: Client) -> Json:
    return await client.result("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test"})


@pytest.mark.feature("A-31")
async def test_an_agent_looks_up_sessions_and_follows_them(host: SessionHost, talk: Talk) -> None:
    async with talk() as client:
        greeting = await initialized(client)
        assert greeting["protocolVersion"] == "2025-06-18"
        assert greeting["capabilities"]["resources"] == {"subscribe": True}
        tools = (await client.result("tools/list"))["tools"]
        assert [each["name"] for each in tools] == [
            "search", "list_sessions", "read_session", "read_entry", "tree", "label",
        ]  # fmt: skip
        assert all(each["inputSchema"]["type"] == "object" for each in tools)

        # Search, list, read.
        found = await client.call("search", query="timeout", role="assistant")
        (hit,) = found["found"]
        assert (hit["session"], hit["text"], found["next"]) == ("parser", "The timeout is 30 s.", None)
        listed = await client.call("list_sessions", limit=1)
        assert [each["id"] for each in listed["sessions"]] == ["running"]
        (session,) = (await client.call("list_sessions", page=listed["next"]))["sessions"]
        assert (session["id"], session["project"], session["messages"]) == ("parser", "/work/parser", 6)
        assert "status" not in session
        read: list[Json] = []
        page: Json = {"before": None}
        while not read or page["before"] is not None:
            beside = {} if page["before"] is None else {"before": page["before"]}
            page = await client.call("read_session", session="parser", limit=2, **beside)
            read[:0] = page["entries"]
        session_of_host = await host.load("parser", read_only=True)
        assert [each["id"] for each in read] == session_of_host.path()
        assert "[redacted:anthropic_key]" in read[0]["text"]
        assert read[3]["label"] == "the cause"
        around = await client.call("read_session", session="parser", around=hit["entry"], limit=3)
        assert [each["text"] for each in around["entries"]][1:] == ["The timeout is 30 s.", "Lower it."]
        pieces: list[str] = []
        offset: int | None = 0
        while offset is not None:
            piece = await client.call("read_entry", session="parser", entry=read[2]["id"], offset=offset)
            pieces.append(piece["text"])
            offset = piece["next"]
        assert "".join(pieces) == f"[result: {LONG}]"
        assert read[2]["chars"] == piece["chars"] == len("".join(pieces))

        # The tree, and labels.
        tree = await client.call("tree", session="parser")
        assert [(each["entries"], each["begins"][:9], each.get("current", False)) for each in tree["stretches"]] == [
            (4, "Why does ", True), (1, "Raise it.", False), (2, "Lower it.", True),
        ]  # fmt: skip
        assert tree["stretches"][0]["labels"] == {hit["entry"]: "the cause"}
        two = await client.call("tree", session="parser", limit=1)
        assert (await client.call("tree", session="parser", page=two["next"]))["stretches"] == tree["stretches"][1:]
        await client.call("label", session="parser", entry=read[0]["id"], label="asked")
        await session_of_host.refresh()
        assert session_of_host.label(read[0]["id"]) == "asked"
        refusal = await client.refused("label", session="running", entry="x", label="mine")
        assert refusal.startswith("running.jsonl is owned by process ")  # no folder is told

        # A session that goes on in another process is a resource that updates.
        uri = "treering://session/running"
        listed = await client.result("resources/list")
        assert uri in [each["uri"] for each in listed["resources"]]
        await client.result("resources/subscribe", uri=uri)
        await (await host.load("running")).append_message("assistant", "I am.")
        assert await client.updated() == {
            "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri},
        }  # fmt: skip
        (contents,) = (await client.result("resources/read", uri=uri))["contents"]
        assert "I am." in contents["text"]
        await client.result("resources/unsubscribe", uri=uri)

        # One that names the version in each request listens by a request.
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        found = await client.result("server/discover", _meta=meta)
        assert found["supportedVersions"][-1] == "2026-07-28"
        assert (found["resultType"], found["cacheScope"]) == ("complete", "private")
        listen = {"_meta": meta, "notifications": {"resourceSubscriptions": [uri], "toolsListChanged": True}}
        await client.send({"id": "listening", "method": "subscriptions/listen", "params": listen})
        acknowledged = await client.receive()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": [uri]}
        await client.call("search", query="timeout")
        assert client.told == []  # nothing has changed yet
        session = await host.load("running")
        await session.append_message("assistant", "I am.")
        updated = await client.receive()
        assert updated["params"]["uri"] == uri
        assert updated["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "listening"}
        await client.send({"method": "notifications/cancelled", "params": {"requestId": "listening"}})
        await client.result("resources/subscribe", uri=uri)  # which hears of it, so that the other would have, too
        await session.append_message("user", "Who hears this?")
        updated = await client.updated()
        assert "_meta" not in updated["params"]
        await client.result("ping", _meta=meta)
        assert client.told == []
        assert await client.end() == 0
        assert not any(SECRET[:16].encode() in line for line in client.lines)
        assert max(map(len, client.lines)) < 2 * OUTPUT_CHARS_MAX


@pytest.mark.feature("A-31")
async def test_nothing_secret_or_outside_the_root_is_found_and_wrong_messages_are_refused(
    host: SessionHost, talk: Talk, tmp_path: Path
) -> None:
    async with SessionHost(tmp_path / "elsewhere") as other:
        session = await other.create("hidden")
        await session.append_message("user", "Why does parser.py time out elsewhere?")
        outside = session.file_path
    wrong: list[tuple[Json, Json, int]] = [
        (b"{", None, -32700),
        (b"[]", None, -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', 1, -32600),
        ({"id": "a", "method": "no/such"}, "a", -32601),
        ({"id": 2, "method": "ping", "params": []}, 2, -32600),
        ({"id": 3, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}, 3, -32602),
        (
            {"id": 4, "method": "ping", "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}}},
            4,
            -32022,
        ),
        (b" " * (8 << 20) + b"{}", None, -32600),
    ]
    async with talk("--read-only") as client:
        assert (await client.call("search", query=SECRET[:16]))["found"] == []
        assert {each["session"] for each in (await client.call("search", query="parser.py"))["found"]} == {"parser"}
        for name in (outside, "../elsewhere/hidden", "hidden", "", "par", "last", ".", "a\0b"):
            assert "no session has the id" in await client.refused("read_session", session=name)
            refusal = await client.ask("resources/read", uri=f"treering://session/{name}".replace("\0", "%00"))
            assert refusal["error"]["code"] in (-32002, -32602)
        assert "unknown field" in await client.refused("search", q="timeout")
        tools = [each["name"] for each in (await client.result("tools/list"))["tools"]]
        assert "label" not in tools
        refusal = await client.ask(
            "tools/call", name="label", arguments={"session": "parser", "entry": "x", "label": "y"}
        )
        assert refusal["error"]["code"] == -32602

        for message, id_, code in wrong:
            await client.send(message)
            answer = await client.receive()
            assert (answer["id"], answer["error"]["code"]) == (id_, code)
        await client.send({"method": "notifications/cancelled", "params": {"requestId": 99}})
        await client.send({"id": 9, "result": {}})
        assert await client.result("ping") == {}
        # What is in the pipe is answered before the end of stdin ends it.
        await client.send({"id": "last", "method": "tools/list"})
        assert await client.end() == 0
        assert (await client.receive())["id"] == "last"


async def test_nobody_at_stdin_ends_it_as_the_end_of_a_client_does(root: Path) -> None:
    command = [*configured(), "--root", str(root)]
    assert (await anyio.run_process(command, stdin=subprocess.DEVNULL)).returncode == 0


SLOW = """
import anyio
from treering import SessionHost
from treering.mcp.reach import HostReach
from treering.mcp.stdio import StdioServer

class Slow(HostReach):
    async def rows(self, wanted):
        await anyio.sleep_forever()

async def main():
    async with SessionHost() as host:
        await StdioServer(Slow(host)).run()

anyio.run(main)
"""


async def test_requests_that_wait_for_others_can_be_cancelled() -> None:
    ids = [f"slow-{n}" for n in range(40)]
    with anyio.fail_after(60):
        async with await anyio.open_process([sys.executable, "-c", SLOW], stderr=None) as process:
            client = Client(process)
            for id_ in ids:
                await client.send({"id": id_, "method": "tools/call", "params": {"name": "list_sessions"}})
            for id_ in ids:
                await client.send({"method": "notifications/cancelled", "params": {"requestId": id_}})
            assert await client.result("ping") == {}
            assert await client.end() == 0
