"""The doctor: what is wrong with session files, said by file, line and byte.

A file is read from its beginning, and nothing is written. Whatever it holds becomes a finding, never an error, so
that one bad file does not hide what is to be said of the next. Memory follows the number of entries and the longest
line, not the size of the file.

`examine` looks at sessions and at what belongs to them: their snapshots, leaf records and checkpoints, what crashes left,
who holds them, and the journals. `repair` puts right what can be put right; what it saw and kept is not said again,
unless all is asked for.

Three severities. An error is damage: something that was written cannot be read, or cannot be read as it was meant. A
warning is a thing that no writer should have left, and that costs nothing. A note is an oddity that is read without harm.

A file that is being written while it is examined may end in half a line; that is reported like any torn tail.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from .content import ToolResultPart, ToolUsePart
from .dialects.base import Dialect
from .dialects.detect import Detected
from .disk import Disk, OsDisk
from .entries import ENTRY_TYPES, EPOCH, Entry, Header, MessageEntry, OpaqueEntry
from .errors import ExtraMissing, LogDamaged, LogError, UnsupportedVersion, Where
from .findings import Finding, Severity
from .ids import RECENT_MAX, Ids
from .index import CYCLE, LogIndex
from .kinds import Kind
from .known_damage import KnownDamage
from .stores.files.head import read_head
from .stores.files.packed import log_path
from .stores.files.packed_disk import PackedDisk
from .stores.files.private_folder import PRIVATE_FOLDER
from .stores.files.table import chunks
from .surroundings import Surroundings, examine_folder, is_beside, log_of
from .undecodable import UNDECODABLE
from .wording import counted

SUFFIX = ".jsonl"
"""What the names of session files end in; others are examined only when they are named."""

_BOM = b"\xef\xbb\xbf"
_HARMLESS = ("unknown type", "which does not answer")  # why lines are opaque that are as their writers meant them
_NO_ID = "the line has no id"


class Subject(Struct, frozen=True):
    """Something to look at.

    Attributes:
        path: The session's file; of what lies in a folder's `.treering`, that folder.
        root: The folder whose `.treering` serves it.
        kind: "session"; "archive" for a packed one; "remains", where only files that stand beside it are there; "folder"
            for a `.treering`.
        beside: The names of the files that stand beside the session.
    """

    path: str
    root: str
    kind: Literal["session", "archive", "remains", "folder"]
    beside: tuple[str, ...] = ()


def examine(*paths: str | os.PathLike[str], disk: Disk | None = None, known: bool = False) -> list[Finding]:
    """Examine session files, and all those in directories, with what belongs to them.

    The findings come file by file, in order of line; what stands beside a file follows it.

    Args:
        *paths: Files of any name, and directories that are searched for `*.jsonl` at any depth.
        disk: The disk that they are on.
        known: Say also what a repair has seen and kept, and what is as it should be: owners, fragments, backups.

    Raises:
        OSError: A path is not there.
    """
    disk = disk or OsDisk()
    seen = None if known else KnownDamage(disk)
    return [finding for subject in subjects(*paths, disk=disk) for finding in examine_subject(subject, disk, seen)]


def examine_subject(subject: Subject, disk: Disk, known: KnownDamage | None = None) -> list[Finding]:
    """Examine one session and what stands beside it, or the `.treering` of a folder; leave out what is known."""
    found: list[Finding] = []
    index: LogIndex | None = None
    if subject.kind == "session":
        found, index = _open_and_examine(subject.path, disk)
    elif subject.kind == "archive":
        found = _examine_packed(subject, disk)
    try:
        if subject.kind == "folder":
            found = examine_folder(disk, subject.path)
        elif subject.kind != "archive":
            found += Surroundings(disk, subject.path, subject.beside, index).findings()
    except OSError as error:
        if not any(each.code == "unreadable" for each in found):
            found.append(_unreadable(subject.path, error))
    return found if known is None else news_of(found, known)


def news_of(found: Sequence[Finding], known: KnownDamage) -> list[Finding]:
    """Return what of the findings about one subject is to be said to who does not ask for all."""
    news = [finding for finding in found if not known.has(finding)]
    return news if any(finding.code != "locked" for finding in news) else []  # being owned alone is nothing to say


def subjects(*paths: str | os.PathLike[str], disk: Disk | None = None) -> Iterator[Subject]:
    """Yield what `examine` looks at, each directory's in order of name.

    A session is served by the `.treering` of the nearest folder above it that has one, but never by one above the directory
    that was given: what is not asked about is not touched.

    Raises:
        OSError: A path is not there.
    """
    disk = disk or OsDisk()
    for each in paths:
        path: str = os.path.expanduser(os.fspath(each))
        if disk.stat(path).is_directory:
            yield from _below(disk, path, path, {disk.real_path(path)})
        else:
            folder, name = os.path.split(path)
            root = disk.real_path(os.path.abspath(folder))
            log = log_path(name)
            beside = tuple(other for other in disk.list_directory(root) if is_beside(other, log))
            yield Subject(path, root, "session" if log == name else "archive", beside)


def _below(disk: Disk, folder: str, root: str, seen: set[str]) -> Iterator[Subject]:
    try:
        names = disk.list_directory(folder)
    except OSError:
        yield Subject(folder, _real(disk, root), "session")  # examining it says what is the matter
        return
    if PRIVATE_FOLDER in names:
        root = folder
        yield Subject(folder, _real(disk, root), "folder")
    beside: dict[str, list[str]] = {}
    for name in names:
        if (log := log_of(name)) is not None:
            beside.setdefault(log, []).append(name)
    there = set(names)
    packed = {log_path(name) for name in names}
    for name in sorted({name for name in names if name != PRIVATE_FOLDER} | set(beside)):
        path = os.path.join(folder, name)
        if name not in there:
            if name in packed:
                continue
            yield Subject(path, _real(disk, root), "remains", tuple(beside[name]))
            continue
        real = disk.real_path(path)  # a link may lead back up
        if real in seen:
            continue
        seen.add(real)
        try:
            is_directory = disk.stat(path).is_directory
        except OSError:
            is_directory = False
        if is_directory:
            yield from _below(disk, path, root, seen)
        elif name.endswith(SUFFIX):
            yield Subject(path, _real(disk, root), "session", tuple(beside.get(name, ())))
        elif (log := log_path(name)) != name:
            yield Subject(path, _real(disk, root), "archive", tuple(beside.get(log, ())))


def _real(disk: Disk, path: str) -> str:
    return disk.real_path(os.path.abspath(path))


def examine_file(path: str, *, disk: Disk | None = None) -> list[Finding]:
    """Examine what one file holds, and nothing beside it; that it cannot be opened is a finding, too."""
    return _open_and_examine(path, disk or OsDisk())[0]


def _open_and_examine(path: str, disk: Disk) -> tuple[list[Finding], LogIndex | None]:
    try:
        fd = disk.open(path, os.O_RDONLY)
        try:
            return _examined(disk, fd, path)
        finally:
            disk.close(fd)
    except OSError as error:
        return [_unreadable(path, error)], None


def _examine_packed(subject: Subject, disk: Disk) -> list[Finding]:
    """Examine a packed session: unpack all of it in passing, and look at its lines and at what stands beside it."""
    path, log = subject.path, log_path(subject.path)
    if log in (os.path.join(os.path.dirname(path), name) for name in disk.list_directory(os.path.dirname(path) or ".")):
        what = "the session is there unpacked as well, and that one counts; whoever writes to it next removes this one"
        return [Finding(path, None, None, "archive_left", "warning", what)]
    reading = PackedDisk(disk)
    try:
        found, index = _open_and_examine(path, reading)
        return found + Surroundings(reading, log, subject.beside, index).findings()
    except LogDamaged as error:
        byte = error.where.byte if error.where is not None else None
        return [Finding(path, None, byte, "archive_damaged", "error", error.message)]
    except ExtraMissing as error:
        return [Finding(path, None, None, "archive_unreadable", "error", error.message)]


def _unreadable(path: str, error: OSError) -> Finding:
    what = f"the file cannot be read ({error.strerror or error})"
    return Finding(path, None, None, "unreadable", "error", what)


def places(path: str, seqs: Collection[int], *, disk: Disk | None = None) -> dict[int, Where]:
    """Find where lines stand in a file, by their ordinals; 0 stands for the tail without a newline, if it has one.

    Raises:
        OSError: The file cannot be read.
        LogError: It is no session.
    """
    disk = disk or OsDisk()
    found: dict[int, Where] = {}
    fd = disk.open(path, os.O_RDONLY)
    try:
        size = disk.fstat(fd).size
        detected, block = read_head(disk, fd, path, size)
        seq = 0
        for number, (start, line) in enumerate(_lines(disk, fd, detected.size, size), block.count(b"\n") + 1):
            if line.isspace():
                continue
            seq += 1
            if seq in seqs:
                found[seq] = Where(path, number, start)
            if 0 in seqs and not line.endswith(b"\n"):
                found[0] = Where(path, number, start)
    finally:
        disk.close(fd)
    return found


def _examined(disk: Disk, fd: int, path: str) -> tuple[list[Finding], LogIndex | None]:
    size = disk.fstat(fd).size
    if not size:
        return [Finding(path, None, None, "empty", "note", "the file is empty, which is a new session")], None
    try:
        detected, block = read_head(disk, fd, path, size)
    except LogError as error:
        return [_headless(path, error)], None
    patient = _Patient(path, detected, block)
    for start, line in _lines(disk, fd, detected.size, size):
        patient.take(start, line)
    return patient.findings(), patient.index


def _headless(path: str, error: LogError) -> Finding:
    where = error.where or Where(path)
    code = "unsupported_version" if isinstance(error, UnsupportedVersion) else "no_header"
    return Finding(path, where.line or 1, where.byte or 0, code, "error", error.message)


def _lines(disk: Disk, fd: int, offset: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield lines with the offsets at which they begin; the last may lack its newline."""
    parts: list[bytes] = []
    start = offset
    for chunk in chunks(disk, fd, offset, size):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            parts.append(line)
            line = b"".join(parts) + b"\n"
            parts.clear()
            yield start, line
            start += len(line)
        if rest:
            parts.append(rest)
    if parts:
        yield start, b"".join(parts)


