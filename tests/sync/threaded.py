"""The async interface on top of the blocking one: each awaited call is made from a worker thread.

As a plugin (`pytest -p threaded`) it replaces `treering.SessionHost`, so that tests that were written for the async
interface go through `SyncHost`, from as many threads as they have running calls.
"""

# ruff: noqa: ANN401  # it wraps whatever interface it is given
from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any, Self

import pytest
from anyio import CapacityLimiter, to_thread

import treering
import treering.errors
from treering.actors.sync import SyncHost, SyncSearch, SyncSession, SyncSubscription
from treering.events.stores.base import Append, Outcome, Store
from treering.events.stores.capabilities import Watches

_ORIGINALS = treering.SessionHost, treering.Session


def _unwrapped(value: Any) -> Any:
    return value.twin if isinstance(value, (ThreadedSession, ThreadedHost)) else value


def _wrapped(value: Any) -> Any:
    if isinstance(value, SyncSession):
        return ThreadedSession(value)
    if isinstance(value, SyncSearch):
        return _iterated(value)
    return ThreadedSubscription(value) if isinstance(value, SyncSubscription) else value


async def _in_thread(call: Callable[[], Any], *, leave: bool = False) -> Any:
    return await to_thread.run_sync(call, abandon_on_cancel=leave, limiter=CapacityLimiter(1))


async def _iterated(found: Iterator[Any]) -> AsyncIterator[Any]:
    end = object()
    while (item := await _in_thread(lambda: next(found, end))) is not end:
        yield item


def _member(name: str, original: Any) -> Any:
    """A member of the async interface, implemented by its blocking counterpart."""
    if isinstance(original, property):
        return property(lambda self: getattr(self.twin, name))

    def call(self: Any, args: Any, kwargs: Any) -> Callable[[], Any]:
        return partial(getattr(self.twin, name), *map(_unwrapped, args), **kwargs)

    @wraps(original)
    async def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _wrapped(await _in_thread(call(self, args, kwargs)))

    @wraps(original)
    async def iterating(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for item in _iterated(call(self, args, kwargs)()):
            yield item

    @wraps(original)
    def immediate(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _wrapped(call(self, args, kwargs)())

    if inspect.iscoroutinefunction(original):
        return waiting
    return iterating if inspect.isasyncgenfunction(original) else immediate


class ThreadedSession:
    """A `Session` whose every call goes through a `SyncSession`."""

    def __init__(self, twin: SyncSession) -> None:
        self.twin = twin
        self.id = twin.id
        self.ref = twin.ref

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await _in_thread(self.twin.close)


class ThreadedHost:
    """A `SessionHost` whose every call goes through a `SyncHost`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.twin = SyncHost(*args, **kwargs)

    @classmethod
    async def start(cls, *args: Any, **kwargs: Any) -> Self:  # threads open and close a `SyncHost` by `with`
        return await cls(*args, **kwargs).__aenter__()

    async def aclose(self) -> None:
        await self.__aexit__()

    async def __aenter__(self) -> Self:
        await _in_thread(self.twin.__enter__)
        return self

    async def __aexit__(self, *error: object) -> None:
        await _in_thread(partial(self.twin.__exit__, None, None, None))


class ThreadedSubscription:
    """A subscription that is read by worker threads."""

    def __init__(self, twin: SyncSubscription[Any]) -> None:
        self.twin = twin

    def __getattr__(self, name: str) -> Any:
        return getattr(self.twin, name)

    async def __aenter__(self) -> Self:
        await _in_thread(self.twin.__enter__)
        return self

    async def __aexit__(self, *error: object) -> None:
        await _in_thread(partial(self.twin.__exit__, *error))

    def __aiter__(self) -> ThreadedSubscription:
        return self

    async def __anext__(self) -> Any:
        try:
            return await _in_thread(self.twin.receive, leave=True)
        except treering.errors.Closed:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await _in_thread(self.twin.close)

    async def receive_many(self) -> Any:
        return await _in_thread(self.twin.receive_many, leave=True)  # type: ignore[attr-defined]


for _facade, _original in zip((ThreadedHost, ThreadedSession), _ORIGINALS, strict=True):
    for _name, _value in inspect.getmembers(_original):
        if _name in vars(_facade) or _name.startswith("_") or _name in {"core", "log"}:
            continue
        if not inspect.ismemberdescriptor(_value):
            setattr(_facade, _name, _member(_name, _value))


class _Watch:
    """A watch on logs, in the form of a subscription."""

    def __init__(self, changes: AsyncIterator[set[str]]) -> None:
        self._changes = changes

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        close = getattr(self._changes, "aclose", None)
        if close is not None:
            await close()

    async def __anext__(self) -> set[str]:
        return await anext(self._changes)


class ThreadedStore:
    """A store that runs in the loop of a `SyncHost`, with every call made from a worker thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._host = SyncHost(store=store)
        self._host.__enter__()
        self._bridge = self._host.bridge

    def __getattr__(self, name: str) -> Any:
        original = getattr(self._store, name)
        if inspect.iscoroutinefunction(original):

            async def call(*args: Any, **kwargs: Any) -> Any:
                return await _in_thread(partial(self._bridge.wait, partial(original, *args, **kwargs)))

            return call
        return lambda *args, **kwargs: self._bridge.read(partial(original, *args, **kwargs))

    def capability(self, kind: Any) -> Any:
        found = self._store.capability(kind)
        return self if found is self._store else found  # calls of this go through the bridge, others from any thread

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        found: list[Outcome] = await _in_thread(partial(self._bridge.wait, partial(self._store.append, appends)))
        return found

    def watch(self, refs: Sequence[str]) -> ThreadedSubscription:
        watches = self._store.capability(Watches)
        assert watches is not None
        changes = _Watch(self._bridge.read(lambda: watches.watch(refs)))
        watch = ThreadedSubscription(SyncSubscription(self._bridge, changes))
        watch.twin.__enter__()
        return watch

    async def aclose(self) -> None:
        await _in_thread(partial(self._host.__exit__, None, None, None))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Replace the async interface."""
    treering.SessionHost = ThreadedHost  # type: ignore[misc,assignment]
    treering.Session = ThreadedSession  # type: ignore[misc,assignment]
