"""The base of a session's handle: which session it is, access to its log and its actor, and the calls that read.

Reads of the index answer at once from the committed state; reads of entries are awaited. Return values belong to the
caller, or are immutable.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from threading import get_ident
from typing import NamedTuple, TypeVar

from ...events.arguments import check_count
from ...events.entries import Entry, Header, Message, MessageEntry, Payload
from ...events.errors import (
    AppendFailed,
    InvalidInput,
    LogReplaced,
    NotASession,
    ReadOnly,
    SessionClosed,
    SessionLocked,
    TreeringError,
)
from ...events.index import LogIndex
from ...events.stores.base import Cursor, Ref
from ...projections.base import Valued
from ...projections.context import Context
from ...projections.cuts import find_safe_cut
from ...projections.labels import find_by_label, labels
from ...projections.session_state import SessionState
from ...projections.tokens import Tokenizer, entry_tokens
from ...projections.tree import Tree, build_tree
from ..commands import Append, AppendOptions, MoveLeaf, append_command, unreachable_error
from ..host.core import HostCore
from ..host.tasks import on_own_task
from ..log.open_log import OpenLog
from ..log.source import Source

T = TypeVar("T")
V = TypeVar("V")


class Handle:
    """One session of a host, without the calls that programs make.

    Attributes:
        id: The session's id, as in its header.
        ref: The name of its log in the store.
    """

    __slots__ = ("__weakref__", "_closed", "_core", "_read_only", "_source", "id", "ref")

    def __init__(self, core: HostCore, source: Source, session_id: str, *, read_only: bool = False) -> None:
        self._core = core
        self._source = source
        self._read_only = read_only
        self._closed = False
        self.id = session_id
        self.ref = source.ref
        if read_only:
            source.keep_followed(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def _check(self) -> None:
        if self._closed:
            raise SessionClosed(f"the handle of session {self.id!r} is closed: load the session again")
        self._core.check()

    def _index(self) -> LogIndex:
        self._check()
        return self._source.index()[0]

    async def log(self) -> OpenLog:
        """Return the open log, caught up with the file; for the library itself, not for programs."""
        self._check()
        await self._core.turn()
        return await self._source.ready()

    async def _append(self, payloads: tuple[Payload, ...], options: AppendOptions) -> list[str]:
        return [entry.id or "" for entry in await self._perform(append_command(payloads, options))]

    def _perform(self, command: Append | MoveLeaf) -> Awaitable[list[Entry]]:
        """Carry out a command: at once if the session is live, it is this task's turn, and nothing is to be refused."""
        source = self._source
        actor, holders = source.actor, source.holders
        turns = holders.runtime.append_turns
        if (
            actor is None
            or self._read_only
            or holders.closing
            or get_ident() != holders.thread
            or turns.timer() > turns.due_at
        ):
            return self._perform_in_turn(command)
        source.recent = True
        return actor.perform(command)

    async def _perform_in_turn(self, command: Append | MoveLeaf) -> list[Entry]:
        """Let others go on if it is their turn, activate the session if it is not live, and carry out a command."""
        self._check()
        if self._read_only:
            raise ReadOnly(f"session {self.id!r} was opened read-only: load it without `read_only` to write")
        core = self._core
        if core.runtime.append_turns.is_over():
            await core.runtime.append_turns.pass_on()
        try:
            actor = await core.registry.activate(self._source)
        except (ReadOnly, NotASession, InvalidInput, AppendFailed, OSError) as error:
            cause = error.__cause__ if isinstance(error, TreeringError) else error
            if not isinstance(cause, OSError):
                raise
            raise unreachable_error(command, self.ref, cause) from cause
        except SessionLocked:
            if core.elsewhere is None:
                raise
            return await core.elsewhere.perform(self._source, command)
        return await actor.perform(command)

    async def close(self) -> None:
        """Close this handle; other handles of the session stay open. Closing it again does nothing."""
        if self._closed:
            return
        source = self._source
        await source.answered()
        self._closed = True
        self._source = Source(source.holders, self.ref)  # which is never used, and lets the session's go
        source.let_go(self)


class Placed(NamedTuple):
    """Entries of a session that were appended, and what its leaf and the end of its log are then."""

    entries: list[Entry]
    leaf_id: str | None
    cursor: Cursor


