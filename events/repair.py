"""Repair: what the doctor found is put right, and no whole line of anybody is moved, changed or lost.

Only what can be put right without touching a whole line is done to a log, and only under its lock; a session that
somebody owns is left alone altogether, and said to be.

- A torn tail: in native logs the fragment moves to `<name>.torn-<offset>-<crc32>`, and the log is cut back to its last
  newline; in pi's and oh-my-pi's files, where another program may go on writing, a newline isolates it. A whole last
  line that only lacks its newline gets one.
- What is derived and does not fit (snapshots, checkpoints), leaf records that cannot hold, and temporary files of a crash
  move to `.treering/aside` of the folder that was given, under their own names. A snapshot keeps counting histories, so
  its old form is copied there, and an empty one takes its place, but beside an archived session. Nothing is deleted.
- Journals that no host holds are copied aside and replayed, before any session is touched.

Everything else stays where it is: lines that are no JSON, duplicate ids, missing parents, cycles, second headers, files
that are no sessions. To mend them would be to move lines, and with them the ordinals by which everything else refers to
them, or to invent what nobody wrote; readers know what to do with each. They are written down as seen
(see `known_damage`), and are not said again until they change, or all is asked for.

Whatever fails, be it a full disk, leaves what it was about as it was, becomes a `Repair` that says so, and can be
repeated.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Literal, TypeAlias

from msgspec import Struct

from .disk import Disk, OsDisk
from .doctor import Subject, examine_subject, subjects
from .errors import LogError, SessionLocked, TreeringError, Where
from .findings import Finding
from .known_damage import KNOWN, KnownDamage, Seen, read_known, seen_of, write_known
from .stores.files.beside import INDEX_SUFFIX, read_snapshot, write_beside
from .stores.files.journal import JOURNALS, journals_in, void_of
from .stores.files.journal_replay import JournalReplay
from .stores.files.locks import Held, Locks
from .stores.files.log import Log
from .stores.files.names import folders_between
from .stores.files.packed import log_path
from .stores.files.private_folder import ASIDE
from .stores.files.private_locks import locks_of
from .stores.files.table import chunks
from .wording import counted

Action: TypeAlias = Literal[
    "fragment_moved", "newline_added", "moved_aside", "made_anew", "replayed", "noted", "locked", "waiting", "failed"
]
"""What was done. The last three say that it could not be: somebody owns it, a journal has to wait, the disk refused."""

_TAIL = ("torn_tail", "no_newline")
_ANEW = ("index_torn", "index_foreign", "index_stale", "index_wrong")
_ASIDE = ("view_torn", "view_foreign", "leaf_torn", "leaf_foreign", "leaf_unknown", "orphan", "temporary")
_OTHER_HISTORY = ("index_foreign", "index_wrong")
_MENDED = (*_TAIL, *_ANEW, *_ASIDE)
_FOLDER_ASIDE = ("orphan", "temporary", "known_torn", "journal_unused", "journal_foreign")


class Repair(Struct, frozen=True):
    """Something that was put right, or could not be.

    Attributes:
        path: The file.
        action: What was done, in a word that does not change.
        message: The same in words.
        target: Where the bytes are now, where they were moved.
        byte: The offset that it is about; None where it is the whole file.
        line: The line, counted from 1, that begins there.
    """

    path: str
    action: Action
    message: str
    target: str | None = None
    byte: int | None = None
    line: int | None = None

    @property
    def done(self) -> bool:
        """It was put right."""
        return self.action not in ("locked", "waiting", "failed")

    @property
    def where(self) -> Where:
        """The place in the file."""
        return Where(self.path, self.line, self.byte)


def repair(*paths: str | os.PathLike[str], disk: Disk | None = None) -> list[Repair]:
    """Put right what `examine` finds, and write down what is kept.

    Args:
        *paths: Files of any name, and directories that are searched for `*.jsonl` at any depth.
        disk: The disk that they are on.

    Raises:
        OSError: A path is not there.
    """
    disk = disk or OsDisk()
    patients = list(subjects(*paths, disk=disk))
    surgeon = Surgeon(disk)
    done = [each for subject in surgeon.in_order(patients) for each in surgeon.mend(subject)]
    return done + surgeon.note()


class Surgeon:
    """Repairs one subject after the other, folders first, and writes down in the end what is kept.

    Args:
        disk: The disk.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known = KnownDamage(disk)
        self._locks: dict[str, Locks] = {}
        self._kept: dict[str, list[Finding]] = {}

    def in_order(self, patients: Sequence[Subject]) -> list[Subject]:
        """Return the subjects in the order in which they have to be mended: journals before sessions."""
        return sorted(patients, key=lambda subject: subject.kind != "folder")

    def mend(self, subject: Subject) -> list[Repair]:
        """Put one subject right."""
        found = examine_subject(subject, self._disk, self._known)
        try:
            if subject.kind == "folder":
                return self._mend_folder(subject, found)
            return self._mend_session(subject, found)
        except (OSError, TreeringError) as error:
            return [_failed(subject.path, error)]

    def note(self) -> list[Repair]:
        """Write down what was seen and is kept, by folder."""
        done: list[Repair] = []
        for folder, findings in self._kept.items():
            try:
                done += self._note(folder, findings)
            except (OSError, TreeringError) as error:
                done.append(_failed(os.path.join(folder, KNOWN), error))
        self._kept.clear()
        for locks in self._locks.values():
            locks.close()
        self._locks.clear()
        return done

    # -- sessions

    def _mend_session(self, subject: Subject, found: list[Finding]) -> list[Repair]:
        if not found:
            return []
        if not any(finding.code in _MENDED for finding in found):
            self._keep(subject, found)
            return []
        real = self._disk.real_path(os.path.abspath(log_path(subject.path)))  # a packed log is owned by the log's name
        self._journals(subject.root).before(real)
        held = self._take(subject.root, real)
        if isinstance(held, SessionLocked):
            return [Repair(subject.path, "locked", held.message)]
        try:
            done: list[Repair] = []
            if subject.kind == "session":
                tail = next((finding.line for finding in found if finding.code in _TAIL), None)
                done += self._mend_tail(subject, real, tail)
            left = examine_subject(subject, self._disk, self._known)
            left = [finding for finding in left if finding.code != "locked"]  # by us
            for finding in left:
                if finding.code in _ANEW and subject.kind == "session":
                    done.append(self._make_anew(subject, finding, real))
                elif finding.code in _ASIDE or (finding.code in _ANEW and subject.kind == "archive"):
                    # Whoever packs a log takes its snapshot away, so nothing counts on by this one.
                    done.append(self._move_aside(subject.root, finding))
            self._keep(subject, left)
            return done
        finally:
            self._locks_of(subject.root).give_back(held)

    def _mend_tail(self, subject: Subject, real: str, line: int | None) -> list[Repair]:
        log = Log(self._disk, os.path.basename(real), real)
        try:
            log.examine()
        except LogError:
            return []  # it is no session, or a newer program's: not one byte of it is touched
        if log.header is None:
            return []
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            before, start = self._disk.fstat(fd).size, log.table.scanned
            if before <= start:
                return []
            shared = log.dialect is not None and log.dialect.shared
            whole = log.table.open_end or start == 0 or not shared
            log.settle(fd)
            self._disk.datasync(fd)
            after = self._disk.fstat(fd).size
        if after >= before:
            what = "the last line got its newline" if whole else "the unfinished line was isolated by a newline"
            return [Repair(subject.path, "newline_added", what, byte=start, line=line)]
        target = next(
            (
                os.path.join(os.path.dirname(subject.path), name)
                for name in self._disk.list_directory(os.path.dirname(real))
                if name.startswith(f"{os.path.basename(real)}.torn-{start}-") and ".tmp-" not in name
            ),
            None,
        )
        what = f"an unfinished line of {counted(before - after, 'byte')} was moved to a file of its own"
        return [Repair(subject.path, "fragment_moved", what, target, start, line)]

    def _make_anew(self, subject: Subject, finding: Finding, real: str) -> Repair:
        """Put an empty snapshot in the place of one that does not fit: it goes on counting histories."""
        kept = read_snapshot(self._disk, real)
        moved = self._move_aside(subject.root, finding)
        try:
            log = Log(self._disk, os.path.basename(real), real)
            log.counter = 0 if kept is None else kept.counter + (finding.code in _OTHER_HISTORY)
            log.examine()
            if log.header is not None:
                log.save_snapshot(log.table.count, None)
        except BaseException:
            if moved.target is not None:
                with suppress(OSError):
                    self._disk.rename(moved.target, real + INDEX_SUFFIX)
            raise
        return Repair(finding.path, "made_anew", finding.message, moved.target)

    # -- `.treering`

    def _mend_folder(self, subject: Subject, found: list[Finding]) -> list[Repair]:
        done = [
            self._set_aside(subject, finding)
            for finding in found
            if finding.code in _FOLDER_ASIDE and not (finding.code == "temporary" and finding.severity == "note")
        ]
        if waiting := [finding for finding in found if finding.code == "journal_waiting"]:
            done += self._replay_all(subject.root, waiting)
        self._keep(subject, found)
        return done

    def _set_aside(self, subject: Subject, finding: Finding) -> Repair:
        """Move aside what may turn out to be somebody's."""
        path = self._disk.real_path(os.path.abspath(finding.path))
        held = self._take(subject.root, path)
        if isinstance(held, SessionLocked):
            return Repair(finding.path, "locked", held.message)
        try:
            return self._move_aside(subject.root, finding)
        except FileNotFoundError as error:
            return _failed(finding.path, error)
        finally:
            self._locks_of(subject.root).give_back(held)

    def _replay_all(self, root: str, waiting: list[Finding]) -> list[Repair]:
        targets: list[str] = []
        for finding in waiting:
            path = self._disk.real_path(os.path.abspath(finding.path))
            targets.append(self._copy_aside(root, path))
            with suppress(FileNotFoundError):
                self._copy_aside(root, void_of(path))
        self._journals(root).under(root)
        left = {os.path.basename(each) for each in journals_in(self._disk, os.path.join(root, JOURNALS))}
        what = "some of it has to wait: its sessions are owned, or cannot be written"
        return [
            Repair(finding.path, "waiting", what, target)
            if os.path.basename(finding.path) in left
            else Repair(finding.path, "replayed", finding.message, target)
            for finding, target in zip(waiting, targets, strict=True)
        ]

    def _journals(self, root: str) -> JournalReplay:
        """Return what has journals say what they have of sessions, as whoever opens those does."""
        return JournalReplay(self._disk, self._locks_of(root), ())

    # -- moving aside

    def _move_aside(self, root: str, finding: Finding) -> Repair:
        folder, name = os.path.split(finding.path)
        folder = self._disk.real_path(os.path.abspath(folder))
        path = os.path.join(folder, name)  # a link itself, not what it leads to
        if self._disk.stat(path).is_directory:
            target = self._free_aside(root, path)
            self._disk.rename(path, target)
        else:  # a rename from folder to folder may come to nothing in both when the power goes
            target = self._copy_aside(root, path)
            self._disk.unlink(path)
        self._disk.sync_directory(folder)
        return Repair(finding.path, "moved_aside", finding.message, target)

    def _copy_aside(self, root: str, path: str) -> str:
        disk = self._disk
        target = self._free_aside(root, path)
        source = disk.open(path, os.O_RDONLY)
        try:
            write_beside(disk, target, chunks(disk, source, 0, disk.fstat(source).size), sync=True)
        finally:
            disk.close(source)
        for folder in folders_between(root, target)[1:]:
            disk.sync_directory(folder)
        return target

    def _free_aside(self, root: str, path: str) -> str:
        """Return a name that is not taken, below the folder for such things; the folders are made."""
        under = root.rstrip("/") + "/"
        name = path[len(under) :] if path.startswith(under) else os.path.basename(path)
        target = os.path.join(root, ASIDE, name)
        self._disk.make_directory(os.path.dirname(target))
        for number in count(2):
            try:
                self._disk.stat(target)
            except FileNotFoundError:
                return target
            target = os.path.join(root, ASIDE, f"{name}-{number}")
        raise AssertionError("unreachable")

    # -- writing down, and owning

    def _keep(self, subject: Subject, found: list[Finding]) -> None:
        if not any(finding.code == "locked" for finding in found):
            self._kept.setdefault(subject.root, []).extend(found)

    def _note(self, folder: str, findings: list[Finding]) -> list[Repair]:
        pairs = [(finding, seen_of(self._disk, folder, finding)) for finding in findings]
        new = [(finding, seen) for finding, seen in pairs if seen is not None]
        if not new:
            return []
        held = self._take(folder, os.path.join(folder, KNOWN))
        if isinstance(held, SessionLocked):
            return [Repair(os.path.join(folder, KNOWN), "locked", held.message)]
        try:
            kept = {each for each in read_known(self._disk, folder) or () if self._is_there(folder, each)}
            write_known(self._disk, folder, kept | {seen for _, seen in new})
        finally:
            self._locks_of(folder).give_back(held)
        return [
            Repair(finding.path, "noted", f"seen and kept: {finding.message}", byte=finding.byte, line=finding.line)
            for finding, _ in new
        ]

    def _is_there(self, folder: str, seen: Seen) -> bool:
        with suppress(OSError):
            self._disk.stat(os.path.join(folder, seen.name))
            return True
        return False

    def _take(self, root: str, path: str) -> Held | SessionLocked:
        return self._locks_of(root).take(path)

    def _locks_of(self, root: str) -> Locks:
        locks = self._locks.get(root)
        if locks is None:
            locks = self._locks[root] = locks_of(self._disk, root)
        return locks


def _failed(path: str, error: OSError | TreeringError) -> Repair:
    what = error.message if isinstance(error, TreeringError) else error.strerror or str(error)
    return Repair(path, "failed", f"it was left as it is: {what}")
