"""The handle of one session: what a program holds and calls.

A handle is small and holds no file. Calls that append or move the leaf go to the session's actor; reads answer from the
committed state. A handle belongs to the event loop that made it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self, TypeVar, overload

from ...events.arguments import check_texts
from ...events.stores.base import Cursor
from ...projections.base import Projection
from ...projections.context import Context
from ...projections.context_changes import ContextChange
from ...projections.feed_events import transient
from ...projections.labels import LabelChange
from ...projections.session_state import SessionState
from ...projections.subscriptions import (
    EntrySubscription,
    EventSubscription,
    TransientSubscription,
    ViewSubscription,
    refuse_entry_arguments,
)
from ...projections.tree import Tree, TreeChange
from .branching import Branching, copy_of, path_of, write_fork
from .conversing import Conversing
from .describing import Describing
from .explaining import Explaining
from .exporting import Exporting
from .open_calls import Resuming

V = TypeVar("V")
C = TypeVar("C")


class Session(Explaining, Resuming, Branching, Conversing, Describing, Exporting):
    """One session of a host; `SessionHost` makes these."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- copying

    async def create_branched_session(self, leaf_id: str) -> Session:
        """Copy the path from the root to an entry into a new session whose parent is this one.

        Its entries keep the labels that they have here, including those that were set or removed on other branches.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        return Session(self._core, *await write_fork(self._core, await path_of(self, leaf_id)))

    async def fork(self, session_id: str | None = None) -> Session:
        """Copy the whole session, including all branches, into a new session whose parent is this one.

        Args:
            session_id: The id of the copy; a fresh uuid4 by default.

        Raises:
            SessionExists: A session with this id exists.
        """
        return Session(self._core, *await write_fork(self._core, await copy_of(self), session_id))

    # -- following

    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: Literal[False] = False
    ) -> EntrySubscription: ...
    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: Literal[True]
    ) -> TransientSubscription: ...
    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: bool
    ) -> EntrySubscription | TransientSubscription: ...
    @overload
    def subscribe(
        self,
        view: Literal["entries"] = "entries",
        *,
        after: Cursor | int = 0,
        transient: bool = False,
        leaf: Literal[True],
    ) -> EventSubscription: ...
    @overload
    def subscribe(self, view: Literal["context"]) -> ViewSubscription[Context, ContextChange]: ...
    @overload
    def subscribe(self, view: Literal["tree"]) -> ViewSubscription[Tree, TreeChange]: ...
    @overload
    def subscribe(self, view: Literal["labels"]) -> ViewSubscription[list[tuple[str, str]], LabelChange]: ...
    @overload
    def subscribe(self, view: Literal["session_state"]) -> ViewSubscription[SessionState, SessionState]: ...
    @overload
    def subscribe(self, view: str) -> EntrySubscription | ViewSubscription[Any, Any]: ...
    @overload
    def subscribe(self, view: Projection[V, C]) -> ViewSubscription[V, C]: ...

    def subscribe(
        self,
        view: str | Projection[Any, Any] = "entries",
        *,
        after: Cursor | int = 0,
        transient: bool = False,
        leaf: bool = False,
    ) -> EntrySubscription | TransientSubscription | EventSubscription | ViewSubscription[Any, Any]:
        """Follow the session: `async with session.subscribe() as entries: async for entry in entries: ...`.

        Args:
            view: "entries", "context", "tree", "labels", "session_state", or a projection.
            after: For entries: the cursor or the seq of the last entry that the subscriber already has.
            transient: For entries: also yield transient events, beginning with the texts that are being written.
            leaf: For entries: also yield a `LeafMove` for each move of the leaf, and one for where it is at first.

        Returns:
            For entries, a subscription that yields each entry after the cursor once and in order, then each new one.
            When another log takes the session's place (another session was put there, or the file was replaced or
            shortened from outside), it yields a `Reset`: discard what was received, since everything follows again.
            For a view, a subscription that yields a `Snapshot` and then a `Changed` for each change.

            While the session is not live, its file is watched, so what another process appends arrives too.

        Raises:
            InvalidInput: There is no such view, the object is not a projection, or its name is reserved for
                treering; `after` is neither a cursor nor a seq; or an argument for entries is given for a view.
        """
        self._check()
        source = self._source
        if view == "entries" and leaf:
            return EventSubscription(source, after, transient=transient)
        if view == "entries":
            return TransientSubscription(source, after) if transient else EntrySubscription(source, after)
        refuse_entry_arguments(after, transient, leaf)
        return ViewSubscription(partial(self._core.shared_view, source, view))

    def emit(self, name: str, data: object) -> None:
        """Publish an event to the subscribers that requested transient events. It is not stored.

        Args:
            name: The name of the event; of two with the same name, a slow subscriber gets only the later one.
            data: Any JSON value.

        Raises:
            InvalidInput: The name is not a text, or the data have no JSON form.
        """
        self._check()
        check_texts(name=name)
        feed, event = self._source.feed, transient(name, data)
        if feed is not None:
            feed.publish(event, len(event.raw))

    def emit_text(self, name: str, text: str, *, message: str) -> None:
        """Publish the next piece of a text that is being written, such as an answer. It is not stored.

        Unlike other transient events, pieces are never left out: a slow subscriber gets them joined, and one that comes
        late gets the text so far. The text is over when an assistant's message is appended.

        Args:
            name: The name of the event.
            text: The piece, which continues the pieces before it.
            message: Any name for the text; another one than before means that the text before is given up.

        Raises:
            InvalidInput: One of them is not a text.
        """
        self._check()
        check_texts(name=name, text=text, message=message)
        source = self._source
        piece = source.texts().add(name, message, text, lambda: source.index()[0].head)
        if source.feed is not None:
            source.feed.publish(piece, len(piece.raw))

    # -- refreshing and closing

    async def refresh(self) -> None:
        """Read what other programs have appended to the file."""
        await self.log()

    async def flush(self) -> None:
        """Wait until everything appended is as durable as the host promises, which every append waits for anyway."""
        self._check()
        await self._source.answered()

    async def passivate(self) -> bool:
        """Release the session's memory now; the next call takes it up again. Return False if it is busy."""
        self._check()
        return await self._source.passivate()
