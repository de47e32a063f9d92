"""Server-sent events, however the network cuts them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from itertools import pairwise

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering import ModelUnavailable
from treering.models import event_stream
from treering.models.event_stream import EventData

SENT = (
    b': hello\n\nevent: ping\ndata: {"a": 1}\n\ndata:{"b":\ndata:  2}\nid: 7\r\n\r\n'
    + "data: ä\u2028\x85 山\r\n\r\n\n\ndata: [DONE]\n\ndata: cut off".encode()
)
TOLD = [b'{"a": 1}', b'{"b":\n 2}', "ä\u2028\x85 山".encode(), b"[DONE]"]


class Pieces:
    """A response whose body comes in these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self.closed = False
        self.unwound = False

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                yield piece
                if self.closed:
                    raise OSError("closed")
        finally:
            self.unwound = True

    async def aclose(self) -> None:
        self.closed = True


@settings(max_examples=25)
@given(st.lists(st.integers(0, len(SENT))))
def test_events_are_the_same_wherever_they_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SENT)]
    pieces = [SENT[start:end] for start, end in pairwise(places)]

    async def read() -> list[bytes]:
        async with aclosing(EventData(Pieces(pieces))) as events:
            return [data async for data in events]

    assert anyio.run(read) == TOLD


@pytest.mark.parametrize("taken", [0, 1, 4])
async def test_what_is_closed_early_is_led_to_its_end(taken: int) -> None:
    response = Pieces([SENT[:20], SENT[20:40], SENT[40:]])
    async with aclosing(EventData(response)) as events:
        for _ in range(taken):
            await anext(events)
    assert response.closed
    assert response.unwound


async def test_a_response_that_never_ends_is_not_waited_for() -> None:
    class Endless(Pieces):
        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            yield b"data: [DONE]\n\n"
            await anyio.sleep_forever()

    async with aclosing(EventData(Endless([]))) as events:
        assert await anext(events) == b"[DONE]"
        with anyio.fail_after(10):
            await events.finish()


@pytest.mark.parametrize("where", ["response", "body"])
async def test_a_response_that_cannot_be_closed_holds_up_nobody(where: str) -> None:
    class Stuck(Pieces):
        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            try:
                yield b"data: 1\n\n"
                await anyio.sleep_forever()
            finally:
                self.unwound = True

        async def aclose(self) -> None:
            if where == "response":
                await anyio.sleep_forever()

    response = Stuck([])
    with anyio.fail_after(10), anyio.CancelScope() as cancelled:
        async with aclosing(EventData(response)) as events:
            await anext(events)
            cancelled.cancel()
            await anyio.sleep_forever()
    assert response.unwound


@pytest.mark.parametrize("piece", [b"x", b"data: x\n"])
async def test_an_event_without_an_end_is_given_up(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server gone wrong must not fill the memory; events that end, however many, are no such thing."""
    monkeypatch.setattr(event_stream, "EVENT_BYTES_MAX", 100)
    async with aclosing(EventData(Pieces([b"data: a\n\n"] * 50 + [piece] * 101))) as events:
        for _ in range(50):
            assert await anext(events) == b"a"
        with pytest.raises(ModelUnavailable, match="more than 100 bytes"):
            await anext(events)
