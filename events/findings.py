"""What the doctor says: one finding for each thing that is the matter."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from .errors import Where

Severity: TypeAlias = Literal["error", "warning", "note"]
"""An error is damage; a warning is what no writer should have left; a note is read without harm."""


class Finding(Struct, frozen=True):
    """Something that the doctor has to say of a file.

    Attributes:
        path: The file.
        line: The line, counted from 1; None where it is the whole file.
        byte: The offset at which the line begins; None where it is the whole file.
        code: What sort of thing it is, in a word that does not change.
        severity: How bad it is.
        message: What was found, and what becomes of it.
        entry_id: The entry that it concerns, where one is known.
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
