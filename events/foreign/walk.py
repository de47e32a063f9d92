"""The sessions of a file, or of all files and folders below a folder, whichever programs wrote them.

Each file is recognized by itself, and so is a folder that is a session, or a storage of sessions, as a whole: it is not
looked into further. What is damaged below a folder costs itself alone, and what is no session is counted. Links to folders
are not followed, since they may lead back up. What treering keeps beside its logs is no session, and is passed over: what
is in `.treering`, snapshots, leaf records, fragments, backups. So is nanocoder's index, which names the sessions beside it.

One session is held at a time, and the names of the folders that are still to be looked into.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import scandir
from pathlib import Path
from typing import NamedTuple

from ..errors import ExtraMissing, ForeignFormatError, TreeringError, UnsupportedVersion, Where
from ..stores.files.private_folder import PRIVATE_FOLDER
from ..surroundings import log_of
from .base import ForeignSession, Format
from .claude_agents import PREFIX
from .detect import FORMATS, HEAD_MAX, format_named, head_of
from .json_lines import beginning
from .kept import KeptFormat, KeptSession
from .opened import beginning_of, cannot_read, is_packed

UNKNOWN_SHOWN = 5
"""How many of the files that are no session are named."""

_LOOK = 4096
_SUFFIXES = (".json", ".jsonl")
_INDEX = "index.jsonl"
_INDEX_KEYS = (b'"id"', b'"projectPath"', b'"projectHash"')
_MAGIC = (b"{", b"[", b"SQLite format 3\0")


class Found(NamedTuple):
    """A session, the format that it was read as, and the file that holds it, or the folder where that is one unit."""

    format: Format | KeptFormat
    path: Path
    session: ForeignSession | KeptSession


class Walk:
    """One way through a file or folder.

    Args:
        source: The file or folder.
        format: What to look for; all formats where None is given.
        apart: A folder that is not looked into where it is below the source: that of those who import.

    Attributes:
        is_folder: The source is a folder: what cannot be read in it is put into `failed`, not raised.
        unknown: How many files are no session of the formats that are looked for.
        unknown_paths: The first of them.
        failed: The files that are one and could not be read, each with the error that says why.

    Raises:
        ForeignFormatError: There is no such format.
    """

    def __init__(self, source: Path, format: str | None = None, *, apart: Path | None = None) -> None:
        self.is_folder = source.is_dir()
        self.unknown = 0
        self.unknown_paths: list[Path] = []
        self.failed: list[tuple[Path, TreeringError]] = []
        self._source = source
        self._named = format
        self._formats = [format_named(name) for name in (FORMATS if format is None else (format,))]
        self._apart = None if apart is None or not self.is_folder else _below(apart, source)
        self._taken: set[Path] = set()  # of what comes later, what was read already along with another file

    def sessions(self) -> Iterator[Found]:
        """Yield the sessions, those of a folder before those of the folders in it.

        Raises:
            ForeignFormatError: The source is a file, and no session or damaged beyond what can be salvaged.
            UnsupportedVersion: The source is a file, and a newer program wrote it.
            ExtraMissing: The source is a file, and reading it needs a package that is not installed.
        """
        if self.is_folder:
            waiting = [self._source]
            while waiting:
                yield from self._folder(waiting.pop(), waiting)
            return
        chosen = self._formats[0] if self._named else self._recognized(self._source, head_of(self._source))
        if chosen is None:
            raise ForeignFormatError(
                f"the file is no session of a format that is known ({', '.join(FORMATS)}): "
                "name the format if it is one of these",
                where=Where(str(self._source)),
            )
        try:
            yield from _read(chosen, self._source)
        except OSError as error:
            raise cannot_read(error, self._source) from error

    def nothing(self) -> TreeringError:
        """Return the error to raise where nothing of a folder came in."""
        if len(self.failed) == 1:
            return self.failed[0][1]
        where = Where(str(self._source))
        if self.failed:
            (_, first), others = self.failed[0], len(self.failed) - 1
            return ForeignFormatError(f"none of its sessions can be read: {first}; {others} more", where=where)
        if self._named is not None:
            return ForeignFormatError(f"there is no session of {self._formats[0].title} in this folder", where=where)
        return ForeignFormatError(
            f"the folder holds no session of a format that is known ({', '.join(FORMATS)})", where=where
        )

    def _folder(self, folder: Path, waiting: list[Path]) -> Iterator[Found]:
        try:
            whole = self._recognized(folder, b"")
            files, folders = ([], []) if whole else _names(folder)
        except OSError as error:
            self.failed.append((folder, cannot_read(error, folder)))
            return
        if whole:
            yield from self._whole(whole, folder)
        for path in files:
            if path in self._taken:
                self._taken.discard(path)
            elif log_of(path.name) is None:
                yield from self._file(path)
        for path in reversed(folders):
            if path in self._taken:
                self._taken.discard(path)
            elif path != self._apart:
                waiting.append(path)

    def _file(self, path: Path) -> Iterator[Found]:
        try:
            head = beginning_of(path, _LOOK)
            if len(head) == _LOOK and _may_be_one(path, head):
                head = beginning_of(path, HEAD_MAX)
            chosen = self._recognized(path, head) if _may_be_one(path, head) else None
        except OSError as error:
            self.failed.append((path, cannot_read(error, path)))
            return
        if chosen is not None:
            yield from self._whole(chosen, path)
            return
        if path.name == _INDEX and all(name in head for name in _INDEX_KEYS):
            return
        self.unknown += 1
        if len(self.unknown_paths) < UNKNOWN_SHOWN:
            self.unknown_paths.append(path)

    def _whole(self, chosen: Format | KeptFormat, path: Path) -> Iterator[Found]:
        try:
            for found in _read(chosen, path):
                if isinstance(found.session, ForeignSession):
                    self._taken.update(found.session.beside)
                yield found
        except (ForeignFormatError, UnsupportedVersion, ExtraMissing) as error:
            self.failed.append((path, error))
        except OSError as error:
            self.failed.append((path, cannot_read(error, path)))

    def _recognized(self, path: Path, head: bytes) -> Format | KeptFormat | None:
        return next((each for each in self._formats if each.recognizes(path, head)), None)


def _read(chosen: Format | KeptFormat, path: Path) -> Iterator[Found]:
    for session in chosen.read(path):
        yield Found(chosen, path, session)


def _below(path: Path, source: Path) -> Path | None:
    """Return how a walk comes upon a path, from its source on; None where it does not."""
    path, start = path.resolve(), source.resolve()
    return source / path.relative_to(start) if path.is_relative_to(start) else None


def _names(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of a folder, and the folders in it.

    A transcript is read with those of its sub-agents, which therefore come last.
    """
    files: list[str] = []
    folders: list[str] = []
    with scandir(folder) as names:
        for each in names:
            if each.is_dir(follow_symlinks=False):
                if each.name != PRIVATE_FOLDER:
                    folders.append(each.name)
            elif Path(each.path).is_file():  # no pipe, which may keep its reader for ever; no link that leads nowhere
                files.append(each.name)
    files.sort(key=lambda name: (name.startswith(PREFIX), name))
    return [folder / name for name in files], [folder / name for name in sorted(folders)]


def _may_be_one(path: Path, head: bytes) -> bool:
    """Tell whether a file is worth to be looked at closer: what holds sessions begins as JSON, or is named as it."""
    return path.suffix in _SUFFIXES or is_packed(path) or beginning(head).startswith(_MAGIC)