async def append_placed(handle: Handle, payloads: tuple[Payload, ...], options: AppendOptions) -> Placed:
    """Append entries, all or none, and return where they stand; see `Appending.append_many`."""
    entries = await handle._perform(append_command(payloads, options))  # pyright: ignore[reportPrivateUsage]
    index, generation = handle._source.index()  # pyright: ignore[reportPrivateUsage]  # a method would be public
    return Placed(entries, index.leaf_id, Cursor(generation, index.head))


def identity_of(handle: Handle) -> tuple[int, Ref]:
    """Return a value that all handles of one session in one host share, valid as long as the host lives."""
    return id(handle._core), handle.ref  # pyright: ignore[reportPrivateUsage]  # a method would be public


async def read_log(handle: Handle, read: Callable[[OpenLog], Awaitable[T]]) -> T:
    """Return what a function reads from a session's log, caught up with the file; see `Source.read`."""
    handle._check()  # pyright: ignore[reportPrivateUsage]
    await handle._core.turn()  # pyright: ignore[reportPrivateUsage]
    source, read_only = handle._source, handle._read_only  # pyright: ignore[reportPrivateUsage]
    return await source.read(read, read_only=read_only)


async def on_host_task(handle: Handle, run: Callable[[], Awaitable[T]]) -> T:
    """Run something that must not be left half done on a task of the session's host; see `on_own_task`."""
    core = handle._core  # pyright: ignore[reportPrivateUsage]
    core.check()
    return await on_own_task(core.runtime, run)


