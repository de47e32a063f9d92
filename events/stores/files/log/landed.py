"""An append that is in its session file, while its head is held back until the journal has made it durable."""

from __future__ import annotations

from ...base import Append, Committed, Cursor, Outcome
from .log import Log


class LandedAppend:
    """An append that was written to its session file, but is not durable yet.

    Attributes:
        log: The session's log, which is busy until the round is settled.
        lines: The lines.
        block: The header block, if the append created the file.
        offset: Where in the file the lines begin; 0 if the append created it.
        before: The head before the append.
        head: The head after the append.
        outcome: The outcome to return to the caller.
    """

    __slots__ = ("before", "block", "head", "lines", "log", "offset", "outcome")

    def __init__(
        self, log: Log, lines: tuple[bytes, ...], block: bytes, offset: int, before: Cursor, committed: Committed
    ) -> None:
        self.log = log
        self.lines = lines
        self.block = block
        self.offset = offset
        self.before = before
        self.head = committed.head
        self.outcome: Outcome = committed


def hold_back(log: Log, append: Append, before: Cursor, outcome: Outcome) -> LandedAppend | None:
    """Set a log's head back until the append is durable, and return the append as the journal needs it.

    If lines of another program came in between, or the append is incomplete, change nothing and return None.
    """
    if not isinstance(outcome, Committed) or outcome.head.seq != before.seq + len(append.lines):
        return None
    if before.generation:
        offset = log.table.ends[outcome.head.seq] - sum(map(len, append.lines))
        landed = LandedAppend(log, append.lines, b"", offset, before, outcome)
    else:
        landed = LandedAppend(log, append.lines, append.header or b"", 0, before, outcome)
    log.head = before
    return landed
