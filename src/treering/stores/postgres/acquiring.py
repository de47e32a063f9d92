"""Gathers acquisitions and releases: those that come together go to the database in one statement.

When a host closes, or hands over what it holds, its sessions are released many at a time. When a host dies, another one
that was asked for a thousand of its sessions looks at them again and again until their lease has ended. No task or
thread is dedicated to this: whoever finds none under way leads the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyio import CancelScope, Event, get_cancelled_exc_class
from anyio.lowlevel import cancel_shielded_checkpoint

from ...events.errors import SessionLocked, StoreUnavailable, TreeringError
from ...events.offload import Offload, carried_out
from ...events.stores.base import Lease, Ref
from .owning import Holdings

BATCH_REFS_MAX = 4096
"""The most logs that are acquired by one statement, unless one call asks for more."""


class _Asked:
    """A call that waits for its outcome."""

    __slots__ = ("error", "owner", "refs", "result", "woken")

    def __init__(self, refs: Sequence[Ref], owner: str) -> None:
        self.refs = refs
        self.owner = owner
        self.result: list[Lease | SessionLocked] | None = None
        self.error: Exception | None = None
        self.woken = Event()

    @property
    def done(self) -> bool:
        return self.result is not None or self.error is not None


class _Releases:
    """Leases that are released together, and the event for which their callers wait."""

    __slots__ = ("done", "leases")

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.done = Event()


class Acquirer:
    """Acquires and releases logs for all callers of a store.

    Args:
        holdings: What the store holds.
        offload: Runs blocking work.
    """

    def __init__(self, holdings: Holdings, offload: Offload) -> None:
        self._holdings = holdings
        self._offload = offload
        self._waiting: list[_Asked] = []
        self._leading = False
        self._releasing: _Releases | None = None  # what further releases join

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Acquire logs; see `Store.acquire`. A caller that is cancelled by force holds nothing of them afterwards."""
        self._waiting.append(asked := _Asked(refs, owner))
        cancellation: BaseException | None = None
        with CancelScope(shield=True):
            while not asked.done:
                try:
                    if self._leading:
                        asked.woken = Event()
                        await asked.woken.wait()
                    else:
                        await self._lead()
                except get_cancelled_exc_class() as error:  # asyncio cancels a task without regard to shields
                    cancellation = error
        if cancellation is not None:
            granted = [each for each in asked.result or () if isinstance(each, Lease)]
            if granted:
                await carried_out(self._offload, self._holdings.release, granted)
            raise cancellation
        if asked.error is not None:
            raise asked.error
        assert asked.result is not None
        return asked.result

    async def _lead(self) -> None:
        """Acquire what all callers wait for."""
        self._leading = True
        batch: list[_Asked] = []
        try:
            await cancel_shielded_checkpoint()  # lets all that are ready join
            batch = self._next_batch()
            await carried_out(self._offload, self._acquire, batch)
        finally:
            self._leading = False
            self._waiting[:0] = [each for each in batch if not each.done]
            for each in batch:
                each.woken.set()
            if self._waiting:
                self._waiting[0].woken.set()  # it leads the next one

    def _next_batch(self) -> list[_Asked]:
        """Return what goes together: calls of one owner, none of which asks for what another one asks for."""
        batch: list[_Asked] = []
        refs: set[Ref] = set()
        left: list[_Asked] = []
        for each in self._waiting:
            fits = len(refs) + len(each.refs) <= BATCH_REFS_MAX and refs.isdisjoint(each.refs)
            if not batch or (fits and each.owner == batch[0].owner):
                batch.append(each)
                refs.update(each.refs)
            else:
                left.append(each)
        self._waiting = left
        return batch

    # -- releasing

    async def release(self, leases: Sequence[Lease]) -> None:
        """Release leases; see `Store.release`. A caller that is cancelled by force is told when they are released."""
        batch, leads = self._releasing, False
        if batch is None:
            self._releasing = batch = _Releases()
            leads = True
        batch.leases += leases
        cancellation: BaseException | None = None
        with CancelScope(shield=True):
            while not batch.done.is_set():
                try:
                    if leads:
                        await self._lead_releases(batch)
                    else:
                        await batch.done.wait()
                except get_cancelled_exc_class() as error:
                    cancellation = error
        if cancellation is not None:
            raise cancellation

    async def _lead_releases(self, batch: _Releases) -> None:
        """Release what all callers want to be released."""
        await cancel_shielded_checkpoint()  # lets all that are ready join
        self._releasing = None
        try:
            await carried_out(self._offload, self._holdings.release, batch.leases)
        finally:
            batch.done.set()

    # -- in a worker thread

    def _acquire(self, batch: Sequence[_Asked]) -> None:
        """Acquire for some calls; each has an outcome when this returns."""
        try:
            found = self._holdings.acquire([ref for each in batch for ref in each.refs], batch[0].owner)
        except Exception as error:  # noqa: BLE001  # its caller gets it
            if len(batch) > 1 and isinstance(error, TreeringError) and not isinstance(error, StoreUnavailable):
                for each in batch:  # one of the logs is no session, which is not for the others to be told
                    self._acquire([each])
            else:
                for each in batch:
                    each.error = error
            return
        begin = 0
        for each in batch:
            each.result = found[begin : begin + len(each.refs)]
            begin += len(each.refs)
