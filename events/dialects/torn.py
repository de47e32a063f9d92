"""Copying lines into another session with the marks of batches that mean there what they mean here.

A mark counts only in the session that it names. A line of a batch that was never completed is opaque because of it:
copied unchanged into a session with another id, the line would be read as a valid entry. A line of a complete batch is
an entry: copied without the others into another session that is given that id, it would be opaque.
"""

from __future__ import annotations

from msgspec import Raw
from msgspec.structs import replace

from ..entries import Batch
from .base import Dialect, encode_json, object_of, well_formed


def still_torn(dialect: Dialect, line: bytes, session_id: str) -> bytes:
    """Return a line of a torn batch, changed so that it belongs to a torn batch in another session too.

    Its mark then names that session, and is never that of a batch's first line: without one, no batch becomes complete,
    whatever lines follow in the copy. The rest of the line is unchanged.

    Args:
        dialect: The dialect of the line.
        line: The line, without its newline; it has a batch mark.
        session_id: The id of the session into which the line is copied.
    """
    entry = dialect.decode(line, 0)
    assert entry is not None
    assert entry.batch is not None
    return _with_mark(dialect, line, replace(entry.batch, session=session_id, i=max(entry.batch.i, 1)))


def without_marks_of(dialect: Dialect, line: bytes, session_id: str) -> bytes:
    """Return a line of no torn batch, without its newline, and without a mark that names the session it is copied into.

    A path holds only some lines of a batch, and is copied into a session of any id, that of the first one included.
    """
    entry = dialect.decode(line, 0)
    marked = entry is not None and entry.batch is not None and entry.batch.session == session_id
    return _with_mark(dialect, line, None) if marked else line


def _with_mark(dialect: Dialect, line: bytes, batch: Batch | None) -> bytes:
    """Return a line with another mark, or without one; the rest of it is unchanged."""
    fields = object_of(line if line.isascii() else well_formed(line))
    assert fields is not None
    own = fields if dialect.name == "native" else object_of(bytes(fields["treering"])) or {}
    if batch is None:
        own.pop("batch", None)
    else:
        own["batch"] = Raw(encode_json(batch))
    if own is not fields:
        fields["treering"] = Raw(encode_json(own))
        if not own:
            del fields["treering"]
    return encode_json(fields)
