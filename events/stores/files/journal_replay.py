"""What a power cut took from the sessions' files, written again from the journals of hosts that are no more.

Before a session is owned, the `.treering/journal` folders from its own folder upwards are looked into. A journal that
nobody holds the lock of is replayed, under its lock and those of its sessions. For each session, in the order in which it
was written:

- bytes that are there are written once more in their place, which changes nothing, but has the flush take them along: one that
  failed a host before may have taken them for written; where other programs write, too, they are left alone;
- bytes that are missing at the end are appended, the file made anew if need be;
- zeros in their place, which a file system may leave, are overwritten;
- where others stand in their place, or something before them is missing, the lines whose entries are not in the log are
  appended to its end, and the log has a new generation.

Then the files are flushed, the folders, and the journal is dropped. All of this can be broken off at any point and done
again. A session that somebody owns, or that cannot be written, keeps its records and so the journal, until it is asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, pairwise

import msgspec
from msgspec import Struct

from ...disk import Disk, opened
from ...errors import Conflict, LogError, SessionLocked, TreeringError
from ...telemetry import logger
from ...undecodable import UNDECODABLE
from . import beside, journal
from .head import read_head
from .journal import JOURNALS, Entry
from .locks import Held, Locks
from .log import Log
from .names import folders_between
from .table import CHUNK, chunks

_STEP_S = 0.001
_PATIENCE_S = 60.0
_BLOCK = 4096


class _Id(Struct):
    """What is looked at of a line to find it again."""

    id: str | None = None


_decode_id = msgspec.json.Decoder(_Id).decode


class _Dead:
    """A journal whose host is no more.

    Attributes:
        path: Where it lies.
        held: Its lock.
        fd: It, open for reading.
        left: The paths of the sessions that could not be dealt with.
        readable: It is a journal of a version that is known.
    """

    __slots__ = ("fd", "held", "left", "path", "readable")

    def __init__(self, path: str, held: Held, fd: int) -> None:
        self.path = path
        self.held = held
        self.fd = fd
        self.left: set[str] = set()
        self.readable = True


class _Piece:
    """A record of a journal, and where its bytes are."""

    __slots__ = ("_disk", "_fd", "entry")

    def __init__(self, disk: Disk, fd: int, entry: Entry) -> None:
        self._disk = disk
        self._fd = fd
        self.entry = entry

    @property
    def start(self) -> int:
        """Where in the session's file its bytes begin."""
        return self.entry.offset

    @property
    def end(self) -> int:
        """Where they end."""
        return self.entry.end

    @property
    def makes(self) -> bool:
        """Whether it made the file."""
        return self.entry.offset == 0

    def block(self) -> bytes:
        """Return the header block, if it has one."""
        return self._disk.pread(self._fd, self.entry.block, self.entry.at)

    def lines(self) -> bytes:
        """Return the lines."""
        return self._disk.pread(self._fd, self.entry.size, self.entry.at + self.entry.block)

    def data(self) -> bytes:
        """Return what stands in the session's file."""
        return self.block() + self.lines() if self.makes else self.lines()


