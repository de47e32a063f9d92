"""What the groups of the suite share: how stores are made, and a writer that keeps its own count of the head."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
import pytest

from ...events.dialects.native import NativeDialect
from ...events.entries import NATIVE_VERSION, Custom, CustomEntry, Header
from ...events.stores.base import Append, Committed, Cursor, Lease, Ref, Store

TIME = datetime(2026, 1, 1, tzinfo=UTC)
NATIVE = NativeDialect()


def header_of(session_id: str) -> Header:
    """Make the header of a log."""
    return Header(id=session_id, version=NATIVE_VERSION, timestamp=TIME)


def line(number: int, text: str = "") -> bytes:
    """Make a line, newline included, that differs from the lines of other numbers."""
    payload = Custom("suite", msgspec.Raw(msgspec.json.encode(text)))
    return NATIVE.encode(CustomEntry(id=f"entry-{number}", parent_id=None, timestamp=TIME, seq=number, custom=payload))


def lines(first: int, last: int, text: str = "") -> list[bytes]:
    """Make the lines of all numbers from `first` to `last`."""
    return [line(number, text) for number in range(first, last + 1)]


def bare(written: Sequence[bytes]) -> list[bytes]:
    """Take the newlines off, as reading does."""
    return [each.removesuffix(b"\n") for each in written]


class Writer:
    """One owner of one log, who knows its head."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self.store = store
        self.lease = lease
        self.head = lease.head
        self._exists = lease.header is not None

    def request(self, *written: bytes, head: Cursor | None = None, atomic: bool = False) -> Append:
        """Make a request to append, with the header where the log is not there yet."""
        expected = self.head if head is None else head
        if self._exists:
            return Append(self.lease, expected, written, atomic)
        block = NATIVE.encode_header(header_of(f"id-of-{self.lease.ref}"))
        return Append(self.lease, expected, written, atomic, block, NATIVE)

    async def append(self, *written: bytes, atomic: bool = False) -> Cursor:
        """Append, which has to succeed, and return the new head."""
        [outcome] = await self.store.append([self.request(*written, atomic=atomic)])
        return self.commit(outcome, len(written))

    def commit(self, outcome: object, count: int) -> Cursor:
        """Note an outcome that has to be a success: `count` lines more."""
        assert isinstance(outcome, Committed)
        assert outcome.head.seq == self.head.seq + count
        if self._exists:
            assert outcome.head.generation == self.head.generation
        self._exists = True
        self.head = outcome.head
        return self.head


async def read_all(store: Store, ref: Ref, after: int = 0, through: int | None = None) -> list[bytes]:
    """Read a log page by page, and check that the pages follow each other without a gap."""
    opening = await store.open(ref)
    end = opening.head.seq if through is None else min(through, opening.head.seq)
    found: list[bytes] = []
    while after < end:
        page = await store.read(ref, opening.head.generation, after, through=through)
        assert page.first == after + 1
        assert page.lines, f"no line after {after}, and the log ends at {end}"
        assert page.last <= end
        if through is None:
            assert page.more == (page.last < end)
        found += page.lines
        after = page.last
    return found


@asynccontextmanager
async def watching(store: Store, refs: Sequence[Ref]) -> AsyncGenerator[AsyncIterator[set[Ref]]]:
    """Watch logs, and stop doing so in the end."""
    changes = store.watch(refs)
    try:
        yield changes
    finally:
        close = getattr(changes, "aclose", None)
        if close is not None:
            await close()


class StoreCase:
    """What a suite asks of those who use it, and the fixtures made of their answers."""

    pytestmark = pytest.mark.anyio
    patience_s: float = 30
    """How long a test waits for a wake-up that has to come."""

    async def make_store(self) -> Store:
        """Make a store that holds no log."""
        raise NotImplementedError

    async def another_host(self, store: Store) -> Store | None:
        """Make a second store object on the data of the first, or None where nobody else can reach them."""
        return None

    async def reopen(self, store: Store) -> Store | None:
        """Close a store and make one on the same data, or None where the data end with the object."""
        if (again := await self.another_host(store)) is None:
            return None
        await store.aclose()
        return again

    def ref(self, name: str) -> Ref:
        """Name a log as this store would have it: with something in front, or an ending, or both."""
        return name

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        """A store without a log; it is closed after the test, though the test may have done so."""
        store = await self.make_store()
        yield store
        await store.aclose()

    @pytest.fixture
    async def elsewhere(self, store: Store) -> AsyncIterator[Store]:
        """The same data on another host."""
        other = await self.another_host(store)
        if other is None:
            pytest.skip("the store's data are out of reach for another host")
        yield other
        await other.aclose()

    async def writer(self, store: Store, name: str, owner: str = "host-1") -> Writer:
        """Acquire a log, which has to succeed."""
        [lease] = await store.acquire([self.ref(name)], owner)
        assert isinstance(lease, Lease)
        return Writer(store, lease)
