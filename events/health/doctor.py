"""The doctor reports what is wrong with session files, by file, line and byte.

A file is read from its beginning, and nothing is written. Whatever the file holds becomes a finding and never raises,
so that one bad file does not hide the findings of the next.

`examine` looks at sessions and at what belongs to them: their snapshots, leaf records and checkpoints, leftovers of
crashes, lock holders, and the journals. `repair` fixes what can be fixed; damage that it has seen and left in place is
not reported again, except on request.

There are three severities. An error is damage: something that was written cannot be read, or not as it was meant. A
warning is something that no writer should leave behind, and that does no harm. A note is an oddity that reads well.

A file that is being written while it is examined may end in half a line; it is reported like any torn tail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ..disk import Disk, OsDisk
from ..disk.disk import PRIVATE_FOLDER
from ..disk.packed import PackedDisk, log_path
from ..errors import ExtraMissing, LogDamaged
from ..findings import Finding
from ..index import LogIndex
from ..stores.files.names import SUFFIX
from .known_damage import KnownDamage
from .lines import examine_lines, unreadable
from .surroundings import Surroundings, examine_folder, is_beside, log_of


class Subject(Struct, frozen=True):
    """One thing to examine: a session or the `.treering` of a folder.

    Attributes:
        path: The session's file; for a `.treering`, the folder that contains it.
        root: The folder whose `.treering` serves the session.
        kind: "session"; "archive" for a packed session; "remains" if the session is missing and only files beside it
            are left; "folder" for a `.treering`.
        beside: The names of the files beside the session.
    """

    path: str
    root: str
    kind: Literal["session", "archive", "remains", "folder"]
    beside: tuple[str, ...] = ()


def examine(*paths: str | os.PathLike[str], disk: Disk | None = None, known: bool = False) -> list[Finding]:
    """Examine session files, and all those in directories, with everything that belongs to them.

    The findings come file by file, in order of line; those of the files beside a session follow it.

    Args:
        *paths: Files of any name, and directories that are searched for `*.jsonl` at any depth.
        known: Also report damage that a repair has recorded, and things that are in order: owners, fragments, backups,
            lines that a fork copied.

    Raises:
        OSError: A path does not exist.
    """
    disk = disk or OsDisk()
    seen, ids = None if known else KnownDamage(disk), SessionIds(disk)
    return [finding for subject in subjects(*paths, disk=disk) for finding in examine_subject(subject, disk, seen, ids)]


def examine_subject(
    subject: Subject, disk: Disk, known: KnownDamage | None = None, ids: SessionIds | None = None
) -> list[Finding]:
    """Examine one session and the files beside it, or the `.treering` of a folder.

    Args:
        subject: What to examine.
        known: The known damage, which is left out.
        ids: The ids of the sessions that were examined before, to which that of this one is added.
    """
    findings: list[Finding] = []
    index: LogIndex | None = None
    if subject.kind == "session":
        findings, index = examine_lines(subject.path, disk)
    elif subject.kind == "archive":
        findings, index = _examine_packed(subject, disk)
    if ids is not None and index is not None:
        findings += ids.add(subject.root, subject.path, index.header.id)
    try:
        if subject.kind == "folder":
            findings = examine_folder(disk, subject.path)
        elif subject.kind != "archive":
            findings += Surroundings(disk, subject.path, subject.beside, index).findings()
    except OSError as error:
        if not any(each.code == "unreadable" for each in findings):
            findings.append(unreadable(subject.path, error))
    return findings if known is None else news_of(findings, known)


def news_of(findings: Sequence[Finding], known: KnownDamage) -> list[Finding]:
    """Return the findings about one subject that are reported by default: those that are not known damage."""
    news = [finding for finding in findings if not known.has(finding)]
    return news if any(finding.code != "locked" for finding in news) else []  # ownership alone is not worth a report


def subjects(*paths: str | os.PathLike[str], disk: Disk | None = None) -> Iterator[Subject]:
    """Yield what `examine` looks at, in order of name within each directory.

    A session is served by the `.treering` of the nearest folder above it that has one, but never by one above the given
    directory: nothing outside the given paths is touched.

    Raises:
        OSError: A path does not exist.
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
        yield Subject(folder, _real(disk, root), "session")  # examining it reports the error
        return
    if PRIVATE_FOLDER in names:
        root = folder
        yield Subject(folder, _real(disk, root), "folder")
    beside: dict[str, list[str]] = {}
    for name in names:
        if (log := log_of(name)) is not None:
            beside.setdefault(log, []).append(name)
    present = set(names)
    packed = {log_path(name) for name in names}
    for name in sorted({name for name in names if name != PRIVATE_FOLDER} | set(beside)):
        path = os.path.join(folder, name)
        if name not in present:
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


def _examine_packed(subject: Subject, disk: Disk) -> tuple[list[Finding], LogIndex | None]:
    """Examine a packed session: decompress it as a stream, and look at its lines and the files beside it."""
    path, log = subject.path, log_path(subject.path)
    if log in (os.path.join(os.path.dirname(path), name) for name in disk.list_directory(os.path.dirname(path) or ".")):
        what = "the session also exists unpacked, and that file counts; its next writer removes this one"
        return [Finding(path, None, None, "archive_left", "warning", what)], None
    unpacking = PackedDisk(disk)
    try:
        findings, index = examine_lines(path, unpacking)
        return findings + Surroundings(unpacking, log, subject.beside, index).findings(), index
    except LogDamaged as error:
        byte = error.where.byte if error.where is not None else None
        return [Finding(path, None, byte, "archive_damaged", "error", error.message)], None
    except ExtraMissing as error:
        return [Finding(path, None, None, "archive_unreadable", "error", error.message)], None


class SessionIds:
    """The ids of the sessions that were examined so far, by root.

    Args:
        disk: The disk that holds the sessions.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._first: dict[tuple[str, str], tuple[str, str]] = {}

    def add(self, root: str, path: str, session_id: str) -> list[Finding]:
        """Add the id of one session; return a finding if another file of the root has the same id."""
        real_path = self._disk.real_path(os.path.abspath(log_path(path)))  # the same file may be given twice
        first, first_real_path = self._first.setdefault((root, session_id), (path, real_path))
        if first_real_path == real_path:
            return []
        what = (
            f"its session id {session_id!r} is also that of {first}, so the id does not tell them apart: remove one of "
            "the two files, or replace one by a fork of it (`SessionHost.fork_from`), which has an id of its own"
        )
        return [Finding(path, None, None, "same_session_id", "warning", what)]