class JournalReplay:
    """Replays journals for one store. Its methods block, and may be called from any thread.

    Args:
        disk: The disk.
        locks: Tells whose host lives, and owns the sessions meanwhile.
        own: The journals of this store itself.
    """

    def __init__(self, disk: Disk, locks: Locks, own: Collection[str]) -> None:
        self._disk = disk
        self._locks = locks
        self._own = own
        self._kept: dict[str, tuple[int, int, set[str]]] = {}  # inode, size, sessions that were left, by journal

    # -- what the store calls

    def before(self, path: str) -> None:
        """Replay what has to be before a session is owned.

        Raises:
            Conflict: Another host has been replaying for a minute.
            LogError: The session has records, and what stands in its place is no session.
            OSError: It has records and cannot be written.
        """
        self._from(_folders_above(path), path)

    def under(self, root: str) -> None:
        """Replay what has to be before the sessions under a root are looked for; those that cannot be written wait.

        Raises:
            Conflict: Another host has been replaying for a minute.
            OSError: A journal cannot be read.
        """
        self._from(_folders_above(os.path.join(root, JOURNALS)), None)

    def _from(self, folders: Iterable[str], wanted: str | None) -> None:
        for folder in folders:
            found = [each for each in journal.journals_in(self._disk, folder) if each not in self._own]
            if any(self._concerns(each, wanted) for each in found):
                with self._alone(f"{folder}/replay"):
                    self._replay(folder, found, wanted)

    def void(self, path: str) -> None:
        """Have no journal bring back what was in a session, which is owned here.

        Raises:
            OSError: It cannot be noted.
        """
        for folder in _folders_above(path):
            root = folder.removesuffix(JOURNALS)
            for each in journal.journals_in(self._disk, folder):
                journal.void(self._disk, each, path.removeprefix(root))

    # -- which journals

    def _concerns(self, found: str, path: str | None) -> bool:
        """Tell whether a journal has to be looked at; one that was kept is only for the sessions that were left."""
        kept = self._kept.get(found)
        if kept is None:
            return True
        try:
            now = self._disk.stat(found)
        except FileNotFoundError:
            self._kept.pop(found, None)
            return False
        return kept[:2] != (now.inode, now.size) or path in kept[2]

    @contextmanager
    def _alone(self, name: str) -> Generator[None]:
        """Be the only one who replays the journals of a folder; who comes later waits, and finds them done."""
        until = time.monotonic() + _PATIENCE_S
        while isinstance(held := self._locks.take(name), SessionLocked):
            if time.monotonic() > until:
                raise Conflict(f"{os.path.dirname(name)} is being replayed by another host: try again later")
            time.sleep(_STEP_S)
        try:
            yield
        finally:
            self._locks.give_back(held)

    def _replay(self, folder: str, found: Sequence[str], wanted: str | None) -> None:
        dead: list[_Dead] = []
        try:
            for path in found:
                held = self._locks.take(path)
                if isinstance(held, SessionLocked):
                    continue  # its host lives
                try:
                    fd = self._disk.open(path, os.O_RDONLY)
                except BaseException as error:
                    self._locks.give_back(held)
                    if isinstance(error, FileNotFoundError):
                        continue
                    raise
                dead.append(_Dead(path, held, fd))
            if dead:
                self._bring_back(folder, dead, wanted)
        finally:
            for each in dead:
                with suppress(OSError):
                    self._disk.close(each.fd)
                self._locks.give_back(each.held)

    # -- all sessions of some journals

    def _bring_back(self, folder: str, dead: Sequence[_Dead], wanted: str | None) -> None:
        sessions: dict[str, list[tuple[_Dead, _Piece]]] = {}
        for each in dead:
            for path, piece in self._pieces(folder, each):
                sessions.setdefault(path, []).append((each, piece))
        folders: set[str] = set()
        for path, pieces in sessions.items():
            if self._session(path, [piece for _, piece in pieces], wanted):
                # Who made a folder may have been killed before its name was flushed, though it is here now.
                folders.update(folders_between(os.path.dirname(folder.removesuffix(JOURNALS)), path))
            else:
                for each, _ in pieces:
                    each.left.add(path)
        for above in sorted(folders):
            with suppress(FileNotFoundError):  # of a session without records that are of use, nothing was brought back
                self._disk.sync_directory(above)
        for kept in dead:
            if kept.left or not kept.readable:
                found = self._disk.fstat(kept.fd)
                self._kept[kept.path] = (found.inode, found.size, kept.left)
            else:
                self._kept.pop(kept.path, None)
        journal.drop(self._disk, [each.path for each in dead if each.readable and not each.left])
        logger().info("journals_replayed", journals=len(dead), sessions=len(sessions))

    def _pieces(self, folder: str, dead: _Dead) -> Iterator[tuple[str, _Piece]]:
        """Yield the records of a journal that are of use, with the paths of their sessions."""
        disk, root = self._disk, folder.removesuffix(JOURNALS)
        header, line = journal.read_header(disk, dead.fd)
        if header is None:
            dead.readable = not line  # one that was never finished was never used
            if line:
                logger().warning("journal_unknown", journal=dead.path)
            return
        voids = journal.read_voids(disk, dead.path, line)
        for entry in journal.read_entries(disk, dead.fd, line):
            if entry.at > voids.get(entry.name, 0):
                yield root + entry.name, _Piece(disk, dead.fd, entry)

    def _session(self, path: str, pieces: list[_Piece], wanted: str | None) -> bool:
        """Bring back one session; False where that has to wait."""
        held = self._locks.take(path)
        if isinstance(held, SessionLocked):
            logger().info("replay_waits", ref=path, why="the session is owned", holder=held.pid)
            return False
        try:
            _Restoring(self._disk, path, in_order(pieces)).run()
        except (OSError, TreeringError) as error:
            if path == wanted:
                raise
            logger().warning("replay_waits", ref=path, why=str(error))
            return False
        finally:
            self._locks.give_back(held)
        return True


