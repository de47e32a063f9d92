"""What a client of the SDK sees, of version 1 or 2: run by an interpreter that has it, it prints that as JSON.

`python sdk_client.py stdio ROOT` starts `treering mcp`; `python sdk_client.py http URL` asks a server.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

import anyio

IS_FIRST = version("mcp").startswith("1.")
URI = "treering://session/parser"


class Seen:
    """What was seen, and what the server said unasked."""

    def __init__(self) -> None:
        self.versions: list[str] = []
        self.answers: dict[str, Any] = {}
        self.updated: list[str] = []
        self.came = anyio.Event()

    async def note(self, message: Any) -> None:  # noqa: ANN401  # of the SDK
        told = getattr(message, "root", message)
        if type(told).__name__ == "ResourceUpdatedNotification":
            self.updated.append(str(told.params.uri))
            self.came.set()


def parameters(root: str) -> Any:  # noqa: ANN401  # of the SDK
    from mcp import StdioServerParameters

    return StdioServerParameters(command=sys.executable, args=["-m", "treering.cli", "mcp", "--root", root])


@asynccontextmanager
async def first(way: str, where: str, seen: Seen) -> AsyncIterator[Any]:
    """Connect by version 1 of the SDK."""
    from mcp import ClientSession
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    async with AsyncExitStack() as stack:
        opened = stdio_client(parameters(where)) if way == "stdio" else streamablehttp_client(where)
        read, write, *_ = await stack.enter_async_context(opened)
        session = await stack.enter_async_context(ClientSession(read, write, message_handler=seen.note))
        seen.versions.append(str((await session.initialize()).protocolVersion))
        yield session


@asynccontextmanager
async def second(way: str, where: str, seen: Seen, mode: str) -> AsyncIterator[Any]:
    """Connect by version 2 of the SDK."""
    from mcp import Client

    server = parameters(where) if way == "stdio" else where
    async with Client(server, mode=mode, message_handler=seen.note) as client:
        seen.versions.append(client.protocol_version)
        yield client


async def look(client: Any, seen: Seen, *, listens: bool) -> None:  # noqa: ANN401  # of the SDK
    """Do what an agent does."""
    seen.answers["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    for name, arguments in (
        ("search", {"query": "timeout"}),
        ("list_sessions", {}),
        ("read_session", {"session": "parser"}),
        ("tree", {"session": "parser"}),
    ):
        result = await client.call_tool(name, arguments)
        assert not (result.isError if IS_FIRST else result.is_error), result
        seen.answers[name] = json.loads(result.content[0].text)
    seen.answers["resources"] = [str(each.uri) for each in (await client.list_resources()).resources]
    seen.answers["resource"] = json.loads((await client.read_resource(URI)).contents[0].text)
    label = {"session": "parser", "entry": seen.answers["read_session"]["entries"][0]["id"], "label": "seen"}
    with anyio.fail_after(30):
        if listens:
            async with client.listen(resource_subscriptions=[URI]) as changes:
                await client.call_tool("label", label)
                async for change in changes:
                    seen.updated.append(change.uri)
                    break
        else:
            seen.came = anyio.Event()
            await client.subscribe_resource(URI)
            await anyio.sleep(0.3)  # the SDK opens its stream beside us
            await client.call_tool("label", label)
            await seen.came.wait()


async def main(way: str, where: str) -> None:
    seen = Seen()
    if IS_FIRST:
        async with first(way, where, seen) as client:
            await look(client, seen, listens=False)
    else:
        for mode in ("legacy", "auto"):
            async with second(way, where, seen, mode) as client:
                await look(client, seen, listens=mode == "auto")
    told = {"versions": seen.versions, "answers": seen.answers, "updated": seen.updated}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
