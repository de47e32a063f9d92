"""The handle of one session: what a program holds and calls.

A handle is small and holds no file. Calls that append or move the leaf go to the session's actor; reads answer from the
committed state. A handle belongs to the event loop that made it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from ...events.entries import BranchSummary
from ...events.errors import InvalidInput
from ...events.json_values import raw_json
from ...events.stores.base import Cursor
from ...projections.base import Projection
from ...projections.building.summaries import DEFAULT_SUMMARIZER_OPTIONS, Summarizer, SummarizerOptions
from ...projections.context import Context
from ...projections.context_changes import ContextChange
from ...projections.feed import transient
from ...projections.labels import LabelChange
from ...projections.subscriptions import (
    EntrySubscription,
    TransientSubscription,
    ViewSubscription,
    refuse_entry_arguments,
)
from ...projections.tokens import Tokenizer
from ...projections.tree import Tree, TreeChange
from ..commands import AppendOptions, MoveLeaf
from ..session.branching import BRANCH_SUMMARY_TOKENS, BranchReport, branch_off, copy_of, fork, summarize_branch
from ..session.conversing import Conversing
from ..session.describing import Describing
from ..session.exporting import Exporting
from ..session.fitting import Fitting
from ..session.open_calls import OpenCall, Recovery, close_open_calls, find_open_calls, recover

V = TypeVar("V")
C = TypeVar("C")


class Session(Fitting, Conversing, Describing, Exporting):
    """One session of a host; `SessionHost` makes these."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- branching

    async def branch(self, entry_id: str) -> None:
        """Make an entry the leaf, so that the next append goes below it. Nothing is written to the log.

        Raises:
            EntryNotFound: The session has no such entry.
            AppendFailed: The move could not be recorded beside the log; the leaf is where it was.
            AppendInDoubt: The move is in effect, but may not survive a power cut.
        """
        await self._perform(MoveLeaf(entry_id))

    async def reset_leaf(self) -> None:
        """Clear the leaf, so that the next append becomes a root. Nothing is written to the log; see `branch`."""
        await self._perform(MoveLeaf(None))

    async def branch_with_summary(
        self,
        entry_id: str | None,
        summary: str,
        *,
        details: object = None,
        from_hook: bool = False,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Leave the branch that ends at the leaf, and continue below another entry with a summary of what was left.

        Args:
            entry_id: The entry to continue from; None starts a new root.
            summary: What happened on the branch that is left.
            details: Any JSON value to record with the summary.
            from_hook: Whether an extension made the summary.
            **options: See `AppendOptions`; they must not contradict the arguments above.

        Returns:
            The id of the summary's entry, which is now the leaf.

        Raises:
            InvalidInput: The options contain `below` or set `aside`: the summary always goes below `entry_id` and
                becomes the leaf.
        """
        if "below" in options:
            raise InvalidInput("the summary goes below `entry_id`: leave `below` out")
        if options.get("aside"):
            raise InvalidInput("the summary becomes the leaf: to add one aside, call `append` with a `BranchSummary`")
        raw = None if details is None else raw_json(details)
        payload = BranchSummary(summary, "", raw, from_hook=from_hook)
        options["below"] = entry_id
        return await self.append(payload, **options)

    async def create_branched_session(self, leaf_id: str) -> Session:
        """Copy the path from the root to an entry into a new session whose parent is this one.

        Its entries keep the labels that they have here, including those that were set or removed on other branches.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        return await branch_off(self._core, self, leaf_id)

    async def fork(self, session_id: str | None = None) -> Session:
        """Copy the whole session, including all branches, into a new session whose parent is this one.

        Args:
            session_id: The id of the copy; a fresh uuid4 by default.

        Raises:
            SessionExists: A session with this id exists.
        """
        return await fork(self._core, await copy_of(self), session_id)

    async def summarize_branch(
        self,
        entry_id: str,
        summarizer: Summarizer,
        *,
        target_tokens: int = BRANCH_SUMMARY_TOKENS,
        tokenizer: Tokenizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> BranchReport:
        """Continue from another entry, with a summary of what follows the last entry that both branches share.

        If nothing that a model would see follows it, the leaf moves and no summary is made.

        Args:
            entry_id: The entry to continue from.
            summarizer: Makes the summary.
            target_tokens: About how long the summary should be, in tokens.
            tokenizer: Counts tokens; by default they are estimated from the bytes.
            options: How the summarizer is called.

        Raises:
            EntryNotFound: The session has no such entry.
            SummaryRefused: The summarizer returned nothing; the leaf did not move.
            LeafMoved: Something was appended in the meantime, or the leaf was moved.
        """
        return await summarize_branch(
            self, entry_id, summarizer, target_tokens=target_tokens, tokenizer=tokenizer, options=options
        )

    # -- resuming after an interruption

    async def open_calls(self) -> list[OpenCall]:
        """Return the tool calls at the end of the path that have no result, including those that wait on purpose."""
        return await find_open_calls(self)

    async def close_open_calls(self, *, suspended: bool = False) -> list[str]:
        """Close the tool calls at the end of the path that will never be answered, by appending error results.

        All of them are closed or none. What a model is shown does not change: a context closes open calls with the same
        words anyway.

        Args:
            suspended: Also close the calls that wait on purpose, which abandons their turn.

        Returns:
            The ids of the results; empty if no call is open, so a second call does nothing.
        """
        return (await close_open_calls(self, suspended=suspended))[1]

    async def recover(self) -> Recovery:
        """Repair what a crash left at the end of the session, and report what it was.

        A torn tail is repaired whenever a session is activated; this reports it, once. Calls without results are
        closed, as `close_open_calls` does.
        """
        await self.log()
        actor = self._core.registry.live(self.ref)
        torn = None if actor is None else actor.torn
        report = await recover(self, torn)
        if actor is not None:
            actor.torn = None
        return report

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
    def subscribe(self, view: Literal["context"]) -> ViewSubscription[Context, ContextChange]: ...
    @overload
    def subscribe(self, view: Literal["tree"]) -> ViewSubscription[Tree, TreeChange]: ...
    @overload
    def subscribe(self, view: Literal["labels"]) -> ViewSubscription[list[tuple[str, str]], LabelChange]: ...
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
    ) -> EntrySubscription | TransientSubscription | ViewSubscription[Any, Any]:
        """Follow the session: `async with session.subscribe() as entries: async for entry in entries: ...`.

        Args:
            view: "entries", "context", "tree", "labels", or a projection.
            after: For entries: the cursor or the seq of the last entry that the subscriber already has.
            transient: For entries: also yield transient events.

        Returns:
            For entries, a subscription that yields each entry after the cursor once and in order, then each new one.
            When another log takes the session's place (another session was put there, the file was replaced or
            shortened from outside, or an archived session was brought back), it yields a `Reset`: discard what was
            received, since everything follows again. For a view, a subscription that yields a `Snapshot` and then a
            `Changed` for each change.

            While the session is passivated, its file is watched, so what another process appends arrives too. Only the
            first subscriber of a passivated session activates it, which raises `SessionLocked` if another process owns
            it: to follow such a session, load it with `read_only=True`.

        Raises:
            InvalidInput: There is no such view, the object is not a projection, or its name is reserved for
                treering; `after` is neither a cursor nor a seq; or an argument for entries is given for a view.
        """
        self._check()
        source = self._core.source(self.ref, self._new_log, self._follower)
        if view == "entries":
            return TransientSubscription(source, after) if transient else EntrySubscription(source, after)
        refuse_entry_arguments(after, transient)
        return ViewSubscription(partial(self._core.shared_view, self.ref, source, view))

    def emit(self, name: str, data: object) -> None:
        """Publish an event to the subscribers that requested transient events. It is not stored.

        Args:
            name: The name of the event; of two with the same name, a slow subscriber gets only the later one.
            data: Any JSON value.
        """
        self._check()
        self._core.emit(self.ref, transient(name, data))

    # -- refreshing and closing

    async def refresh(self) -> None:
        """Read what other programs have appended to the file."""
        await self.log()

    async def flush(self) -> None:
        """Wait until everything appended is as durable as the host promises, which every append waits for anyway."""
        self._check()
        await self._core.answered(self.ref)

    async def close(self) -> None:
        """Close this handle; other handles of the session stay open. Closing it again does nothing."""
        if not self._closed:
            await self._core.answered(self.ref)
            self._closed = True
            if self._follower is not None:
                self._follower.values = None

    async def passivate(self) -> bool:
        """Release the session's memory now; the next call activates it again. Return False if it is busy."""
        self._check()
        return await self._core.registry.passivate(self.ref)
