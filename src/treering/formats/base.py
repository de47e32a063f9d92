"""The protocol of formats: what the module of a program offers, and the sessions that it reads.

A format detects its files by their contents, not by their names, and reads one path into sessions: usually one, but a
file may hold many. It detects a folder only if the folder as a whole is one session or one store of sessions; `walk`
searches all other folders. Entries are yielded in the order in which they are written, parents first. Their ids and
times are the original's or are derived from it, so that importing the same file twice yields the same entries.

A format that is written, too, has one more method: `write` for one file, or `write_folder` for several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from ..events.dialects.base import Dialect
from ..events.entries import Entry, Header, KnownEntry, Message
from ..events.findings import Finding
from ..events.json_values import JSON

Restate: TypeAlias = Callable[[Entry], Iterator[Message]]
"""A function that returns the messages that are read back after an entry was written in a format."""

IsEntry: TypeAlias = Callable[[Entry], bool]
"""A function that returns whether an entry is one of those that it stands for."""

CountTokens: TypeAlias = Callable[[Message], int]
"""A function that returns the number of tokens of a message."""


def _is_none(entry: Entry) -> bool:
    return False


class ForeignSession(Struct, frozen=True, kw_only=True):
    """A session that another program wrote.

    Three of the attributes let an import continue a session from a file whose entries have no ids, or not all of them.

    Attributes:
        header: The id, start time, folder and title; also `parent_session` and `parent_entry` if another session
            started this one, as with a sub-agent.
        entries: The entries, parents before children; the iterator can be consumed once.
        findings: What was damaged or could not be kept, each with its place; complete once `entries` is consumed.
        leaf_id: The entry that is the leaf; None for the last entry.
        restate: Returns the messages that an entry becomes in this format. Set for formats that treering can export to
            and whose messages lack ids, at least in part: it lets an import recognize a session that treering exported.
        is_implied: Returns whether a file of this format has an entry only because its messages imply it.
        is_of_source: Returns whether an import from this program, or this program itself, made an entry, by its id. Set
            for programs that delete messages: such an entry was deleted if the source no longer has it.
        changed: When a program that deletes messages last changed the session; None if that is not known.
        beside: Other files and folders that were read as part of this session and must not be read on their own.
        origin: The session that it was handed over from and its own id, as `handing_over.mark` wrote them, if its file
            does not begin with them.
    """

    header: Header
    entries: Iterator[KnownEntry]
    findings: list[Finding]
    leaf_id: str | None = None
    restate: Restate | None = None
    is_implied: IsEntry = _is_none
    is_of_source: IsEntry | None = None
    changed: datetime | None = None
    beside: tuple[Path, ...] = ()
    origin: JSON = None


class KeptSession(Struct, frozen=True, kw_only=True):
    """A session in a dialect that treering writes itself, whose lines are copied unchanged.

    Attributes:
        header: The decoded header.
        dialect: The dialect of its lines.
        block: The header block, byte for byte.
        lines: The lines after the header, each with its newline, without blank ones; can be iterated once.
        findings: What could not be copied; complete once `lines` is exhausted.
        leaf_id: The leaf, if the lines do not determine it.
    """

    header: Header
    dialect: Dialect
    block: bytes
    lines: Iterator[bytes]
    findings: list[Finding]
    leaf_id: str | None = None


class Format(ABC):
    """The files of one program.

    The docstring of such a class says in Markdown which files these are: its first sentence stands in the table of
    `docs/formats.md`.

    Attributes:
        name: The format's name on the command line, such as "claude-code".
        title: The program's name as people know it.
        is_dialect: Whether its files are sessions here as they are, without an import.
        home: Where the program keeps its files, such as "~/.codex/sessions"; "" if that is not known.
        checked: What its reader was checked with, such as "the program, 0.169.0" or "files of the program".
        moved_by: The environment variable that names another folder in the place of the beginning of `home`, and that
            beginning, such as ("CODEX_HOME", "~/.codex"); ("", "") if there is none.
        read_last: The beginning of the names of files that are read along with others of their folder.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    is_dialect: ClassVar[bool] = False
    home: ClassVar[str] = ""
    checked: ClassVar[str] = ""
    moved_by: ClassVar[tuple[str, str]] = ("", "")
    read_last: ClassVar[str] = ""

    @abstractmethod
    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether a file, judged by its first bytes, or a folder as a whole is of this format.

        For a folder, `head` is empty.
        """
        ...

    @abstractmethod
    def read(self, path: Path) -> Iterator[ForeignSession | KeptSession]:
        """Read a file, or a folder that is of this format as a whole.

        Damaged parts are left out and reported in the session's findings; everything intact is read.

        Raises:
            ForeignFormatError: Nothing in it can be salvaged.
            OSError: It cannot be read.
        """
        ...

    def folder(self, environ: Mapping[str, str]) -> Path | None:
        """Return where the program keeps its files on this machine; None if that is not known.

        Args:
            environ: The environment, with the home folder and perhaps a folder of the program's own.
        """
        if not self.home:
            return None
        variable, beginning = self.moved_by
        named = environ.get(variable, "") if variable else ""
        place = self.home.replace(beginning, named, 1) if named else self.home
        home = environ.get("HOME") or str(Path.home())
        return Path(place.replace("~", home, 1) if place.startswith("~/") else place)

    def may_hold(self, folder: Path, path: Path, *, is_folder: bool) -> bool:
        """Return whether a file may hold a session, or a folder files with sessions, by its name.

        Args:
            folder: Where the program keeps its files.
            path: The file or folder, which is below it.
            is_folder: Whether it is a folder.
        """
        if is_folder:
            return True
        return path.suffix in (".jsonl", ".json") and not (self.read_last and path.name.startswith(self.read_last))

    def holder_of(self, folder: Path, path: Path) -> Path:
        """Return the file of the session to which a file belongs that changed; itself, unless it lies beside one."""
        return path

    def only_lists(self, path: Path, head: bytes) -> bool:
        """Return whether a file below a folder, judged by its first bytes, only lists the sessions beside it."""
        return False


@runtime_checkable
class WritesFile(Protocol):
    """A format that is written as one file."""

    def write(self, header: Header, entries: Sequence[Entry]) -> bytes:
        """Return a path of a session, from its root, as a file of the program."""
        ...


@runtime_checkable
class WritesFolder(Protocol):
    """A format that is written as several files."""

    def write_folder(
        self, header: Header, entries: Sequence[Entry], folder: Path, *, overwrite: bool, count: CountTokens
    ) -> Path:
        """Write a path of a session, from its root, below the folder of all sessions, and return what was written.

        Files that exist are replaced one by one, in an order in which a crash leaves a session that can be read.

        Raises:
            ExportExists: The session is there, and must not be overwritten.
            OSError: A file cannot be written; each is then either unchanged or new.
        """
        ...
