"""The part of a session's handle that exports it: to files, to other programs, to readers.

The handle declares the call; the work is done in `actors.transfer`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from ...events.arguments import check_text
from ...events.errors import InvalidInput, ReadOnly
from ..host.names import checked_path
from ..transfer.reports import HandedOver
from .appending import Appending

if TYPE_CHECKING:
    from ...events.redaction import Redaction

ExportFormat: TypeAlias = Literal["native", "pi", "omp", "json", "markdown", "html"] | str
"""What a session can be exported as: one of these, or the name of a program whose files are written; see
docs/formats.md."""


class Exporting(Appending):
    """The export calls of a session."""

    __slots__ = ()

    @overload
    async def export(
        self,
        format: ExportFormat,
        destination: None = None,
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> bytes: ...
    @overload
    async def export(
        self,
        format: ExportFormat,
        destination: str | os.PathLike[str],
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> Path: ...

    async def export(
        self,
        format: ExportFormat,
        destination: str | os.PathLike[str] | None = None,
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> bytes | Path:
        """Write the session for others; the session itself does not change.

        "native", "pi" and "omp" are session files: byte for byte in the session's own dialect, converted to another
        one. "json" is one document that `SessionHost.import_sessions` reads back. "html" is one self-contained page.
        These hold all branches. "markdown" and the files of other programs hold one path.

        Args:
            format: What to write.
            destination: The file to write, which appears whole or not at all; for a program that keeps a session in
                several files, the folder of all its sessions. Without one, the bytes are returned.
            leaf_id: Write only the path from the root to this entry, as a session of its own. By default everything
                that the format can hold is written, or the path to the leaf.
            redact: Removes secrets; for "json", "markdown" and "html". The result cannot be imported.
            overwrite: Replace what is at the destination.

        Returns:
            The bytes, or the path of what was written.

        Raises:
            InvalidInput: There is no such format; it cannot be redacted, or needs a destination; the destination
                is not a path, has no folder, or is a device, a pipe or the session's own file; `redact` or `leaf_id` is
                of the wrong type.
            ExportExists: Something is at the destination.
            EntryNotFound: The session has no such entry.
            CorruptTree: The path runs into a cycle.
            DialectCannot: The format cannot express something that the session contains.
            OSError: The destination cannot be written; nothing is left of it.
        """
        if redact is not None:
            from ...events.redaction import Redaction  # already imported by a caller that passes one

            if not isinstance(redact, Redaction):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInput(f"`redact` is of type `{type(redact).__name__}`: give a `Redaction()`")
        check_text("leaf_id", leaf_id)
        from ..transfer.exporting import export

        path = None if destination is None else Path(checked_path(destination))
        return await export(self._core, self, format, path, leaf_id, redact, overwrite=overwrite)

    async def hand_over(
        self,
        program: str,
        *,
        leaf_id: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
    ) -> HandedOver:
        """Write a path as another program's own session, where that program looks, and record that.

        What the program goes on to write comes back with the next import of its sessions, below the entry that was
        handed over. Nothing that exists there is changed. The record is an entry that contexts do not show; it is
        appended aside, or at the leaf in a dialect that knows no such entries.

        Args:
            program: The program: one of `treering.formats.handing_over.targets.target_names()`.
            leaf_id: The end of the path; by default the leaf.
            cwd: The folder in which the program goes on; by default the session's own if it exists here, or else the
                current one.
            dry_run: Write nothing, and only return what the program cannot hold.

        Returns:
            Where it is, how it is resumed, and what was left out.

        Raises:
            InvalidInput: There is no such program; the path has no messages; there is no such folder.
            EntryNotFound: The session has no such entry.
            ReadOnly: The session was opened read-only, and this is no dry run.
            ForeignFormatError: What would be written could not be read back, so nothing was written.
            ProgramFailed: The program must take the session in by a command of its own, which is missing or failed.
            OSError: The program's folder cannot be written; the session has a record of what is not there, which does
                no harm.
        """
        check_text("leaf_id", leaf_id)
        if self._read_only and not dry_run:
            raise ReadOnly(f"session {self.id!r} was opened read-only: load it without `read_only` to hand it over")
        from ..transfer.handing_over import hand_over

        folder = None if cwd is None else checked_path(cwd)
        return await hand_over(self._core, self, program, leaf_id, folder, dry_run=dry_run)
