"""Acquires and releases logs: what is asked for at the same moment goes to the database in one statement.

When a host closes, or hands over what it holds, its sessions are released many at a time. When a host dies, another one
that was asked for a thousand of its sessions looks at them again and again until their lease has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from anyio import get_cancelled_exc_class
from msgspec import Struct

from ...events.errors import SessionLocked, StoreUnavailable, TreeringError
from ...events.offload import Offload, carried_out
from ...events.stores.base import Lease, Ref
from .gathering import Gatherer, up_to
from .owning import Holdings

BATCH_REFS_MAX = 4096
"""The most logs that are acquired by one statement, unless one call asks for more."""


class _Acquisition(Struct):
    """What one call wants to acquire, and what it was granted."""

    refs: Sequence[Ref]
    owner: str
    granted: list[Lease] = []


def _together(calls: Sequence[_Acquisition]) -> list[bool]:
    """Return which calls go together: those of one owner, none of which asks for what another one asks for."""
    goes: list[bool] = []
    refs: set[Ref] = set()
    for each in calls:
        fits = len(refs) + len(each.refs) <= BATCH_REFS_MAX and refs.isdisjoint(each.refs)
        goes.append(not goes or (fits and each.owner == calls[0].owner))
        if goes[-1]:
            refs.update(each.refs)
    return goes


class Acquirer:
    """Acquires and releases logs for all callers of a store.

    Args:
        holdings: What the store holds.
        offload: Runs blocking work.
    """

    def __init__(self, holdings: Holdings, offload: Offload) -> None:
        self._holdings = holdings
        self._offload = offload
        self._acquisitions = Gatherer(self._acquire, offload, _together, 1)
        self._releases = Gatherer(self._release, offload, up_to(BATCH_REFS_MAX), 1)

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Acquire logs; see `Store.acquire`. A caller that is cancelled by force holds nothing of them afterwards."""
        wanted = _Acquisition(refs, owner)
        try:
            return await self._acquisitions.carry_out(wanted)
        except get_cancelled_exc_class():
            if wanted.granted:
                await carried_out(self._offload, self._holdings.release, wanted.granted)
            raise

    async def release(self, leases: Sequence[Lease]) -> None:
        """Release leases; see `Store.release`. A caller that is cancelled by force is told when they are released."""
        await self._releases.carry_out(leases)

    # -- in a worker thread

    def _acquire(self, calls: Sequence[_Acquisition]) -> list[list[Lease | SessionLocked] | Exception]:
        try:
            found = iter(self._holdings.acquire([ref for each in calls for ref in each.refs], calls[0].owner))
        except TreeringError as error:
            if len(calls) == 1 or isinstance(error, StoreUnavailable):
                raise
            return [self._acquire_alone(each) for each in calls]
        outcomes = [[*islice(found, len(each.refs))] for each in calls]
        for each, outcome in zip(calls, outcomes, strict=True):
            each.granted = [lease for lease in outcome if isinstance(lease, Lease)]
        return [*outcomes]

    def _acquire_alone(self, call: _Acquisition) -> list[Lease | SessionLocked] | Exception:
        """Acquire for one call: that a log is no session is not for the others to be told."""
        try:
            return self._acquire([call])[0]
        except Exception as error:  # noqa: BLE001  # its caller gets it
            return error

    def _release(self, calls: Sequence[Sequence[Lease]]) -> list[None]:
        self._holdings.release([lease for leases in calls for lease in leases])
        return [None for _ in calls]
