"""What every store can do: keep the lines of many logs, each with one writer.

A store knows lines and ordinals, not what lines say. It assigns the ordinals: the header block is 0, the lines after it
count from 1, blank ones left out. It is asked in batches that may span many logs, so that an engine across a network or
a shared journal can serve thousands of sessions in one round.

Owning a log is a lease with an epoch. Whoever appends names the lease and the head that it knows; a store that finds
either outdated answers `Fenced` and has written nothing. An append that was handed over is carried out whole, whatever
becomes of the caller.

`treering.testing` holds the suite that tells whether a store of your own keeps to this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from ..dialects.base import Dialect
from ..entries import Header
from ..errors import AppendError, SessionLocked, Where

Ref: TypeAlias = str
"""The name of a log within its store. It carries no path and no handle; what it maps to is the store's business."""

BlobKind: TypeAlias = str
"""What is kept beside a log: "index" (the snapshot, derived), "leaf" (the leaf record, state), "view-<name>" (the
checkpoint of a projection, derived)."""


class Cursor(Struct, frozen=True, order=True, gc=False):
    """A place in a log: the history that it belongs to, and the ordinal of the last line before it.

    `generation` changes when the log is replaced or shortened from outside; ordinals of two generations do not compare.
    """

    generation: str
    seq: int


class TornTail(Struct, frozen=True):
    """What a crash left after a log's last newline, and what became of it when the log was acquired.

    Attributes:
        offset: Where it began, in bytes.
        size: How many bytes it had.
        kept_in: The file that a fragment was moved to; None where a newline was all that was missing.
    """

    offset: int
    size: int
    kept_in: str | None = None


class Lease(Struct, frozen=True, gc=False):
    """The right to append to one log.

    Attributes:
        ref: The log.
        owner: Who holds it, as given to `acquire`.
        epoch: Grows each time that the log changes hands.
        head: Where the log ended when the lease was given; seq 0 for a log that is not there yet.
        header: What the log's header says; None for a log that is not there yet.
        dialect: How its lines are written; None for a log that is not there yet.
        torn: The torn tail that was repaired when the lease was given; None where there was none.
        packed: The log is packed: it has to be unpacked before anything is appended; see `ArchivingStore`.
    """

    ref: Ref
    owner: str
    epoch: int
    head: Cursor
    header: Header | None = None
    dialect: Dialect | None = None
    torn: TornTail | None = None
    packed: bool = False


class Append(Struct, frozen=True, gc=False):
    """A request to append lines to one log.

    Attributes:
        lease: The right to do so.
        expected_head: The head that the caller knows.
        lines: Whole lines, each with its newline.
        atomic: Land all of the lines or none of them, as far as the store can cut.
        header: The header block with which to create the log; None where it is there.
        dialect: The dialect of a log that is created; None where it is there.
    """

    lease: Lease
    expected_head: Cursor
    lines: tuple[bytes, ...]
    atomic: bool = False
    header: bytes | None = None
    dialect: Dialect | None = None


class Committed(Struct, frozen=True, gc=False):
    """The lines are in the log and as durable as the store promises.

    `head` is the new end. Where it is further on than the lines account for, another program's lines landed before
    them: read on from the old head.
    """

    head: Cursor


class Fenced(Struct, frozen=True):
    """Nothing was written: the log has gone on (`head`), was replaced (another generation), or has another owner."""

    head: Cursor
    epoch: int


class Failed(Struct, frozen=True):
    """The lines after `head` were not written; those up to it were, where some landed whole."""

    head: Cursor
    error: AppendError


class InDoubt(Struct, frozen=True):
    """The lines may be in the log or not: ask `resolve` before the next append."""

    error: AppendError


Outcome: TypeAlias = Committed | Fenced | Failed | InDoubt
"""What became of an append."""


class Page(Struct, frozen=True):
    """Consecutive lines of a log, without their newlines.

    `first` is the ordinal of the first of them, `more` tells whether the log went on when the page was read.
    """

    first: int
    lines: Sequence[bytes]
    more: bool

    @property
    def last(self) -> int:
        """The ordinal of the last line; one before the first for an empty page."""
        return self.first + len(self.lines) - 1


class Opening(Struct, frozen=True):
    """What a reader learns of a log before it reads lines: its header, its dialect, where it ends."""

    header: Header
    dialect: Dialect
    head: Cursor


class LogInfo(Struct, frozen=True):
    """A row of a store's listing: the log's name, its size in bytes, when it last changed."""

    ref: Ref
    size: int
    modified: datetime


