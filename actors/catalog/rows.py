"""Make rows: from memory for a live session, from the file for any other one.

Small files are read whole, larger ones page by page from the snapshot on; in both cases entries are dropped as soon as
they are counted. A file that cannot be read also has a row, which says why.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import force_setattr, replace

from ...events.dialects.base import lines_of
from ...events.disk import FileStat, opened
from ...events.entries import EPOCH
from ...events.errors import SessionNotFound, TreeringError
from ...events.index import LogIndex
from ...events.projects import project_hash
from ...events.stores.base import Ref
from ...events.stores.capabilities import KeepsFiles
from ...events.stores.files.log.head import TornHeader, read_head
from ...events.stores.files.names import INDEX_SUFFIX
from ...projections.summary import SessionSummary, corrupted, summarize
from ..actor import SessionActor
from ..host.runtime import Runtime
from ..log.open_log import OpenLog

_SMALL_BYTES = 64 * 1024
"""The size up to which reading a file is as fast as reading its snapshot."""
_WHOLE_MAX = 4 * 1024 * 1024
"""The size up to which a file without a snapshot is read whole."""

_HASHES_MAX = 4096


class Rows:
    """Makes the rows of a file store's sessions.

    Args:
        runtime: The host's seams.
        store: The runtime's store, which holds the sessions.
    """

    def __init__(self, runtime: Runtime, files: KeepsFiles) -> None:
        self._runtime = runtime
        self._files = files
        self._hashes: dict[str, str] = {}

    def of_live(self, actor: SessionActor) -> SessionSummary:
        """Make the row of a live session from memory; the hash of its project is left out if it is not cached."""
        log = actor.log
        row = summarize(log.index, ref=log.ref, dialect=log.dialect.name, path=self._files.path_of(log.ref))
        known = self._hashes.get(row.project) if row.project is not None else None
        return row if known is None else replace(row, project_hash=known)

    def hashed(self, row: SessionSummary) -> SessionSummary:
        """Return a row with the hash of its project, which may wait for the disk."""
        if row.project is None or row.project_hash is not None:
            return row
        return replace(row, project_hash=self._hash(row.project))

    def update_hash(self, row: SessionSummary) -> None:
        """Compute the project hash of a stored row again, which may wait for the disk.

        The folder may have been moved since, and a link left in its place.
        """
        if row.project is not None:
            force_setattr(row, "project_hash", self._hash(row.project))

    def read(self, ref: Ref, stat: FileStat) -> SessionSummary | None:
        """Make the row of a session from its file, which may wait for the disk; None if the file was deleted meanwhile.

        Args:
            ref: The session.
            stat: The current stat of its file.
        """
        path = self._files.path_of(ref)
        try:
            try:
                read_whole = stat.size <= _SMALL_BYTES or (stat.size <= _WHOLE_MAX and not self._has_snapshot(path))
                index, dialect = self._whole(path) if read_whole else self._page_by_page(ref)
            except FileNotFoundError:  # it is packed, or was deleted meanwhile
                index, dialect = self._page_by_page(ref)
        except (SessionNotFound, FileNotFoundError):
            return None
        except (TreeringError, OSError) as error:
            modified = EPOCH + timedelta(microseconds=stat.modified_ns // 1000)
            return corrupted(ref, path, modified, error)
        return self.hashed(summarize(index, ref=ref, dialect=dialect, path=path))

    def _has_snapshot(self, path: str) -> bool:
        try:
            self._files.disk.stat(path + INDEX_SUFFIX)
        except OSError:
            return False
        return True

    def _page_by_page(self, ref: Ref) -> tuple[LogIndex, str]:
        """Fold a file of any size, or a packed one."""
        log = OpenLog.look(self._runtime, ref)
        return log.index, log.dialect.name

    def _whole(self, path: str) -> tuple[LogIndex, str]:
        """Fold a small file."""
        with opened(self._files.disk, path) as fd:
            size = self._files.disk.fstat(fd).size
            if not size:
                raise SessionNotFound(f"there is no session at {path}: the file is empty")
            try:
                detected, _ = read_head(self._files.disk, fd, path, size)
            except TornHeader as error:
                raise SessionNotFound(f"there is no session at {path}: its first write was cut short") from error
            # Without the header, so that the lines need not be copied to be separated from it.
            data = self._files.disk.pread(fd, size - detected.size, detected.size)
        dialect = detected.dialect
        index = LogIndex(detected.header, model_changes_win=dialect.model_changes_win)
        end = data.rfind(b"\n") + 1
        entries = dialect.decode_all(lines_of(data[:end]), 1)
        tail = data[end:]
        if tail and not tail.isspace() and (last := dialect.decode(tail, len(entries) + 1)) is not None:
            entries.append(last)
        index.fold_all(entries)
        return index, dialect.name

    def _hash(self, project: str) -> str:
        known = self._hashes.get(project)
        if known is None:
            if len(self._hashes) >= _HASHES_MAX:
                self._hashes.clear()
            known = self._hashes[project] = project_hash(project)
        return known
