"""The interface of import formats, and the sessions that they produce.

A format recognizes its files by their contents, not by their names, and reads one path into sessions: usually one, but
a file may hold many. A format recognizes a folder only if the folder as a whole is one session or one store of
sessions; `walk` searches all other folders. Entries are yielded in the order in which they are written, parents first.
Their ids and times are the original's or are derived from it, so that importing the same file twice yields the same
entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct

from ..events.entries import Entry, Header, KnownEntry, Message
from ..events.findings import Finding

Restate: TypeAlias = Callable[[Entry], Iterator[Message]]
"""A function that returns the messages that are read back after an entry was written in a format."""


class ForeignSession(Struct, frozen=True, kw_only=True):
    """A session that another program wrote.

    Attributes:
        header: The id, start time, folder and title; also `parent_session` and `parent_entry` if another session
            started this one, as with a sub-agent.
        entries: The entries, parents before children; the iterator can be consumed once.
        findings: What was damaged or could not be kept, each with its place; complete once `entries` is consumed.
        leaf_id: The entry that is the leaf; None for the last entry.
        restate: Returns the messages that an entry becomes in this format. Set for formats that treering can export to
            and whose messages lack ids, at least in part: it lets an import recognize a session that treering exported.
        is_of_source: Returns whether an import from this program, or this program itself, made an entry, by its id. Set
            for programs that delete messages: such an entry was deleted if the source no longer has it.
        beside: Other files and folders that were read as part of this session and must not be read on their own.
    """

    header: Header
    entries: Iterator[KnownEntry]
    findings: list[Finding]
    leaf_id: str | None = None
    restate: Restate | None = None
    is_of_source: Callable[[Entry], bool] | None = None
    beside: tuple[Path, ...] = ()


class Format(Protocol):
    """One format of another program.

    Attributes:
        name: Its name on the command line, such as "claude-code".
        title: The program's name as shown to users.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Return whether a file, judged by its first bytes, or a folder as a whole is of this format.

        For a folder, `head` is empty.
        """
        ...

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a file, or a folder that is of this format as a whole.

        Damaged parts are left out and reported in the session's findings; everything intact is read.

        Raises:
            ForeignFormatError: Nothing in it can be salvaged.
            OSError: It cannot be read.
        """
        ...