class _Stored(Struct):
    """What a line says of its own ordinal."""

    seq: int | None = None


_as_stored: Callable[[bytes], _Stored] = msgspec.json.Decoder(_Stored).decode


class _Patient:
    """One file under examination: takes its lines in order, and has findings in the end.

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
        # By ordinal, from 1; an index does not show ids that are withheld, so they are kept here as well.
        self._ids = Ids()
        self._starts, self._numbers = array("Q", [0]), array("Q", [0])
        self._parentless: dict[int, str] = {}
        self._calls: dict[str, list[int]] = {}
        self._results: list[tuple[str, int]] = []
        self._shift = 0
        self._time: datetime = EPOCH
        self._take_block(block)

    # -- taking in

    def _take_block(self, block: bytes) -> None:
        if block.startswith(_BOM):
            self._add(1, 0, "bom", "note", "the file begins with a byte order mark, which is skipped")
        start = 0
        for line in block.split(b"\n")[: block.count(b"\n")]:
            self._number_line(start, line.removeprefix(_BOM) + b"\n")
            start += len(line) + 1
        if not block.endswith(b"\n"):
            self._line += 1
            self._add(self._line, start, "no_newline", "note", "the header has no newline; the next append writes it")

    def take(self, start: int, line: bytes) -> None:
        """Take in the next line, newline included where it has one."""
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
            self._add(
                self._line, start, "no_newline", "note", "the last line has no newline; the next append writes it"
            )
        if entry is None:
            self._add(self._line, start, "not_json", "error", f"{len(line)} bytes that are no JSON object; skipped")
        else:
            self._check(entry, line, start, seq)
        self._ids.append(entry.id or "" if entry is not None else "")
        self._ids.settle(above=RECENT_MAX)
        self.index.fold(entry)
        self.index.ids.settle(above=RECENT_MAX)

    def _number_line(self, start: int, line: bytes) -> bool:
        """Count a line, and tell whether there is anything on it."""
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
        fate = "is closed by a newline and skipped" if self._dialect.shared else "is moved into a file of its own"
        what = f"the file ends in {size} bytes of an unfinished line, which {fate} when the session is next written"
        self._add(self._line, start, "torn_tail", "error", what)

    # -- looking at one entry

    def _check(self, entry: Entry, line: bytes, start: int, seq: int) -> None:
        if isinstance(entry, OpaqueEntry):
            self._check_opaque(entry, start)
        if entry.id:
            self._check_id(entry, entry.id, start, seq)
        if entry.timestamp != EPOCH and entry.type != "session":
            if entry.timestamp < self._time:
                what = (
                    f"the time runs backwards: {entry.timestamp:%Y-%m-%dT%H:%M:%S.%fZ} is earlier than the line before"
                )
                self._add(self._line, start, "time_backwards", "note", what, entry.id)
            self._time = entry.timestamp
        if self._dialect.name == "native":
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
            what = f"a line of the type {entry.type!r} without an id: nothing can refer to it"
            self._add(self._line, start, "no_id", "warning", what)
        elif not any(harmless in entry.reason for harmless in _HARMLESS):
            kind = entry.type if entry.type in ENTRY_TYPES else repr(entry.type)
            what = f"a {kind} entry with wrong fields ({entry.reason}); kept, and it contributes nothing"
            self._add(self._line, start, "wrong_fields", "error", what, entry.id)

    def _check_id(self, entry: Entry, entry_id: str, start: int, seq: int) -> None:
        other = self._ids.find(entry_id)
        if other:
            what = f"the id {entry_id!r} was used in line {self._numbers[other]} already: references mean the latest"
            self._add(self._line, start, "duplicate_id", "error", what, entry_id)
        parent_id = entry.parent_id
        if parent_id is not None and parent_id != entry_id and not self._ids.find(parent_id):
            self._parentless[seq] = parent_id
        elif parent_id == entry_id and not other:
            self._add(self._line, start, "self_parent", "error", f"entry {entry_id!r} is its own parent", entry_id)

    def _check_seq(self, entry: Entry, line: bytes, start: int, seq: int) -> None:
        """Say where the distance between stored and counted ordinals changes, and not of each line after that."""
        try:
            stored = _as_stored(line).seq
        except UNDECODABLE:
            return
        if stored is None or stored - seq == self._shift:
            return
        self._shift = stored - seq
        if stored == seq:
            return
        copied = self._header.parent_session is not None
        why = "the line was copied from the parent session" if copied else "lines before it are missing or were added"
        what = f"the line says seq {stored} and is line {seq} after the header: {why}"
        self._add(self._line, start, "seq_mismatch", "note" if copied else "warning", what, entry.id)

    # -- in the end

    def findings(self) -> list[Finding]:
        """Return what there is to say, in order of line."""
        self._look_at_parents()
        self._look_at_results()
        self._look_at_batches()
        self._look_at_line_ends()
        self._found.sort(key=lambda finding: finding.byte or 0)
        return self._found

    def _look_at_parents(self) -> None:
        for seq, parent_id in self._parentless.items():
            entry_id = self._ids[seq]
            later = self._ids.find(parent_id)
            if seq <= self.index.head and self.index.parents[seq] == CYCLE:
                self._add_at(seq, "cycle", "error", f"entry {entry_id!r} is its own ancestor: it is shown as a root")
            elif later:
                what = f"the parent {parent_id!r} comes only in line {self._numbers[later]}: the path begins here"
                self._add_at(seq, "parent_later", "error", what)
            else:
                self._add_at(
                    seq, "parent_missing", "error", f"the parent {parent_id!r} is missing: the path begins here"
                )

    def _look_at_results(self) -> None:
        index = self.index
        for call_id, seq in self._results:
            if seq > index.head or index.kinds[seq] == Kind.ABORTED:
                continue
            if not any(index.is_ancestor(call, seq) for call in reversed(self._calls.get(call_id, ()))):
                what = f"the result of the call {call_id!r}, which nothing on its path has made"
                self._add_at(seq, "result_without_call", "warning", what)

    def _look_at_batches(self) -> None:
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

    def _look_at_line_ends(self) -> None:
        if self._crlf:
            what = f"{counted(self._crlf, 'line')} from here on end in CRLF, which is read"
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
