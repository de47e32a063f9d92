"""Shared by the groups of the suite: fixtures for stores, and a writer that tracks the head of its log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
import pytest

from ...events.dialects.native import NativeDialect
from ...events.entries import NATIVE_VERSION, Custom, CustomEntry, Header
from ...events.stores.base import Append, Committed, Cursor, Lease, Ref, Store
from ...events.stores.capabilities import Watches

T = TypeVar("T")

TIME = datetime(2026, 1, 1, tzinfo=UTC)
NATIVE = NativeDialect()


def header_of(session_id: str) -> Header:
    """Return the header of a log."""
    return Header(id=session_id, version=NATIVE_VERSION, timestamp=TIME)


def line(number: int, text: str = "") -> bytes:
    """Return a line, including its newline, that is unique to a number."""
    payload = Custom("suite", msgspec.Raw(msgspec.json.encode(text)))
    return NATIVE.encode(CustomEntry(id=f"entry-{number}", parent_id=None, timestamp=TIME, seq=number, custom=payload))


def lines(first: int, last: int, text: str = "") -> list[bytes]:
    """Return the lines of all numbers from `first` to `last`."""
    return [line(number, text) for number in range(first, last + 1)]


def bare(written: Sequence[bytes]) -> list[bytes]:
    """Strip the newlines, as reading does."""
    return [each.removesuffix(b"\n") for each in written]


HEADER = NATIVE.encode_header(header_of("header"))
MALFORMED_HEADERS = (b"", b"\n", b"{}\n", HEADER[:-1], HEADER + b"\n", HEADER + line(1), line(1))
"""What every store refuses as a header block."""


class Writer:
    """The owner of a log, which tracks its head."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self.store = store
        self.lease = lease
        self.head = lease.head
        self._exists = lease.header is not None

    def request(self, *written: bytes, head: Cursor | None = None, atomic: bool = False) -> Append:
        """Return an append request; it includes the header if the log does not exist yet."""
        expected = self.head if head is None else head
        if self._exists:
            return Append(self.lease, expected, written, atomic)
        block = NATIVE.encode_header(header_of(f"id-of-{self.lease.ref}"))
        return Append(self.lease, expected, written, atomic, block, NATIVE)

    async def append(self, *written: bytes, atomic: bool = False) -> Cursor:
        """Append, assert that it succeeded, and return the new head."""
        [outcome] = await self.store.append([self.request(*written, atomic=atomic)])
        return self.commit(outcome, len(written))

    def commit(self, outcome: object, count: int) -> Cursor:
        """Assert that an append of `count` lines succeeded, and record the new head."""
        assert isinstance(outcome, Committed)
        assert outcome.head.seq == self.head.seq + count
        if self._exists:
            assert outcome.head.generation == self.head.generation
        self._exists = True
        self.head = outcome.head
        return self.head


async def read_all(store: Store, ref: Ref, after: int = 0, through: int | None = None) -> list[bytes]:
    """Read a log page by page, and assert that there are no gaps between pages."""
    opening = await store.open(ref)
    end = opening.head.seq if through is None else min(through, opening.head.seq)
    bodies: list[bytes] = []
    while after < end:
        page = await store.read(ref, opening.head.generation, after, through=through)
        assert page.first == after + 1
        assert page.lines, f"no line after {after}, and the log ends at {end}"
        assert page.last <= end
        if through is None:
            assert page.more == (page.last < end)
        bodies += page.lines
        after = page.last
    return bodies


@asynccontextmanager
async def watching(store: Store, refs: Sequence[Ref]) -> AsyncGenerator[AsyncIterator[set[Ref]]]:
    """Watch logs within a block."""
    watches = store.capability(Watches)
    if watches is None:
        pytest.skip("the store does not tell of changes")
    changes = watches.watch(refs)
    try:
        yield changes
    finally:
        close = getattr(changes, "aclose", None)
        if close is not None:
            await close()


class StoreCase:
    """The methods to override, and the fixtures that use them."""

    pytestmark = pytest.mark.anyio
    patience_s: float = 30
    """How many seconds a test waits for an expected wake-up."""

    async def make_store(self) -> Store:
        """Create a store without logs."""
        raise NotImplementedError

    async def another_host(self, store: Store) -> Store | None:
        """Create a second store object on the same data, or return None if only one object can access them."""
        return None

    async def reopen(self, store: Store) -> Store | None:
        """Close a store and create one on the same data, or return None if the data do not outlive the object."""
        if (again := await self.another_host(store)) is None:
            return None
        await store.aclose()
        return again

    def ref(self, name: str) -> Ref:
        """Return the ref of a log for a name, in the form that this store expects, such as with a prefix or suffix."""
        return name

    def capable(self, store: Store, kind: Callable[..., T]) -> T:
        """Return what has a capability, or skip the test for a store that does not declare it."""
        capable = store.capability(kind)
        if capable is None:
            pytest.skip(f"the store does not declare {getattr(kind, '__name__', kind)}")
        return capable

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        """A store without logs; it is closed after the test, even if the test has closed it."""
        store = await self.make_store()
        yield store
        await store.aclose()

    @pytest.fixture
    async def elsewhere(self, store: Store) -> AsyncIterator[Store]:
        """A second store object on the same data."""
        other = await self.another_host(store)
        if other is None:
            pytest.skip("no other host can access the store's data")
        yield other
        await other.aclose()

    async def writer(self, store: Store, name: str, owner: str = "host-1") -> Writer:
        """Acquire a log, assert that it succeeded, and return its writer."""
        [lease] = await store.acquire([self.ref(name)], owner)
        assert isinstance(lease, Lease)
        return Writer(store, lease)
