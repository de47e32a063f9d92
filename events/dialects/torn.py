"""Copying the lines of batches that were never completed into another session.

Such a line is opaque because of its batch mark, which counts only in the session that it names. Copied unchanged into a
session with another id, the line would be read as a valid entry, since its mark means nothing there.
"""

from __future__ import annotations

from msgspec import Raw
from msgspec.structs import replace

from .base import Dialect
from .camel_values import encode_json, object_of, well_formed


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
    fields = object_of(line if line.isascii() else well_formed(line))
    assert entry is not None
    assert entry.batch is not None
    assert fields is not None
    mark = Raw(encode_json(replace(entry.batch, session=session_id, i=max(entry.batch.i, 1))))
    if dialect.name == "native":
        return encode_json({**fields, "batch": mark})
    own = object_of(bytes(fields["treering"])) or {}
    return encode_json({**fields, "treering": {**own, "batch": mark}})
