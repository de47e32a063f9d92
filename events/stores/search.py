"""The capability of keeping a search index: what it is given, what it is asked, and what it says.

An index is brought up to date in portions: the texts of a log between two checkpoints. It finds the entries that may
match a query, and their texts decide which of them really do, so all engines find the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from msgspec import Struct

from .base import Ref, Stamp

UNFINISHED = ""
"""The stamp of a log of which more must be indexed; it equals that of no log."""


def text_of(stamp: Stamp) -> str:
    """Return a stamp as an index stores it: as text, since its numbers may exceed those of a database."""
    return f"{stamp.size} {stamp.changed} {stamp.identity}"


def folded(text: str) -> str:
    """Return a text in the form in which texts are compared, which may be longer than the original."""
    return text.lower() if text.isascii() else text.casefold()


class EntryText(Struct, frozen=True):
    """The searchable text of an entry.

    Attributes:
        seq: Its seq in the log.
        entry_id: Its id.
        role: The role of a message, or the type of any other entry.
        tools: The tools that it calls, or whose result it holds.
        timestamp: When it was appended.
        text: Its text.
    """

    seq: int
    entry_id: str
    role: str
    tools: tuple[str, ...]
    timestamp: datetime
    text: str


class Filters(Struct, frozen=True, kw_only=True):
    """Conditions on entries.

    Attributes:
        role: Only entries of this role or type.
        tool: Only entries that call this tool or hold its result.
        after: Only entries appended at this time or later.
        before: Only entries appended before this time.
    """

    role: str | None = None
    tool: str | None = None
    after: datetime | None = None
    before: datetime | None = None

    def accept(self, text: EntryText) -> bool:
        """Return whether an entry meets the conditions, regardless of its text."""
        return (
            (self.role is None or text.role == self.role)
            and (self.tool is None or self.tool in text.tools)
            and (self.after is None or text.timestamp >= self.after)
            and (self.before is None or text.timestamp < self.before)
        )


class Wanted(Protocol):
    """A query, as far as an index needs to know it."""

    @property
    def trigrams(self) -> tuple[str, ...]:
        """Runs of three characters that a matching text must contain, `folded`; none if the query is too short."""
        ...

    def matches(self, text: str) -> bool:
        """Return whether a text matches."""
        ...


class Checkpoint(Struct, frozen=True):
    """How far a log is indexed: the generation, the last line's seq, and its checksum."""

    generation: str = ""
    seq: int = 0
    crc: int = 0


class IndexedLog(Struct, frozen=True):
    """What an index knows about a log: its number, its stamp when it was indexed (as text), and the checkpoint."""

    number: int
    stamp: str
    checkpoint: Checkpoint


class Portion(Struct, frozen=True):
    """Texts of one log, to be added to the index.

    Attributes:
        ref: The log.
        stamp: Its stamp before it was read (as text); `UNFINISHED` when another portion follows.
        before: The checkpoint that the texts follow; None if they are the first of the log.
        after: The checkpoint that is valid once they are indexed.
        texts: The texts.
    """

    ref: Ref
    stamp: str
    before: Checkpoint | None
    after: Checkpoint
    texts: list[EntryText]


class Unindexed(Struct, frozen=True):
    """A log whose texts are not all in the index.

    Attributes:
        ref: The log.
        stamp: Its stamp (as text).
        known: What the index knows of it, if anything.
    """

    ref: Ref
    stamp: str
    known: IndexedLog | None = None


class IndexUnavailable(Exception):
    """There is no usable index here: search without it."""


@runtime_checkable
class KeepsSearch(Protocol):
    """A store that keeps an index of the texts in its logs.

    All of it is derived. Several hosts may use it at the same time: an update first checks how far a log is indexed
    now. Each asking for this capability gives an index of its own, which the asker closes. Every call blocks, and may
    raise `IndexUnavailable`: then the logs are read. Without this capability, a search always reads the logs.
    """

    @property
    def changes(self) -> int:
        """Increases with each change of what `known` returns."""
        ...

    def exists(self) -> bool:
        """Return whether there is an index."""
        ...

    def can_be_created(self) -> bool:
        """Return whether there is a place for an index."""
        ...

    def known(self) -> dict[Ref, IndexedLog]:
        """Return what the index knows of all logs."""
        ...

    def update(self, portions: Sequence[Portion], gone: Sequence[Ref] = ()) -> None:
        """Index texts, and remove logs that no longer exist; all of it or nothing.

        A portion that does not follow the stored checkpoint is skipped: another host was quicker.
        """
        ...

    def candidates(self, query: Wanted) -> dict[int, list[int]] | None:
        """Return the numbers of the entries that may match a query, by log; None if there are too many."""
        ...

    def find(
        self,
        query: Wanted,
        filters: Filters,
        log: int,
        candidates: Sequence[int] | None = None,
        *,
        after: int = 0,
        limit: int,
    ) -> list[EntryText]:
        """Return the texts of one log that match a query and its filters, in order.

        An engine may look up more than that, and then asks the query itself which of it matches.

        Args:
            query: The query.
            filters: What narrows it down.
            log: The number of the log.
            candidates: The numbers of its entries that may match, if they are known; see `candidates`.
            after: The seq after which the texts come.
            limit: The maximum number of texts.
        """
        ...

    def forget(self, ref: Ref) -> None:
        """Remove the texts of a log that was removed, from every index that may hold them."""
        ...

    def close(self) -> None:
        """Release the index for good."""
        ...


@runtime_checkable
class FindsTexts(KeepsSearch, Protocol):
    """A store that keeps a search index beside rows that it finds, for so many logs that a host cannot hold all rows.

    A search then asks for the rows of logs that may match, and for no others. Without this capability, a search over
    a store that finds rows reads the logs, one after the other.
    """

    def unindexed(self, *, after: Ref = "", limit: int | None = None) -> list[Unindexed]:
        """Return logs whose texts are not all in the index, in the order of their names.

        Args:
            after: Only logs whose name comes later.
            limit: The maximum number of logs.
        """
        ...

    def numbers(self, refs: Collection[Ref]) -> dict[Ref, int]:
        """Return the numbers of those logs whose texts are all in the index."""
        ...

    def names(self, numbers: Collection[int]) -> dict[int, Ref]:
        """Return the logs that have these numbers."""
        ...
