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

from ..events.errors import ModelUnavailable, Unavailable
from ..events.http_clients import Events
from ..events.texts import whole_json

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
        self._events = Events()
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
        try:
            self._ready.extend(event.data for event in self._events.take(piece))
        except Unavailable as error:
            raise ModelUnavailable(f"{error.message}, and the answer abandoned") from error
