"""The part of a session's handle that exports it: to files, to other programs, to readers.

The handle declares the call; the work is done in `actors.transfer`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from ...events.arguments import check_text
from ...events.errors import InvalidInput
from ..host.names import checked_path
from .reading import Handle

if TYPE_CHECKING:
    from ...events.redaction import Redaction

ExportFormat: TypeAlias = Literal["native", "pi", "omp", "json", "markdown", "html"] | str
"""What a session can be exported as: one of these, or the name of a program whose files are written; see
docs/formats.md."""


class Exporting(Handle):
    """The export call of a session."""

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
