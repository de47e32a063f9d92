"""What the clients of remote models have in common: who serves which model, and the connections to there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

from .connecting import NO_KEY, Client, Clients

ClientT = TypeVar("ClientT", bound=Client)
"""What a provider's library sends requests with."""


class RemoteModel(ABC, Generic[ClientT]):
    """A model that is asked through its provider's library.

    Entered (`async with model:`) it keeps its connections between requests, for the event loop that it was entered in.
    Otherwise each request has a connection of its own.

    Args:
        model_id: What the model is called there.
        base_url: Where it is served; None where its library knows.
        api_key: The key; None for the one that its library finds, which is never sent to another address.
        provider: Who serves it, as sessions note it.
        context_window: How many tokens request and answer may take together, where that is known.
        timeout_s: How long to wait for the next piece of an answer, in seconds.
    """

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str | None,
        api_key: str | None,
        provider: str,
        context_window: int | None,
        timeout_s: float,
    ) -> None:
        self._model_id = model_id
        self._provider = provider
        self._context_window = context_window
        self._base_url = base_url
        self._api_key = api_key if api_key is not None or base_url is None else NO_KEY
        self._timeout_s = timeout_s
        self._clients = Clients(self._client)

    @property
    def provider(self) -> str:
        """Who serves it."""
        return self._provider

    @property
    def model_id(self) -> str:
        """What it is called there."""
        return self._model_id

    @property
    def context_window(self) -> int | None:
        """How many tokens request and answer may take together; None where that was not said."""
        return self._context_window

    async def __aenter__(self) -> Self:
        await self._clients.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._clients.leave()

    @abstractmethod
    def _client(self) -> ClientT:
        """Make what sends requests; called in a worker thread."""
