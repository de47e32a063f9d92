"""The handle of one session: what a program holds and calls.

A handle is small and holds no file. Calls that append or move the leaf go to the session's actor; reads answer from the
committed state. A handle belongs to the event loop that made it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from ..events.content import raw_json
from ..events.entries import BranchSummary
from ..events.errors import InvalidInput
from ..events.stores.base import Cursor
from ..projections.base import Projection
from ..projections.building.summaries import DEFAULT_SUMMARIZER_OPTIONS, Summarizer, SummarizerOptions
from ..projections.context import Context, ContextChange
from ..projections.feed import transient
from ..projections.labels import LabelChange
from ..projections.subscriptions import EntrySubscription, TransientSubscription, ViewSubscription
from ..projections.tokens import Tokenizer
from ..projections.tree import Tree, TreeChange
from .branch_summaries import BRANCH_SUMMARY_TOKENS, BranchReport, summarize_branch
from .commands import AppendOptions, MoveLeaf
from .conversing import Conversing
from .describing import Describing
from .exporting import Exporting
from .fitting import Fitting
from .forking import branch_off, copy_of, fork
from .open_calls import OpenCall, Recovery, close_open_calls, find_open_calls, recover

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
        """Make an entry the leaf, so that the next append goes below it; the log is not written.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        await self._perform(MoveLeaf(entry_id))

    async def reset_leaf(self) -> None:
        """Take the leaf away, so that the next append becomes a root; the log is not written."""
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
        """Leave the branch that ends at the leaf, and go on below another entry with a summary of what was left.

        Args:
            entry_id: The entry to go on from; None for a new root.
            summary: What happened on the branch that is left.
            details: Anything that the caller wants to note, as JSON.
            from_hook: An extension made it.
            **options: See `AppendOptions`; what is in them must not contradict the above.

        Returns:
            The id of the summary's entry, which is the leaf now.

        Raises:
            InvalidInput: The options say otherwise where the summary is to stand (`below`), or that it is not to be the
                leaf (`aside`).
        """
        if "below" in options:
            raise InvalidInput("the summary goes below the first argument: leave `below` out")
        if options.get("aside"):
            raise InvalidInput("the summary becomes the leaf: append a `BranchSummary` where it is to stand aside")
        raw = None if details is None else raw_json(details)
        payload = BranchSummary(summary, "", raw, from_hook=from_hook)
        options["below"] = entry_id
        return await self.append(payload, **options)

    async def create_branched_session(self, leaf_id: str) -> Session:
        """Write the path from the root to an entry into a new session, whose parent is this one.

        Its entries have the labels that they have here: what was said of these on other branches follows the path.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        return await branch_off(self._core, self, leaf_id)

    async def fork(self, session_id: str | None = None) -> Session:
        """Copy the whole session, all branches included, into a new one whose parent is this one."""
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
        """Go on from another entry, with a summary of what lies after the last entry that both branches share.

        Where nothing lies there, the leaf moves and no summary is made.

        Args:
            entry_id: The entry to go on from.
            summarizer: Makes the summary.
            target_tokens: About how long it should be.
            tokenizer: What counts tokens; an estimate by bytes where none is given.
            options: How the summarizer is asked.

        Raises:
            EntryNotFound: The session has no such entry.
            SummaryRefused: The summarizer returned nothing; the leaf did not move.
            LeafMoved: Something was appended meanwhile, or the leaf was moved.
        """
        return await summarize_branch(
            self, entry_id, summarizer, target_tokens=target_tokens, tokenizer=tokenizer, options=options
        )

    # -- taking up what was broken off

    async def open_calls(self) -> list[OpenCall]:
        """Return the calls at the end of the path that have no result, those that wait on purpose included."""
        return await find_open_calls(self)

    async def close_open_calls(self, *, suspended: bool = False) -> list[str]:
        """Close the calls at the end of the path that nothing will answer, by error results, all or none of them.

        What a model is shown stays the same: a context closes open calls in these words anyway.

        Args:
            suspended: Close those that wait on purpose too, which gives their turn up.

        Returns:
            The ids of the results; none where no call is open, so a second call does nothing.
        """
        return (await close_open_calls(self, suspended=suspended))[1]

    async def recover(self) -> Recovery:
        """Put right what a crash left at the end of the session, and tell what it was.

        A torn tail is repaired whenever a session is taken up; this tells of it, once. Calls without results are closed,
        as by `close_open_calls`.
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
            after: For entries: the cursor or the ordinal of the last one that the subscriber has.
            transient: For entries: yield transient events too.

        Returns:
            For entries, a subscription that yields each entry after the cursor once and in order, then each new one; and
            a `Reset` where the session is another one now, because one that was put took its place, the file was
            replaced or shortened from outside, or an archived one was brought back: forget what was received, since all
            of it follows anew. For a view, a subscription that yields a `Snapshot` and then a `Changed` for each change.

        Raises:
            InvalidInput: There is no such view, it is no projection, or its name is one of treering's own; or `after` is
                neither a cursor nor an ordinal.
        """
        self._check()
        source = self._core.source(self.ref, self._birth, self._follower)
        if view == "entries":
            return TransientSubscription(source, after) if transient else EntrySubscription(source, after)
        return ViewSubscription(partial(self._core.shared_view, self.ref, source, view))

    def emit(self, name: str, data: object) -> None:
        """Show something to the subscribers that asked for transient events, and write it nowhere.

        Args:
            name: What it is; of two with one name, a slow subscriber gets the later.
            data: Any JSON value.
        """
        self._check()
        self._core.emit(self.ref, transient(name, data))

    # -- ending

    async def refresh(self) -> None:
        """Take in what another program has appended to the file."""
        await self.log()

    async def flush(self) -> None:
        """Return when all that was appended is as durable as the host promises, which every append waits for anyway."""
        self._check()
        await self._core.quiet(self.ref)

    async def close(self) -> None:
        """Let the handle go; the session's other handles stay. A second close does nothing."""
        if not self._closed:
            await self._core.quiet(self.ref)
            self._closed = True
            if self._follower is not None:
                self._follower.values = None

    async def passivate(self) -> bool:
        """Let the session's memory go now; the next call takes it up again. False where it is busy."""
        self._check()
        return await self._core.registry.passivate(self.ref)
