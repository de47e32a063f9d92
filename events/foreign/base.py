"""What reading another program's session gives, and what every format can do.

A format recognizes its files by what they hold, not by their name, and reads one path into sessions: mostly one, but a
file may hold many. A folder is of a format where it is a session, or a storage of sessions, as a whole; other folders are
looked through by `walk`. Entries come in the order in which they are to be written, parents first, with ids of their own
form and the times of the original, so that importing the same file twice gives the same entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct

from ..entries import Entry, Header, KnownEntry, Message
from ..findings import Finding

Restate: TypeAlias = Callable[[Entry], Iterator[Message]]
"""Tells what comes back of an entry that was written in a format and read again: messages of the program's kind."""


class ForeignSession(Struct, frozen=True, kw_only=True):
    """A session that another program wrote.

    Attributes:
        header: Its id, when it began, its folder, its title; `parent_session` and `parent_entry` where it was started by
            another session, as a sub-agent's is.
        entries: What was said and done, parents before children; an iterator may be used up once.
        findings: What was damaged or could not be kept, each with its place; complete when `entries` is used up.
        leaf_id: The entry at which the conversation stands; the last one where it is None.
        restate: How an entry would be said in this format, where it can be written here and its messages have no ids, or not
            all of them: by that, a session that was written here is known again.
        beside: Other files and folders that were read along with it, so that nobody reads them again by themselves.
    """

    header: Header
    entries: Iterator[KnownEntry]
    findings: list[Finding]
    leaf_id: str | None = None
    restate: Restate | None = None
    beside: tuple[Path, ...] = ()


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
        """Tell whether a file is of this format, by its first bytes, or a folder as a whole; of a folder, `head` is empty."""
        ...

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a file, or a folder that is of this format as a whole.

        What is damaged is left out and reported in the session's findings; nothing that is whole is left out.

        Raises:
            ForeignFormatError: Nothing of it can be salvaged.
            OSError: It cannot be read.
        """
        ...