def _folders_above(path: str) -> Iterator[str]:
    """Yield the folders in which journals may speak of a file."""
    directory = os.path.dirname(path)
    while True:
        yield os.path.join(directory, JOURNALS)
        above = os.path.dirname(directory)
        if above == directory:
            return
        directory = above


def in_order(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Return what a file was to hold: of records for the same bytes, the later one."""
    ordered = sorted(pieces, key=lambda piece: piece.entry.epoch)
    kept: list[_Piece] = []
    for piece in ordered:
        while kept and kept[-1].end > piece.start:
            kept.pop()  # the file was cut back by somebody else since
        kept.append(piece)
    return kept


class _Restoring:
    """One session's file, held against what the journals say."""

    def __init__(self, disk: Disk, path: str, pieces: Sequence[_Piece]) -> None:
        self._disk = disk
        self._path = path
        self._pieces = pieces
        self._late: list[_Piece] = []

    def run(self) -> None:
        """Write what is missing, and flush the file.

        Raises:
            LogError: What stands there is no session.
            OSError: It cannot be written.
        """
        if not self._pieces:
            return
        self._disk.make_directory(os.path.dirname(self._path))
        if self._pieces[0].makes or self._has_header():
            self._in_place()
        elif not self._from_block():
            return
        if self._late:
            self._by_id()

    def _has_header(self) -> bool:
        """Tell whether there is more in the file than the beginning of a header that was torn."""
        block = self._block()
        try:
            with opened(self._disk, self._path) as fd:
                found = self._disk.pread(fd, len(block) + 1, 0)
        except FileNotFoundError:
            return False
        return len(found) > len(block) or not block.startswith(found.rstrip(b"\0")) or found == block

    def _block(self) -> bytes:
        return next((block for piece in self._pieces if (block := piece.block())), b"")

    # -- where it was

    def _in_place(self) -> None:
        disk, self._late = self._disk, []
        fd = disk.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            for run in _runs(self._pieces):
                if not self._fill(fd, run):
                    return  # the file is another one now, and whole
            disk.datasync(fd)
        finally:
            disk.close(fd)

    def _fill(self, fd: int, run: Sequence[_Piece]) -> bool:
        """Write a run of records that follow each other; False where that took a new file."""
        disk, size = self._disk, self._disk.fstat(fd).size
        start, end = run[0].start, run[-1].end
        if start > size:
            self._late += run
            return True
        expected = b"".join(piece.data() for piece in run)
        found = disk.pread(fd, end - start, start)
        at = _difference(found, expected)
        if at == len(found) and len(found) < len(expected) and start + at == size:
            beside.write_all(disk, fd, expected[at:])
        elif at < len(found):
            if not _zeros_or_equal(found, expected):
                self._late += run
                return True
            if not _is_zero(disk, fd, end, size):
                self._patch(fd, size, start + at, expected[at:])
                return False
            disk.truncate(fd, start + at)
            beside.write_all(disk, fd, expected[at:])
        self._write_again(fd, start, expected[:at])
        return True

    def _write_again(self, fd: int, offset: int, data: bytes) -> None:
        """Write bytes that are there already, unless another program may change them before they are written."""
        disk = self._disk
        if not data or read_head(disk, fd, self._path, disk.fstat(fd).size)[0].dialect.shared:
            return
        with opened(disk, self._path, os.O_RDWR) as again:
            disk.seek(again, offset)
            beside.write_all(disk, again, data)

    def _patch(self, fd: int, size: int, offset: int, data: bytes) -> None:
        """Put bytes in the midst of a file: others stand after them, so that a new file takes its place in one step."""
        disk = self._disk
        target, temporary = beside.open_temporary(disk, self._path)
        try:
            try:
                for chunk in chain(chunks(disk, fd, 0, offset), [data], chunks(disk, fd, offset + len(data), size)):
                    beside.write_all(disk, target, chunk)
                disk.datasync(target)
            finally:
                disk.close(target)
            if disk.fstat(fd).size != size:
                raise Conflict(f"{self._path} was appended to by another program while it was put right: try again")
            disk.rename(temporary, self._path)
        except BaseException:
            with suppress(OSError):
                disk.unlink(temporary)
            raise
        self._in_place()  # what else there may be

    # -- by id

    def _from_block(self) -> bool:
        """Make a file anew whose beginning nobody has: its header, and the lines that the journals have."""
        block = self._block()
        if not block:
            logger().warning("replay_without_header", ref=self._path)
            return False
        beside.write_beside(self._disk, self._path, [block, *(piece.lines() for piece in self._pieces)], sync=True)
        return True

    def _by_id(self) -> None:
        """Append the lines whose entries are not in the log, which begins another history with them."""
        disk = self._disk
        log = Log(disk, self._path, self._path)
        log.own()
        if log.header is None:
            raise LogError(f"{self._path} is empty, and the journal does not have its header: it was left as it is")
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            known = {_key(line) for line in _lines_of(log, fd)}
            lines: list[bytes] = []
            for piece in self._late:
                for line in piece.lines().split(b"\n"):
                    if line.strip() and (key := _key(line)) not in known:
                        known.add(key)
                        lines.append(line + b"\n")
            if lines:
                log.reload_changed()
                log.save_snapshot(log.table.count, None)  # it keeps the count of histories
                beside.flush_file(disk, self._path + beside.INDEX_SUFFIX)
                beside.write_all(disk, fd, b"".join(lines))
            disk.datasync(fd)
        logger().info("replayed_by_id", ref=self._path, lines=len(lines))


def _runs(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Part records into runs that follow each other without a gap."""
    runs = [[pieces[0]]]
    for former, piece in pairwise(pieces):
        if piece.start == former.end:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


def _difference(found: bytes, expected: bytes) -> int:
    """Return where two strings of bytes begin to differ; the length of the shorter one where they do not."""
    length = min(len(found), len(expected))
    for at in range(0, length, _BLOCK):
        if found[at : at + _BLOCK] != expected[at : at + _BLOCK]:
            return next((n for n in range(at, min(at + _BLOCK, length)) if found[n] != expected[n]), length)
    return length


def _zeros_or_equal(found: bytes, expected: bytes) -> bool:
    """Tell whether nothing is lost when one takes the place of the other."""
    for at in range(0, len(found), _BLOCK):
        part, other = found[at : at + _BLOCK], expected[at : at + _BLOCK]
        if part != other and any(byte not in (0, wanted) for byte, wanted in zip(part, other, strict=False)):
            return False
    return True


def _is_zero(disk: Disk, fd: int, start: int, stop: int) -> bool:
    """Tell whether nothing but zeros stands between two offsets."""
    return not any(chunk.strip(b"\0") for chunk in chunks(disk, fd, start, stop))


def _lines_of(log: Log, fd: int) -> Iterator[bytes]:
    seq, table = 0, log.table
    while seq < table.count:
        last = table.last_that_fits(seq, table.count, CHUNK)
        yield from log.lines(fd, table, [(seq + 1, last)])
        seq = last


def _key(line: bytes) -> object:
    """Return what tells a line from others: its entry's id, or the line where it has none."""
    try:
        return _decode_id(line).id or line.strip()
    except UNDECODABLE:
        return line.strip()
