"""The protocol over stdin and stdout: a message a line.

Requests are answered side by side, so that a long search holds nothing up; a client may cancel one. The end of stdin
ends it, once all requests are answered.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from ..events.json_values import JSON
from .listening import LISTEN, Listener
from .messages import INVALID_REQUEST, PARSE_ERROR, Id, Message, Notification, Refused, RpcReply, failed, id_of, read
from .peer import Peer
from .reach import Reach
from .resources import Following

_LINE_BYTES_MAX = 8 * 1024 * 1024
_READ_BYTES = 64 * 1024
_AT_ONCE = 16
"""Requests that are answered side by side."""

_TAKEN_MAX = 256
"""Requests that are taken before they can be answered, so that they can be cancelled; further ones wait in the pipe."""

_LISTENING_MAX = 16
"""Requests of a client that listen."""

_STDIN = 0
_STDOUT = 1


class StdioServer:
    """Answers one client over stdin and stdout.

    Args:
        reach: What the client may reach.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._following = Following()
        self._peer = Peer(reach, self._following)
        self._writing = anyio.Lock()
        self._room = anyio.Semaphore(_AT_ONCE)
        self._taken = anyio.Semaphore(_TAKEN_MAX)
        self._running: dict[Id, anyio.CancelScope] = {}
        self._listening = 0

    async def run(self) -> None:
        """Answer messages until there are no more.

        Raises:
            BrokenPipeError: The client reads no answers any more.
        """
        async with anyio.create_task_group() as followers:
            followers.start_soon(self._following.run, self._reach, self._tell)
            async with anyio.create_task_group() as tasks:
                async for line in self._lines():
                    await self._take(line, tasks, followers)
            followers.cancel_scope.cancel()

    async def _take(self, line: bytes | None, tasks: TaskGroup, followers: TaskGroup) -> None:
        try:
            message = _read(line)
        except Refused as error:
            await self._send(failed(None if line is None else _id_in(line), error))
            return
        if message is None:
            return
        if message.id is None:
            if message.method == "notifications/cancelled":
                self._cancel(message.params.get("requestId"))
            return
        if message.id in self._running:
            await self._send(failed(message.id, Refused(INVALID_REQUEST, "a request with this id is running")))
            return
        if message.method == LISTEN and message.is_modern:
            if self._listening >= _LISTENING_MAX:
                await self._send(failed(message.id, Refused(INVALID_REQUEST, "you listen too often: cancel one")))
                return
            self._listening += 1
            scope = self._running[message.id] = anyio.CancelScope()
            followers.start_soon(self._listen, message, message.id, scope)
            return
        await self._taken.acquire()
        scope = self._running[message.id] = anyio.CancelScope()
        tasks.start_soon(self._answer, message, message.id, scope)

    async def _listen(self, message: Message, id_: Id, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                listener = Listener(self._reach, message)
                await listener.begin()
                await listener.run(self._send)
        except Refused as error:
            await self._send(failed(id_, error))
        finally:
            self._listening -= 1
            del self._running[id_]

    async def _answer(self, message: Message, id_: Id, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                async with self._room:
                    await self._send(await self._peer.answer_to(message))
        finally:
            del self._running[id_]
            self._taken.release()

    def _cancel(self, id_: JSON) -> None:
        if isinstance(id_, (str, int)) and (scope := self._running.get(id_)) is not None:
            scope.cancel()

    async def _tell(self, uri: str) -> None:
        await self._send(Notification(method="notifications/resources/updated", params={"uri": uri}))

    async def _send(self, message: RpcReply | Notification) -> None:
        line = msgspec.json.encode(message) + b"\n"
        with anyio.CancelScope(shield=True):  # a line is written as a whole
            async with self._writing:
                await anyio.to_thread.run_sync(self._write, line)

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            left = left[os.write(_STDOUT, left) :]

    async def _lines(self) -> AsyncGenerator[bytes | None]:
        """Yield the lines of the client; None for one that is too long."""
        mode = os.fstat(_STDIN).st_mode  # nothing waits for a file, or a device such as /dev/null
        waits = os.isatty(_STDIN) or not (stat.S_ISREG(mode) or stat.S_ISCHR(mode))
        pending, is_skipped = b"", False
        while True:
            if waits:
                await anyio.wait_readable(_STDIN)
            read_ = os.read(_STDIN, _READ_BYTES)
            *lines, pending = (pending + read_).split(b"\n")
            for line in lines:
                if is_skipped:
                    is_skipped = False
                elif line.strip():
                    yield line
            if len(pending) > _LINE_BYTES_MAX:
                if not is_skipped:
                    yield None
                pending, is_skipped = b"", True
            if not read_:
                if pending.strip() and not is_skipped:
                    yield pending
                return


def _read(line: bytes | None) -> Message | None:
    if line is None:
        raise Refused(INVALID_REQUEST, f"a message has at most {_LINE_BYTES_MAX} bytes")
    try:
        value: JSON = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(PARSE_ERROR, f"a line is no JSON: {error}") from error
    return read(value)


def _id_in(line: bytes) -> Id | None:
    try:
        value: JSON = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return id_of(value)
