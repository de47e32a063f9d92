"""Waiting for a log that another process or host owns: until it is unlocked, or a silent owner's lease has ended."""

from __future__ import annotations

import math

import anyio

from ..errors import SessionLocked
from .base import Lease, Ref, Store

LOOK_AGAIN_S = 1.0
"""The longest pause in seconds between two tries to acquire a log whose owner may be dead."""

LOCKED_S = 0.05
"""The pause in seconds between two tries to acquire a log that is locked."""

_RENEWED_S = 0.2
"""By how many seconds the end of a lease has to move at least to count as renewed: clocks are not exact."""


async def acquired(store: Store, ref: Ref, owner: str, wait_s: float = 0) -> Lease:
    """Acquire a log, waiting for an owner that does not answer, or for the holder of a lock.

    Args:
        store: The store.
        ref: The name of the log.
        owner: Who acquires it.
        wait_s: For how many seconds to wait, as the store (`Leases.wait_s`) or the host (`Limits.locked_wait_s`) says.

    Raises:
        SessionLocked: Another process or host owns it, and renews its lease, or holds it for longer than that.
    """
    until, ends_at = anyio.current_time() + wait_s, math.inf
    while True:
        asked = anyio.current_time()
        (lease,) = await store.acquire([ref], owner)
        if not isinstance(lease, SessionLocked):
            return lease
        now = anyio.current_time()  # the lease ends between `asked` and `now` after the seconds that are left of it
        if now >= until or (lease.left_s is not None and asked + lease.left_s > ends_at + _RENEWED_S):
            raise lease  # in the last case, its owner has renewed it meanwhile, and so is alive
        pause = LOCKED_S
        if lease.left_s is not None:
            ends_at = min(ends_at, now + lease.left_s)
            pause = min(LOOK_AGAIN_S, max(lease.left_s, 0) + _RENEWED_S / 4)
        await anyio.sleep(min(pause, until - now))
