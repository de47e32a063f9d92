"""The part of a session's handle that reads.

Reads of the index answer at once from the committed state; reads of entries are awaited. Return values belong to the
caller, or are immutable.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from ...events.arguments import check_count
from ...events.entries import Entry, Header, Message, MessageEntry
from ...events.stores.base import Cursor
from ...projections.base import Valued
from ...projections.context import Context
from ...projections.cuts import find_safe_cut
from ...projections.labels import find_by_label, labels
from ...projections.tokens import Tokenizer, entry_tokens
from ...projections.tree import Tree, build_tree
from ..session.reading import Handle, read_log

if TYPE_CHECKING:
    from ..log.open_log import OpenLog

V = TypeVar("V")


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
        index, generation = self._core.index(self.ref, self._new_log, self._follower)
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
            return [entry async for entry in entries_after(log) if is_of_custom_type(entry, custom_type)]

        return await read_log(self, read)

    async def iter_entries(self, after: int = 0, *, custom_type: str | None = None) -> AsyncGenerator[Entry]:
        """Yield the entries after a seq in the order of the file, without holding them all in memory.

        Entries that are appended during the iteration are left out.

        Args:
            after: The seq of the last entry to leave out.
            custom_type: Only an extension's entries of this type.

        Raises:
            InvalidInput: `after` is not a whole number of 0 or more.
            LogReplaced: The file was replaced meanwhile; another process that archives the session does that, too.
        """
        check_count("after", after)
        async with aclosing(entries_after(await self.log(), after)) as entries:
            async for entry in entries:
                if is_of_custom_type(entry, custom_type):
                    yield entry

    async def context(self, leaf_id: str | None = None) -> Context:
        """Return what a model is shown of the path to an entry (by default the leaf).

        Raises:
            EntryNotFound: The session has no such entry.
            CorruptTree: The path runs into a cycle.
        """
        return await read_log(self, lambda log: log.context(log.index.path_end(leaf_id)))

    async def messages(self) -> list[Message]:
        """Return the messages of the context, oldest first, as `history` does."""
        return [each.message for each in (await self.context()).messages]

    async def all_messages(self) -> list[Message]:
        """Return every message of the session in the order of the file, including compacted and abandoned ones."""

        async def read(log: OpenLog) -> list[Message]:
            return [entry.message async for entry in entries_after(log) if isinstance(entry, MessageEntry)]

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
        return await read_log(
            self, lambda log: self._core.view(log, self._follower, projection, from_scratch=from_scratch)
        )


async def entries_after(log: OpenLog, after: int = 0) -> AsyncGenerator[Entry]:
    """Yield the visible entries of a log after a seq, up to its present end, in the order of the file."""
    head = log.index.head
    while after < head:
        entries, after = await log.page(after, head)
        for entry in entries:
            yield entry


def is_of_custom_type(entry: Entry, custom_type: str | None) -> bool:
    """Return whether an entry is an extension's own of this type; without a type, every entry matches."""
    payload = getattr(entry, entry.type, None)
    return custom_type is None or getattr(payload, "custom_type", None) == custom_type
