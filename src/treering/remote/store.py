"""The logs of a server, as a store that is only read: the library's own readers, folds and views work on it.

Nothing is kept here. A host keeps the index of each log that it follows, and the entries that were read last, within
`Limits.cache_bytes_max`; all others are asked for again. While a log has subscribers, a stream brings each entry as it
is appended. Appending is a command, which the server carries out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import NoReturn, TypeVar

import anyio
import msgspec
from msgspec import Raw

from ..actors.log.follower import WATCH_AGAIN_S
from ..actors.log.open_log import OpenLog, encode_leaf
from ..actors.log.source import Source
from ..events.dialects.base import Dialect
from ..events.dialects.detect import dialect_named
from ..events.dialects.native import NativeDialect
from ..events.errors import LogReplaced, NotFound, ReadOnly, SessionLocked, SessionNotFound
from ..events.http_clients import Event
from ..events.stores.base import Append, Blob, BlobKind, Cursor, Lease, LogInfo, Opening, Outcome, Page, Ref
from ..events.stores.capabilities import Watches, offered
from ..projections.feed_events import TextPiece, Transient
from ..wire import EntryPage, LeafReply, SessionDetail
from .connection import Connection, segment
from .lines import DAMAGED, WireDialect, lines_of

T = TypeVar("T")

PAGE_MAX = 1000
"""The most entries that are asked for at once."""

_GAP_MAX = 16
"""How many lines that nobody asked for are read rather than asking twice."""

_KINDS = "entry,leaf,transient,ready"


class RemoteStore:
    """The logs of a server.

    Args:
        connection: The server.
        source_of: Returns the source of a log, to which a stream brings entries.
    """

    def __init__(self, connection: Connection, source_of: Callable[[Ref], Source]) -> None:
        self._connection = connection
        self._source_of = source_of
        self._leaves: dict[Ref, Blob] = {}

    def capability(self, kind: Callable[..., T]) -> T | None:
        """Return this store for `Watches`; it has nothing else. See `Store.capability`."""
        return offered(self, kind, {Watches})

    # -- reading

    async def detail(self, ref: Ref) -> SessionDetail:
        """Return a session as it is now.

        Raises:
            SessionNotFound: There is none.
        """
        return await self._connection.ask(SessionDetail, "GET", f"/v1/sessions/{segment(ref)}")

    async def open(self, ref: Ref) -> Opening:
        """Open a log for reading; see `Store.open`."""
        detail = await self.detail(ref)
        return Opening(detail.header, WireDialect(dialect_named(detail.dialect)), Cursor.parse(detail.cursor))

    async def header_block(self, ref: Ref) -> bytes:
        """Return the header line in the native form; see `Store.header_block`."""
        return NativeDialect().encode_header((await self.detail(ref)).header)

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """Read the next page of lines; see `Store.read`."""
        limit = PAGE_MAX if through is None else min(PAGE_MAX, max(1, through - after))
        query = {"after": str(Cursor(generation, after)), "limit": str(limit)}
        page = await self._connection.ask(EntryPage, "GET", f"/v1/sessions/{segment(ref)}/entries", query=query)
        end = Cursor.parse(page.cursor)
        if end.generation != generation:
            raise LogReplaced(f"the log of session {ref!r} was replaced: read it from the start")
        if page.up_to_date and through is None:
            self._leaves[ref] = Blob(end, encode_leaf(page.leaf))
        return Page(after + 1, lines_of(page, after, through), not page.up_to_date)

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """Read single lines by seq; see `Store.bodies`."""
        lines: dict[int, bytes] = {}
        for first, last in _ranges(sorted({*seqs})):
            after = first - 1
            while after < last and (page := await self.read(ref, generation, after, through=last)).lines:
                lines.update(enumerate(page.lines, page.first))
                after = page.last
        return [lines.get(seq, DAMAGED) for seq in seqs]

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """Return where the leaf is, or was when the log was just read; nothing else is kept beside a log."""
        if kind != "leaf":
            return None
        known = self._leaves.pop(ref, None)
        if known is not None:
            return known
        leaf = await self._connection.ask(LeafReply, "GET", f"/v1/sessions/{segment(ref)}/leaf")
        return Blob(Cursor.parse(leaf.cursor), encode_leaf(leaf.leaf))

    async def exists(self, ref: Ref) -> bool:
        """Return whether there is such a session."""
        with suppress(SessionNotFound):
            await self.detail(ref)
            return True
        return False

    # -- following

    async def watch(self, refs: Sequence[Ref]) -> AsyncGenerator[set[Ref]]:
        """Bring each entry of one log to its source as it is appended; yield where the source should look by itself."""
        (ref,) = refs
        source = self._source_of(ref)

        def since() -> str:
            log = source.followed_log
            return "start" if log is None or not log.generation else str(log.cursor)

        path = f"/v1/sessions/{segment(ref)}/events"
        while True:
            with suppress(NotFound):  # a session that is gone may come back, as another log
                async with aclosing(self._connection.follow(path, {"kinds": _KINDS}, since)) as events:
                    async for event in events:
                        if not _take(source, event):
                            yield {ref}
            await anyio.sleep(WATCH_AGAIN_S)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connection.aclose()

    # -- what only the server does

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """Refuse it: the server owns its logs."""
        self._refuse()

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """Return that there are no leases."""
        return [False] * len(leases)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Do nothing: there are no leases."""

    def append(self, appends: Sequence[Append]) -> Awaitable[list[Outcome]]:
        """Refuse it: appending is a command."""
        self._refuse()

    def try_append(self, append: Append) -> Outcome | None:
        """Refuse it: appending is a command."""
        self._refuse()

    async def resolve(self, lease: Lease) -> Cursor:
        """Refuse it: there are no leases."""
        self._refuse()

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """Refuse it: there are no leases."""
        self._refuse()

    async def remove(self, lease: Lease) -> None:
        """Refuse it: deleting is a request of its own."""
        self._refuse()

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """Refuse it: importing is a request of its own."""
        self._refuse()

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        """Refuse it: the listing is asked for by itself."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ReadOnly(f"the logs of {self._connection.url} belong to the server: write by the calls of a session")


def _ranges(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each group of seqs that are read together."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and seq - ranges[-1][1] <= _GAP_MAX:
            ranges[-1] = ranges[-1][0], seq
        else:
            ranges.append((seq, seq))
    return ranges


class _Transient(msgspec.Struct):
    name: str
    data: Raw = Raw(b"null")


class _Piece(msgspec.Struct, forbid_unknown_fields=True):
    """The data of a piece of a text; see `TextPiece`."""

    message: str
    offset: int
    end: int
    text: str


_piece_decoder = msgspec.json.Decoder(_Piece)


def _take(source: Source, event: Event) -> bool:
    """Take an event of a log's stream, and return whether that was all: otherwise its source has to look by itself."""
    log = source.followed_log
    if event.event == "entry" and event.id is not None and log is not None:
        return _fold(log, Cursor.parse(event.id), event.data)
    if event.event == "transient":
        if source.feed is not None:
            source.feed.publish(_transient(source, event.data), len(event.data))
        return True
    if event.event == "leaf" and log is not None:
        # A move that this host knows already, or an older one: what the server says when it is asked is never stale.
        leaf = msgspec.json.decode(event.data, type=LeafReply)
        return (leaf.cursor, leaf.leaf) == (str(log.cursor), log.index.ids[log.index.leaf] if log.index.leaf else None)
    return event.event not in ("entry", "ready", "reset", "problem")


def _transient(source: Source, data: bytes) -> Transient:
    """Return an event that no log keeps, and note the texts that are being written for subscribers that come late."""
    told = msgspec.json.decode(data, type=_Transient)
    try:
        piece = _piece_decoder.decode(told.data)
    except msgspec.ValidationError:
        return Transient(told.name, told.data)
    log = source.followed_log
    taken = TextPiece(told.name, told.data, piece.message, piece.offset, piece.text)
    source.texts().take(taken, lambda: 0 if log is None else log.index.head)
    return taken


def _fold(log: OpenLog, at: Cursor, line: bytes) -> bool:
    """Fold an entry of a stream into its log. Seqs that the stream left out are those of lines that nobody can read."""
    seen = log.index.seen
    if log.generation and log.generation != at.generation:
        return False
    log.generation = at.generation
    if at.seq > seen:
        log.fold_page(Page(seen + 1, [*[DAMAGED] * (at.seq - seen - 1), line], more=False))
    return True
