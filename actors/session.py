"""The handle of one session: what a program holds and calls.

A handle is small and holds no file. Calls that append or move the leaf go to the session's actor; reads of the index
answer at once from the committed state; reads of what entries say are awaited. A handle belongs to the event loop that
made it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from ..events.content import ContentLike, ImagePart, TextPart, as_content, raw_json, tool_result
from ..events.entries import (
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    Entry,
    Header,
    Label,
    Message,
    MessageEntry,
    ModelChange,
    Payload,
    SessionInfo,
    ThinkingLevel,
    ToolExecution,
    Usage,
    UsageRecord,
)
from ..events.errors import EntryNotFound, ReadOnly, SessionClosed
from ..events.index import LogIndex
from ..events.stores.base import Cursor, Ref
from ..projections.base import Projection
from ..projections.context import Context, ContextChange
from ..projections.cuts import find_safe_cut
from ..projections.feed import transient
from ..projections.labels import LabelChange, find_by_label, labels
from ..projections.subscriptions import EntrySubscription, ViewSubscription
from ..projections.tokens import Tokenizer, entry_tokens
from ..projections.tree import Tree, TreeChange, build_tree
from .commands import Append, AppendOptions, MoveLeaf
from .follower import Follower
from .forking import branched, forked
from .registry import Birth

if TYPE_CHECKING:
    from .core import HostCore
    from .open_log import OpenLog

V = TypeVar("V")
C = TypeVar("C")


class Session:
    """One session of a host; `SessionHost` makes these.

    Attributes:
        id: The session's id, as its header says it.
        ref: The name of its log in the store.
    """

    __slots__ = ("__weakref__", "_birth", "_closed", "_core", "_follower", "id", "ref")

    def __init__(
        self, core: HostCore, ref: Ref, session_id: str, *, birth: Birth | None = None, follower: Follower | None = None
    ) -> None:
        self._core = core
        self._birth = birth
        self._follower = follower
        self._closed = False
        self.id = session_id
        self.ref = ref

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- appending

    async def append(self, payload: Payload, **options: Unpack[AppendOptions]) -> str:
        """Append one entry below the leaf and make it the leaf.

        Args:
            payload: What the entry says: a `Message`, a `Label`, a `Custom`, any payload.
            **options: See `AppendOptions`.

        Returns:
            The entry's id. The entry is in the file, and in every view, when this returns.

        Raises:
            InvalidInput: The payload breaks a rule; nothing was written.
            Conflict: The session is not as `expected_leaf` or `expected_seq` said, or the command id was used before.
            EntryNotFound: The payload or `below` names an entry that is not there.
            AppendFailed: The disk refused; nothing was written.
            AppendInDoubt: The disk did not say; retry with the same `command_id`.
        """
        return (await self._append((payload,), options))[0]

    async def append_many(self, payloads: Sequence[Payload], **options: Unpack[AppendOptions]) -> list[str]:
        """Append entries, each below the one before, all or none of them; see `append`."""
        return await self._append(tuple(payloads), options)

    async def append_message(
        self,
        role: str,
        content: ContentLike,
        *,
        model: str | None = None,
        provider: str | None = None,
        usage: Usage | None = None,
        stop_reason: str | None = None,
        tool_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Append a message; see `append`.

        Args:
            role: "user", "assistant", "tool", "system", or another of `ROLES`.
            content: A string, a content part, or a sequence of both.
            model: The model that answered.
            provider: Its provider.
            usage: What the provider counted.
            stop_reason: Why the model stopped.
            tool_name: The tool that a result comes from.
            metadata: A free JSON object.
            **options: See `AppendOptions`.
        """
        message = Message(
            role,
            as_content(content),
            model=model,
            provider=provider,
            usage=usage,
            stop_reason=stop_reason,
            tool_name=tool_name,
            raw_metadata=None if metadata is None else raw_json(metadata),
        )
        return (await self._append((message,), options))[0]

    async def append_model_change(self, provider: str, model_id: str, **options: Unpack[AppendOptions]) -> str:
        """Record that another model answers from here on; see `append`."""
        return await self.append(ModelChange(provider, model_id), **options)

    async def append_thinking_level_change(self, level: str, **options: Unpack[AppendOptions]) -> str:
        """Record that the model thinks at another level from here on; see `append`."""
        return await self.append(ThinkingLevel(level), **options)

    async def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str | None,
        tokens_before: int,
        *,
        details: object = None,
        usage: Usage | None = None,
        from_hook: bool = False,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Let a summary stand for everything on the path before an entry; see `append`.

        Args:
            summary: What the context shows instead.
            first_kept_entry_id: The first entry that stays; None keeps nothing. `find_safe_cut` finds one.
            tokens_before: The size of the context that is compacted.
            details: Anything that the caller wants to note, as JSON.
            usage: What making the summary took.
            from_hook: An extension made it.
            **options: See `AppendOptions`.

        Raises:
            UnsafeCut: It would part a tool call from its result, or the entry is not on the path.
        """
        raw = None if details is None else raw_json(details)
        payload = Compaction(
            summary, first_kept_entry_id, tokens_before, raw_details=raw, usage=usage, from_hook=from_hook
        )
        return await self.append(payload, **options)

    async def append_session_info(
        self, name: str | None = None, *, metadata: Mapping[str, object] | None = None, **options: Unpack[AppendOptions]
    ) -> str:
        """Name the session ("" takes the name away), or note a free JSON object about it; see `append`."""
        raw = None if metadata is None else raw_json(metadata)
        return await self.append(SessionInfo(name, raw_metadata=raw), **options)

    async def append_custom_entry(self, custom_type: str, data: object = None, **options: Unpack[AppendOptions]) -> str:
        """Append an extension's own data, which no model sees; see `append`.

        Args:
            custom_type: Whose data it is; not empty.
            data: Any JSON value.
            **options: See `AppendOptions`.
        """
        return await self.append(Custom(custom_type, None if data is None else raw_json(data)), **options)

    async def append_custom_message(
        self,
        custom_type: str,
        content: ContentLike,
        *,
        display: bool = True,
        details: object = None,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Append an extension's message that the model sees; see `append`.

        Args:
            custom_type: Whose message it is; not empty.
            content: What the model sees.
            display: Whether people are shown it.
            details: Anything for the user interface, as JSON; no model sees it.
            **options: See `AppendOptions`.
        """
        raw = None if details is None else raw_json(details)
        return await self.append(CustomMessage(custom_type, as_content(content), display, raw), **options)

    async def append_context_edit(
        self, target_id: str, replacement: ContentLike | None, **options: Unpack[AppendOptions]
    ) -> str:
        """Change what contexts show of an earlier message, or (None) leave it out; the original stays; see `append`."""
        content = None if replacement is None else as_content(replacement)
        return await self.append(ContextEdit(target_id, content), **options)

    async def append_usage(
        self,
        kind: str,
        usage: Usage,
        *,
        provider: str | None = None,
        model: str | None = None,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Record usage that no message carries; see `append`."""
        return await self.append(UsageRecord(kind, usage, provider, model), **options)

    async def append_tool_execution(
        self,
        tool_call_id: str,
        tool_name: str,
        arguments: Mapping[str, object],
        content: str | Sequence[TextPart | ImagePart],
        *,
        is_error: bool = False,
        error: str | None = None,
        exit_code: int | None = None,
        duration_ms: float | None = None,
        tokens: int | None = None,
        message_id: str | None = None,
        **options: Unpack[AppendOptions],
    ) -> list[str]:
        """Append a tool's result, which the model sees, and the record of its run, as one batch.

        Args:
            tool_call_id: The id of the call.
            tool_name: The tool.
            arguments: What it was called with.
            content: What it answered.
            is_error: Whether it failed.
            error: What went wrong, for the record.
            exit_code: A command's exit code.
            duration_ms: How long it ran, in milliseconds.
            tokens: The size of the result, in tokens.
            message_id: The entry of the assistant's message that holds the call.
            **options: See `AppendOptions`.

        Returns:
            The ids of the result's message and of the record.
        """
        result = Message("tool", (tool_result(tool_call_id, content, is_error=is_error),), tool_name=tool_name)
        record = ToolExecution(
            tool_call_id,
            tool_name,
            raw_json(dict(arguments)),
            success=not is_error,
            error=error,
            exit_code=exit_code,
            duration_ms=duration_ms,
            tokens=tokens,
            message_id=message_id,
        )
        return await self._append((result, record), options)

    async def save_turn(
        self,
        messages: Sequence[Message],
        usage: Usage | None = None,
        *,
        metadata: Mapping[str, object] | None = None,
        **options: Unpack[AppendOptions],
    ) -> list[str]:
        """Append the messages of one turn and what it used, all or nothing.

        Returns:
            The ids of the messages, and last that of the turn's record.
        """
        record = UsageRecord(
            "turn",
            usage or Usage(),
            messages=len(messages),
            raw_metadata=None if metadata is None else raw_json(metadata),
        )
        return await self._append((*messages, record), options)

    async def set_label(self, target_id: str, label: str | None, **options: Unpack[AppendOptions]) -> str:
        """Bookmark an entry; an empty label, or None, takes the bookmark away; see `append`."""
        return await self.append(Label(target_id, label or None), **options)

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
            **options: See `AppendOptions`.

        Returns:
            The id of the summary's entry, which is the leaf now.
        """
        raw = None if details is None else raw_json(details)
        payload = BranchSummary(summary, "", raw, from_hook=from_hook)
        options["below"] = entry_id
        return await self.append(payload, **options)

    async def create_branched_session(self, leaf_id: str) -> Session:
        """Write the path from the root to an entry into a new session, whose parent is this one.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        return await branched(self._core, self, leaf_id)

    async def fork(self, session_id: str | None = None) -> Session:
        """Copy the whole session, all branches included, into a new one whose parent is this one."""
        return await forked(self._core, self, session_id)

    # -- reading the index

    @property
    def header(self) -> Header:
        """What the first line of the log says."""
        return self._index().header

    @property
    def file_path(self) -> str | None:
        """Where the session's file is, or will be with the first append; None in memory."""
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
        """Where the log ends: what to give to `subscribe` to follow from here on."""
        self._check()
        index, generation = self._core.index(self.ref, self._birth, self._follower)
        return Cursor(generation, index.head)

    @property
    def message_count(self) -> int:
        """How many messages the session holds, on all branches."""
        return self._index().message_count

    def tree(self) -> Tree:
        """Return all entries as a tree."""
        return build_tree(self._index())

    def path(self, entry_id: str | None = None) -> list[str]:
        """Return the ids from the root to an entry (the leaf, where none is given).

        Raises:
            EntryNotFound: The session has no such entry.
            CorruptTree: The path runs into a cycle.
        """
        index = self._index()
        return [index.ids[seq] for seq in index.path(self._seq(index, entry_id) if entry_id else index.leaf)]

    def children(self, parent_id: str | None) -> list[str]:
        """Return the ids of an entry's children in the order of the file; of the roots, for None."""
        index = self._index()
        parents = index.parents
        wanted = self._seq(index, parent_id) if parent_id is not None else 0
        return [
            index.ids[seq]
            for seq in range(1, index.head + 1)
            if index.is_entry(seq) and (parents[seq] == wanted or (not wanted and parents[seq] < 0))
        ]

    def label(self, entry_id: str) -> str | None:
        """Return an entry's label, or None."""
        return self._index().label_of(entry_id)

    def labels(self) -> list[tuple[str, str]]:
        """Return all labelled entries, those of the path first and in its order."""
        return labels(self._index())

    def find_by_label(self, label: str) -> list[str]:
        """Return the ids of the entries with this label, on all branches."""
        return find_by_label(self._index(), label)

    # -- reading what entries say

    async def entry(self, entry_id: str) -> Entry | None:
        """Return an entry, or None where the session has none with this id."""
        log = await self.log()
        seq = log.index.find(entry_id)
        return (await log.entries_at([seq]))[seq] if seq else None

    async def entries(self, *, custom_type: str | None = None) -> list[Entry]:
        """Return all entries in the order of the file; only an extension's own, where `custom_type` is given."""
        return [entry async for entry in self.iter_entries(custom_type=custom_type)]

    async def iter_entries(self, after: int = 0, *, custom_type: str | None = None) -> AsyncIterator[Entry]:
        """Yield the entries after an ordinal in the order of the file, without holding them all."""
        log = await self.log()
        async for entry in log.entries(after, log.index.head):
            payload = getattr(entry, entry.type, None)
            if custom_type is None or getattr(payload, "custom_type", None) == custom_type:
                yield entry

    async def context(self, leaf_id: str | None = None) -> Context:
        """Return what a model is shown of the path to an entry (the leaf, where none is given).

        Raises:
            EntryNotFound: The session has no such entry.
            CorruptTree: The path runs into a cycle.
        """
        log = await self.log()
        return await log.context(self._seq(log.index, leaf_id) if leaf_id else log.index.leaf)

    async def messages(self) -> list[Message]:
        """Return the messages of the context."""
        return [each.message for each in (await self.context()).messages]

    async def all_messages(self) -> list[Message]:
        """Return every message of the session in the order of the file, compacted and abandoned ones included."""
        return [entry.message async for entry in self.iter_entries() if isinstance(entry, MessageEntry)]

    async def find_safe_cut(self, keep_tokens: int, *, tokenizer: Tokenizer | None = None) -> str | None:
        """Find the entry to keep from, so that about `keep_tokens` of the path stay and no tool call loses its result.

        Args:
            keep_tokens: How many tokens may stay.
            tokenizer: What counts them; an estimate by bytes where none is given.

        Returns:
            The id for `append_compaction`, or None where the path has no safe cut that keeps less than all of it.
        """
        log = await self.log()
        seqs = log.index.path(log.index.leaf)
        found = await log.entries_at(seqs)
        entries = [entry for seq in seqs if (entry := found[seq]) is not None]
        return find_safe_cut(entries, keep_tokens, lambda entry: entry_tokens(entry, tokenizer))

    async def view(self, projection: Projection[V, Any]) -> V:
        """Return the value of a projection over all entries of the session.

        Raises:
            ProjectionFailed: The projection raised; `rebuild` begins it anew.
        """
        return await self._core.view(await self.log(), projection, anew=False)

    async def rebuild(self, projection: Projection[V, Any]) -> V:
        """Fold a projection from nothing, without its checkpoint, and return its value."""
        return await self._core.view(await self.log(), projection, anew=True)

    # -- following

    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: bool = False
    ) -> EntrySubscription: ...
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
    ) -> EntrySubscription | ViewSubscription[Any, Any]:
        """Follow the session: `async with session.subscribe() as entries: async for entry in entries: ...`.

        Args:
            view: "entries", "context", "tree", "labels", or a projection.
            after: For entries: the cursor or the ordinal of the last one that the subscriber has.
            transient: For entries: yield transient events too.

        Returns:
            For entries, a subscription that yields each entry after the cursor once and in order, then each new one;
            for a view, one that yields a `Snapshot` and then a `Changed` for each change.
        """
        self._check()
        source = self._core.source(self.ref, self._birth, self._follower)
        if view == "entries":
            return EntrySubscription(source, after, transient=transient)
        return ViewSubscription(self._core.shared_view(self.ref, source, view))

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

    async def passivate(self) -> bool:
        """Let the session's memory go now; the next call takes it up again. False where it is busy."""
        self._check()
        return await self._core.registry.passivate(self.ref)

    # -- how it is done

    def _check(self) -> None:
        if self._closed:
            raise SessionClosed(f"the handle of session {self.id!r} was closed: load the session again")
        self._core.check()

    def _index(self) -> LogIndex:
        self._check()
        return self._core.index(self.ref, self._birth, self._follower)[0]

    @staticmethod
    def _seq(index: LogIndex, entry_id: str) -> int:
        seq = index.find(entry_id)
        if not seq:
            raise EntryNotFound(entry_id)
        return seq

    async def log(self) -> OpenLog:
        """Return the open log, caught up with the file; for the layers above, not for programs."""
        self._check()
        if self._follower is not None:
            return await self._follower.ready()
        actor = await self._core.registry.actor(self.ref, self._birth)
        await actor.refresh()
        return actor.log

    async def _append(self, payloads: tuple[Payload, ...], options: AppendOptions) -> list[str]:
        made = await self._perform(Append(payloads, **options))
        return [entry.id or "" for entry in made]

    async def _perform(self, command: Append | MoveLeaf) -> list[Entry]:
        self._check()
        if self._follower is not None:
            raise ReadOnly(f"session {self.id!r} was opened read-only: load it without `read_only` to write")
        registry = self._core.registry
        actor = registry.live(self.ref) or await registry.actor(self.ref, self._birth)
        return await actor.perform(command)
