"""The store protocol: keep the lines of many logs, each with one writer.

A store knows lines and their seqs, not what the lines mean. It assigns the seqs: the header block is 0, the lines after
it count from 1, and blank lines are not counted. Requests come in batches that may span many logs, so that an engine
across a network or a shared journal can serve thousands of sessions in one round.

Owning a log means holding a lease, which has an epoch. Each append names its lease and the head that the caller knows.
If either is outdated, the store writes nothing and answers `Fenced`. Once an append was handed over, it is completed
even if the caller is cancelled.

`treering.testing` provides a test suite for third-party stores.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Protocol, Self, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from msgspec import Struct

from ..dialects.base import Dialect
from ..entries import Header
from ..errors import AppendError, InvalidInput, SessionLocked

T = TypeVar("T")

Ref: TypeAlias = str
"""The name of a log within its store. It is opaque to callers: what it maps to is up to the store."""

BlobKind: TypeAlias = str
"""A kind of data kept beside a log: "index" (the snapshot, derived), "leaf" (the leaf record, state) or "view-<name>"
(the checkpoint of a projection, derived)."""


_CURSOR_TEXT = re.compile(r"(0|[1-9][0-9]{0,18})-([A-Za-z0-9_.~-]*)")


class Cursor(Struct, frozen=True, order=True, gc=False):
    """A place in a log: the generation that it belongs to, and the seq of the last line before it.

    `generation` changes when the log is replaced or shortened from outside, and is empty as long as there is no log.
    Seqs of different generations cannot be compared.

    `str(cursor)` is its text form: the seq, a "-" and the generation, such as "17-2f81a.9c01e77b.0". Each byte (in
    UTF-8) of any other character than ASCII letters, digits, "-", "." and "_" is a "~" and two hex digits, so the text
    is the same in a header, a URL and a file name. `Cursor.parse` reads it.
    """

    generation: str
    seq: int

    def __str__(self) -> str:
        return f"{self.seq}-{_as_text(self.generation)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cursor of which a text is the text form.

        The text does not tell which session the cursor is of.

        Raises:
            InvalidInput: It is not the text form of a cursor.
        """
        match = _CURSOR_TEXT.fullmatch(text) if isinstance(text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if match is not None:
            cursor = cls(unquote(match[2].replace("~", "%")), int(match[1]))
            if str(cursor) == text:  # each cursor has one text form, but characters can be encoded without need
                return cursor
        raise InvalidInput(f"{text!r} is not a cursor: give the text that `str(cursor)` returned")


@lru_cache(1024)
def _as_text(generation: str) -> str:
    return quote(generation, safe="").replace("~", "%7E").replace("%", "~")


class TornTail(Struct, frozen=True):
    """The bytes that a crash left after a log's last newline, and how they were repaired when the log was acquired.

    Attributes:
        offset: The byte offset at which the tail began.
        size: Its size in bytes.
        kept_in: The file to which a fragment was moved; None if the repair was to add a newline.
    """

    offset: int
    size: int
    kept_in: str | None = None


class Lease(Struct, frozen=True, gc=False):
    """The right to append to one log.

    Attributes:
        ref: The log.
        owner: The owner that was passed to `acquire`.
        epoch: A number that grows each time the log changes hands.
        head: The end of the log when the lease was granted; seq 0 if the log does not exist yet.
        header: The log's header; None if the log does not exist yet.
        dialect: The dialect of the log's lines; None if the log does not exist yet.
        torn: The torn tail that was repaired when the lease was granted; None if there was none.
        packed: Whether the log is packed and has to be unpacked before an append; see `Packs`.
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
        lease: The lease on the log.
        expected_head: The head that the caller knows.
        lines: Whole lines, each with its newline.
        atomic: Write all of the lines or none of them, as far as the store can undo a partial write.
        header: The header block with which to create the log, without any line after it; None if the log exists.
        dialect: The dialect with which to create the log; None if the log exists.
    """

    lease: Lease
    expected_head: Cursor
    lines: tuple[bytes, ...]
    atomic: bool = False
    header: bytes | None = None
    dialect: Dialect | None = None


class Committed(Struct, frozen=True, gc=False):
    """The lines are in the log and as durable as the store promises.

    `head` is the new end. If it is further along than the appended lines account for, another program's lines landed
    before them: read on from the old head.
    """

    head: Cursor


class Fenced(Struct, frozen=True):
    """Nothing was written: the log has grown (`head`), was replaced (another generation), or has another owner."""

    head: Cursor
    epoch: int


class Failed(Struct, frozen=True):
    """The lines after `head` were not written. Lines of the request up to `head`, if any, were written whole."""

    head: Cursor
    error: AppendError


class InDoubt(Struct, frozen=True):
    """The lines may or may not be in the log: call `resolve` before the next append."""

    error: AppendError


Outcome: TypeAlias = Committed | Fenced | Failed | InDoubt
"""The result of an append."""


class Page(Struct, frozen=True):
    """Consecutive lines of a log, without their newlines.

    `first` is the seq of the first line. `more` tells whether further lines followed when the page was read.
    """

    first: int
    lines: Sequence[bytes]
    more: bool

    @property
    def last(self) -> int:
        """The seq of the last line; `first - 1` for an empty page."""
        return self.first + len(self.lines) - 1


class Opening(Struct, frozen=True):
    """What a reader learns about a log before it reads lines: its header, its dialect and its end."""

    header: Header
    dialect: Dialect
    head: Cursor


class Stamp(Struct, frozen=True, gc=False):
    """The state of a log, found without opening it: if two stamps of a log are equal, nothing was written in between.

    Attributes:
        size: The size of the log; 0 if nothing was written to it yet.
        changed: When it was last written to, by any clock or count of the store's.
        identity: Tells it from another log that was put in its place.
    """

    size: int
    changed: int
    identity: int


class LogInfo(Struct, frozen=True):
    """A row of a store's listing: the log's name, its size in bytes, and when it last changed."""

    ref: Ref
    size: int
    modified: datetime


class Blob(Struct, frozen=True):
    """Data kept beside a log, and the head for which it was saved."""

    head: Cursor
    data: bytes


class Store(Protocol):
    """The place where logs live.

    Every method may be called from any task of the host's event loop. Methods that take several requests answer them in
    order and independently: a failure of one log does not affect the others.
    """

    def capability(self, kind: Callable[..., T]) -> T | None:
        """Return the object that can do for this store what a protocol of `capabilities` says; None if none can.

        Args:
            kind: The protocol, such as `Packs`.
        """
        ...

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Acquire the right to append to logs. Repair torn tails and migrate old formats in the process.

        A log that does not exist yet can be acquired; its first append creates it.

        Raises:
            NotASession: A log does not begin with a header. It is left unchanged.
            UnsupportedVersion: A log was written by a newer program. It is left unchanged.
        """
        ...

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Extend leases; return False for each that was lost. Stores whose leases do not expire return True."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Release leases. Lost leases are ignored."""
        ...

    def append(self, appends: Sequence[Append]) -> Awaitable[list[Outcome]]:
        """Append to logs, at most one request per log; return when each is as durable as the store promises."""
        ...

    def try_append(self, append: Append) -> Outcome | None:
        """Append immediately, without waiting; return None if that is impossible and `append` has to be awaited."""
        ...

    async def resolve(self, lease: Lease) -> Cursor:
        """Examine the log again after `InDoubt`, `Fenced` or `Failed`, and return its present end."""
        ...

    async def open(self, ref: Ref) -> Opening:
        """Open a log for reading, without owning it and without changing a byte.

        Raises:
            SessionNotFound: There is no such log.
            NotASession: The log does not begin with a header.
            UnsupportedVersion: The log was written by a newer program.
        """
        ...

    async def header_block(self, ref: Ref) -> bytes:
        """Return the header block of a log, byte for byte: it may hold fields that nobody here knows.

        Raises:
            SessionNotFound: There is no such log.
        """
        ...

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """Read the next page of lines after the seq `after`: at least one line if there is one, then as many as fit.

        A last line without its newline is returned if it is a whole JSON object; an incomplete fragment never is.

        Raises:
            LogReplaced: The log has another generation now.
        """
        ...

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines by seq, in the order requested.

        Raises:
            LogReplaced: The log has another generation now.
        """
        ...

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """Return the data of one kind kept beside a log; None if there is none that is valid for this log."""
        ...

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """Save data beside a log, replacing earlier data of the same kind. Fenced like an append."""
        ...

    async def remove(self, lease: Lease) -> None:
        """Delete a log and all copies of it that the store keeps. This ends the lease."""
        ...

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """Write a whole log atomically, replacing any existing one: after a crash, it is either the old or the new log.

        `lines` may be a generator that takes its time. It is consumed off the event loop. Its exceptions are raised
        here, and the log is then unchanged.
        """
        ...

    async def exists(self, ref: Ref) -> bool:
        """Return whether a log of this name exists, without reading it."""
        ...

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        """List the logs whose names begin with `prefix` and sort after `after`, in the order of their names."""
        ...

    async def aclose(self) -> None:
        """Release everything that the store holds."""
        ...


class Peek(Protocol):
    """A log opened for a single read, without waiting."""

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