class Blob(Struct, frozen=True):
    """What was kept beside a log, and the head at which it was true."""

    head: Cursor
    data: bytes


class Store(Protocol):
    """Where logs live.

    Every method may be called from any task of the host's event loop. Methods that take several requests answer them in
    order and keep nothing from one to the other: a log that fails does not fail its neighbours.
    """

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Take the right to append to logs, repairing a torn tail and migrating an old format on the way.

        A log that is not there yet can be acquired; it appears with its first append.

        Raises:
            NotASession: A log does not begin with a header; it is left as it is.
            UnsupportedVersion: A newer program wrote a log; it is left as it is.
        """
        ...

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Keep leases for longer; False for one that was lost. Stores whose leases do not run out answer True."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back; one that was lost is ignored."""
        ...

    def append(self, appends: Sequence[Append]) -> Awaitable[list[Outcome]]:
        """Append to logs, at most one request a log; returns when each is as durable as the store promises."""
        ...

    def try_append(self, append: Append) -> Outcome | None:
        """Append at once and without waiting, or return None: then `append` has to be awaited."""
        ...

    async def resolve(self, lease: Lease) -> Cursor:
        """After `InDoubt`, `Fenced` or `Failed`: look at the log again and return where it ends now."""
        ...

    async def open(self, ref: Ref) -> Opening:
        """Look at a log without owning it and without changing a byte.

        Raises:
            SessionNotFound: There is no such log.
            NotASession: It does not begin with a header.
            UnsupportedVersion: A newer program wrote it.
        """
        ...

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """Read the next page of lines after an ordinal: at least one line where there is one, and no more than fits.

        A fragment without its newline is never returned, but as the last line of a log it is when it is whole JSON.

        Raises:
            LogReplaced: The log has another generation now.
        """
        ...

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines by ordinal, in the order asked for.

        Raises:
            LogReplaced: The log has another generation now.
        """
        ...

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """Return what was kept beside a log, or None where nothing valid is there: then derive it anew."""
        ...

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """Keep something beside a log, in place of what was kept of that kind; fenced like an append."""
        ...

    async def remove(self, lease: Lease) -> None:
        """Delete a log and all copies that the store keeps of it; the lease ends with it."""
        ...

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """Write a whole log in one step, in place of what is there: after a crash it is the old one or the new one.

        `lines` may be made while they are written, on whatever thread the store writes from. What making them raises is
        raised here, and the log is then as it was.
        """
        ...

    async def exists(self, ref: Ref) -> bool:
        """Tell whether there is a log of this name, without looking into it."""
        ...

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        """List logs whose names begin with `prefix`, in order of name, after a name."""
        ...

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        """Yield the logs that may have changed. Wake-ups may be merged; the last one is never lost."""
        ...

    async def aclose(self) -> None:
        """Let go of all that the store holds."""
        ...


class Peek(Protocol):
    """A log that is looked at once, without waiting."""

    @property
    def opening(self) -> Opening:
        """See `Store.open`."""
        ...

    def load(self, kind: BlobKind) -> Blob | None:
        """See `Store.load`."""
        ...

    def read(self, after: int) -> Page:
        """See `Store.read`."""
        ...


@runtime_checkable
class ArchivingStore(Protocol):
    """A store that can keep a log at rest in less room.

    A packed log is listed, read and removed like any other, by the same name, and its lines are the same bytes. Nothing is
    appended to it: whoever acquires it sees in the lease that it is packed, and unpacks it. A store without these calls
    keeps archived sessions as they are.
    """

    async def pack(self, lease: Lease) -> None:
        """Keep a log in its packed form; the lease ends with it. After a crash it is packed or it is not, and whole.

        Raises:
            Conflict: The lease is over, or another program changed the log meanwhile.
        """
        ...

    async def unpack(self, lease: Lease) -> Lease:
        """Keep a packed log as it was before; return the lease to go on with. A log that is not packed stays as it is.

        Raises:
            Conflict: The lease is over.
        """
        ...


@runtime_checkable
class LocalStore(Protocol):
    """A store on this machine, which can be looked into without waiting.

    Reads of the index of a session that was let go are answered through this; in a store without it, such a read is an
    error that says to take the session up first.
    """

    def peek(self, ref: Ref) -> Peek:
        """Look at a log at once.

        Raises:
            SessionNotFound: There is no such log.
        """
        ...

    def places(self, ref: Ref, seqs: Sequence[int]) -> dict[int, Where]:
        """Find where lines stand, for people to look at; what cannot be found is left out. It may take a while."""
        ...
