"""Hosts and sessions for programs without an event loop.

A `SyncHost` runs a `SessionHost` in a thread of its own. Its members and those of its sessions have the names,
arguments, results and errors of their async twins, may be called from any thread, and block until the result is there::

    from treering import SyncHost

    with SyncHost("~/sessions") as host:
        session = host.create(cwd="/work/project")
        session.append_message("user", "Hello")
        with session.subscribe() as entries:
            first = entries.receive(timeout_s=5.0)
"""

from .actors.sync import (
    SyncEntrySubscription,
    SyncEventSubscription,
    SyncHost,
    SyncKeyedSessions,
    SyncSearch,
    SyncSession,
    SyncSessionLike,
    SyncSubscription,
    SyncTransientSubscription,
)

__all__ = [
    "SyncEntrySubscription",
    "SyncEventSubscription",
    "SyncHost",
    "SyncKeyedSessions",
    "SyncSearch",
    "SyncSession",
    "SyncSessionLike",
    "SyncSubscription",
    "SyncTransientSubscription",
]
