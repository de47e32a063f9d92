"""The part of a session's handle that reads.

Reads of the index answer at once from the committed state; reads of what entries say are awaited. What is returned is
the caller's own, or cannot be changed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import TypeVar

from ..events.entries import Entry, Header, Message, MessageEntry
from ..events.stores.base import Cursor
from ..projections.base import Valued
from ..projections.context import Context
from ..projections.cuts import find_safe_cut
from ..projections.labels import find_by_label, labels
from ..projections.tokens import Tokenizer, entry_tokens
from ..projections.tree import Tree, build_tree
from .handle import Handle

V = TypeVar("V")


class Reading(Handle):
    """What can be read of a session."""

    __slots__ = ()

    # -- reading the index

    @property
    def header(self) -> Header:
        """What the first line of the log says."""
        return self._index().header

    @property
    def file_path(self) -> str | None:
        """Where the session's file is, or will be with the first append; None in memory.

        While the session is archived, what is there is compressed, and its name goes on in ".zst" or ".gz".
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
        return [index.ids[seq] for seq in index.path(index.path_end(entry_id))]

    def children(self, parent_id: str | None) -> list[str]:
        """Return the ids of an entry's children in the order of the file; of the roots, for None."""
        index = self._index()
        parents = index.parents
        wanted = index.seq_of(parent_id) if parent_id is not None else 0
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

    async def iter_entries(self, after: int = 0, *, custom_type: str | None = None) -> AsyncGenerator[Entry]:
        """Yield the entries after an ordinal in the order of the file, without holding them all.

        What is appended after the first of them was asked for is left out.

        Args:
            after: The ordinal of the last entry to leave out.
            custom_type: Only an extension's own, of this type.
        """
        log = await self.log()
        head = log.index.head
        while after < head:
            entries, after = await log.page(after, head)
            for entry in entries:
                if is_of_custom_type(entry, custom_type):
                    yield entry

    async def context(self, leaf_id: str | None = None) -> Context:
        """Return what a model is shown of the path to an entry (the leaf, where none is given).

        Raises:
            EntryNotFound: The session has no such entry.
            CorruptTree: The path runs into a cycle.
        """
        log = await self.log()
        return await log.context(log.index.path_end(leaf_id))

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
            The id for `append_compaction`, or None where there is no safe cut that keeps less than all that the context
            shows of the path. What was compacted away is never kept again.
        """
        log = await self.log()
        entries = await log.entries_in((await log.plan(log.index.leaf)).kept)
        return find_safe_cut(entries, keep_tokens, lambda entry: entry_tokens(entry, tokenizer))

    async def view(self, projection: Valued[V]) -> V:
        """Return the value of a projection over all entries of the session.

        Raises:
            InvalidInput: It is no projection, or its name is one of treering's own.
            ProjectionFailed: The projection raised; `rebuild` begins it anew.
        """
        return await self._core.view(await self.log(), self._follower, projection, anew=False)

    async def rebuild(self, projection: Valued[V]) -> V:
        """Fold a projection from nothing, without its checkpoint, and return its value."""
        return await self._core.view(await self.log(), self._follower, projection, anew=True)


def is_of_custom_type(entry: Entry, custom_type: str | None) -> bool:
    """Tell whether an entry is an extension's own of this type; where no type is given, any entry is."""
    payload = getattr(entry, entry.type, None)
    return custom_type is None or getattr(payload, "custom_type", None) == custom_type
