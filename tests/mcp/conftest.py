"""`treering mcp` as a process, and a client that writes its lines by hand."""

import itertools
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.abc
import msgspec
import pytest

Json: TypeAlias = Any
"""Any JSON value."""


class Client:
    """Talks with one process, a message a line."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._pending = b""
        self._ids = itertools.count(1)
        self.process = process
        self.told: list[Json] = []
        """Notifications that came."""
        self.lines: list[bytes] = []
        """All lines that came."""

    async def send(self, message: Json) -> None:
        line = message if isinstance(message, bytes) else msgspec.json.encode({"jsonrpc": "2.0", **message})
        await self._stdin.send(line + b"\n")

    async def receive(self) -> Json:
        while b"\n" not in self._pending:
            self._pending += await self._stdout.receive()
        line, _, self._pending = self._pending.partition(b"\n")
        self.lines.append(line)
        return msgspec.json.decode(line)

    async def ask(self, method: str, **params: Json) -> Json:
        """Return the answer to a request; what comes before is kept in `told`."""
        id_ = next(self._ids)
        await self.send({"id": id_, "method": method, "params": params})
        while (message := await self.receive()).get("id") != id_:
            self.told.append(message)
        return message

    async def result(self, method: str, **params: Json) -> Json:
        answer = await self.ask(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    async def call(self, tool: str, **arguments: Json) -> Json:
        """Return what a tool answers."""
        result = await self.result("tools/call", name=tool, arguments=arguments)
        assert not result["isError"], result
        (content,) = result["content"]
        return msgspec.json.decode(content["text"])

    async def refused(self, tool: str, **arguments: Json) -> str:
        """Return what a model is told whose call failed."""
        result = await self.result("tools/call", name=tool, arguments=arguments)
        assert result["isError"], result
        text = result["content"][0]["text"]
        assert isinstance(text, str)
        return text

    async def updated(self) -> Json:
        """Return the next notification."""
        return self.told.pop(0) if self.told else await self.receive()

    async def end(self) -> int:
        """Close its stdin, and return its status."""
        await self._stdin.aclose()
        return await self.process.wait()


Talk: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]


def configured() -> list[str]:
    """Return the command of the configuration in the documentation, run by this interpreter."""
    page = Path(__file__).parents[2].joinpath("docs", "mcp.md").read_text(encoding="utf-8")
    block = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert block is not None
    server = msgspec.json.decode(block[1])["mcpServers"]["treering"]
    assert server["command"] == "treering"
    return [sys.executable, "-m", "treering.cli", *server["args"]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def talk(root: Path) -> Talk:
    """Start `treering mcp` on the root, as long as a block runs."""

    @asynccontextmanager
    async def talk(*options: str) -> AsyncIterator[Client]:
        command = [*configured(), "--root", str(root), *options]
        async with await anyio.open_process(command, stderr=subprocess.PIPE) as process:
            client = Client(process)
            try:
                yield client
            finally:
                if process.returncode is None:
                    process.kill()

    return talk
