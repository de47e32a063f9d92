"""Server-sent events, read from a response and closed whole.

    data: {"choices": [{"delta": {"content": "Hello"}}]}

    data: [DONE]

The providers' libraries decode such streams themselves, in generators that nobody can close from outside: trio, which
looks, warns of each answer that was given up. Here the response is read by one iterator that is always led to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol, Self, TypeVar

import msgspec
from anyio import move_on_after

from ..events.characters import whole_json
from ..events.errors import ModelUnavailable

EVENT_BYTES_MAX = 64 * 1024 * 1024
"""How long an event may be, in bytes: no answer comes near that, and a server gone wrong must not fill the memory."""

END_WAIT_S = 0.1
"""How long to wait for the end of a response that has said all, in seconds: its connection can serve the next one."""

T = TypeVar("T")


class Response(Protocol):
    """An HTTP response whose body has not been read."""

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


def decoded(data: bytes, decode: Callable[[bytes], T]) -> T:
    """Decode the data of an event; half of a surrogate pair in it, as left by cutting a string, becomes U+FFFD.

    Raises:
        DecodeError: It is no JSON, or not of the shape that is asked for.
    """
    try:
        return decode(data)
    except msgspec.DecodeError:
        if b"\\u" not in data:
            raise
        try:
            mended = whole_json(data)
        except (ValueError, RecursionError):
            mended = data
        return decode(mended)


class EventData:
    """The data of one event after the other, as bytes.

    What is closed in the middle leaves no connection and no generator behind.
    """

    def __init__(self, response: Response) -> None:
        self._response = response
        self._body = response.aiter_bytes()
        self._rest: list[bytes] = []
        self._held_bytes = 0
        self._lines: list[bytes] = []
        self._ready: deque[bytes] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ready:
            self._take(await anext(self._body))
        return self._ready.popleft()

    async def finish(self) -> None:
        """Read what is left of a response that has said all, so that its connection can be used again."""
        with move_on_after(END_WAIT_S):
            async for _ in self._body:
                pass

    async def aclose(self) -> None:
        """Close the response, wherever in it this is, also for a caller that is cancelled, who does not wait for long."""
        with move_on_after(END_WAIT_S, shield=True):
            await self._response.aclose()
        with move_on_after(END_WAIT_S, shield=True), suppress(Exception):
            async for _ in self._body:  # it may say that it was closed; the generators below end by that
                pass

    def _take(self, piece: bytes) -> None:
        """Take a piece of the body in, and lay ready the events that it ends.

        Raises:
            ModelUnavailable: An event has no end.
        """
        self._held_bytes += len(piece)
        if self._held_bytes > EVENT_BYTES_MAX:
            raise ModelUnavailable(f"the server sends an event of more than {EVENT_BYTES_MAX} bytes: it is given up")
        end, *others = piece.split(b"\n")
        self._rest.append(end)
        if not others:
            return
        *lines, rest = b"".join(self._rest), *others
        self._rest = [rest]
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._lines.append(line.removeprefix(b"data:").removeprefix(b" "))
            elif not line and self._lines:
                self._ready.append(b"\n".join(self._lines))
                self._lines.clear()
        self._held_bytes = len(rest) + sum(map(len, self._lines))
