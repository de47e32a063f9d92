"""What every dialect can do: turn a header and an entry into a line and back.

A dialect object serves one log: what it learned from the header (the session's id, the version) it may keep. Nothing
here opens files; lines come in and go out as bytes, without and with their newline respectively.
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
        shared: Other programs append to such files without asking anyone, so a fragment at the tail may be the
            beginning of their line: it is isolated by a newline and never cut.
        can_append_aside: A line can say that its entry does not become the leaf.
        model_changes_win: A change of the model holds although a later assistant's message names another.
        old: The file was written in an older version, which is read as it is and migrated before it is written.
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
            DialectCannot: The dialect has no way to say it.
        """
        ...

    def write(self, entry: KnownEntry) -> tuple[bytes, Entry]:
        """Return the entry's line, and the entry as it will be read back; it raises what `encode` raises."""
        ...

    def decode(self, line: bytes, seq: int) -> Entry | None:
        """Return the entry of a line, an `OpaqueEntry` where its type or shape is unknown, None where it is damaged.

        Never raises for what the line holds. `seq` is the line's ordinal and becomes the entry's, whatever it stores.
        """
        ...

    def decode_all(self, lines: Sequence[bytes], first: int) -> list[Entry | None]:
        """Return the entries of consecutive lines, `first` being the ordinal of the first: the same as decoding each."""
        ...

    def new_id(self, uuid: str, taken: Callable[[str], bool]) -> str:
        """Make the id of a new entry from a fresh uuid4, in the dialect's form and unused in this log."""
        ...

    def migrated(self, line: bytes, seq: int) -> bytes:
        """Return a line as the current version writes it, newline included; a damaged one, or one of no `old` log, as it is."""
        ...

    def migrated_header(self, block: bytes) -> bytes:
        """Return the header block as the current version writes it, newline included; that of no `old` log as it is."""
        ...
