"""Repair what the doctor finds, without moving, changing or losing a complete line.

A log is repaired only where no complete line is touched, and only under its lock; a session that another process or
host owns is reported and left alone.

- A torn tail: in native logs the fragment moves to `<name>.torn-<offset>-<crc32>`, and the log is cut back to its last
  newline; in pi's and oh-my-pi's files, where another program may resume writing, a newline isolates it. A complete
  last line that only lacks its newline gets one.
- Derived files that do not match their log (snapshots, checkpoints), invalid leaf records, and temporary files of a
  crash move to `.treering/aside` of the given folder, under their own names. A snapshot counts histories, so the old
  one is copied there and an empty one that keeps the count takes its place, except beside an archived session. Nothing
  is deleted.
- Journals that no host holds are copied aside and replayed, before any session is touched.

Everything else stays as it is: lines that are not JSON, duplicate ids, missing parents, cycles, second headers, files
that are not sessions. Fixing them would mean moving lines, which changes the seqs by which everything else refers to
them, or inventing content; readers can handle each of them. They are recorded as seen (see `known_damage`), and are not
reported again until they change, except on request.

Two files that have the same session id stay as they are, too, and stay reported: only a person knows which one counts.

When a step fails, for example on a full disk, its target stays as it was, the failure becomes a `Repair`, and the step
can be repeated.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from ..disk import Disk, OsDisk, opened
from ..disk.atomic_files import write_atomically
from ..disk.disk import ASIDE
from ..disk.packed import log_path
from ..errors import LogError, SessionLocked, TreeringError
from ..findings import Finding, Repair
from ..stores.files.durability.journal import JOURNALS, journals_in, void_of
from ..stores.files.durability.journal_replay import JournalReplay
from ..stores.files.locks import Held, Locks, locks_of
from ..stores.files.log.log import Log
from ..stores.files.log.snapshots import read_snapshot
from ..stores.files.log.table import chunks
from ..stores.files.names import INDEX_SUFFIX, folders_between
from ..texts import counted
from .doctor import Subject, examine_subject, subjects
from .known_damage import KNOWN, KnownDamage, Seen, read_known, seen_of, write_known
from .surroundings import LEFT_BY_A_CRASH

_TAIL = ("torn_tail", "no_newline")
_REBUILT = ("index_torn", "index_foreign", "index_stale", "index_wrong")
_ASIDE = ("view_torn", "view_foreign", "leaf_torn", "leaf_foreign", "leaf_unknown", "orphan", "temporary")
_OTHER_HISTORY = ("index_foreign", "index_wrong")
_REPAIRED = (*_TAIL, *_REBUILT, *_ASIDE)
_FOLDER_ASIDE = ("orphan", "temporary", "known_torn", "journal_unused", "journal_foreign")


def repair(*paths: str | os.PathLike[str], disk: Disk | None = None) -> list[Repair]:
    """Repair what `examine` finds, and record the damage that stays.

    Args:
        *paths: Files of any name, and directories that are searched for `*.jsonl` at any depth.

    Raises:
        OSError: A path does not exist.
    """
    disk = disk or OsDisk()
    found = list(subjects(*paths, disk=disk))
    repairer = Repairer(disk)
    repairs = [each for subject in repairer.in_order(found) for each in repairer.repair(subject)]
    return repairs + repairer.note()


class Repairer:
    """Repairs one subject after the other, folders first, and finally records the damage that stays."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known = KnownDamage(disk)
        self._locks: dict[str, Locks] = {}
        self._remaining: dict[str, list[Finding]] = {}

    def in_order(self, unordered: Sequence[Subject]) -> list[Subject]:
        """Return the subjects in the order in which they must be repaired: journals before sessions."""
        return sorted(unordered, key=lambda subject: subject.kind != "folder")

    def repair(self, subject: Subject) -> list[Repair]:
        """Repair one subject."""
        findings = examine_subject(subject, self._disk, self._known)
        try:
            if subject.kind == "folder":
                return self._repair_folder(subject, findings)
            return self._repair_session(subject, findings)
        except (OSError, TreeringError) as error:
            return [_failure(subject.path, error)]

    def note(self) -> list[Repair]:
        """Record the damage that was seen and stays, by folder, and release the locks."""
        repairs: list[Repair] = []
        for folder, findings in self._remaining.items():
            try:
                repairs += self._note_remaining(folder, findings)
            except (OSError, TreeringError) as error:
                repairs.append(_failure(os.path.join(folder, KNOWN), error))
        self._remaining.clear()
        for locks in self._locks.values():
            locks.close()
        self._locks.clear()
        return repairs

    # -- sessions

    def _repair_session(self, subject: Subject, findings: list[Finding]) -> list[Repair]:
        if not findings:
            return []
        if not any(finding.code in _REPAIRED for finding in findings):
            self._keep(subject, findings)
            return []
        real = self._disk.real_path(os.path.abspath(log_path(subject.path)))  # a packed log is owned by the log's name
        self._journals(subject.root).before(real)
        held = self._take(subject.root, real)
        if isinstance(held, SessionLocked):
            return [Repair(subject.path, "locked", held.message)]
        try:
            repairs: list[Repair] = []
            if subject.kind == "session":
                tail = next((finding.line for finding in findings if finding.code in _TAIL), None)
                repairs += self._repair_tail(subject, real, tail)
            remaining = examine_subject(subject, self._disk, self._known)
            remaining = [finding for finding in remaining if finding.code != "locked"]  # the lock is ours
            for finding in remaining:
                if finding.code in _REBUILT and subject.kind == "session":
                    repairs.append(self._rebuild_snapshot(subject, finding, real))
                elif finding.code in _ASIDE or (finding.code in _REBUILT and subject.kind == "archive"):
                    # Archiving a log removes its snapshot, so the count in this one is of no use.
                    repairs.append(self._move_aside(subject.root, finding))
            self._keep(subject, remaining)
            return repairs
        finally:
            self._locks_of(subject.root).give_back(held)

    def _repair_tail(self, subject: Subject, real: str, line: int | None) -> list[Repair]:
        log = Log(self._disk, os.path.basename(real), real)
        try:
            log.examine()
        except LogError:
            return []  # not a session, or a newer program's: no byte of it is touched
        if log.header is None:
            return []
        with log.opened(os.O_RDWR | os.O_APPEND) as fd:
            before, start = self._disk.fstat(fd).size, log.table.scanned
            if before <= start:
                return []
            shared = log.dialect is not None and log.dialect.shared
            was_complete = log.table.open_end or start == 0 or not shared
            log.settle(fd)
            self._disk.datasync(fd)
            after = self._disk.fstat(fd).size
        if after >= before:
            what = "the last line got its newline" if was_complete else "the unfinished line was isolated by a newline"
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

    def _rebuild_snapshot(self, subject: Subject, finding: Finding, real: str) -> Repair:
        """Replace a snapshot that does not match its log by an empty one that keeps the count of histories."""
        snapshot = read_snapshot(self._disk, real)
        moved = self._move_aside(subject.root, finding)
        try:
            log = Log(self._disk, os.path.basename(real), real)
            log.counter = 0 if snapshot is None else snapshot.counter + (finding.code in _OTHER_HISTORY)
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

    def _repair_folder(self, subject: Subject, findings: list[Finding]) -> list[Repair]:
        repairs = [
            self._set_aside(subject, finding)
            for finding in findings
            if finding.code in _FOLDER_ASIDE and not (finding.code == "temporary" and finding.severity == "note")
        ]
        if waiting := [finding for finding in findings if finding.code == "journal_waiting"]:
            repairs += self._replay_all(subject.root, waiting)
        self._keep(subject, findings)
        return repairs

    def _set_aside(self, subject: Subject, finding: Finding) -> Repair:
        """Move a file aside, unless another process or host owns it."""
        path = self._disk.real_path(os.path.abspath(finding.path))
        held = self._take(subject.root, path)
        if isinstance(held, SessionLocked):
            return Repair(finding.path, "locked", held.message)
        try:
            return self._move_aside(subject.root, finding)
        except FileNotFoundError as error:
            return _failure(finding.path, error)
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
        what = "some appends have to wait: their sessions are owned, or cannot be written"
        return [
            Repair(finding.path, "waiting", what, target)
            if os.path.basename(finding.path) in left
            else Repair(finding.path, "replayed", finding.message, target)
            for finding, target in zip(waiting, targets, strict=True)
        ]

    def _journals(self, root: str) -> JournalReplay:
        """Return the same replay of journals that runs when a session is opened."""
        return JournalReplay(self._disk, self._locks_of(root), ())

    # -- moving aside

    def _move_aside(self, root: str, finding: Finding) -> Repair:
        folder, name = os.path.split(finding.path)
        folder = self._disk.real_path(os.path.abspath(folder))
        path = os.path.join(folder, name)  # a link itself, not its target
        if self._disk.stat(path).is_directory:
            target = self._free_aside(root, path)
            self._disk.rename(path, target)
        else:  # after a power cut, a rename between folders may be in neither of them
            target = self._copy_aside(root, path)
            self._disk.unlink(path)
        self._disk.sync_directory(folder)
        # Examined under the repair's own lock, a temporary file looks like one that the owner is writing.
        what = LEFT_BY_A_CRASH if finding.code == "temporary" else finding.message
        return Repair(finding.path, "moved_aside", what, target)

    def _copy_aside(self, root: str, path: str) -> str:
        disk = self._disk
        target = self._free_aside(root, path)
        with opened(disk, path) as source:
            write_atomically(disk, target, chunks(disk, source, 0, disk.fstat(source).size), sync=True)
        for folder in folders_between(root, target)[1:]:
            disk.sync_directory(folder)
        return target

    def _free_aside(self, root: str, path: str) -> str:
        """Return an unused path below the folder for files moved aside, and make its parents."""
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

    # -- recording, and locks

    def _keep(self, subject: Subject, findings: list[Finding]) -> None:
        if not any(finding.code == "locked" for finding in findings):
            self._remaining.setdefault(subject.root, []).extend(findings)

    def _note_remaining(self, folder: str, findings: list[Finding]) -> list[Repair]:
        pairs = [(finding, seen_of(self._disk, folder, finding)) for finding in findings]
        new = [(finding, seen) for finding, seen in pairs if seen is not None]
        if not new:
            return []
        held = self._take(folder, os.path.join(folder, KNOWN))
        if isinstance(held, SessionLocked):
            return [Repair(os.path.join(folder, KNOWN), "locked", held.message)]
        try:
            still_valid = {each for each in read_known(self._disk, folder) or () if self._still_exists(folder, each)}
            write_known(self._disk, folder, still_valid | {seen for _, seen in new})
        finally:
            self._locks_of(folder).give_back(held)
        return [
            Repair(finding.path, "noted", f"seen and kept: {finding.message}", byte=finding.byte, line=finding.line)
            for finding, _ in new
        ]

    def _still_exists(self, folder: str, seen: Seen) -> bool:
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


def _failure(path: str, error: OSError | TreeringError) -> Repair:
    what = error.message if isinstance(error, TreeringError) else error.strerror or str(error)
    return Repair(path, "failed", f"left as it is: {what}")
