"""Stores that are each broken in one way, and the suite run against each of them.

pytest does not collect this file: `test_conformance.py` runs it, and checks that each broken store is caught."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from treering import Cursor
from treering.events.errors import SessionLocked
from treering.events.stores.base import Append, BlobKind, Committed, Fenced, Lease, LogInfo, Outcome, Page, Ref, Store
from treering.events.stores.capabilities import Watches, offered
from treering.events.stores.memory import MemoryStore
from treering.testing.stores import StoreSuite

T = TypeVar("T")


class Sound(MemoryStore):
    """A correct store, which remembers the latest lease of each log."""

    def __init__(self) -> None:
        super().__init__()
        self.latest: dict[Ref, Lease] = {}

    def capability(self, kind: Callable[..., T]) -> T | None:
        return offered(self, kind, (Watches,))

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        answers = await super().acquire(refs, owner)
        self.latest |= {answer.ref: answer for answer in answers if isinstance(answer, Lease)}
        return answers


class LosesTheLastLine(Sound):
    """Acknowledges a line that it did not write."""

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append([replace(each, lines=each.lines[:-1]) for each in appends])
        return [
            Committed(replace(each.head, seq=each.head.seq + 1)) if isinstance(each, Committed) else each
            for each in outcomes
        ]


class IgnoresTheHead(Sound):
    """Appends at the end of the log, whatever head the caller expects."""

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        heads = [await self.resolve(each.lease) for each in appends]
        return await super().append(
            [replace(each, expected_head=head) for each, head in zip(appends, heads, strict=True)]
        )


class ForgetsFencing(Sound):
    """Accepts any lease as the current one."""

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        return await super().append([replace(each, lease=self.latest[each.lease.ref]) for each in appends])


class ForgetsFencingWhenTried(Sound):
    """Checks leases, but not on the fast path."""

    def try_append(self, append: Append) -> Outcome:
        return super().try_append(replace(append, lease=self.latest[append.lease.ref]))


class ForgetsFencingOfBlobs(Sound):
    """Lets a former owner of a log save beside it."""

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        await super().save(self.latest[lease.ref], kind, head, data)


class ForgetsFencingOfRemovals(Sound):
    """Lets a former owner of a log remove it."""

    async def remove(self, lease: Lease) -> None:
        await super().remove(self.latest[lease.ref])


class AdmitsASecondOwner(Sound):
    """Takes a log away from its owner."""

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        await self.release([self.latest[ref] for ref in refs if ref in self.latest])
        return await super().acquire(refs, owner)


class FailsTheNeighbours(Sound):
    """Fences all appends of a call when one of them is fenced."""

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        outcomes = await super().append(appends)
        fences = [outcome for outcome in outcomes if isinstance(outcome, Fenced)]
        return [*fences[:1] * len(outcomes)] if fences else outcomes


class TearsWhenCancelled(Sound):
    """Writes line by line, and stops when its caller is cancelled."""

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        return [await self._line_by_line(each) for each in appends]

    async def _line_by_line(self, append: Append) -> Outcome:
        for line in append.lines:
            [outcome] = await super().append([replace(append, lines=(line,))])
            if not isinstance(outcome, Committed):
                return outcome
            append = replace(append, expected_head=outcome.head, header=None, dialect=None)
            await checkpoint()
        return Committed(append.expected_head)


class SkipsALine(Sound):
    """Leaves a gap between two pages."""

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        page = await super().read(ref, generation, after, through=through)
        return replace(page, lines=page.lines[1:]) if after else page


class ReordersBodies(Sound):
    """Returns bodies in the order of the log."""

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        return await super().bodies(ref, generation, sorted(seqs))


class AcceptsOldCursors(Sound):
    """Does not distinguish the generations of a log."""

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        return await super().read(ref, (await self.open(ref)).head.generation, after, through=through)


class ListsBackwards(Sound):
    """Lists the last log first."""

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        return (await super().page(prefix, after, limit))[::-1]


class WatchesTooLate(Sound):
    """Begins to watch only when the first change is requested."""

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        watch = super().watch

        async def late() -> AsyncIterator[set[Ref]]:
            async for changed in watch(refs):
                yield changed

        return late()


def suite_of(kind: type[Sound], wakes_s: float = 30) -> type[StoreSuite]:
    """Return the suite for a store; what never wakes is waited for as long as is said."""

    class Suite(StoreSuite):
        patience_s = wakes_s

        async def make_store(self) -> Store:
            return kind()

    return Suite


TestSound = suite_of(Sound)
TestLosesTheLastLine = suite_of(LosesTheLastLine, 0.01)
TestIgnoresTheHead = suite_of(IgnoresTheHead)
TestForgetsFencing = suite_of(ForgetsFencing)
TestForgetsFencingWhenTried = suite_of(ForgetsFencingWhenTried)
TestForgetsFencingOfBlobs = suite_of(ForgetsFencingOfBlobs)
TestForgetsFencingOfRemovals = suite_of(ForgetsFencingOfRemovals)
TestAdmitsASecondOwner = suite_of(AdmitsASecondOwner)
TestFailsTheNeighbours = suite_of(FailsTheNeighbours)
TestTearsWhenCancelled = suite_of(TearsWhenCancelled)
TestSkipsALine = suite_of(SkipsALine)
TestReordersBodies = suite_of(ReordersBodies)
TestAcceptsOldCursors = suite_of(AcceptsOldCursors)
TestListsBackwards = suite_of(ListsBackwards)
TestWatchesTooLate = suite_of(WatchesTooLate, 0.01)
