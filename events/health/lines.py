"""What is wrong with the lines of one session file, and where each line is.

A file is read from its beginning. Memory use grows with the number of entries and the longest line, not with its size.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator
from datetime import datetime

import msgspec
from msgspec import Struct

from ..columns import CYCLE
from ..content import ToolResultPart, ToolUsePart
from ..dialects.base import Dialect
from ..dialects.detect import Detected
from ..disk import Disk, OsDisk, opened
from ..entries import ENTRY_TYPES, EPOCH, Entry, Header, MessageEntry, OpaqueEntry
from ..errors import LogError, UnsupportedVersion, Where
from ..findings import Finding, Severity
from ..ids import RECENT_MAX, Ids
from ..index import LogIndex
from ..json_values import UNDECODABLE
from ..kinds import Kind
from ..stores.files.log.head import read_head
from ..stores.files.log.table import chunks
from ..texts import counted

_BOM = b"\xef\xbb\xbf"
_HARMLESS = ("unknown type", "which does not answer")  # reasons of opaque lines that are as their writers meant them
_NO_ID = "the line has no id"


def examine_lines(path: str, disk: Disk) -> tuple[list[Finding], LogIndex | None]:
    """Examine one file's content and nothing beside it; return the findings, and the index if it is a session.

    A file that cannot be opened is a finding, too.
    """
    try:
        with opened(disk, path) as fd:
            return _examine_open(disk, fd, path)
    except OSError as error:
        return [unreadable(path, error)], None


def unreadable(path: str, error: OSError) -> Finding:
    """Return the finding that a file cannot be read."""
    what = f"the file cannot be read ({error.strerror or error})"
    return Finding(path, None, None, "unreadable", "error", what)


def places(path: str, seqs: Collection[int], *, disk: Disk | None = None) -> dict[int, Where]:
    """Return the places of lines in a file, by seq; 0 stands for the tail without a newline, if there is one.

    Raises:
        OSError: The file cannot be read.
        LogError: The file is not a session.
    """
    disk = disk or OsDisk()
    places_by_seq: dict[int, Where] = {}
    with opened(disk, path) as fd:
        size = disk.fstat(fd).size
        detected, block = read_head(disk, fd, path, size)
        seq = 0
        for number, (start, line) in enumerate(_lines(disk, fd, detected.size, size), block.count(b"\n") + 1):
            if line.isspace():
                continue
            seq += 1
            if seq in seqs:
                places_by_seq[seq] = Where(path, number, start)
            if 0 in seqs and not line.endswith(b"\n"):
                places_by_seq[0] = Where(path, number, start)
    return places_by_seq


def _examine_open(disk: Disk, fd: int, path: str) -> tuple[list[Finding], LogIndex | None]:
    size = disk.fstat(fd).size
    if not size:
        return [Finding(path, None, None, "empty", "note", "the file is empty, and counts as a new session")], None
    try:
        detected, block = read_head(disk, fd, path, size)
    except LogError as error:
        return [_header_finding(path, error)], None
    patient = _Patient(path, detected, block)
    for start, line in _lines(disk, fd, detected.size, size):
        patient.take(start, line)
    return patient.findings(), patient.index


def _header_finding(path: str, error: LogError) -> Finding:
    where = error.where or Where(path)
    code = "unsupported_version" if isinstance(error, UnsupportedVersion) else "no_header"
    return Finding(path, where.line or 1, where.byte or 0, code, "error", error.message)


def _lines(disk: Disk, fd: int, offset: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line with the offset at which it begins; the last may lack its newline."""
    parts: list[bytes] = []
    start = offset
    for chunk in chunks(disk, fd, offset, size):
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            parts.append(line)
            line = b"".join(parts) + b"\n"
            parts.clear()
            yield start, line
            start += len(line)
        if rest:
            parts.append(rest)
    if parts:
        yield start, b"".join(parts)


class _StoredSeq(Struct):
    """The seq that a line itself states."""

    seq: int | None = None


_decode_seq: Callable[[bytes], _StoredSeq] = msgspec.json.Decoder(_StoredSeq).decode