class Reading(Handle):
    """The read calls of a session."""

    __slots__ = ()

    # -- reading the index

    @property
    def header(self) -> Header:
        """The first line of the log."""
        return self._index().header

    @property
    def file_path(self) -> str | None:
        """The path of the session's file, or where it will be after the first append; None in memory.

        While the session is archived, the file is compressed and its name has ".zst" or ".gz" added.
        """
        return self._core.path_of(self.ref)

    @property
    def created(self) -> datetime:
        """When the session was created."""
        return self.header.timestamp

    @property
    def name(self) -> str | None:
        """The name that a person gave the session, or None."""
        return self._index().info.name or None

    @property
    def leaf_id(self) -> str | None:
        """The entry that the next append goes below, or None in an empty session."""
        return self._index().leaf_id

    @property
    def cursor(self) -> Cursor:
        """The cursor at the end of the log; pass it to `subscribe` to follow from here on."""
        self._check()
        index, generation = self._source.index()
        return Cursor(generation, index.head)

    @property
    def message_count(self) -> int:
        """How many messages the session holds, on all branches."""
        return self._index().message_count

    def tree(self) -> Tree:
        """Return all entries as a tree."""
        return build_tree(self._index())

    def path(self, leaf_id: str | None = None) -> list[str]:
        """Return the ids from the root to an entry (by default the leaf).

        Raises:
            EntryNotFound: The session has no such entry.
            CorruptTree: The path runs into a cycle.
        """
        index = self._index()
        return [index.ids[seq] for seq in index.path(index.path_end(leaf_id))]

    def children(self, parent_id: str | None) -> list[str]:
        """Return the ids of an entry's children, or of the roots (None), in the order of the file."""
        index = self._index()
        parents = index.parents
        parent = index.seq_of(parent_id) if parent_id is not None else 0
        return [
            index.ids[seq]
            for seq in range(1, index.head + 1)
            if (parents[seq] == parent or (not parent and parents[seq] < 0)) and index.is_entry(seq)
        ]

    def label(self, entry_id: str) -> str | None:
        """Return an entry's label, or None."""
        return self._index().label_of(entry_id)

    def labels(self) -> list[tuple[str, str]]:
        """Return all labelled entries with their labels, those on the path first and in its order."""
        return labels(self._index())

    def find_by_label(self, label: str) -> list[str]:
        """Return the ids of the entries with this label, on all branches."""
        return find_by_label(self._index(), label)

    # -- reading entries

    async def entry(self, entry_id: str) -> Entry | None:
        """Return an entry, or None if the session has none with this id."""

        async def read(log: OpenLog) -> Entry | None:
            seq = log.index.find(entry_id)
            return (await log.entries_at([seq]))[seq] if seq else None

        return await read_log(self, read)

    async def entries(self, *, custom_type: str | None = None) -> list[Entry]:
        """Return all entries in the order of the file, or only those of one custom type."""

        async def read(log: OpenLog) -> list[Entry]:
            return [entry async for entry in all_entries(log) if is_of_custom_type(entry, custom_type)]

        return await read_log(self, read)

    async def iter_entries(self, after: int = 0, *, custom_type: str | None = None) -> AsyncGenerator[Entry]:
        """Yield the entries after a seq in the order of the file, without holding them all in memory.

        Entries that are appended during the iteration are left out.

        Args:
            after: The seq of the last entry to leave out.
            custom_type: Only an extension's entries of this type.

        Raises:
            InvalidInput: `after` is not a whole number of 0 or more.
            LogReplaced: Another log took its place meanwhile. Archiving and unarchiving, here or elsewhere, is none of
                that.
        """
        check_count("after", after)
        log = await self.log()
        head = log.index.head
        while after < head:
            try:
                entries, after = await log.page(after, head)
            except LogReplaced as replaced:
                log = await self._moved(log, replaced)
                continue
            for entry in entries:
                if is_of_custom_type(entry, custom_type):
                    yield entry

    async def _moved(self, log: OpenLog, replaced: LogReplaced) -> OpenLog:
        """Return the log that took the place of another one if its lines are the same: another process archived it.

        Raises:
            LogReplaced: It is another log, or a shorter one.
        """
        other, head = await self.log(), log.index.head
        if other is log or other.index.head < head or other.index.header != log.index.header:
            raise replaced
        if head and other.index.ids[head] != log.index.ids[head]:
            raise replaced
        return other

    async def context(self, leaf_id: str | None = None) -> Context:
        """Return what a model is shown of the path to an entry (by default the leaf).

        Raises:
            EntryNotFound: The session has no such entry.
            CorruptTree: The path runs into a cycle.
        """
        return await read_log(self, lambda log: log.context(log.index.path_end(leaf_id)))

    async def state(self) -> SessionState:
        """Return what the session is doing: a word, since when, the tool that runs, and the last line that was said.

        Only the entries from the last answer on are read. Moving the leaf changes no state.
        """
        return await read_log(self, lambda log: log.state())

    async def messages(self) -> list[Message]:
        """Return the messages of the context, oldest first, as `history` does."""
        return [each.message for each in (await self.context()).messages]

    async def all_messages(self) -> list[Message]:
        """Return every message of the session in the order of the file, including compacted and abandoned ones."""

        async def read(log: OpenLog) -> list[Message]:
            return [entry.message async for entry in all_entries(log) if isinstance(entry, MessageEntry)]

        return await read_log(self, read)

    async def find_safe_cut(self, keep_tokens: int, *, tokenizer: Tokenizer | None = None) -> str | None:
        """Return the entry to keep from, so that about `keep_tokens` of the path stay and no call loses its result.

        Args:
            keep_tokens: How many tokens may stay.
            tokenizer: Counts them; by default they are estimated from the bytes.

        Returns:
            The id for `append_compaction`, or None if there is no safe cut that keeps less than the context already
            shows of the path. What was compacted before is never kept again.
        """
        check_count("keep_tokens", keep_tokens)

        async def read(log: OpenLog) -> list[Entry]:
            return await log.entries_in((await log.plan(log.index.leaf)).kept)

        entries = await read_log(self, read)
        return find_safe_cut(entries, keep_tokens, lambda entry: entry_tokens(entry, tokenizer))

    async def view(self, projection: Valued[V]) -> V:
        """Return the value of a projection over all entries of the session.

        Raises:
            InvalidInput: The object is not a projection, or its name is reserved for treering.
            ProjectionFailed: The projection raised; `rebuild` starts it again.
        """
        return await self._view(projection, from_scratch=False)

    async def rebuild(self, projection: Valued[V]) -> V:
        """Fold a projection from scratch, ignoring its checkpoint, and return its value; see `view`."""
        return await self._view(projection, from_scratch=True)

    async def _view(self, projection: Valued[V], *, from_scratch: bool) -> V:
        source = self._source
        return await read_log(self, lambda log: self._core.view(source, log, projection, from_scratch=from_scratch))


async def all_entries(log: OpenLog) -> AsyncGenerator[Entry]:
    """Yield the visible entries of a log up to its present end, in the order of the file."""
    after, head = 0, log.index.head
    while after < head:
        entries, after = await log.page(after, head)
        for entry in entries:
            yield entry


def is_of_custom_type(entry: Entry, custom_type: str | None) -> bool:
    """Return whether an entry is an extension's own of this type; without a type, every entry matches."""
    payload = getattr(entry, entry.type, None)
    return custom_type is None or getattr(payload, "custom_type", None) == custom_type
