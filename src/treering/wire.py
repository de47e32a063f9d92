"""What a server replies and its remote clients read: the shapes of rows, pages, hits and reports, each written once.

A server makes them of the library's values; `treering.remote` makes these values of them again. A reader passes over
fields that it does not know, so that a server may be newer than its clients. Problems are in `events.problem`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from .actors.catalog.archiving import Reason, RetentionReport, Retired, Spared
from .actors.search.hits import Hit
from .actors.transfer.reports import ImportReport
from .events.entries import Header, Usage
from .events.findings import Finding, LeftOut, Severity
from .projections.session_state import CalledTool, SessionState, Word
from .projections.summary import SessionSummary

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True, omit_defaults=True):
    """A page. It is the last one when `next` is null; its size says nothing.

    Attributes:
        items: The items.
        next: What to pass as `page` for the next page.
        total: How many items there are on all pages, if that was asked for.
    """

    items: Sequence[T]
    next: str | None
    total: int | None = None


# -- sessions


class Parent(Struct, frozen=True):
    """The session from which another one was copied or spawned; with its entry, if it belongs to one as a sub-agent."""

    session: str
    entry: str | None


class StateReply(Struct, frozen=True, kw_only=True):
    """What a session is doing; see `SessionState` for what the fields mean.

    Attributes:
        session: The session.
        live: Whether the host holds it active; it is asleep otherwise.
        cost: What all of it has cost, in the currency of the provider, if that was counted.
        error_entry: The entry that failed.
        parent: The session that it comes from.
    """

    session: str
    state: Word
    live: bool
    since: datetime
    entry: str | None
    tool: CalledTool | None
    open: int
    line: str
    tokens: int | None
    window: int | None
    cost: float | None
    error: str | None
    error_entry: str | None
    parent: Parent | None

    def value(self) -> SessionState:
        """Return the state as the library has it."""
        return SessionState(**{name: getattr(self, name) for name in SessionState.__struct_fields__})


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session as the listing shows it; see `SessionSummary` for what the fields mean.

    Attributes:
        program: The program that keeps it, on a server that shows those of other programs.
        partial: There, whether only its beginning and its end have been read, so that the counts say nothing.
    """

    id: str
    key: str | None
    name: str | None
    title: str | None
    created: datetime
    modified: datetime
    last_entry: datetime
    last_accessed: datetime | None
    message_count: int
    user_count: int
    assistant_count: int
    parent_session: str | None
    parent_entry: str | None
    cwd: str | None
    project: str | None
    project_hash: str | None
    first_message: str
    dialect: str
    status: str
    archived: bool
    problem: str | None
    usage: Usage | None
    labels: tuple[str, ...] | None = None
    state: StateReply | UnsetType | None = UNSET
    program: str | UnsetType = UNSET
    partial: bool | UnsetType = UNSET

    def summary(self) -> SessionSummary:
        """Return the row as the library has it; its log is named by the session's id."""
        names = frozenset(SessionSummary.__struct_fields__)
        fields = {name: getattr(self, name) for name in SessionRow.__struct_fields__ if name in names}
        fields["state"] = self.state.value() if isinstance(self.state, StateReply) else None
        return SessionSummary(ref=self.id, **fields)


class SessionDetail(SessionRow, frozen=True, kw_only=True):
    """A session's row, with where it stands, and the first line of its log."""

    leaf: str | None
    cursor: str
    metadata: dict[str, Any]  # any JSON
    header: Header


class SessionPage(Struct, frozen=True, omit_defaults=True):
    """A page of the listing.

    Attributes:
        items: The rows.
        next: What to pass as `page` for the next page; null on the last one.
        events: Where a stream of the listing begins that lacks nothing of what changed since the page was made.
        total: How many rows there are on all pages, if that was asked for.
        counts: How many sessions the filter lets through in each group, whichever groups are listed; if asked for.
    """

    items: Sequence[SessionRow]
    next: str | None
    events: str
    total: int | None = None
    counts: dict[str, int] | None = None


