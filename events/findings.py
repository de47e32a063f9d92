"""Findings, one for each problem of a file, as the doctor, listings, searches and imports report them; and repairs."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from .errors import TreeringError, Where

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


class LeftOut(Finding, frozen=True, kw_only=True):
    """What an import left out of a source because its reader does not know it, or a message has no place for it.

    The place is that of the first one.

    Attributes:
        kind: What it is: a kind of line or part, or a field, with what holds it.
        count: How many of it were left out.
        example: The first one, as JSON; cut off if it is long.
    """

    kind: str
    count: int
    example: str


class NotHeld(Struct, frozen=True):
    """Something of the path that a program cannot hold, or would not send to its model.

    Attributes:
        entry_id: The entry of which it is a part.
        kind: What it is: "thinking", "image", "message before the summary", or other words of this sort.
        text: How it begins.
    """

    entry_id: str
    kind: str
    text: str


def unreadable(path: str, error: TreeringError | OSError) -> Finding:
    """Return the finding on a file that cannot be read, with the place that the error names, if it names one.

    Args:
        path: The file.
        error: The error that reading it raised.
    """
    if isinstance(error, TreeringError) and error.where is not None:
        where = error.where
        return Finding(where.path, where.line, where.byte, "unreadable", "error", error.message)
    return Finding(path, None, None, "unreadable", "error", str(error))


Action: TypeAlias = Literal[
    "fragment_moved", "newline_added", "moved_aside", "made_anew", "replayed", "noted", "locked", "waiting", "failed"
]
"""What was done. The last three mean that nothing was: the file is owned, a journal has to wait, the disk failed."""


class Repair(Struct, frozen=True):
    """One repair, done or not.

    Attributes:
        path: The file.
        action: What was done, as a stable word.
        message: What was done or found, in words.
        target: The new place of bytes that were moved or copied.
        byte: The offset concerned; None if the repair concerns the whole file.
        line: The line, counted from 1, that begins at `byte`.
    """

    path: str
    action: Action
    message: str
    target: str | None = None
    byte: int | None = None
    line: int | None = None

    @property
    def done(self) -> bool:
        """Whether the repair was done."""
        return self.action not in ("locked", "waiting", "failed")

    @property
    def where(self) -> Where:
        """The place in the file."""
        return Where(self.path, self.line, self.byte)
