"""The doctor's examination of the files beside a log and in `.treering`; it writes nothing.

A snapshot is compared with the log line by line; a leaf record and the checkpoints of projections are checked against
it; leftover temporary files, fragments and backups are listed. In `.treering`, journals and leftovers of crashes are.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec
from msgspec import Struct

from ..dialects.detect import Detected
from ..disk import Disk, opened
from ..disk.disk import PRIVATE_FOLDER
from ..disk.packed import PackedDisk, packed_forms
from ..errors import LogError
from ..findings import Finding, Severity
from ..index import LogIndex
from ..json_values import UNDECODABLE
from ..stores.files.durability.journal import JOURNALS, SUFFIX, VOID_SUFFIX, read_header, read_records, read_voids
from ..stores.files.locks import Holder, locks_of
from ..stores.files.log import records, snapshots
from ..stores.files.log.head import FIRST_LINE, extent_of, generation_of, header_crc, read_head
from ..stores.files.log.table import Table, checksum
from ..stores.files.names import BESIDE, LEAF_SUFFIX
from ..texts import counted
from .known_damage import KNOWN, read_known
from .lines import unreadable

_STRAY = re.compile(rf"(?P<log>.+?\.jsonl)(?P<rest>(?:{BESIDE.pattern}))")
_TEMPORARY = re.compile(r".*\.tmp-(\d+)-\d+")

LEFT_BY_A_CRASH = "a temporary file left by a crash"


class _Leaf(Struct):
    """The payload of a leaf record."""

    leaf: str | None


def log_of(name: str) -> str | None:
    """Return the name of the log to which a file beside it belongs; None if the file belongs to no log."""
    match = _STRAY.fullmatch(name)
    return match["log"] if match is not None and match["rest"] else None


def is_beside(name: str, log: str) -> bool:
    """Return whether a file belongs beside the log of this name, whatever suffix the log has."""
    return name != log and name.startswith(log) and BESIDE.fullmatch(name, len(log)) is not None


def _holder_of(disk: Disk, path: str) -> Holder | None:
    path = disk.real_path(os.path.abspath(path))
    return locks_of(disk, os.path.dirname(path)).holder(path)


class Surroundings:
    """The files beside one log.

    Args:
        names: The names of the files beside it.
        index: The index folded from the log's lines; None if the file is not a log.
    """

    def __init__(self, disk: Disk, path: str, names: Sequence[str], index: LogIndex | None) -> None:
        self._disk = disk
        self._path = path
        self._names = names
        self._index = index
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        """Return all findings, in the order of the names."""
        disk, path = self._disk, self._path
        holder = _holder_of(disk, path)
        if holder is not None:
            self._add(path, "locked", "note", f"the session is owned by {holder}, which may be writing to it")
        if not self._names:
            return self._found
        live = holder is not None
        with ExitStack() as stack:
            try:
                fd = stack.enter_context(opened(disk, path))
            except FileNotFoundError:
                self._judge(None, live=live)
                return self._found
            size = disk.fstat(fd).size
            try:
                log = _Lines(disk, fd, path, size) if size else None
            except LogError:
                self._report_leftovers(live=live)  # the rest may be of use once the header is repaired
            else:
                self._judge(log, live=live)
        return self._found

    def _report_leftovers(self, *, live: bool) -> list[tuple[str, str]]:
        """Report temporary files, fragments and backups; return the other files, with their kinds."""
        others: list[tuple[str, str]] = []
        name = os.path.basename(self._path)
        for each in self._names:
            match = BESIDE.fullmatch(each, len(name))
            path = os.path.join(os.path.dirname(self._path), each)
            if match is None:
                continue
            if match["temporary"]:
                what = "a temporary file that is being written" if live else LEFT_BY_A_CRASH
                self._add(path, "temporary", "note" if live else "warning", what)
            elif match["offset"]:
                self._report_fragment(path, int(match["offset"]), int(match["crc"], 16))
            elif match["kind"].startswith(".bak"):
                self._add(path, "backup", "note", "the session as it was before a migration, or before it was replaced")
            else:
                others.append((path, match["kind"]))
        return others

    def _report_fragment(self, path: str, offset: int, crc: int) -> None:
        try:
            with opened(self._disk, path) as fd:
                size = self._disk.fstat(fd).size
                same = checksum(self._disk, fd, 0, size) == crc
        except OSError as error:
            self._found.append(unreadable(path, error))
            return
        if same:
            what = f"a fragment of {counted(size, 'byte')}, left by a crash at byte {offset} of the session"
            self._add(path, "fragment", "note", what)
        else:
            what = f"a fragment from byte {offset} of the session that was changed since: its checksum differs"
            self._add(path, "fragment_changed", "warning", what)

    def _judge(self, log: _Lines | None, *, live: bool) -> None:
        counter = 0
        others = self._report_leftovers(live=live)
        if log is None:
            for path, kind in others:
                self._add(
                    path, "orphan", "warning", f"a file of the kind {kind[1:]!r} beside a session that does not exist"
                )
            return
        others = [(path, kind) for path, kind in others if self._can_be_read(path)]
        for path, kind in others:
            if kind == ".index":
                counter = self._judge_snapshot(path, log)
        generation = log.kept or log.generation(counter)
        for path, kind in others:
            if kind == ".leaf":
                self._judge_leaf(path, log)
            elif kind != ".index":
                self._judge_view(path, kind, log, generation)

    def _can_be_read(self, path: str) -> bool:
        """Return whether the file can be read.

        A file that the disk or its permissions withhold is reported and left alone.
        """
        try:
            with opened(self._disk, path) as fd:
                self._disk.pread(fd, self._disk.fstat(fd).size, 0)
        except IsADirectoryError:
            pass
        except OSError as error:
            self._found.append(unreadable(path, error))
            return False
        return True

    def _judge_snapshot(self, path: str, log: _Lines) -> int:
        """Report what is wrong with the snapshot; return the counter of histories that applies to the log."""
        snapshot = snapshots.read_snapshot(self._disk, self._path)
        ends = None if snapshot is None else snapshots.read_table(self._disk, self._path, snapshot)
        data = None if snapshot is None else snapshots.read_index(self._disk, self._path, snapshot)
        if snapshot is None or ends is None or data is None:
            self._add(path, "index_torn", "warning", "the snapshot is damaged; it is derived, and will be rebuilt")
            return 0 if snapshot is None else snapshot.counter
        status, is_packed = self._disk.fstat(log.fd), isinstance(self._disk, PackedDisk)
        if not snapshot.describes(self._disk, log.fd, status, log.crc, log.table.ends[0], packed=is_packed):
            packed = [self._disk.stat(each).inode for each in packed_forms(self._disk, self._path)]
            if snapshot.kept is not None and snapshot.kept.packed in packed:
                return snapshot.counter  # it is of the packed form, which is reported
            what = "the snapshot is of another file, or of this one before it was replaced; it will be rebuilt"
            self._add(path, "index_foreign", "warning", what)
            return snapshot.counter + 1
        if snapshot.kept is not None:
            log.kept = snapshot.kept.generation
        if ends != log.table.ends[: len(ends)]:
            what = "the snapshot's lines end where those of the session do not; it will be rebuilt"
            self._add(path, "index_wrong", "error", what)
            return snapshot.counter + 1
        if snapshot.has_index and not snapshot.is_current(status):
            what = "the session was changed after its snapshot, which will be rebuilt"
            self._add(path, "index_stale", "note", what)
        elif snapshot.has_index and LogIndex.is_of_another_version(data):
            what = "the snapshot was made by another version of treering; it will be rebuilt"
            self._add(path, "index_stale", "note", what)
        elif snapshot.has_index and not self._index_matches(data, log):
            what = "the snapshot's index is not that of the session; it will be rebuilt"
            self._add(path, "index_wrong", "error", what)
            return snapshot.counter + 1
        return snapshot.counter

    def _index_matches(self, data: bytes, log: _Lines) -> bool:
        """Return whether the index in the snapshot agrees with the lines of the log."""
        dialect = log.detected.dialect
        stored = LogIndex.restore(data, log.detected.header, model_changes_win=dialect.model_changes_win)
        if stored is None or self._index is None:
            return stored is not None
        stop = stored.head + 1
        return stored.head <= self._index.head and all(
            list(one[:stop]) == list(other[:stop])
            for one, other in ((stored.parents, self._index.parents), (stored.kinds, self._index.kinds))
        )

    def _judge_leaf(self, path: str, log: _Lines) -> None:
        record = records.read_record(self._disk, self._path, LEAF_SUFFIX)
        leaf: _Leaf | None = None
        if record is not None:
            try:
                leaf = msgspec.json.decode(record[1], type=_Leaf)
            except UNDECODABLE:
                leaf = None
        if record is None or leaf is None:
            what = "the leaf record is damaged: a move of the leaf is lost, and the leaf is the last entry"
            self._add(path, "leaf_torn", "error", what)
        elif not log.has(record[0]):
            self._add(path, "leaf_foreign", "warning", "the leaf record is of other lines than these, and is ignored")
        elif leaf.leaf is not None and self._index is not None and not self._index.find(leaf.leaf):
            what = f"the leaf record names {leaf.leaf!r}, which is not an entry of the session, and is ignored"
            self._add(path, "leaf_unknown", "warning", what)

    def _judge_view(self, path: str, kind: str, log: _Lines, generation: str) -> None:
        record = records.read_record(self._disk, self._path, kind)
        if record is None:
            what = "the checkpoint of a view is damaged; it is derived, and will be rebuilt"
            self._add(path, "view_torn", "warning", what)
        elif record[0].generation != generation or not log.has(record[0]):
            what = "the checkpoint of a view is of other lines than these; it is derived, and will be rebuilt"
            self._add(path, "view_foreign", "warning", what)

    def _add(self, path: str, code: str, severity: Severity, message: str) -> None:
        self._found.append(Finding(path, None, None, code, severity, message))


class _Lines:
    """The parts of a log against which the files beside it are checked."""

    def __init__(self, disk: Disk, fd: int, path: str, size: int) -> None:
        self._disk = disk
        self.fd = fd
        self.detected: Detected
        self.detected, block = read_head(disk, fd, path, size)
        self.kept = ""  # the generation that it keeps since it was packed or unpacked
        self.crc = header_crc(block)
        self.table = Table(array("Q", [self.detected.size]))
        if block.endswith(b"\n"):
            self.table.grow(disk, fd, size)

    def generation(self, counter: int) -> str:
        """Return the generation, given the number of histories before it."""
        first = self.table.first_line(self._disk, self.fd, FIRST_LINE)
        return generation_of(self._disk.fstat(self.fd).inode, self.crc, counter, first)

    def has(self, record: records.RecordLine) -> bool:
        """Return whether a record refers to a line of this log."""
        ends = self.table.ends
        if not 0 <= record.seq < len(ends):
            return False
        return record.matches(extent_of(self._disk, self.fd, ends[0], ends[record.seq], self.crc))


# -- the content of `.treering`


def examine_folder(disk: Disk, folder: str) -> list[Finding]:
    """Examine the `.treering` of a folder, except for what a repair moved aside."""
    findings: list[Finding] = []
    if read_known(disk, folder) is None:
        path = os.path.join(folder, KNOWN)
        findings.append(Finding(path, None, None, "known_torn", "warning", "the record of known damage is damaged"))
    for inner in (PRIVATE_FOLDER, JOURNALS):
        try:
            names = disk.list_directory(os.path.join(folder, inner))
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, inner, name)
            if (temporary := _TEMPORARY.fullmatch(name)) is not None:
                findings.append(_temporary(path, int(temporary[1])))
            elif inner == JOURNALS and name.endswith(SUFFIX):
                findings += examine_journal(disk, path)
            elif _is_orphan(inner, name, names):
                what = "it belongs to a journal that does not exist"
                findings.append(Finding(path, None, None, "orphan", "warning", what))
    return findings


def _is_orphan(folder: str, name: str, names: Sequence[str]) -> bool:
    is_void = folder == JOURNALS and name.endswith(VOID_SUFFIX)
    return is_void and name.removesuffix(VOID_SUFFIX) + SUFFIX not in names


def _temporary(path: str, pid: int) -> Finding:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Finding(path, None, None, "temporary", "warning", LEFT_BY_A_CRASH)
    except OSError:
        pass
    return Finding(path, None, None, "temporary", "note", f"a temporary file of process {pid}, which is running")


def examine_journal(disk: Disk, path: str) -> list[Finding]:
    """Examine one journal: its holder, the appends that wait in it, and where it is torn."""
    try:
        with opened(disk, path) as fd:
            return _examine_journal(disk, fd, path)
    except OSError as error:
        return [unreadable(path, error)]


def _examine_journal(disk: Disk, fd: int, path: str) -> list[Finding]:
    if (holder := _holder_of(disk, path)) is not None:
        return [Finding(path, None, None, "journal_held", "note", f"the journal of a running host: {holder}")]
    header, line = read_header(disk, fd)
    if not line:
        return [Finding(path, None, None, "journal_unused", "note", "a journal that was never used")]
    if header is None and b'"treering-journal"' in line:
        what = "a newer version of treering wrote this journal: open the sessions with that version to replay it"
        return [Finding(path, 1, 0, "journal_newer", "error", what)]
    if header is None:
        return [Finding(path, 1, 0, "journal_foreign", "error", "the file does not begin like a journal")]
    return _examine_records(disk, fd, path, line)


def _examine_records(disk: Disk, fd: int, path: str, header: bytes) -> list[Finding]:
    void = read_voids(disk, path, header)
    end, names, appends = len(header), set[str](), 0
    for record in read_records(disk, fd, header):
        end = record.ends_at
        if record.at > void.get(record.name, 0):
            appends += 1
            names.add(record.name)
    what = (
        f"{counted(appends, 'append')} to {counted(len(names), 'session')}, left by a host that ended: "
        "they are replayed when a session of this folder is next opened for writing"
    )
    findings = [Finding(path, None, None, "journal_waiting", "warning" if appends else "note", what)]
    size = disk.fstat(fd).size
    if size > end:
        number = _newlines(disk, fd, end) + 1
        what = f"{counted(size - end, 'byte')} of an unfinished record that was never acknowledged"
        findings.append(Finding(path, number, end, "journal_torn", "note", what))
    return findings


def _newlines(disk: Disk, fd: int, stop: int) -> int:
    chunk = 1024 * 1024
    return sum(disk.pread(fd, min(chunk, stop - at), at).count(b"\n") for at in range(0, stop, chunk))
