"""The interface of a dialect: it encodes headers and entries as lines, and decodes them.

A dialect object serves one log, so it may keep what it learned from the header (the session's id, the version). It
opens no files; the lines it decodes come without their newline, and those it encodes include it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..entries import Entry, Header, KnownEntry


class Dialect(Protocol):
    """One on-disk format of sessions.

    Attributes:
        name: "native", "pi" or "omp".
        version: The version that this dialect writes in its headers.
        shared: Other programs append to such files without a lock, so a fragment at the tail may be the beginning of
            their line: it is isolated by a newline and never cut off.
        can_append_aside: Whether a line can state that its entry does not become the leaf.
        model_changes_win: A change of the model stays in force although a later assistant's message names another.
        old: The file has an older version, which is read as it is and migrated before anything is written.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def shared(self) -> bool: ...
    @property
    def can_append_aside(self) -> bool: ...
    @property
    def model_changes_win(self) -> bool: ...
    @property
    def old(self) -> bool: ...

    def encode_header(self, header: Header) -> bytes:
        """Return the header block, newline included."""
        ...

    def encode(self, entry: KnownEntry) -> bytes:
        """Return the entry's line, newline included.

        Raises:
            InvalidEntry: A field is missing or of the wrong type; the message names it.
            DialectCannot: The dialect cannot represent the entry.
        """
        ...

    def write(self, entry: KnownEntry) -> tuple[bytes, Entry]:
        """Return the entry's line, and the entry as it will be read back; raise what `encode` raises."""
        ...

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line: an `OpaqueEntry` if its type or shape is unknown, None if it is damaged.

        Never raises, whatever the line holds. The entry gets the given `seq`, whatever seq the line states.
        """
        ...

    def decode_all(self, lines: Sequence[bytes], first: int) -> list[Entry | None]:
        """Decode consecutive lines, the first of which has the seq `first`; equivalent to decoding each by itself."""
        ...

    def new_id(self, uuid: str, taken: Callable[[str], object]) -> str:
        """Make the id of a new entry from a fresh uuid4, in the dialect's form and unused in this log."""
        ...

    def migrated(self, line: bytes, seq: int) -> bytes:
        """Return a line in the current version, newline included; unchanged if damaged or if the log is not `old`."""
        ...

    def migrated_header(self, block: bytes) -> bytes:
        """Return the header block in the current version, newline included; unchanged if the log is not `old`."""
        ...
