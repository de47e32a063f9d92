"""The record of damage that a repair has seen and left in place, so that the doctor does not report it again.

Lines in the middle of a log are never moved or rewritten, however damaged: each keeps its bytes, its place and its
seq, and readers skip it. A repair therefore records such damage in `.treering/known-damage.json`::

    {"version":1,"damage":[
    {"file":"work/a.jsonl","code":"not_json","byte":84,"crc":3735928559}
    ]}

A record covers the files below the folder that contains the `.treering`. It names the place and the checksum of what is
there, so that other damage in the same place, and the same damage in another place, is reported. The file can be
deleted: the doctor then reports everything again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from zlib import crc32

import msgspec
from msgspec import Struct

from ..disk import Disk, opened
from ..disk.atomic_files import write_atomically
from ..disk.disk import PRIVATE_FOLDER
from ..disk.packed import log_path
from ..findings import Finding
from ..json_values import UNDECODABLE

KNOWN = os.path.join(PRIVATE_FOLDER, "known-damage.json")
"""The path of the record, relative to the examined folder."""

PASSING = frozenset(
    {"unreadable", "locked", "torn_tail", "no_newline", "temporary", "orphan", "known_torn"}
    | {"index_torn", "index_foreign", "index_stale", "index_wrong", "view_torn", "view_foreign"}
    | {"leaf_torn", "leaf_foreign", "leaf_unknown"}
    | {"archive_damaged", "archive_left", "archive_unreadable"}
    | {"journal_waiting", "journal_torn", "journal_unused", "journal_foreign"}
    | {"same_session_id"}
)
"""The codes that are never recorded: a repair mends them, or a person has to, or they are temporary, or the file could
not be read."""

QUIET = frozenset({"fragment", "backup", "journal_held", "copied_line"})
"""The codes of things that are in order, and are reported only on request."""

_VERSION = 1
_EDGE = 64 * 1024


class Seen(Struct, frozen=True, omit_defaults=True):
    """One piece of damage: its file relative to the folder, its code, its place, and the checksum of what is there.

    `raw` is the file's name as bytes, where the name is not valid UTF-8.
    """

    file: str
    code: str
    byte: int | None
    crc: int
    raw: bytes = b""

    @property
    def name(self) -> str:
        """The file's name as the file system stores it."""
        return os.fsdecode(self.raw) if self.raw else self.file


class _Record(Struct):
    version: int
    damage: list[Seen]


def read_known(disk: Disk, folder: str) -> frozenset[Seen] | None:
    """Return the damage recorded for a folder; None if the record itself is damaged or unreadable."""
    try:
        with opened(disk, os.path.join(folder, KNOWN)) as fd:
            record = msgspec.json.decode(disk.pread(fd, disk.fstat(fd).size, 0), type=_Record)
    except FileNotFoundError:
        return frozenset()
    except (OSError, *UNDECODABLE):
        return None
    return frozenset(record.damage) if record.version == _VERSION else None


def write_known(disk: Disk, folder: str, seen: Iterable[Seen]) -> None:
    """Replace the record of a folder."""
    damage = sorted(seen, key=lambda each: (each.file, -1 if each.byte is None else each.byte, each.code))
    lines = b",\n".join(map(msgspec.json.encode, damage))
    disk.make_directory(os.path.join(folder, PRIVATE_FOLDER))
    text = [b'{"version":%d,"damage":[\n' % _VERSION, lines, b"\n]}\n"]
    write_atomically(disk, os.path.join(folder, KNOWN), text, sync=True)


def seen_of(disk: Disk, folder: str, finding: Finding) -> Seen | None:
    """Return a finding in the form in which a folder's record keeps it; None if it cannot be recorded."""
    path = disk.real_path(os.path.abspath(finding.path))
    if finding.code in PASSING or finding.code in QUIET or not path.startswith(folder.rstrip("/") + "/"):
        return None
    # A packed log never grows, and offsets of its lines are not offsets in the file: its checksum is of the whole file.
    packed = log_path(path) != path
    try:
        crc = _checksum(disk, path, None if packed else finding.byte)
    except OSError:
        return None
    raw = os.fsencode(path[len(folder.rstrip("/")) + 1 :])
    try:
        return Seen(raw.decode(), finding.code, finding.byte, crc)
    except UnicodeDecodeError:
        return Seen(raw.decode(errors="backslashreplace"), finding.code, finding.byte, crc, raw)


def _checksum(disk: Disk, path: str, byte: int | None) -> int:
    """Return a checksum of the line at an offset, or of a whole file; of a long one, only of its beginning."""
    with opened(disk, path) as fd:
        data = disk.pread(fd, _EDGE, byte or 0)
        if byte is None:
            return crc32(b"%d" % disk.fstat(fd).size, crc32(data))
        return crc32(data.partition(b"\n")[0])


class KnownDamage:
    """The damage known from the records in all folders above a file."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._records: dict[str, frozenset[Seen]] = {}

    def has(self, finding: Finding) -> bool:
        """Return whether a finding is recorded, or is of a kind that is reported only on request."""
        if finding.code in QUIET:
            return True
        if finding.code in PASSING:
            return False
        folder = os.path.dirname(self._disk.real_path(os.path.abspath(finding.path)))
        while True:
            record = self._record(folder)
            if record and seen_of(self._disk, folder, finding) in record:
                return True
            above = os.path.dirname(folder)
            if above == folder:
                return False
            folder = above

    def _record(self, folder: str) -> frozenset[Seen]:
        record = self._records.get(folder)
        if record is None:
            record = self._records[folder] = read_known(self._disk, folder) or frozenset()
        return record
