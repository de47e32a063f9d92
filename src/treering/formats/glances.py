"""Glances: what a list shows of the sessions of a program, without reading them whole.

Of a file of lines, the beginning and the end are read; what lies between is not, however long it is. A last line that
its program is still writing is left out; it is there the next time. A document is read whole, if it is not too large.
A format whose sessions are stored otherwise, such as in a database, reads the ends of each by itself (`ReadsEnds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path, PosixPath
from typing import IO, Any, Protocol, runtime_checkable

from msgspec import Struct

from ..events.entries import Entry, Header
from ..events.errors import ForeignFormatError, Where
from ..events.findings import Finding
from .base import ForeignSession, Format, KeptSession
from .json_lines import decoded
from .opening import HEAD_MAX, cannot_read, head_of, is_packed, modified_at

DOCUMENT_MAX = 16 * 1024 * 1024
"""The largest document, in bytes, that is read for a list."""

HEAD_BYTES = 32 * 1024
"""How much of the beginning of a file is read; more if its first line is longer."""

TAIL_BYTES = 64 * 1024
"""How much of the end of a file is read; more if its last line is longer."""

LINE_MAX = 4 * 1024 * 1024
"""The longest first or last line that is read."""

_GROWS = 4
_OF_LINES = ".jsonl"


class Excerpt(PosixPath):
    """The path of a file that opens as the beginning and the end of that file; all else is as with any path.

    Paths that are made from it, such as its folder, are those of the files and folders themselves.
    """

    _data: bytes | None = None
    is_whole: bool = False

    @classmethod
    def of(cls, path: Path) -> Excerpt:
        """Read the beginning and the end of a file.

        Raises:
            OSError: The file cannot be read.
        """
        excerpt = cls(path)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size <= HEAD_BYTES + TAIL_BYTES:
                file.seek(0)
                excerpt._data, excerpt.is_whole = _without_torn_line(file.read(HEAD_BYTES + TAIL_BYTES)), True
            else:
                head = _lines_from(file, size)
                excerpt._data = head + _lines_up_to(file, size, len(head))
        return excerpt

    @property
    def data(self) -> bytes:
        """What was read."""
        return self._data or b""

    def open(self, mode: str = "r", *args: Any, **options: Any) -> IO[Any]:  # type: ignore[override]  # noqa: ANN401
        """Open what was read; a path that was made from this one opens its file."""
        # The overloads of the base class tell which file each mode opens; readers of formats only ask for bytes.
        return super().open(mode, *args, **options) if self._data is None or mode != "rb" else BytesIO(self._data)


def _without_torn_line(data: bytes) -> bytes:
    end = data.rfind(b"\n") + 1
    return data if decoded(data[end:]) is not None else data[:end]


def _lines_from(file: IO[bytes], size: int) -> bytes:
    """Return the whole lines at the beginning; none if the first one is too long."""
    return _widened(lambda count: _read(file, 0, count), size, HEAD_BYTES, lambda data: data[: data.rfind(b"\n") + 1])


def _lines_up_to(file: IO[bytes], size: int, start: int) -> bytes:
    """Return the whole lines at the end, none of which begins before `start`; none if the last one is too long."""

    def lines(data: bytes) -> bytes:
        begins = 0 if len(data) >= size - start else data.find(b"\n") + 1
        return _without_torn_line(data[begins:]) if begins or len(data) >= size - start else b""

    return _widened(lambda count: _read(file, size - count, count), size - start, TAIL_BYTES, lines)


def _widened(read: Callable[[int], bytes], most: int, count: int, lines: Callable[[bytes], bytes]) -> bytes:
    """Read more and more until there is a whole line."""
    while True:
        found = lines(read(min(count, most)))
        if found or count >= most or count >= LINE_MAX:
            return found
        count *= _GROWS


def _read(file: IO[bytes], start: int, count: int) -> bytes:
    file.seek(start)
    return file.read(count)


class Glance(Struct, frozen=True, kw_only=True):
    """What was read of a session.

    Attributes:
        path: The file that holds it.
        header: Its header.
        entries: The entries that were read: those at its beginning and at its end, or all.
        leaf_id: Its leaf; None for the last entry.
        is_whole: Whether these are all entries.
        damage: The first thing that could not be read; None if there was none.
        modified: When its file was modified, to the second; None if the file holds other sessions too.
    """

    path: Path
    header: Header
    entries: tuple[Entry, ...]
    leaf_id: str | None = None
    is_whole: bool
    damage: Finding | None = None
    modified: datetime | None


@runtime_checkable
class ReadsEnds(Protocol):
    """A format that reads how sessions begin and end from what is not a file of lines, without reading all of it."""

    def has_ends(self, path: Path) -> bool:
        """Return whether a file is of that kind."""
        ...

    def read_ends(self, path: Path, since: datetime | None) -> Iterator[ForeignSession | str]:
        """Read how each session of such a file begins and ends.

        Args:
            path: The file.
            since: Leave out those in which nothing happened from then on.

        Returns:
            The sessions; of a file with many, first the ids of all that it holds, also of those that are left out: one
            that is missing there was deleted.
        """
        ...

    def read_one(self, path: Path, session_id: str) -> Iterator[ForeignSession]:
        """Read one session of such a file whole."""
        ...


def glances(format: Format, path: Path, since: datetime | None = None) -> Iterator[Glance | str]:
    """Read how the sessions of a file begin and end.

    Of a file of lines, the session that its program means by it is returned, not those of sub-agents within it.

    Args:
        format: The format.
        path: The file.
        since: Of a database, leave out the sessions in which nothing happened from then on.

    Returns:
        The sessions; none if the file holds no conversation yet, or is a document of another kind. Of a database, first
        the ids of all sessions in it, also of those that are left out or damaged.

    Raises:
        ForeignFormatError: It cannot be read, holds lines of another kind, or is a document that is too large.
        UnsupportedVersion: A newer program wrote it.
        ExtraMissing: Reading it requires a package that is not installed.
        OSError: It cannot be read.
    """
    if isinstance(format, ReadsEnds) and format.has_ends(path):
        for found in format.read_ends(path, since):
            yield found if isinstance(found, str) else _glance(path, found, None, is_whole=False)
        return
    modified = modified_at(path)
    if path.suffix == _OF_LINES:
        excerpt = Excerpt.of(path)
        if not excerpt.data:
            return
        if not format.detects(path, excerpt.data[:HEAD_MAX]):
            raise ForeignFormatError(f"the file is not a session of {format.title}", where=Where(str(path)))
        sessions = [*format.read(excerpt)]
        named = [each for each in sessions if each.header.id == path.stem]
        for main in (named or sessions)[:1]:
            yield _glance(path, main, modified, is_whole=excerpt.is_whole)
        return
    if not format.detects(path, head_of(path)):
        return
    size = path.stat().st_size
    if size > DOCUMENT_MAX or is_packed(path):
        raise ForeignFormatError(f"it has {size:,} bytes, too many to be read for a list", where=Where(str(path)))
    for each in format.read(path):
        yield _glance(path, each, modified, is_whole=True)


def read_whole(format: Format, path: Path, session_id: str) -> ForeignSession | KeptSession:
    """Read one session of a file whole.

    Args:
        format: The format.
        path: The file.
        session_id: The session, as a glance named it.

    Raises:
        ForeignFormatError: It cannot be read, or the file no longer holds it.
        UnsupportedVersion: A newer program wrote it.
        ExtraMissing: Reading it requires a package that is not installed.
    """
    try:
        if isinstance(format, ReadsEnds) and format.has_ends(path):
            sessions: Iterator[ForeignSession | KeptSession] = format.read_one(path, session_id)
        else:
            sessions = format.read(path)
        found = next((each for each in sessions if each.header.id == session_id), None)
    except OSError as error:
        raise cannot_read(error, path) from error
    if found is None:
        raise ForeignFormatError(f"the file no longer holds the session {session_id!r}", where=Where(str(path)))
    return found


def _glance(path: Path, session: ForeignSession | KeptSession, modified: datetime | None, *, is_whole: bool) -> Glance:
    if isinstance(session, KeptSession):
        lines = enumerate(session.lines, 1)
        decoded = (session.dialect.decode(line[:-1], seq) for seq, line in lines)
        entries: tuple[Entry, ...] = tuple(each for each in decoded if each is not None)
    else:
        entries = tuple(session.entries)
    return Glance(
        path=path,
        header=session.header,
        entries=entries,
        leaf_id=session.leaf_id,
        is_whole=is_whole,
        damage=next((each for each in session.findings if each.severity == "error"), None),
        modified=modified,
    )
