"""What the clients of remote models have in common: who serves which model, the connections to there, and their errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from ..events.errors import AnswerCutOff, ModelError
from .connecting import NO_KEY, Client, Clients
from .naming import check_address

ClientT = TypeVar("ClientT", bound=Client)
"""What a provider's library sends requests with."""


class Answer(Protocol):
    """What has come of an answer.

    Attributes:
        begun: Whether anything has come.
    """

    begun: bool

    @property
    def whole(self) -> bool:
        """Whether the answer has said why it ended; what its connection does after that is of no matter."""
        ...


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

    Raises:
        InvalidInput: The address is none.
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
        check_address(base_url)
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

    @asynccontextmanager
    async def _asked(self, answer: Answer) -> AsyncGenerator[ClientT]:
        """Give what a request is sent with, and see that an answer comes of it.

        Raises:
            ModelError: None came, or not all of it.
        """
        async with self._clients.one() as client:
            try:
                yield client
            except self._errors() as error:
                if not answer.whole:
                    raise self._told(error, begun=answer.begun) from error
        if not answer.whole:
            raise AnswerCutOff(f"the answer of {self._provider} ended before it said why it ends")

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], ...]:
        """Return what a request may fail with; see `exchange_errors`."""

    @abstractmethod
    def _told(self, error: Exception, *, begun: bool) -> ModelError:
        """Tell of one of these errors; `begun` says whether anything of the answer had come."""

    @abstractmethod
    def _client(self) -> ClientT:
        """Make what sends requests; called in a worker thread."""
