"""The requests as they were sent, with strategy and token counts, and a subscription to them.

    async with agent.follow_requests() as requests:
        async for sent in requests:
            print(sent.strategy, sent.built.tokens_used, "of", sent.built.token_budget)

Requests are not stored, since they can be rebuilt from the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self

import anyio
import msgspec
from msgspec import Raw, Struct

from ...events.entries import Message
from ...events.errors import Closed
from ...events.json_values import JSON, json_object
from ...projections.building.builder import ContextBuildResult
from .model import ModelRequest


class SentContext(Struct, frozen=True):
    """One request as it was sent, and how its context was built.

    Attributes:
        number: The number of the request, counted per agent from 1.
        session_id: The session of the request; None without one.
        request: The request to the model: messages, tools and limits.
        built: How the conversation in it was built: strategy, counts, budget.
    """

    number: int
    session_id: str | None
    request: ModelRequest
    built: ContextBuildResult

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages exactly as they were sent, the system prompt included."""
        return self.request.messages

    @property
    def strategy(self) -> str:
        """The name of the strategy that made the conversation fit."""
        return self.built.strategy

    def counts(self) -> dict[str, JSON]:
        """Return the strategy by which the conversation was built, and its counts of messages and tokens."""
        built = self.built
        return {
            "number": self.number,
            "session_id": self.session_id,
            "strategy": built.strategy,
            "tokens_used": built.tokens_used,
            "token_budget": built.token_budget,
            "counts": {
                "original": built.original_message_count,
                "included": built.included_message_count,
                "summarized": built.summarized_message_count,
                "dropped": built.dropped_message_count,
                "masked": built.masked_message_count,
                "sent": len(self.messages),
            },
        }

    def to_json(self) -> dict[str, JSON]:
        """Return the request as plain JSON values, which the caller may modify."""
        fields = {
            "tools": [each.name for each in self.request.tools],
            "messages": [{"role": each.role, "content": each.content} for each in self.messages],
        }
        return self.counts() | json_object(Raw(msgspec.json.encode(fields)))


class SentRequests:
    """The latest request of an agent, and the means to wait for the next one.

    Attributes:
        last: The latest request; None before the first one.
    """

    def __init__(self) -> None:
        self.last: SentContext | None = None
        self._changed: anyio.Event | None = None

    def add(self, session_id: str | None, request: ModelRequest, built: ContextBuildResult) -> SentContext:
        """Record a request that is about to be sent, and wake the subscribers."""
        number = 1 if self.last is None else self.last.number + 1
        self.last = SentContext(number, session_id, request, built)
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        return self.last

    async def after(self, number: int) -> SentContext:
        """Wait for a request with a higher number, and return the latest."""
        while self.last is None or self.last.number <= number:
            if self._changed is None:
                self._changed = anyio.Event()
            await self._changed.wait()
        return self.last


class RequestSubscription(AsyncIterator[SentContext]):
    """Iterates over an agent's requests: first the latest, if there was one, then each as it is sent.

    A slow subscriber gets the latest request and misses those in between: a subscription holds at most one request.
    """

    def __init__(self, requests: SentRequests) -> None:
        self._requests = requests
        self._seen_number = 0
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open = False

    async def __anext__(self) -> SentContext:
        if not self._open:
            raise Closed("the subscription is not open: use it as `async with agent.follow_requests() as requests`")
        sent = await self._requests.after(self._seen_number)
        self._seen_number = sent.number
        return sent
