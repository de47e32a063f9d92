"""What reading another program's session gives, and what every format can do.

A format recognizes its files by what they hold, not by their name, and reads one path into sessions: mostly one, but a
folder may hold many. Entries come in the order in which they are to be written, parents first, with ids of their own
form and the times of the original, so that importing the same file twice gives the same entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ..entries import Header, KnownEntry
from ..findings import Finding


class ForeignSession(Struct, frozen=True, kw_only=True):
    """A session that another program wrote.

    Attributes:
        header: Its id, when it began, its folder, its title; `parent_session` and `parent_entry` where it was started by
            another session, as a sub-agent's is.
        entries: What was said and done, parents before children; an iterator may be used up once.
        findings: What was damaged or could not be kept, each with its place; complete when `entries` is used up.
        leaf_id: The entry at which the conversation stands; the last one where it is None.
    """

    header: Header
    entries: Iterator[KnownEntry]
    findings: list[Finding]
    leaf_id: str | None = None


class Format(Protocol):
    """One format of another program.

    Attributes:
        name: What it is called on the command line, such as "claude-code".
        title: What people call the program.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether a file is of this format, by its first bytes; of a folder, `head` is empty."""
        ...

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a file or folder.

        What is damaged is left out and reported in the session's findings; nothing that is whole is left out.

        Raises:
            ForeignFormatError: Nothing of it can be salvaged.
        """
        ...
