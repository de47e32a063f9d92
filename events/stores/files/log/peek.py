"""Single reads of a log file without waiting, for sessions that are not open."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from ....disk import Disk
from ....errors import SessionNotFound
from ...base import Blob, BlobKind, Opening, Page, Ref
from .log import Log
from .records import load_blob

_PAGE_BYTES = 1024 * 1024


class FilePeek:
    """A log file, opened for a single read; later appends are not seen.

    Args:
        disk: The disk.
        ref: The log's name.
        path: The path of the file.

    Raises:
        SessionNotFound: The file does not exist, or is empty.
        NotASession: The file does not begin with a header.
        UnsupportedVersion: The file was written by a newer program.
    """

    def __init__(self, disk: Disk, ref: Ref, path: str) -> None:
        self._log = Log(disk, ref, path)
        self._log.find()
        if self._log.header is None or self._log.dialect is None:
            raise SessionNotFound(f"there is no session at {path}, or no longer: load or create another one")
        self.opening = Opening(self._log.header, self._log.dialect, self._log.head)

    def load(self, kind: BlobKind) -> Blob | None:
        """Return data kept beside the log; see `Store.load`."""
        with self._detecting_removal():
            return load_blob(self._log, kind, self.opening.head, self._log.table)

    def read(self, after: int) -> Page:
        """Read the next page of lines; see `Store.read`."""
        log, end = self._log, self.opening.head.seq
        if after >= end:
            return Page(after + 1, [], False)
        last = log.table.last_that_fits(after, end, _PAGE_BYTES)
        with self._detecting_removal(), log.opened(os.O_RDONLY) as fd:
            return Page(after + 1, log.lines(fd, log.table, [(after + 1, last)]), last < end)

    @contextmanager
    def _detecting_removal(self) -> Generator[None]:
        """Raise `LogReplaced` if the file was archived or removed since the peek began."""
        try:
            yield
        except FileNotFoundError:
            raise self._log.replaced_error() from None
