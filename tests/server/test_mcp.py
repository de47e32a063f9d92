"""`/mcp`: agents look up sessions over HTTP, within the rights, bounds and checks of every route."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio
import msgspec
import pytest

from treering import Session, SessionHost
from treering.events.disk.disk import OsDisk
from treering.mcp.reach import HostReach
from treering.mcp.resources import Following
from treering.server import ServerLimits, Tokens

from .conftest import Client, Json, Serve, events_of

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN}
URI = "treering://session/"
NONE: Mapping[str, str] = {}


class Agent:
    """A client of the protocol with a token."""

    def __init__(self, client: Client, token: str) -> None:
        self.client = client
        self.headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}

    async def post(self, method: str, params: Json, headers: Mapping[str, str] = NONE, *, status: int = 200) -> Json:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.client.ask("POST", "/mcp", body, status=status, headers={**self.headers, **headers})

    async def call(self, tool: str, **arguments: Json) -> Json:
        """Return what a tool answers; a text if it failed."""
        result = (await self.post("tools/call", {"name": tool, "arguments": arguments}))["result"]
        text = result["content"][0]["text"]
        return text if result["isError"] else msgspec.json.decode(text)


@pytest.fixture
async def agents(host: SessionHost, served: Serve, tmp_path: Path) -> AsyncIterator[dict[str, Agent]]:
    """Two teams with a session each, and an agent that reads only."""
    tokens = Tokens(tmp_path / "tokens.json", OsDisk())
    for team in ("red", "blue"):
        await (await host.get_or_create(f"{team}:1")).append_message("user", f"Find the fault, {team}.")
    names = {
        "red": tokens.create("write", prefix="red:"),
        "blue": tokens.create("write", prefix="blue:"),
        "reader": tokens.create("read"),
    }
    limits = ServerLimits(streams_max=1)
    async with served(host, tokens=tokens, open_without_tokens=False, limits=limits) as client:
        yield {name: Agent(client, token) for name, token in names.items()}


@pytest.mark.feature("A-31")
async def test_a_token_reaches_its_own_sessions_alone(agents: dict[str, Agent], host: SessionHost) -> None:
    red, blue, reader = agents["red"], agents["blue"], agents["reader"]
    ids = {team: (await host.get_or_create(f"{team}:1")).id for team in ("red", "blue")}
    for agent, seen in ((red, {"red"}), (blue, {"blue"}), (reader, {"red", "blue"})):
        mine = {ids[team] for team in seen}
        assert {each["session"] for each in (await agent.call("search", query="fault"))["found"]} == mine
        assert {each["id"] for each in (await agent.call("list_sessions"))["sessions"]} == mine
        page = await agent.call("search", query="fault", limit=len(mine))
        assert page["next"] is None  # hits of others do not count
        resources = (await agent.post("resources/list", {}))["result"]["resources"]
        assert {each["uri"] for each in resources} == {URI + each for each in mine}
    first = (await blue.call("read_session", session=ids["blue"]))["entries"][0]["id"]
    for tool, arguments in (("read_session", {}), ("tree", {}), ("label", {"entry": first, "label": "x"})):
        assert "no session has the id" in await red.call(tool, session=ids["blue"], **arguments)
    assert "no session has the id" in await red.call("search", query="fault", session=ids["blue"])
    refused = await red.post("resources/read", {"uri": URI + ids["blue"]})
    assert refused["error"]["code"] == -32002
    assert (await blue.call("label", session=ids["blue"], entry=first, label="here"))["label"] == "here"
    names = [each["name"] for each in (await reader.post("tools/list", {}))["result"]["tools"]]
    assert "label" not in names
    refused = await reader.post("tools/call", {"name": "label", "arguments": {}})
    assert refused["error"]["code"] == -32602

    # The checks of every route come before.
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for status, headers in (
        (401, {}),
        (403, {**red.headers, "origin": "https://elsewhere.example"}),
        (421, {**red.headers, "host": "elsewhere.example"}),
        (415, {**red.headers, "content-type": "text/plain"}),
    ):
        assert (await red.client.ask("POST", "/mcp", body, status=status, headers=headers))["status"] == status


@pytest.mark.feature("A-31")
async def test_a_client_follows_on_a_stream_of_its_own(agents: dict[str, Agent], host: SessionHost) -> None:
    red, blue = agents["red"], agents["blue"]
    session = await host.get_or_create("red:1")
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    reply = await red.client.reply("POST", "/mcp", hello, headers=red.headers)
    assert reply.json()["result"]["protocolVersion"] == "2025-11-25"
    mine = {"mcp-session-id": reply.headers["mcp-session-id"]}
    said = await red.client.reply(
        "POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers={**red.headers, **mine}
    )
    assert (said.status_code, said.content) == (202, b"")
    assert (await red.post("resources/subscribe", {"uri": URI + session.id}, mine))["result"] == {}
    await session.append_message("assistant", "Before the stream is open.")
    async with red.client.http.stream("GET", "/mcp", headers={**red.headers, **mine}) as stream:
        events = events_of(stream)
        for words in ("Found.", "Mended."):
            event = await anext(events)
            assert (event.event, event.data["method"]) == ("message", "notifications/resources/updated")
            assert event.data["params"] == {"uri": URI + session.id}
            await session.append_message("assistant", words)
        await red.client.ask("GET", "/mcp", status=429, headers={**red.headers, **mine})  # `streams_max`
        await blue.client.ask("DELETE", "/mcp", status=404, headers={**blue.headers, **mine})
        await red.client.ask("DELETE", "/mcp", headers={**red.headers, **mine})
        with anyio.fail_after(20):
            assert [event async for event in events] in ([], [event]), "it ends with its client"
    # Without hello, and with somebody else's, there is nothing to follow.
    await blue.client.ask("GET", "/mcp", status=400, headers=blue.headers)
    await blue.client.ask("GET", "/mcp", status=404, headers={**blue.headers, **mine})
    assert (await red.post("resources/subscribe", {"uri": URI + session.id}))["error"]["code"] == -32601
    await red.post("ping", {}, mine, status=404)


@pytest.mark.feature("A-31")
async def test_a_client_that_names_the_version_needs_no_hello(agents: dict[str, Agent], host: SessionHost) -> None:
    red = agents["red"]
    session = await host.get_or_create("red:1")

    def named(method: str, name: str | None = None) -> dict[str, str]:
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        return headers if name is None else {**headers, "mcp-name": name}

    found = await red.post("server/discover", {"_meta": META}, named("server/discover"))
    assert (MODERN in found["result"]["supportedVersions"], found["result"]["ttlMs"]) == (True, 0)
    call = {"_meta": META, "name": "list_sessions", "arguments": {}}
    named_call = named("tools/call", "=?base64?bGlzdF9zZXNzaW9ucw==?=")
    assert (await red.post("tools/call", call, named_call))["result"]["resultType"] == "complete"
    for params, headers, status, code in (
        (call, named("tools/call", "label"), 400, -32020),
        (call, named("tools/list", "list_sessions"), 400, -32020),
        (call, {}, 400, -32020),
        ({"_meta": META}, named("no/such"), 404, -32601),
    ):
        method = "no/such" if code == -32601 else "tools/call"
        refused = await red.post(method, params, headers, status=status)
        assert refused["error"]["code"] == code
    await red.post("ping", {}, {"mcp-protocol-version": "1999-01-01"}, status=400)

    listen = {"_meta": META, "notifications": {"resourceSubscriptions": [URI + session.id]}}
    body = {"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": listen}
    headers = {**red.headers, **named("subscriptions/listen")}
    async with red.client.follow("/mcp", body=body, headers=headers) as events:
        assert (await anext(events)).data["method"] == "notifications/subscriptions/acknowledged"
        await session.append_message("assistant", "Found.")
        told = (await anext(events)).data["params"]
        assert told == {"uri": URI + session.id, "_meta": {"io.modelcontextprotocol/subscriptionId": "l"}}
        refused = await red.post("subscriptions/listen", listen, named("subscriptions/listen"), status=429)
        red.client.application.service.stopping.set()
        last = (await anext(events)).data
        assert (last["id"], last["result"]["resultType"]) == ("l", "complete")


class Leaving(HostReach):
    """A client that leaves the session "a" while that is opened to be followed."""

    def __init__(self, host: SessionHost, following: Following) -> None:
        super().__init__(host)
        self._following = following

    async def reading(self, session_id: str) -> Session:
        session = await super().reading(session_id)
        if session_id == "a" and self._following.is_run:
            self._following.remove(f"{URI}a")
        return session


@pytest.mark.parametrize("is_opened", [True, False])
async def test_nothing_is_told_of_a_session_that_a_client_has_just_left(host: SessionHost, *, is_opened: bool) -> None:
    left, other = await host.create("a"), await host.create("b")
    for session in (left, other):
        await session.append_message("user", "one")
    following, told, heard = Following(), list[str](), anyio.Event()
    reach = HostReach(host) if is_opened else Leaving(host, following)

    async def tell(uri: str) -> None:
        told.append(uri)
        heard.set()

    for session in (left, other):
        await following.add(reach, URI + session.id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(following.run, reach, tell)
        await anyio.wait_all_tasks_blocked()
        await left.append_message("user", "two")
        following.remove(f"{URI}a")  # before the task that follows it gets its turn
        await other.append_message("user", "two")
        await heard.wait()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert told == [f"{URI}b"]
