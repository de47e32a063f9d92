"""Finding the sessions in a file, or in all files and folders below a folder, whichever programs wrote them.

Each file is recognized on its own. A folder that is itself a session, or a storage of sessions, is read as one unit and
not searched further. Below a folder, a damaged file affects only itself, and files that are not sessions are counted.
Links to folders are not followed, since they may lead back up. Files that treering keeps beside its logs are skipped:
the contents of `.treering`, snapshots, leaf records, fragments, and backups. So are files that only list the sessions
beside them. Files of Qwen Code resemble those of Claude Code and Gemini CLI: read as one of these, they would be
imported with their words left out. So they are read as its own alone, whatever format is asked for, and documents of
its first versions, which have no reader, are refused by name. So are the tasks of Cline in an editor, whose messages
other programs' readers would take for their own.

Only one session, and the names of the folders still to be searched, are held in memory at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import scandir
from pathlib import Path
from typing import NamedTuple

from ..events.disk.disk import PRIVATE_FOLDER
from ..events.errors import ExtraMissing, ForeignFormatError, TreeringError, UnsupportedVersion, Where
from ..events.health.surroundings import log_of
from .base import ForeignSession, Format, KeptSession
from .json_lines import beginning
from .opening import HEAD_MAX, beginning_of, cannot_read, head_of, is_packed
from .programs import format_named, format_names, formats

UNKNOWN_SHOWN = 5
"""How many of the files that are not sessions are listed by path."""

_LOOK = 4096
_SUFFIXES = (".json", ".jsonl")
_MAGIC = (b"{", b"[", b"SQLite format 3\0", b"# aider chat started at ")  # whatever their suffix

_TASK = "api_conversation_history.json"
_BESIDE_TASK = ("context_history.json", "task_metadata.json", "ui_messages.json")
_QWEN = "qwen"
_OLD_QWEN = re.compile(rb'\{\s*"sessionId"\s*:.{0,4000}?"type"\s*:\s*"qwen"', re.DOTALL)


class Found(NamedTuple):
    """A session, the format it was read as, and the file, or folder read as one unit, that holds it."""

    format: Format
    path: Path
    session: ForeignSession | KeptSession


class Walk:
    """One pass through a file or folder.

    Args:
        source: The file or folder.
        format: The name of the format to look for; None for all formats.
        apart: A folder to skip if it is below the source: the root of the importing host.

    Attributes:
        is_folder: Whether the source is a folder. If so, errors of single files are added to `failed`, not raised.
        unknown: How many files are not sessions of the requested formats.
        unknown_paths: The first of these files.
        failed: The session files that could not be read, each with its error.

    Raises:
        ForeignFormatError: There is no format named `format`.
    """

    def __init__(self, source: Path, format: str | None = None, *, apart: Path | None = None) -> None:
        self.is_folder = source.is_dir()
        self.unknown = 0
        self.unknown_paths: list[Path] = []
        self.failed: list[tuple[Path, TreeringError]] = []
        self._source = source
        self._requested_format = format
        self._formats = [*formats()] if format is None else [format_named(format)]
        self._read_last = tuple(filter(None, (each.read_last for each in self._formats)))
        self._skipped_folder = None if apart is None or not self.is_folder else _path_below(apart, source)
        self._already_read: set[Path] = set()  # files still to come that were read as part of another session

    def sessions(self) -> Iterator[Found]:
        """Yield the sessions, those in a folder before those in its subfolders.

        Raises:
            ForeignFormatError: The source is a file that is not a session or is damaged beyond recovery.
            UnsupportedVersion: The source is a file that a newer program wrote.
            ExtraMissing: The source is a file, and reading it requires a package that is not installed.
        """
        if self.is_folder:
            pending = [self._source]
            while pending:
                yield from self._sessions_in_folder(pending.pop(), pending)
            return
        head = head_of(self._source)
        _refuse_old_qwen(self._source, head)
        if self._requested_format is None:
            _refuse_task(self._source)
        chosen = self._formats[0] if self._requested_format else self._recognize(self._source, head)
        if self._requested_format not in (None, _QWEN) and _is_of_qwen(self._source, head):
            raise ForeignFormatError(
                f"this is a session of Qwen Code, not of {self._formats[0].title}: name the format {_QWEN!r}, or none",
                where=Where(str(self._source)),
            )
        if chosen is None:
            raise ForeignFormatError(
                f"the file is not a session in any known format ({', '.join(format_names())}): "
                "name the format if it is one of these",
                where=Where(str(self._source)),
            )
        try:
            yield from _read(chosen, self._source)
        except OSError as error:
            raise cannot_read(error, self._source) from error

    def nothing(self) -> TreeringError:
        """Return the error to raise if nothing in a folder could be imported."""
        if len(self.failed) == 1:
            return self.failed[0][1]
        where = Where(str(self._source))
        if self.failed:
            (_, first), others = self.failed[0], len(self.failed) - 1
            return ForeignFormatError(
                f"none of the sessions in the folder can be read: {first} (and {others} more)", where=where
            )
        if self._requested_format is not None:
            return ForeignFormatError(f"the folder holds no {self._formats[0].title} session", where=where)
        return ForeignFormatError(
            f"the folder holds no session in any known format ({', '.join(format_names())})", where=where
        )

    def _sessions_in_folder(self, folder: Path, pending: list[Path]) -> Iterator[Found]:
        try:
            unit_format = self._recognize(folder, b"")
            files, folders = ([], []) if unit_format else self._contents(folder)
        except OSError as error:
            self.failed.append((folder, cannot_read(error, folder)))
            return
        if unit_format:
            yield from self._sessions_of(unit_format, folder)
        for path in files:
            if path in self._already_read:
                self._already_read.discard(path)
            elif log_of(path.name) is None:
                yield from self._sessions_in_file(path)
        for path in reversed(folders):
            if path in self._already_read:
                self._already_read.discard(path)
            elif path != self._skipped_folder:
                pending.append(path)

    def _contents(self, folder: Path) -> tuple[list[Path], list[Path]]:
        """Return the files and the subfolders of a folder; files that are read along with others come last."""
        files: list[str] = []
        folders: list[str] = []
        with scandir(folder) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    if item.name != PRIVATE_FOLDER:
                        folders.append(item.name)
                elif Path(item.path).is_file():  # not a pipe, which may block forever; not a broken link
                    files.append(item.name)
        files.sort(key=lambda name: (name.startswith(self._read_last), name))
        return [folder / name for name in files], [folder / name for name in sorted(folders)]

    def _sessions_in_file(self, path: Path) -> Iterator[Found]:
        try:
            head = beginning_of(path, _LOOK)
            chosen: Format | None = None
            if _may_be_session(path, head):
                head = beginning_of(path, HEAD_MAX) if len(head) == _LOOK else head
                chosen = self._recognize(path, head)
                _refuse_old_qwen(path, head)
            if self._requested_format is None:
                _refuse_task(path)
        except ForeignFormatError as error:
            self.failed.append((path, error))
            return
        except OSError as error:
            self.failed.append((path, cannot_read(error, path)))
            return
        if chosen is not None:
            yield from self._sessions_of(chosen, path)
            return
        is_beside_task = path.name in _BESIDE_TASK and path.with_name(_TASK).is_file()
        if is_beside_task or any(each.only_lists(path, head) for each in self._formats):
            return
        self.unknown += 1
        if len(self.unknown_paths) < UNKNOWN_SHOWN:
            self.unknown_paths.append(path)

    def _sessions_of(self, chosen: Format, path: Path) -> Iterator[Found]:
        try:
            for found in _read(chosen, path):
                if isinstance(found.session, ForeignSession):
                    self._already_read.update(found.session.beside)
                yield found
        except (ForeignFormatError, UnsupportedVersion, ExtraMissing) as error:
            self.failed.append((path, error))
        except OSError as error:
            self.failed.append((path, cannot_read(error, path)))

    def _recognize(self, path: Path, head: bytes) -> Format | None:
        chosen = next((each for each in self._formats if each.detects(path, head)), None)
        if chosen is not None and self._requested_format not in (None, _QWEN) and _is_of_qwen(path, head):
            return None  # with all formats, the one that is certain is asked first
        return chosen


def _read(chosen: Format, path: Path) -> Iterator[Found]:
    for session in chosen.read(path):
        yield Found(chosen, path, session)


def _refuse_old_qwen(path: Path, head: bytes) -> None:
    if _OLD_QWEN.match(beginning(head)) is not None:
        raise ForeignFormatError(
            "this looks like a session of Qwen Code before version 0.5, which treering cannot read: it was left as it "
            "is, since read as a session of a similar program it would lose its words",
            where=Where(str(path)),
        )


def _refuse_task(path: Path) -> None:
    if path.name == _TASK:
        raise ForeignFormatError(
            "this looks like a task of Cline in an editor, or of a program made from it (Roo Code, Kilo Code): "
            "treering reads only the sessions of Cline's command line, and left it as it is",
            where=Where(str(path)),
        )


def _is_of_qwen(path: Path, head: bytes) -> bool:
    return format_named(_QWEN).detects(path, head)


def _path_below(path: Path, source: Path) -> Path | None:
    """Return a path as a walk from `source` would reach it; None if it is not below `source`."""
    path, start = path.resolve(), source.resolve()
    return source / path.relative_to(start) if path.is_relative_to(start) else None


def _may_be_session(path: Path, head: bytes) -> bool:
    """Return whether a file may hold a session, by its suffix or its first bytes."""
    return path.suffix in _SUFFIXES or is_packed(path) or beginning(head).startswith(_MAGIC)
