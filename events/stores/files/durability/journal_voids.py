"""The files that void records of journals, so that no journal restores content that was removed or rewritten.

Before a session is removed or rewritten, its owner appends a line to `<journal>.void` beside every journal:

    <checksum> <checksum of the journal's header line> <size of the journal> <ref>

Records of that session up to that size are void.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from zlib import crc32

from ....disk import Disk, opened, write_all
from ....disk.disk_errors import naming_errors
from .journal import decoded_name, encoded_name, read_header, void_of


def void(disk: Disk, journal: str, name: str) -> None:
    """Void the records of a session that a journal holds so far; the caller must own the session.

    Raises:
        OSError: The void file cannot be written.
    """
    try:
        with naming_errors(journal), opened(disk, journal) as fd:
            _, header = read_header(disk, fd)
            size = disk.fstat(fd).size
    except FileNotFoundError:
        return
    fields = b" %08x %d %s\n" % (crc32(header), size, encoded_name(name))
    path = void_of(journal)
    with opened(disk, path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as fd:
        write_all(disk, fd, b"\n%08x%s" % (crc32(fields), fields))  # the newline terminates a torn line before it
        disk.datasync(fd)
    disk.sync_directory(os.path.dirname(path))


def read_voids(disk: Disk, journal: str, header: bytes) -> Counter[str]:
    """Return the offsets in a journal up to which records are void, by the names of the session files; 0 for others."""
    try:
        with opened(disk, void_of(journal)) as fd:
            data = disk.pread(fd, disk.fstat(fd).size, 0)
    except FileNotFoundError:
        return Counter()
    void_until: Counter[str] = Counter()
    for line in data.splitlines(keepends=True):
        fields = line.split()
        with suppress(ValueError, IndexError):
            if int(fields[0], 16) == crc32(line[8:]) and int(fields[1], 16) == crc32(header):
                name = decoded_name(fields[3])
                void_until[name] = max(void_until[name], int(fields[2]))
    return void_until