class LeafReply(Struct, frozen=True):
    """Where the session is: the entry under which the next append goes, and the end of its log."""

    leaf: str | None
    cursor: str


# -- entries


class EntryPage(Struct, frozen=True):
    """A page of entries. `cursor` is where the next page begins; there is none if `up_to_date`.

    Attributes:
        items: The entries.
        cursor: See above.
        up_to_date: Whether these are all that there are.
        leaf: The session's leaf; null for none.
    """

    items: list[Raw]
    cursor: str
    up_to_date: bool
    leaf: str | None


class Appended(Struct, frozen=True, omit_defaults=True):
    """What was appended: the ids of the entries and their seqs, the leaf and the end of the log after them.

    With `Prefer: return=representation`, the entries themselves stand under `entries`.
    """

    ids: list[str]
    seqs: list[int]
    leaf: str | None
    cursor: str
    entries: list[Raw] = []


# -- hits and reports


class FoundEntry(Struct, frozen=True):
    """A hit: the entry, an excerpt of its text, and where in it the words are, as ranges of characters."""

    session_id: str
    name: str | None
    entry_id: str
    role: str
    timestamp: datetime
    snippet: str
    ranges: tuple[tuple[int, int], ...]

    def hit(self) -> Hit:
        """Return the hit as the library has it."""
        return Hit(ref=self.session_id, **msgspec.structs.asdict(self))


class LeftOutReply(Struct, frozen=True):
    """What was left out of a source, how often, and the first of it; see `LeftOut`."""

    kind: str
    count: int
    example: str


class FindingReply(Struct, frozen=True):
    """A finding on a file, whose path is without the folders of the server; see `Finding`.

    Attributes:
        left_out: What was left out there, if that is what was found.
    """

    path: str
    line: int | None
    byte: int | None
    code: str
    severity: Severity
    message: str
    entry_id: str | None
    left_out: LeftOutReply | None

    def finding(self, path: str) -> Finding:
        """Return the finding as the library has it, on a file as the client names it."""
        place = (path, self.line, self.byte)
        if self.left_out is None:
            return Finding(*place, self.code, self.severity, self.message, self.entry_id)
        left_out = msgspec.structs.asdict(self.left_out)
        return LeftOut(*place, self.code, self.severity, self.message, self.entry_id, **left_out)


class Imported(Struct, frozen=True):
    """What became of one session of the file; see `ImportReport`."""

    id: str
    format: str
    entries: int
    messages: int
    added: int
    existed: bool
    findings: list[FindingReply]

    def report(self, source: str) -> ImportReport:
        """Return the report as the library has it, on a file as the client names it."""
        fields = {name: getattr(self, name) for name in Imported.__struct_fields__}
        findings = fields["findings"] = tuple(each.finding(source) for each in self.findings)
        left_out = tuple(each for each in findings if isinstance(each, LeftOut))
        return ImportReport(ref=self.id, source=source, left_out=left_out, **fields)


class ImportReply(Struct, frozen=True):
    """What became of the sessions of a file, and why some of them could not be imported."""

    sessions: list[Imported]
    failed: list[FindingReply] = []


class RetiredReply(Struct, frozen=True, kw_only=True):
    """A session that a retention archived, or would archive; see `Retired`."""

    session_id: str
    name: str | None
    project: str | None
    last_entry: datetime
    reason: Reason


class SparedReply(Struct, frozen=True, kw_only=True):
    """A session that a retention should have archived but did not, and why."""

    session_id: str
    why: str


class RetentionReply(Struct, frozen=True):
    """What a retention did, or what it would have done in a dry run."""

    archived: list[RetiredReply]
    spared: list[SparedReply]
    dry_run: bool

    def report(self) -> RetentionReport:
        """Return the report as the library has it."""
        return RetentionReport(
            tuple(Retired(ref=each.session_id, **msgspec.structs.asdict(each)) for each in self.archived),
            tuple(Spared(ref=each.session_id, **msgspec.structs.asdict(each)) for each in self.spared),
            self.dry_run,
        )
