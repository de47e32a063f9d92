"""Sessions over several databases: each is placed in one of them by a hash of its name.

Nothing is shared between the databases, so what one of them cannot do at present concerns its own sessions alone.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TypeVar

import anyio

from ....events.dialects.base import Dialect
from ....events.errors import SessionLocked, StoreUnavailable, TreeringError
from ....events.stores.base import Append, Blob, BlobKind, Cursor, Lease, LogInfo, Opening, Outcome, Page, Ref, Store
from ....events.stores.capabilities import Health, KeepsRows, Leases, Packs, Watches, offered
from ....events.stores.finding import FindsRows
from ....events.stores.hosts import Hosts, Inbox
from ....events.stores.search import FindsTexts, KeepsSearch
from ....events.telemetry import logger
from .finding import ShardedRows
from .health import ShardedHealth
from .hosts import ShardedHosts
from .letters import ShardedInbox
from .placing import Places
from .searching import ShardedTexts

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")

_TEXTS = (FindsTexts, KeepsSearch)
_LOOKED_AT = 32  # sessions of each database, to notice that it is in another's place


class ShardedStore:
    """Logs over several stores.

    Args:
        shards: The stores, in an order that never changes.
        places: Where each is, for messages.
    """

    def __init__(self, shards: Sequence[Store], places: Sequence[str]) -> None:
        self._shards = tuple(shards)
        self._places = Places(places)
        self._number = self._places.number
        self._leases = [each.capability(Leases) for each in shards]
        self._watches = [each.capability(Watches) for each in shards]
        self._looked_at: set[int] = set()
        self._packs = _all(shards, Packs)
        hosts, inboxes, healths = _all(shards, Hosts), _all(shards, Inbox), _all(shards, Health)
        rows = _all(shards, FindsRows)
        self._hosts = None if hosts is None else ShardedHosts(hosts)
        self._inbox = None if inboxes is None else ShardedInbox(inboxes, self._number)
        self._health = None if healths is None else ShardedHealth(healths)
        self._rows = None if rows is None else ShardedRows(rows, self._places)

    def capability(self, kind: Callable[..., T]) -> T | None:
        """See `Store.capability`; what all of the stores can do."""
        if kind in _TEXTS:  # an index of its own for each asker
            texts = _all(self._shards, FindsTexts)
            return None if texts is None else offered(ShardedTexts(texts, self._places), kind, _TEXTS)
        for capable, kinds in (
            (self._hosts, (Hosts,)),
            (self._inbox, (Inbox,)),
            (self._health, (Health,)),
            (self._rows, (FindsRows, KeepsRows)),
        ):
            if kind in kinds:
                return None if capable is None else offered(capable, kind, kinds)
        if kind is Packs:
            return None if self._packs is None else offered(self, kind, (Packs,))
        return offered(self, kind, (Leases, Watches) if all(self._leases) and all(self._watches) else ())

    # -- owning

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """See `Store.acquire`; nothing stays acquired if one of the databases fails."""
        acquired: list[Lease] = []

        async def acquire(shard: Store, some: list[Ref]) -> list[Lease | SessionLocked]:
            found = await shard.acquire(some, owner)
            acquired.extend(each for each in found if isinstance(each, Lease))
            return found

        try:
            return await self._each(refs, lambda ref: ref, acquire)
        except TreeringError:
            with anyio.CancelScope(shield=True):
                await self.release(acquired)
            raise

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """See `Store.renew`; what a database that does not answer holds counts as held until it answers."""

        async def renew(shard: Store, some: list[Lease]) -> list[bool]:
            try:
                return await shard.renew(some)
            except StoreUnavailable as error:
                logger().warning("leases_not_renewed", sessions=len(some), error=str(error))
                return [True] * len(some)

        if self._hosts is not None and self._hosts.announced:
            owning = {self._number(lease.ref) for lease in leases}
            async with anyio.create_task_group() as tasks:
                for number, shard in enumerate(self._shards):
                    if number not in owning:  # a host of each database, also of one in which it owns nothing
                        tasks.start_soon(renew, shard, list[Lease]())
        return await self._each(leases, lambda lease: lease.ref, renew)

    async def release(self, leases: Sequence[Lease]) -> None:
        """See `Store.release`."""

        async def release(shard: Store, some: list[Lease]) -> list[None]:
            await shard.release(some)
            return [None] * len(some)

        await self._each(leases, lambda lease: lease.ref, release)

    def holder(self, ref: Ref) -> str | None:
        """See `Leases.holder`."""
        return self._leases_of(ref).holder(ref)

    @property
    def lease_s(self) -> float:
        """See `Leases.lease_s`."""
        return min(each.lease_s for each in self._leases if each is not None)

    @property
    def wait_s(self) -> float:
        """See `Leases.wait_s`."""
        return max(each.wait_s for each in self._leases if each is not None)

    async def confirm(self, lease: Lease) -> bool:
        """See `Leases.confirm`."""
        return await self._leases_of(lease.ref).confirm(lease)

    # -- writing

    def try_append(self, append: Append) -> Outcome | None:
        """Return None: every append has to wait."""
        return None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        """See `Store.append`."""
        return await self._each(appends, lambda each: each.lease.ref, lambda shard, some: shard.append(some))

    async def resolve(self, lease: Lease) -> Cursor:
        """See `Store.resolve`."""
        return await (await self._of(lease.ref)).resolve(lease)

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """See `Store.save`."""
        await (await self._of(lease.ref)).save(lease, kind, head, data)

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """See `Store.put`."""
        return await (await self._of(lease.ref)).put(lease, dialect, header, lines)

    async def remove(self, lease: Lease) -> None:
        """See `Store.remove`."""
        await (await self._of(lease.ref)).remove(lease)

    # -- packing

    @property
    def can_pack(self) -> bool:
        """See `Packs.can_pack`: whether one of the databases has a place for packed logs; the others keep theirs."""
        return self._packs is not None and any(each.can_pack for each in self._packs)

    async def pack(self, lease: Lease) -> None:
        """See `Packs.pack`."""
        await self._packs_of(lease.ref).pack(lease)

    async def unpack(self, lease: Lease) -> Lease:
        """See `Packs.unpack`."""
        return await self._packs_of(lease.ref).unpack(lease)

    # -- reading

    async def open(self, ref: Ref) -> Opening:
        """See `Store.open`."""
        return await (await self._of(ref)).open(ref)

    async def header_block(self, ref: Ref) -> bytes:
        """See `Store.header_block`."""
        return await (await self._of(ref)).header_block(ref)

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """See `Store.read`."""
        return await (await self._of(ref)).read(ref, generation, after, through=through)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """See `Store.bodies`."""
        return await (await self._of(ref)).bodies(ref, generation, seqs)

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """See `Store.load`."""
        return await (await self._of(ref)).load(ref, kind)

    async def exists(self, ref: Ref) -> bool:
        """See `Store.exists`."""
        return await (await self._of(ref)).exists(ref)

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        """See `Store.page`; a page needs all databases, since none may be missing in it."""
        pages: list[list[LogInfo]] = []
        for number in range(len(self._shards)):
            await self._look_at(number)
            pages.append(await self._shards[number].page(prefix, after, limit))
        return list(heapq.merge(*pages, key=lambda info: info.ref))[:limit]

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        """See `Watches.watch`."""
        groups = self._places.grouped(refs)
        return _Merged([watches.watch(some) for n, some in groups.items() if (watches := self._watches[n]) is not None])

    async def aclose(self) -> None:
        """See `Store.aclose`."""
        async with AsyncExitStack() as cleanup:
            for shard in self._shards:
                cleanup.push_async_callback(shard.aclose)

    # -- places

    def _leases_of(self, ref: Ref) -> Leases:
        leases = self._leases[self._number(ref)]
        assert leases is not None  # or the capability was not offered
        return leases

    def _packs_of(self, ref: Ref) -> Packs:
        assert self._packs is not None  # or the capability was not offered
        return self._packs[self._number(ref)]

    async def _of(self, ref: Ref) -> Store:
        """Return the store of a log."""
        number = self._number(ref)
        await self._look_at(number)
        return self._shards[number]

    async def _look_at(self, number: int) -> None:
        """Look once at whether a store holds the logs of its place.

        Raises:
            InvalidInput: It holds those of another one.
        """
        if number in self._looked_at:
            return
        self._places.check(number, (info.ref for info in await self._shards[number].page(limit=_LOOKED_AT)))
        self._looked_at.add(number)

    async def _each(
        self, asked: Sequence[A], ref_of: Callable[[A], Ref], ask: Callable[[Store, list[A]], Awaitable[Sequence[R]]]
    ) -> list[R]:
        """Ask each store about its own logs, at the same time, and return the answers in order.

        Raises:
            TreeringError: One of them failed; the others were asked all the same.
        """
        groups: dict[int, list[int]] = {}
        for index, each in enumerate(asked):
            groups.setdefault(self._number(ref_of(each)), []).append(index)
        answers: dict[int, R] = {}
        failures: list[TreeringError] = []

        async def ask_one(number: int, indexes: list[int]) -> None:
            try:
                await self._look_at(number)
                found = await ask(self._shards[number], [asked[index] for index in indexes])
            except TreeringError as error:
                failures.append(error)
            else:
                answers.update(zip(indexes, found, strict=True))

        if len(groups) == 1:
            await ask_one(*next(iter(groups.items())))
        else:
            async with anyio.create_task_group() as tasks:
                for number, indexes in groups.items():
                    tasks.start_soon(ask_one, number, indexes)
        if failures:
            raise failures[0]
        return [answers[index] for index in range(len(asked))]


def _all(shards: Sequence[Store], kind: Callable[..., T]) -> list[T] | None:
    """Return a capability of all stores; None if one of them lacks it."""
    found = [capable for each in shards if (capable := each.capability(kind)) is not None]
    return found if len(found) == len(shards) else None


class _Merged(AsyncIterator[set[Ref]]):
    """Several watches as one."""

    def __init__(self, watches: Sequence[AsyncIterator[set[Ref]]]) -> None:
        self._watches = watches

    async def __anext__(self) -> set[Ref]:
        """Wait until one of them tells something."""
        changed: set[Ref] = set()
        async with anyio.create_task_group() as tasks:

            async def wait(watch: AsyncIterator[set[Ref]]) -> None:
                changed.update(await anext(watch))
                tasks.cancel_scope.cancel()

            for watch in self._watches:
                tasks.start_soon(wait, watch)
        return changed

    async def aclose(self) -> None:
        """End all of them."""
        for watch in self._watches:
            with suppress(AttributeError):
                await watch.aclose()  # type: ignore[attr-defined]
