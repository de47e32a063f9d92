"""What the doctor reports: one finding for each problem or oddity."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from .errors import Where

Severity: TypeAlias = Literal["error", "warning", "note"]
"""An error is damage; a warning is something that no writer should leave behind; a note is a harmless oddity."""


class Finding(Struct, frozen=True):
    """One problem or oddity of a file.

    Attributes:
        path: The file.
        line: The line, counted from 1; None if the finding concerns the whole file.
        byte: The offset at which the line begins; None if the finding concerns the whole file.
        code: A stable word for this sort of finding.
        severity: How bad it is.
        message: What is wrong, and how readers and writers deal with it.
        entry_id: The entry concerned, where it is known.
    """

    path: str
    line: int | None
    byte: int | None
    code: str
    severity: Severity
    message: str
    entry_id: str | None = None

    @property
    def where(self) -> Where:
        """The place in the file."""
        return Where(self.path, self.line, self.byte)
