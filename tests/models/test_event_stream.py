"""Server-sent events, however the network splits them."""

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

STREAM = (
    b': hello\n\nevent: ping\ndata: {"a": 1}\n\ndata:{"b":\ndata:  2}\nid: 7\r\n\r\n'
    + "data: ä\u2028\x85 山\r\n\r\n\n\ndata: [DONE]\n\ndata: cut off".encode()
)
EVENTS = [b'{"a": 1}', b'{"b":\n 2}', "ä\u2028\x85 山".encode(), b"[DONE]"]


class PiecewiseResponse:
    """A response whose body arrives in these pieces."""

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
@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_wherever_the_stream_is_split(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(places)]

    async def read() -> list[bytes]:
        async with aclosing(EventData(PiecewiseResponse(pieces))) as events:
            return [data async for data in events]

    assert anyio.run(read) == EVENTS


@pytest.mark.parametrize("taken", [0, 1, 4])
async def test_closing_the_stream_early_closes_the_response_and_its_iterator(taken: int) -> None:
    response = PiecewiseResponse([STREAM[:20], STREAM[20:40], STREAM[40:]])
    async with aclosing(EventData(response)) as events:
        for _ in range(taken):
            await anext(events)
    assert response.closed
    assert response.unwound


async def test_finishing_does_not_wait_for_an_endless_response() -> None:
    class Endless(PiecewiseResponse):
        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            yield b"data: [DONE]\n\n"
            await anyio.sleep_forever()

    async with aclosing(EventData(Endless([]))) as events:
        assert await anext(events) == b"[DONE]"
        with anyio.fail_after(10):
            await events.finish()


@pytest.mark.parametrize("where", ["response", "body"])
async def test_a_response_that_cannot_be_closed_does_not_block_a_cancelled_task(where: str) -> None:
    class Stuck(PiecewiseResponse):
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
async def test_an_event_without_an_end_raises_beyond_a_limit(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken server must not fill the memory, but any number of complete events is accepted."""
    monkeypatch.setattr(event_stream, "EVENT_BYTES_MAX", 100)
    async with aclosing(EventData(PiecewiseResponse([b"data: a\n\n"] * 50 + [piece] * 101))) as events:
        for _ in range(50):
            assert await anext(events) == b"a"
        with pytest.raises(ModelUnavailable, match="more than 100 bytes"):
            await anext(events)
