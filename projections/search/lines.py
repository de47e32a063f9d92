"""Reading a log for its texts, line by line: what counts, what is withheld, and what never became whole.

The same rules as the index's (see `LogIndex.fold`): the lines of an atomic batch count when the last of them is there,
and never if another line comes first. But here lines are not decoded unless they may be of interest, and nothing is
remembered but a batch that is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from ...events.dialects.base import Dialect
from ...events.entries import Entry
from .query import Query
from .texts import Said, said_by


class TextReader:
    """Takes the lines of one log in their order, and gives the texts that count.

    Args:
        dialect: How the lines are written.
        session_id: What the header calls the session: marks of batches that name another one were copied here.
        query: Only texts that match; all where it is None.
        after: The ordinal of the line before the first.
        crc: The checksum of that line.

    Attributes:
        settled: The ordinal of the last line of which it is known whether it counts; reading may go on after it.
        crc: The checksum of that line; 0 where there is none yet.
    """

    def __init__(
        self, dialect: Dialect, session_id: str, query: Query | None = None, *, after: int = 0, crc: int = 0
    ) -> None:
        self._decode: Callable[[bytes, int], Entry | None] = dialect.decode
        self._session_id = session_id
        self._query = query
        self._open: list[Entry] = []
        self.settled = after
        self.crc = crc

    def take(self, lines: Sequence[bytes], first: int) -> list[Said]:
        """Take the next lines, of which the first has the ordinal `first`; return what counts from now on."""
        found: list[Said] = []
        for seq, line in enumerate(lines, first):
            interesting = self._query is None or self._query.may_match(line)
            entry = self._decode(line, seq) if interesting or b'"batch"' in line else None
            if entry is not None and entry.batch is not None and entry.batch.session == self._session_id:
                self._take_marked(entry, entry.batch.i, entry.batch.n, found)
                continue
            self._open.clear()
            if entry is not None and interesting:
                self._add(entry, found)
            self.settled = seq
        if self.settled >= first:
            self.crc = crc32(lines[self.settled - first])
        return found

    def _take_marked(self, entry: Entry, i: int, n: int, found: list[Said]) -> None:
        """Withhold one line of a batch, or let all of them count when it is the last."""
        before = self._open[-1].batch if self._open else None
        if not (before is not None and entry.batch is not None and (before.id, before.i + 1) == (entry.batch.id, i)):
            self._open.clear()
            self.settled = entry.seq - 1 if i == 0 else entry.seq
            if i != 0:
                return
        self._open.append(entry)
        if i + 1 >= n:
            for each in self._open:
                self._add(each, found)
            self._open.clear()
            self.settled = entry.seq

    def _add(self, entry: Entry, found: list[Said]) -> None:
        said = said_by(entry)
        if said is not None and (self._query is None or self._query.matches(said.text)):
            found.append(said)
