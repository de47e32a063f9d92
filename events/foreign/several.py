"""Reading a storage of sessions, of which some may be damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..errors import ForeignFormatError, TreeringError
from ..findings import Finding
from .base import ForeignSession
from .opened import cannot_read


def unreadable(error: TreeringError | OSError, path: Path) -> Finding:
    """Return what to say of a session that cannot be read."""
    told = cannot_read(error, path) if isinstance(error, OSError) else error
    where = told.where
    place = (where.path, where.line, where.byte) if where else (str(path), None, None)
    return Finding(*place, "unreadable", "error", told.message)


def each(paths: Iterable[Path], read: Callable[[Path], ForeignSession], none: str) -> Iterator[ForeignSession]:
    """Read one session after the other; what cannot be read is a finding of the session before it, or after it.

    Args:
        paths: Where the sessions are.
        read: Reads one, or raises `ForeignFormatError`.
        none: What to say where there is no session at all.

    Raises:
        ForeignFormatError: There is no session, or none that can be read.
    """
    held: ForeignSession | None = None
    waiting: list[Finding] = []
    for path in paths:
        try:
            session = read(path)
        except (ForeignFormatError, OSError) as error:
            (waiting if held is None else held.findings).append(unreadable(error, path))
            continue
        session.findings.extend(waiting)
        waiting.clear()
        if held is not None:
            yield held
        held = session
    if held is None:
        raise ForeignFormatError(waiting[0].message if waiting else none, where=waiting[0].where if waiting else None)
    yield held
