"""Server-sent events, read from a response that is always closed completely.

    data: {"choices": [{"delta": {"content": "Hello"}}]}

    data: [DONE]

The providers' libraries decode such streams themselves, in generators that cannot be closed from outside, so trio warns
about each abandoned answer. Here one iterator reads the response and is always run to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol, Self, TypeVar

import msgspec
from anyio import move_on_after

from ..events.errors import ModelUnavailable
from ..events.texts import whole_json

EVENT_BYTES_MAX = 64 * 1024 * 1024
"""The maximum size of an event, in bytes: no answer comes near it, and a faulty server must not exhaust memory."""

END_WAIT_S = 0.1
"""How long to wait for the end of a complete response, in seconds, so that its connection can be reused."""

T = TypeVar("T")


class Response(Protocol):
    """An HTTP response whose body has not been read."""

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


def decoded(data: bytes, decode: Callable[[bytes], T]) -> T:
    """Decode the data of an event; lone surrogates, as left by cutting a string, become U+FFFD.

    Raises:
        DecodeError: The data is not JSON, or not of the requested shape.
    """
    try:
        return decode(data)
    except msgspec.DecodeError:
        if b"\\u" not in data:
            raise
        try:
            repaired = whole_json(data)
        except (ValueError, RecursionError):
            repaired = data
        return decode(repaired)


class EventData:
    """An iterator over the data of events, as bytes.

    Closing it in the middle leaves no connection and no generator behind.
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
        """Read the rest of a complete response, so that its connection can be reused."""
        with move_on_after(END_WAIT_S):
            async for _ in self._body:
                pass

    async def aclose(self) -> None:
        """Close the response at any point, for a short time even if the caller is cancelled."""
        with move_on_after(END_WAIT_S, shield=True):
            await self._response.aclose()
        with move_on_after(END_WAIT_S, shield=True), suppress(Exception):
            async for _ in self._body:  # this may raise because of the close, which ends the generators below
                pass

    def _take(self, piece: bytes) -> None:
        """Add a piece of the body, and queue the events that it completes.

        Raises:
            ModelUnavailable: An event is too long.
        """
        self._held_bytes += len(piece)
        if self._held_bytes > EVENT_BYTES_MAX:
            raise ModelUnavailable(
                f"the server sent an event of more than {EVENT_BYTES_MAX} bytes; the answer was abandoned"
            )
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
