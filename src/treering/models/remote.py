"""The common base of the clients of remote models: provider and model, connections, and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Generic, Protocol, Self, TypeVar

from ..events.errors import AnswerCutOff, ModelError

ClientT = TypeVar("ClientT", bound=Client)
"""A client of a provider's library."""


class Answer(Protocol):
    """The part of an answer that has arrived.

    Attributes:
        begun: Whether anything has arrived.
    """

    begun: bool

    @property
    def whole(self) -> bool:
        """Whether the answer has a stop reason; what its connection does after that does not matter."""
        ...


class RemoteModel(ABC, Generic[ClientT]):
    """A model that is called through its provider's library.

    Inside `async with model:` it keeps its connections between requests, for the event loop in which it was entered.
    Otherwise each request has its own connection.

    Args:
        model_id: The provider's name of the model.
        base_url: Where it is served; None for the default of its library.
        api_key: The key; None for the one that its library finds, which is never sent to a `base_url`.
        provider: The provider's name in sessions.
        context_window: How many tokens request and answer may take together, if known.
        timeout_s: How long to wait for the next piece of an answer, in seconds.

    Raises:
        InvalidInput: The address is not a URL.
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
        """The provider's name."""
        return self._provider

    @property
    def model_id(self) -> str:
        """The provider's name of the model."""
        return self._model_id

    @property
    def context_window(self) -> int | None:
        """How many tokens request and answer may take together; None if unknown."""
        return self._context_window

    async def __aenter__(self) -> Self:
        await self._clients.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clients.leave()

    @asynccontextmanager
    async def _exchange(self, answer: Answer) -> AsyncGenerator[ClientT]:
        """Yield a client for one request, and check that its answer is complete at the end.

        Raises:
            ModelError: The request failed, or the answer is incomplete.
        """
        async with self._clients.one() as client:
            try:
                yield client
            except self._errors() as error:
                if not answer.whole:
                    raise self._error_of(error, begun=answer.begun) from error
        if not answer.whole:
            raise AnswerCutOff(f"the answer of {self._provider} ended without a stop reason")

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], ...]:
        """Return the errors with which a request may fail; see `exchange_errors`."""

    @abstractmethod
    def _error_of(self, error: Exception, *, begun: bool) -> ModelError:
        """Translate one of these errors; `begun` says whether part of the answer had arrived."""

    @abstractmethod
    def _client(self) -> ClientT:
        """Make a client; called in a worker thread."""
