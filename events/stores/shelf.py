"""The shelf of a store in memory: its logs, what is kept beside them, and the rows of their listing."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

import anyio

from ..dialects.base import Dialect
from ..entries import EPOCH, Header
from .base import Blob, BlobKind, Cursor, Lease, Opening, Page, Ref, Stamp
from .capabilities import KeepsRows, KeptRow, KeptRows

PAGE = 1024 * 1024
"""The maximum size in bytes of a page with more than one line."""

_MICROSECOND = timedelta(microseconds=1)


class MemoryLog:
    """One log: its lines, its owner, and the data kept beside it.

    Attributes:
        number: Counts the histories of all logs; another one follows when the log is begun anew.
        lease: The owner, as an object that is a store, and its lease.
        change: Counts what watchers want to know of.
    """

    __slots__ = (
        "_lines",
        "_packed",
        "beside",
        "block",
        "change",
        "dialect",
        "epoch",
        "header",
        "last",
        "lease",
        "modified",
        "number",
        "size",
    )

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._packed: bytes | None = None
        self.beside: dict[BlobKind, Blob] = {}
        self.block = b""
        self.change = 0
        self.dialect: Dialect | None = None
        self.epoch = 0
        self.header: Header | None = None
        self.last = 0
        self.lease: tuple[object, Lease] | None = None
        self.modified = EPOCH
        self.number = 0
        self.size = 0

    @property
    def generation(self) -> str:
        """The generation of the log."""
        return f"m{self.number}" if self.number else ""

    @property
    def head(self) -> Cursor:
        """The end of the log."""
        return Cursor(self.generation, self.last)

    @property
    def stamp(self) -> Stamp:
        """What tells whether the log changed."""
        return Stamp(self.size, (self.modified - EPOCH) // _MICROSECOND * 1000, self.number)

    @property
    def packed(self) -> bool:
        """Whether the lines are compressed."""
        return self._packed is not None

    def begin(self, number: int, block: bytes, header: Header, dialect: Dialect) -> None:
        """Begin a history with a header block."""
        self.number, self.block, self.header, self.dialect = number, block, header, dialect
        self._lines, self._packed, self.last, self.size = [], None, 0, len(block)

    def extend(self, lines: Sequence[bytes]) -> None:
        """Append lines, each with its newline."""
        self._lines.extend(line[:-1].removesuffix(b"\r") for line in lines)
        self.last += len(lines)
        self.size += sum(map(len, lines))

    def lines(self) -> list[bytes]:
        """Return all lines, which the caller does not change."""
        if self._packed is None:
            return self._lines
        return zlib.decompress(self._packed).split(b"\n") if self.last else []

    def pack(self) -> None:
        """Compress the lines."""
        self._lines, self._packed = [], zlib.compress(b"\n".join(self.lines()))

    def unpack(self) -> None:
        """Decompress the lines."""
        self._lines, self._packed = self.lines(), None

    def page(self, after: int, through: int | None) -> Page:
        """Return the next page; see `Store.read`."""
        lines, end = self.lines(), self.last
        last = end if through is None else min(through, end)
        chosen: list[bytes] = []
        size = 0
        for at in range(after, last):
            line = lines[at]
            size += len(line) + 1
            if chosen and size > PAGE:
                break
            chosen.append(line)
        return Page(after + 1, chosen, after + len(chosen) < end)


class MemoryPeek:
    """A log in memory, opened for a single read."""

    def __init__(self, log: MemoryLog) -> None:
        assert log.header is not None
        assert log.dialect is not None
        self._log = log
        self.opening = Opening(log.header, log.dialect, log.head)

    def load(self, kind: BlobKind) -> Blob | None:
        """Return data kept beside the log; see `Store.load`."""
        return self._log.beside.get(kind)

    def read(self, after: int) -> Page:
        """Read the next page of lines; see `Store.read`."""
        return self._log.page(after, None)


class MemoryRows(KeepsRows):
    """The rows of a listing, in memory; see `KeepsRows`."""

    def __init__(self) -> None:
        self._rows: dict[Ref, KeptRow] | None = None
        self._current: dict[str, Ref] = {}

    def rows(self) -> KeptRows | None:
        """Return all rows; None if none were ever kept."""
        return None if self._rows is None else KeptRows(self._rows.copy(), "memory")

    def keep(self, rows: Sequence[KeptRow], gone: Collection[Ref]) -> bool:
        """Keep rows, and drop those of logs that are gone."""
        kept = self._rows or {}
        self._rows = {ref: row for ref, row in kept.items() if ref not in gone} | {row.ref: row for row in rows}
        return True

    def currents(self) -> Mapping[str, Ref]:
        """Return the current logs of all projects."""
        return self._current.copy()

    def set_current(self, project_hash: str, ref: Ref | None) -> None:
        """Set the current log of a project, or clear it."""
        if ref is None:
            self._current.pop(project_hash, None)
        else:
            self._current[project_hash] = ref


class Shelf:
    """The logs of one or more memory stores, and what is kept of them.

    Attributes:
        logs: The logs; one without a header does not exist yet, but has an owner.
        rows: The rows of their listing.
        numbers: Counts the histories of logs.
        epochs: Counts leases.
        wakeups: What wakes those who wait for a change.
    """

    def __init__(self) -> None:
        self.logs: dict[Ref, MemoryLog] = {}
        self.rows = MemoryRows()
        self.numbers = count(1)
        self.epochs = count(1)
        self.wakeups: set[anyio.Event] = set()
        self._changes = count(1)
        self._time = datetime.now(UTC)

    def touch(self, log: MemoryLog) -> None:
        """Note that a log changed, and wake its watchers."""
        self._time = max(self._time + _MICROSECOND, datetime.now(UTC))
        log.modified = self._time
        self.wake(log)

    def wake(self, log: MemoryLog) -> None:
        """Number a change of a log, and wake all watchers."""
        log.change = next(self._changes)
        wakeups, self.wakeups = self.wakeups, set()
        for event in wakeups:
            event.set()
