"""The common base of the clients of remote models: its connections, and its errors.

Making a client reads certificates, and the first one imports the provider's library. This takes up to a second, so it
happens in a worker thread. A client belongs to one event loop; a model that is not entered may be used from any.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Generic, Protocol, Self, TypeVar

from anyio import CancelScope, to_thread

from ..events.errors import AnswerCutOff, ExtraMissing, InvalidInput, ModelError

CONNECT_TIMEOUT_S = 10.0
"""The timeout for connecting, in seconds; local servers and providers take far less."""

NO_KEY = "none"
"""The key sent to an address without a key of its own; local servers ignore keys."""

_ADDRESS = re.compile(r"https?://[^/\s]", re.IGNORECASE)


class Client(Protocol):
    """A client of a provider's library."""

    async def close(self) -> None:
        """Close its connections."""
        ...


ClientT = TypeVar("ClientT", bound=Client)
"""A client of a provider's library."""


def check_address(base_url: str | None) -> None:
    """Check that an address, if given, is the URL of a server.

    Raises:
        InvalidInput: It does not begin with `http://` or `https://` and a host name.
    """
    if base_url is not None and not (isinstance(base_url, str) and _ADDRESS.match(base_url)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{base_url!r} is not the address of a server: use a URL such as http://localhost:11434/v1")


def require(module: str, extra: str) -> None:
    """Check that an optional library is installed, without importing it.

    Raises:
        ExtraMissing: The library is not installed.
    """
    if find_spec(module) is None:
        raise ExtraMissing(f"this needs the package {module}: pip install 'treering[{extra}]'")


class Clients(Generic[ClientT]):
    """The source of a model's clients.

    Args:
        make: Makes a client; called in a worker thread.
    """

    def __init__(self, make: Callable[[], ClientT]) -> None:
        self._make = make
        self._kept: ClientT | None = None
        self._entered = 0

    async def enter(self) -> None:
        """Keep a client until `leave` has been called as often as `enter`."""
        self._entered += 1
        if self._kept is not None:
            return
        try:
            client = await to_thread.run_sync(self._make)
        except BaseException:
            self._entered -= 1
            raise
        if self._kept is None:
            self._kept = client
        else:  # another task entered in the meantime and was faster
            await _close(client)

    async def leave(self) -> None:
        """Close the kept client once `leave` has been called as often as `enter`."""
        self._entered -= 1
        if not self._entered and self._kept is not None:
            kept, self._kept = self._kept, None
            await _close(kept)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[ClientT]:
        """Yield the kept client, or a new one that is closed at the end of the block."""
        if self._kept is not None:
            yield self._kept
            return
        client = await to_thread.run_sync(self._make)
        try:
            yield client
        finally:
            await _close(client)


async def _close(client: Client) -> None:
    with CancelScope(shield=True):  # close the sockets even if the caller is cancelled
        await client.close()


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
    """A model that is called through its provider's library; see `AnthropicModel` for the arguments.

    Raises:
        InvalidInput: The address is not a URL.
    """

    def __init__(
        self,
        model_id: str,
        provider: str,
        context_window: int | None,
        *,
        base_url: str | None,
        api_key: str | None,
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
