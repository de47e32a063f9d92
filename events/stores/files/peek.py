"""A look into a log file without waiting, for reads of sessions that nobody has open."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from ...disk import Disk
from ...errors import SessionNotFound
from ..base import Blob, BlobKind, Cursor, Opening, Page, Ref
from .beside import suffix_of
from .log import Log

_PAGE_BYTES = 1024 * 1024


class FilePeek:
    """One look at a log file; what is appended later is not seen.

    Args:
        disk: Where the file is.
        ref: The log's name.
        path: The file.

    Raises:
        SessionNotFound: There is no such file, or nothing in it.
        NotASession: It does not begin with a header.
        UnsupportedVersion: A newer program wrote it.
    """

    def __init__(self, disk: Disk, ref: Ref, path: str) -> None:
        self._log = Log(disk, ref, path)
        self._log.find()
        if self._log.header is None or self._log.dialect is None:
            raise SessionNotFound(f"there is no session at {path}: create it, or look for it elsewhere")
        self.opening = Opening(self._log.header, self._log.dialect, self._log.head)

    def load(self, kind: BlobKind) -> Blob | None:
        """Return what is kept beside the log; see `Store.load`."""
        log, head = self._log, self.opening.head
        with self._there():
            if kind == "index":
                kept = log.load_index(log.table)
            elif kind == "leaf":
                kept = log.load_leaf(log.table, head)
            else:
                kept = log.load_record(suffix_of(kind), head, log.table)
        return None if kept is None else Blob(Cursor(head.generation, kept[0]), kept[1])

    def read(self, after: int) -> Page:
        """Read the next page of lines; see `Store.read`."""
        log, end = self._log, self.opening.head.seq
        if after >= end:
            return Page(after + 1, [], False)
        last = log.table.last_that_fits(after, end, _PAGE_BYTES)
        with self._there(), log.opened(os.O_RDONLY) as fd:
            return Page(after + 1, log.lines(fd, log.table, [(after + 1, last)]), last < end)

    @contextmanager
    def _there(self) -> Generator[None]:
        """Raise `LogReplaced` where the file was archived or removed since it was looked at."""
        try:
            yield
        except FileNotFoundError:
            raise self._log.replaced() from None