class _Patient:
    """One file under examination: receives its lines in order, then returns its findings.

    Attributes:
        index: The index of the lines so far.
    """

    def __init__(self, path: str, detected: Detected, block: bytes) -> None:
        self._path = path
        self._header: Header = detected.header
        self._dialect: Dialect = detected.dialect
        self.index = LogIndex(detected.header, model_changes_win=detected.dialect.model_changes_win)
        self._line = 0
        self._found: list[Finding] = []
        self._crlf = self._blank = 0
        self._first_crlf = self._first_blank = (0, 0)
        # By seq, from 1. The index does not expose the ids of withheld lines, so all ids are kept here as well.
        self._ids = Ids()
        self._starts, self._numbers = array("Q", [0]), array("Q", [0])
        self._parentless: dict[int, str] = {}
        self._calls: dict[str, list[int]] = {}
        self._results: list[tuple[str, int]] = []
        self._shift = 0
        self._time: datetime = EPOCH
        self._take_block(block)

    # -- reading lines

    def _take_block(self, block: bytes) -> None:
        if block.startswith(_BOM):
            self._add(1, 0, "bom", "note", "the file begins with a byte order mark, which is skipped")
        start = 0
        for line in block.split(b"\n")[: block.count(b"\n")]:
            self._number_line(start, line.removeprefix(_BOM) + b"\n")
            start += len(line) + 1
        if not block.endswith(b"\n"):
            self._line += 1
            self._add(self._line, start, "no_newline", "note", "the header has no newline; the next append adds it")

    def take(self, start: int, line: bytes) -> None:
        """Examine the next line, newline included if it has one."""
        if not self._number_line(start, line):
            return
        seq = len(self._starts)
        self._starts.append(start)
        self._numbers.append(self._line)
        ended = line.endswith(b"\n")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        entry = self._dialect.decode(line, seq)
        if entry is None and not ended:
            self._starts.pop()
            self._numbers.pop()
            self._add_torn(start, len(line))
            return
        if not ended:
            self._add(self._line, start, "no_newline", "note", "the last line has no newline; the next append adds it")
        if entry is None:
            self._add(self._line, start, "not_json", "error", f"{len(line)} bytes that are not a JSON object; skipped")
        else:
            self._check(entry, line, start, seq)
        self._ids.append(entry.id or "" if entry is not None else "")
        self._ids.settle(above=RECENT_MAX)
        self.index.fold(entry)
        self.index.ids.settle(above=RECENT_MAX)

    def _number_line(self, start: int, line: bytes) -> bool:
        """Count a line, and tell whether it is not blank."""
        self._line += 1
        if line.isspace():
            self._blank += 1
            self._first_blank = self._first_blank if self._blank > 1 else (self._line, start)
            return False
        if line.endswith(b"\r\n"):
            self._crlf += 1
            self._first_crlf = self._first_crlf if self._crlf > 1 else (self._line, start)
        return True

    def _add_torn(self, start: int, size: int) -> None:
        outcome = "is closed by a newline and skipped" if self._dialect.shared else "is moved to a file of its own"
        what = f"the file ends in {size} bytes of an unfinished line, which {outcome} at the next write to the session"
        self._add(self._line, start, "torn_tail", "error", what)

    # -- examining one entry

    def _check(self, entry: Entry, line: bytes, start: int, seq: int) -> None:
        if isinstance(entry, OpaqueEntry):
            self._check_opaque(entry, start)
        if entry.id:
            self._check_id(entry, entry.id, start, seq)
        if entry.timestamp != EPOCH and entry.type != "session":
            if entry.timestamp < self._time:
                what = f"time runs backwards: {entry.timestamp:%Y-%m-%dT%H:%M:%S.%fZ} is earlier than the line before"
                self._add(self._line, start, "time_backwards", "note", what, entry.id)
            self._time = entry.timestamp
        if self._dialect.states_seq:
            self._check_seq(entry, line, start, seq)
        if isinstance(entry, MessageEntry):
            self._note_calls(entry, seq)

    def _note_calls(self, entry: MessageEntry, seq: int) -> None:
        for part in entry.message.content:
            if isinstance(part, ToolUsePart):
                self._calls.setdefault(part.tool_use.id, []).append(seq)
            elif isinstance(part, ToolResultPart):
                self._results.append((part.tool_result.tool_use_id, seq))

    def _check_opaque(self, entry: OpaqueEntry, start: int) -> None:
        if entry.type == "session":
            what = "a second header in the middle of the file; ignored"
            self._add(self._line, start, "second_header", "warning", what)
        elif entry.reason == _NO_ID or (entry.id is None and entry.reason in _HARMLESS):
            what = f"a line of type {entry.type!r} without an id: nothing can refer to it"
            self._add(self._line, start, "no_id", "warning", what)
        elif not any(harmless in entry.reason for harmless in _HARMLESS):
            kind = entry.type if entry.type in ENTRY_TYPES else repr(entry.type)
            what = f"a {kind} entry with invalid fields ({entry.reason}); kept, but it contributes nothing"
            self._add(self._line, start, "wrong_fields", "error", what, entry.id)

    def _check_id(self, entry: Entry, entry_id: str, start: int, seq: int) -> None:
        other = self._ids.find(entry_id)
        if other:
            what = f"the id {entry_id!r} is already used in line {self._numbers[other]}: references mean the latest"
            self._add(self._line, start, "duplicate_id", "error", what, entry_id)
        parent_id = entry.parent_id
        if parent_id is not None and parent_id != entry_id and not self._ids.find(parent_id):
            self._parentless[seq] = parent_id
        elif parent_id == entry_id and not other:
            self._add(self._line, start, "self_parent", "error", f"entry {entry_id!r} is its own parent", entry_id)

    def _check_seq(self, entry: Entry, line: bytes, start: int, seq: int) -> None:
        """Report a line where the difference between stored and counted seq changes, but not every line after it."""
        try:
            stored = _decode_seq(line).seq
        except UNDECODABLE:
            return
        if stored is None or stored - seq == self._shift:
            return
        self._shift = stored - seq
        if stored == seq:
            return
        what = f"the line states seq {stored} but is line {seq} after the header"
        if self._header.parent_session is not None:
            why = "the line was copied from the parent session"
            self._add(self._line, start, "copied_line", "note", f"{what}: {why}", entry.id)
        else:
            why = "lines before it are missing or were added"
            self._add(self._line, start, "seq_mismatch", "warning", f"{what}: {why}", entry.id)

    # -- after the last line

    def findings(self) -> list[Finding]:
        """Return all findings, in order of line."""
        self._check_parents()
        self._check_results()
        self._check_batches()
        self._check_line_ends()
        self._found.sort(key=lambda finding: finding.byte or 0)
        return self._found

    def _check_parents(self) -> None:
        for seq, parent_id in self._parentless.items():
            entry_id = self._ids[seq]
            later = self._ids.find(parent_id)
            if seq <= self.index.head and self.index.parents[seq] == CYCLE:
                self._add_at(seq, "cycle", "error", f"entry {entry_id!r} is its own ancestor: it is shown as a root")
            elif later:
                what = f"the parent {parent_id!r} only follows in line {self._numbers[later]}: the path begins here"
                self._add_at(seq, "parent_later", "error", what)
            else:
                self._add_at(
                    seq, "parent_missing", "error", f"the parent {parent_id!r} is missing: the path begins here"
                )

    def _check_results(self) -> None:
        index = self.index
        for call_id, seq in self._results:
            if seq > index.head or index.kinds[seq] == Kind.ABORTED:
                continue
            if not any(index.is_ancestor(call, seq) for call in reversed(self._calls.get(call_id, ()))):
                what = f"a result of the call {call_id!r}, but no entry on its path makes that call"
                self._add_at(seq, "result_without_call", "warning", what)

    def _check_batches(self) -> None:
        index, first = self.index, 0
        for seq in range(1, index.head + 2):
            aborted = seq <= index.head and index.kinds[seq] == Kind.ABORTED
            if aborted and not first:
                first = seq
            elif first and not aborted:
                what = f"{counted(seq - first, 'line')} of an atomic batch that was never completed; kept as opaque"
                self._add_at(first, "batch_incomplete", "warning", what)
                first = 0
        if index.seen > index.head:
            what = (
                f"the file ends in {counted(index.seen - index.head, 'line')} of an incomplete atomic batch; withheld"
            )
            self._add_at(index.head + 1, "batch_incomplete", "warning", what)

    def _check_line_ends(self) -> None:
        if self._crlf:
            what = f"{counted(self._crlf, 'line')} from here on end in CRLF, which is accepted"
            self._add(*self._first_crlf, "crlf", "note", what)
        if self._blank:
            what = f"{counted(self._blank, 'blank line')} from here on, which are skipped"
            self._add(*self._first_blank, "blank_lines", "note", what)

    def _add_at(self, seq: int, code: str, severity: Severity, message: str) -> None:
        self._add(self._numbers[seq], self._starts[seq], code, severity, message, self._ids[seq] or None)

    def _add(
        self, line: int, byte: int, code: str, severity: Severity, message: str, entry_id: str | None = None
    ) -> None:
        self._found.append(Finding(self._path, line, byte, code, severity, message, entry_id))
