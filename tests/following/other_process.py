"""Another process that writes the session `shared` of one root after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio

from treering import MessageEntry, plain_text

PATIENCE_S = 60

PROGRAM = """
import json, os, sys
import anyio
from treering import SessionHost, message

def lines(*, before):
    with open("shared.jsonl", "rb") as file:
        return file.readlines()[:before]

async def main():
    for root in sys.stdin:
        os.chdir(json.loads(root))
        async with SessionHost(".") as host:
            await write(host)
        print("null", flush=True)

async def write(host):
    session = await host.open("shared")
    print("null", flush=True)
    for line in sys.stdin:
        command, *args = json.loads(line)
        answer = None
        match command:
            case "append":
                answer = await session.append_message("user", *args)
            case "batch":
                answer = await session.append_many([message("user", each) for each in args])
            case "branch":
                await session.branch(*args)
            case "passivate":
                answer = await session.passivate()
            case "raw":
                with open("shared.jsonl", "ab", buffering=0) as file:
                    file.write(args[0].encode())
            case "replace":
                with open("new", "wb") as file:
                    file.writelines(lines(before=args[0]))
                os.replace("new", "shared.jsonl")
            case "cut":
                os.truncate("shared.jsonl", sum(map(len, lines(before=args[0]))))
            case "unlink":
                os.unlink("shared.jsonl")
                session = await host.open("shared")
            case "leave":
                break
        print(json.dumps(answer), flush=True)

anyio.run(main)
"""


class Writer:
    """Carries out the commands sent to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    async def run(self, *command: object) -> Any:  # noqa: ANN401  # an answer is any JSON
        """Send a command, and return its answer."""
        return await self.send(command)

    async def send(self, line: object) -> Any:  # noqa: ANN401  # an answer is any JSON
        """Send a line of JSON, and return the answer to it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        answer = await anyio.to_thread.run_sync(self._process.stdout.readline, abandon_on_cancel=True)
        return json.loads(answer)


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


class AnotherProcess:
    """A process that is started when it is first needed, and serves one test after the other."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.__exit__(None, None, None)
            assert self._process.returncode == 0

    @asynccontextmanager
    async def __call__(self, root: Path) -> AsyncIterator[Writer]:
        """Let the process own the session of a root as long as the block runs."""
        process = self._process
        if process is None:
            process = self._process = await anyio.to_thread.run_sync(_start)
        writer = Writer(process)
        try:
            with anyio.fail_after(PATIENCE_S):
                await writer.send(str(root))
                yield writer
                await writer.run("leave")  # is answered when its host is closed
        except BaseException:
            self._process = None
            process.kill()
            process.__exit__(None, None, None)
            raise


def seq_and_text(entry: object) -> tuple[int, str]:
    assert isinstance(entry, MessageEntry)
    return entry.seq, plain_text(entry.message.content)
