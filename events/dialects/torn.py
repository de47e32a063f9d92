"""Lines of batches that were never completed, on their way into another session.

What makes such a line opaque is the mark of its batch, which counts only in the session that it names. Copied as it is,
the line would come alive in a copy with another id, where its mark means nothing.
"""

from __future__ import annotations

from msgspec import Raw
from msgspec.structs import replace

from .base import Dialect
from .camel_values import encode_json, object_of, well_formed


def still_torn(dialect: Dialect, line: bytes, session_id: str) -> bytes:
    """Return a line of a torn batch so that it is one of a torn batch in another session too.

    Its mark names that session, and no beginning of a batch: without one, no batch is ever whole, whatever lines follow
    in the copy. All else in the line stays.

    Args:
        dialect: What the line is written in.
        line: The line, without its newline; it has a mark.
        session_id: The session that it comes into.
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
