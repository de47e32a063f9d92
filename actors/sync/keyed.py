"""The blocking twin of `KeyedSessions`."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Unpack

from ...events.content import ContentLike
from ...events.entries import Message
from ..commands import AppendOptions
from ..host.keyed import SAVE_EVERY_S, KeyedSessions
from .host import SyncHost
from .session import SyncSession


class SyncKeyedSessions:
    """The sessions of a `SyncHost` by their keys; every method may be called from any thread.

    Args:
        host: The host, which must be open when a method is called.
    """

    __slots__ = ("_bridge", "_twin", "host")

    def __init__(self, host: SyncHost) -> None:
        self.host = host
        self._bridge = host.bridge
        self._twin = KeyedSessions(host.twin)

    def get_or_create(self, key: str, *, cwd: str | os.PathLike[str] | None = None) -> SyncSession:
        """See `KeyedSessions.get_or_create`."""
        return self.host.get_or_create(key, cwd=cwd)

    def keys(self) -> list[str]:
        """See `KeyedSessions.keys`."""
        return self._bridge.wait(self._twin.keys)

    # -- adding

    def add_message(self, key: str, role: str, content: ContentLike, **options: Unpack[AppendOptions]) -> str:
        """See `KeyedSessions.add_message`."""
        return self._bridge.wait(lambda: self._twin.add_message(key, role, content, **options))

    def add_full_message(self, key: str, message: Message, **options: Unpack[AppendOptions]) -> str:
        """See `KeyedSessions.add_full_message`."""
        return self._bridge.wait(lambda: self._twin.add_full_message(key, message, **options))

    # -- the history

    def history(self, key: str) -> list[Message]:
        """See `KeyedSessions.history`."""
        return self._bridge.wait(lambda: self._twin.history(key))

    def set_history(self, key: str, messages: Sequence[Message], **options: Unpack[AppendOptions]) -> list[str]:
        """See `KeyedSessions.set_history`."""
        return self._bridge.wait(lambda: self._twin.set_history(key, messages, **options))

    def truncate_history(
        self, key: str, keep_last: int, *, summary: str | None = None, **options: Unpack[AppendOptions]
    ) -> str | None:
        """See `KeyedSessions.truncate_history`."""
        return self._bridge.wait(lambda: self._twin.truncate_history(key, keep_last, summary=summary, **options))

    # -- the summary

    def summary(self, key: str) -> str:
        """See `KeyedSessions.summary`."""
        return self._bridge.wait(lambda: self._twin.summary(key))

    def set_summary(self, key: str, summary: str, **options: Unpack[AppendOptions]) -> str:
        """See `KeyedSessions.set_summary`."""
        return self._bridge.wait(lambda: self._twin.set_summary(key, summary, **options))

    # -- saving and deleting

    def save(self, key: str) -> None:
        """See `KeyedSessions.save`."""
        self._bridge.wait(lambda: self._twin.save(key))

    def save_all(self) -> None:
        """See `KeyedSessions.save_all`."""
        self._bridge.wait(self._twin.save_all)

    def save_every(self, interval_s: float = SAVE_EVERY_S, *, until: threading.Event) -> None:
        """Save every conversation at intervals until the event is set; meant for a thread of its own.

        Unlike its twin `KeyedSessions.save_every`, which is ended by cancellation, it takes an event.

        Args:
            interval_s: The seconds between two rounds.
            until: Set this event to end the loop.
        """
        while not until.wait(interval_s):
            self.save_all()

    def delete(self, key: str) -> None:
        """See `KeyedSessions.delete`."""
        self._bridge.wait(lambda: self._twin.delete(key))
