"""Reading a storage of sessions, some of which may be damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..events.errors import ForeignFormatError, TreeringError
from ..events.findings import Finding
from .base import ForeignSession
from .opening import cannot_read


def unreadable(error: TreeringError | OSError, path: Path) -> Finding:
    """Return the finding for a session that cannot be read."""
    failure = cannot_read(error, path) if isinstance(error, OSError) else error
    where = failure.where
    place = (where.path, where.line, where.byte) if where else (str(path), None, None)
    return Finding(*place, "unreadable", "error", failure.message)


def read_each(
    paths: Iterable[Path], read: Callable[[Path], ForeignSession], none_found: str
) -> Iterator[ForeignSession]:
    """Read sessions one after another.

    A session that cannot be read is reported as a finding of the one before it, or of the first readable one after it.

    Args:
        paths: The locations of the sessions.
        read: Reads one session, or raises `ForeignFormatError`.
        none_found: The error message if `paths` is empty.

    Raises:
        ForeignFormatError: There is no session, or none of them can be read.
    """
    previous: ForeignSession | None = None
    unplaced: list[Finding] = []
    for path in paths:
        try:
            session = read(path)
        except (ForeignFormatError, OSError) as error:
            (unplaced if previous is None else previous.findings).append(unreadable(error, path))
            continue
        session.findings.extend(unplaced)
        unplaced.clear()
        if previous is not None:
            yield previous
        previous = session
    if previous is None:
        raise ForeignFormatError(
            unplaced[0].message if unplaced else none_found, where=unplaced[0].where if unplaced else None
        )
    yield previous
