"""A log that is read but not owned: another process, or another program, may be writing it.

A follower takes no lock and changes no byte. Every awaited read looks at the file first; while there are subscribers,
the file is watched.
"""

from __future__ import annotations

from functools import partial

import anyio

from ...events.errors import HostClosed, LogReplaced, SessionNotFound, TreeringError
from ...events.stores.base import Ref
from ...events.telemetry import failure_of, logger
from ...projections.feed import Feed
from ..host.runtime import Runtime
from .open_log import TRIES_MAX, OpenLog

WATCH_AGAIN_S = 2.0
"""How many seconds to wait before watching a file again after watching it failed."""
LOOK_AGAIN_S = 0.5
"""How many seconds to wait before looking at a log again in a store that does not tell of changes."""


class Follower:
    """Reads one log that may be written by others.

    Attributes:
        log: The log as it was last read.
        feed: The feed of its subscribers, while there are any.
        gone: Whether the log did not exist any more when it was last looked at.
        outdated: Whether this host has written the log since it was last looked at, or it is gone.
    """

    __slots__ = ("_runtime", "_stopped", "_watching", "feed", "gone", "log", "outdated", "ref")

    def __init__(self, runtime: Runtime, ref: Ref, log: OpenLog, *, gone: bool = False) -> None:
        self._runtime = runtime
        self._watching = anyio.CancelScope()
        self._stopped = False
        self.ref = ref
        self.log = log
        self.feed: Feed | None = None
        self.gone = self.outdated = gone

    @classmethod
    async def open(cls, runtime: Runtime, ref: Ref, unwritten: OpenLog | None = None) -> Follower:
        """Read a log, from a snapshot if there is one.

        Args:
            runtime: The host's seams.
            ref: The name of the log.
            unwritten: What to follow if there is no such log yet.

        Raises:
            SessionNotFound: There is no such log.
            NotASession: It does not begin with a header.
            UnsupportedVersion: A newer program wrote it.
        """
        try:
            log = await cls._read(runtime, ref)
        except SessionNotFound:
            if unwritten is None:
                raise
            log = unwritten
        return cls(runtime, ref, log)

    @staticmethod
    async def _read(runtime: Runtime, ref: Ref) -> OpenLog:
        """Read a whole log, and start again if its owner replaces the file meanwhile, as archiving does."""
        tries = 0
        while True:
            opening = await runtime.store.open(ref)
            log = OpenLog(runtime, ref, opening.header, opening.dialect, opening.head.generation)
            try:
                await log.take_up(opening.head.seq)
            except LogReplaced:
                tries += 1
                if tries == TRIES_MAX:
                    raise
            else:
                return log

    async def ready(self) -> OpenLog:
        """Return the log, caught up with the file: with what was appended, or with all of another log in its place.

        Raises:
            LogError: The current file is not a session.
            SessionNotFound: The log no longer exists.
            OSError: It cannot be read.
        """
        log = self.log
        try:
            if not log.generation or not await self._catch_up(log):
                replacement = await self._read(self._runtime, self.ref)
                if self.log is log and not self._stopped:  # otherwise another task has replaced it, or an actor owns it
                    self._replace(replacement)
        except SessionNotFound:
            self.gone = self.outdated = bool(log.generation)
            if self.gone:
                raise
        else:
            self.gone = self.outdated = False
        return self.log

    async def _catch_up(self, log: OpenLog) -> bool:
        """Read what was appended, and where the leaf was moved to; return False if another log is in its place."""
        try:
            await log.catch_up()
            moved = await self._runtime.store.load(self.ref, "leaf")
        except LogReplaced:
            return False
        if not self._stopped:  # an actor knows better
            log.follow_leaf(moved)
        return True

    def _replace(self, replacement: OpenLog) -> None:
        """Follow another log, which begins anew for the subscribers, or begins at all."""
        before, self.log = self.log, replacement
        before.attach(None)
        replacement.attach(self.feed)
        if self.feed is not None and before.generation:
            self.feed.reset(replacement.generation)
        elif self.feed is not None:
            self.feed.resume((before.cursor, before.index.leaf), (replacement.cursor, replacement.index.leaf))

    # -- subscribers

    def publish_to(self, feed: Feed | None) -> None:
        """Publish what is read from now on to this feed."""
        self.feed = feed
        self.log.attach(feed)

    def watch(self) -> None:
        """Read the file now, and whenever it changes, until `pause` or the end of the host."""
        assert self.feed is not None
        self._watching = anyio.CancelScope()
        self._runtime.spawn(partial(self._watch, self.feed, self._watching))

    def pause(self) -> None:
        """Stop watching the file."""
        self._watching.cancel()

    def stop(self) -> None:
        """Leave the log, which is forgotten, or owned by an actor by now."""
        self._stopped = True
        self.pause()
        self.publish_to(None)

    async def _watch(self, feed: Feed, scope: anyio.CancelScope) -> None:
        """Read the file whenever it changes; a failure is logged and retried, and does not end the host."""
        try:
            with scope:
                while True:
                    try:
                        await self._look_at_changes()
                        return
                    except HostClosed:
                        return
                    except Exception as error:  # noqa: BLE001  # a follower shares its host's task group
                        session_id = self.log.index.header.id
                        logger().warning("watch_failed", session_id=session_id, ref=self.ref, **failure_of(error))
                    await anyio.sleep(WATCH_AGAIN_S)
        finally:
            if not scope.cancel_called:  # the host has ended
                feed.close()

    async def _look_at_changes(self) -> None:
        """Read the file whenever it changes, and once at the start, since it was not watched until now."""
        if self._runtime.watches is None:
            while True:
                await self._look()
                await anyio.sleep(LOOK_AGAIN_S)
        changes = self._runtime.watches.watch([self.ref])
        try:
            await self._look()
            async for _ in changes:
                await self._look()
        finally:
            aclose = getattr(changes, "aclose", None)  # of a generator, or of a store's own iterator
            if aclose is not None:
                with anyio.CancelScope(shield=True):
                    await aclose()

    async def _look(self) -> None:
        """Read the current file; one that is missing or unreadable may come back."""
        try:
            await self.ready()
        except HostClosed:
            raise
        except (TreeringError, OSError) as error:
            unwritten = isinstance(error, SessionNotFound) and not self.log.generation
            if unwritten or self._watching.cancel_called:  # it is paused while the host itself removes the file
                return
            session_id = self.log.index.header.id
            logger().warning("log_unreadable", session_id=session_id, ref=self.ref, error=str(error))
