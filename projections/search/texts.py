"""The searchable texts of a log, line by line: messages of users, models and tools, and information about the session.

Not searched are images, the data of extensions, usage records, records of tool executions (their arguments are in the
call, their output in the result), and opaque entries.

Batches follow the rules of the index (see `LogIndex.fold`): the lines of an atomic batch count once its last line is
there, and never if another line comes first. Unlike the index, this decodes only lines that may match, and remembers
only the open batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from ...events.content import ToolUsePart
from ...events.dialects.base import Dialect
from ...events.entries import Batch, Entry, Message, OpaqueEntry, payload_of
from ...events.stores.search import EntryText
from .query import Query


def entry_text(entry: Entry) -> EntryText | None:
    """Return the searchable text of an entry, or None if it has none."""
    if isinstance(entry, OpaqueEntry):
        return None
    payload = payload_of(entry)
    text = "\n".join(part for part in payload.searched() if part)
    if not text or not entry.id:
        return None
    role, tools = (payload.role, _tools(payload)) if isinstance(payload, Message) else (entry.type, ())
    return EntryText(entry.seq, entry.id, role, tools, entry.timestamp, text)


def _tools(message: Message) -> tuple[str, ...]:
    called = [part.tool_use.name for part in message.content if isinstance(part, ToolUsePart)]
    return tuple(dict.fromkeys([*called, *([message.tool_name] if message.tool_name else [])]))


class TextReader:
    """Takes the lines of one log in order, and returns the texts that count.

    Args:
        dialect: The dialect of the lines.
        session_id: The session id in the header; batch marks that name another session were copied here.
        query: Return only texts that match; None returns all.
        after: The seq of the line before the first one.
        crc: The checksum of that line.

    Attributes:
        settled: The seq of the last line for which it is decided whether it counts; reading may resume after it.
        crc: The checksum of that line; 0 if there is none yet.
    """

    def __init__(
        self, dialect: Dialect, session_id: str, query: Query | None = None, *, after: int = 0, crc: int = 0
    ) -> None:
        self._decode: Callable[[bytes, int], Entry | None] = dialect.decode
        self._session_id = session_id
        self._query = query
        self._open: list[tuple[Entry, bool]] = []  # whether the line may match is noted, since most lines do not
        self.settled = after
        self.crc = crc

    def take(self, lines: Sequence[bytes], first: int) -> list[EntryText]:
        """Take the next lines, the first of which has the seq `first`; return the texts that count from now on."""
        texts: list[EntryText] = []
        for seq, line in enumerate(lines, first):
            interesting = self._query is None or self._query.may_match(line)
            entry = self._decode(line, seq) if interesting or b'"batch"' in line else None
            if entry is not None and entry.batch is not None and entry.batch.session == self._session_id:
                self._take_batch_line(entry, entry.batch, texts, interesting=interesting)
                continue
            self._open.clear()
            if entry is not None and interesting:
                self._add(entry, texts)
            self.settled = seq
        if self.settled >= first:
            self.crc = crc32(lines[self.settled - first])
        return texts

    def _take_batch_line(self, entry: Entry, batch: Batch, texts: list[EntryText], *, interesting: bool) -> None:
        """Hold back one line of a batch, or add the whole batch if it is the last line."""
        before = self._open[-1][0].batch if self._open else None
        if before is None or (before.id, before.i + 1) != (batch.id, batch.i):
            self._open.clear()
            self.settled = entry.seq - 1 if batch.i == 0 else entry.seq
            if batch.i != 0:
                return
        self._open.append((entry, interesting))
        if batch.i + 1 >= batch.n:
            for each, may_match in self._open:
                if may_match:
                    self._add(each, texts)
            self._open.clear()
            self.settled = entry.seq

    def _add(self, entry: Entry, texts: list[EntryText]) -> None:
        text = entry_text(entry)
        if text is not None and (self._query is None or self._query.matches(text.text)):
            texts.append(text)
