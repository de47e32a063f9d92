"""A log that is read and not owned: another process, or another program, may be writing it.

A follower takes no lock and changes no byte. Every awaited read looks at the file first; while somebody is subscribed,
the file is watched.
"""

from __future__ import annotations

from ..events.errors import LogReplaced
from ..events.stores.base import Cursor, Ref
from ..projections.feed import Feed, Reset
from .open_log import OpenLog
from .runtime import Runtime


class Follower:
    """Reads one log that somebody else may be writing.

    Attributes:
        log: The log as it was last read.
        feed: What its subscribers share, while there are any.
    """

    __slots__ = ("_runtime", "_watching", "feed", "log", "ref")

    def __init__(self, runtime: Runtime, ref: Ref, log: OpenLog) -> None:
        self._runtime = runtime
        self._watching = False
        self.ref = ref
        self.log = log
        self.feed: Feed | None = None

    @classmethod
    async def open(cls, runtime: Runtime, ref: Ref) -> Follower:
        """Read a log from its beginning, or from its snapshot.

        Raises:
            SessionNotFound: There is no such log.
            NotASession: It does not begin with a header.
            UnsupportedVersion: A newer program wrote it.
        """
        return cls(runtime, ref, await cls._read(runtime, ref))

    @staticmethod
    async def _read(runtime: Runtime, ref: Ref) -> OpenLog:
        opening = await runtime.store.open(ref)
        log = OpenLog(runtime, ref, opening.header, opening.dialect, opening.head.generation)
        await log.take_up()
        return log

    async def refresh(self) -> None:
        """Take in what was appended since, or all of the log where it was replaced."""
        try:
            await self.log.catch_up()
        except LogReplaced:
            log = await self._read(self._runtime, self.ref)
            log.feed = self.log.feed
            self.log = log
            if log.feed is not None:
                log.feed.publish(Reset(Cursor(log.generation, 0)))

    # -- being followed

    def open_feed(self) -> Feed:
        """Return the feed, watching the file from the first subscriber on."""
        if self.feed is None:
            limits = self._runtime.limits
            self.feed = self.log.feed = Feed(limits.feed_events_max, limits.feed_bytes_max)
        self.feed.subscribers += 1
        if not self._watching:
            self._watching = True
            self._runtime.spawn(self._watch)
        return self.feed

    def close_feed(self) -> None:
        """Count one subscriber less; with the last one the file is watched no more."""
        assert self.feed is not None
        self.feed.subscribers -= 1
        if not self.feed.subscribers:
            self.feed = self.log.feed = None

    async def ready(self) -> OpenLog:
        """Return the log, caught up with the file."""
        await self.refresh()
        return self.log

    async def _watch(self) -> None:
        try:
            async for _ in self._runtime.store.watch([self.ref]):
                if self.feed is None:
                    return
                await self.refresh()
        finally:
            self._watching = False
