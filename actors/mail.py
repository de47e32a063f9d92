"""What goes through an actor's mailbox: commands with a place for their replies."""

from __future__ import annotations

from typing import TypeAlias

import anyio
from msgspec import Struct

from ..events.entries import Entry
from ..events.errors import AppendError, AppendFailed, AppendInDoubt
from ..events.stores.base import Ref
from .commands import Append, Command, Landed

Made: TypeAlias = list[Entry]
"""What a command made: the entries, empty for a move of the leaf."""


class Mail:
    """A command with a place for its reply.

    Attributes:
        command: What is asked for.
        written: Some of its lines may be in the log by now.
    """

    __slots__ = ("_done", "_error", "_made", "command", "written")

    def __init__(self, command: Command | Landed) -> None:
        self.command = command
        self.written = isinstance(command, Landed)
        self._done = anyio.Event()
        self._made: Made | None = None
        self._error: Exception | None = None

    def answer(self, made: Made) -> None:
        """Reply with what was made."""
        self._made = made
        self._done.set()

    def refuse(self, error: Exception) -> None:
        """Reply with an error."""
        self._error = error
        self._done.set()

    @property
    def answered(self) -> bool:
        """Whether there is a reply."""
        return self._done.is_set()

    async def reply(self) -> Made:
        """Wait for the reply."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made


def unreachable(command: Command | Landed, ref: Ref, error: OSError, *, written: bool = False) -> AppendError:
    """Say that a log cannot be opened or read, so that nothing can be appended to it.

    Args:
        command: What was asked for. One that has an id may have been tried before, and have landed then.
        ref: The name of the log.
        error: What the disk said.
        written: It may have landed now.
    """
    doubtful = written or (isinstance(command, Append) and command.command_id is not None)
    kind, remedy = (AppendInDoubt, "retry with the same command id") if doubtful else (AppendFailed, "append again")
    reason = error.strerror or str(error)
    if error.filename is not None and not str(error.filename).endswith(ref):  # a folder above, say
        reason += f": {error.filename}"
    unreached = kind(f"{ref} cannot be opened or read ({reason}): see to the disk, then {remedy}")
    unreached.__cause__ = error
    return unreached


class Decided(Struct):
    """What one command comes to: its entries as values and as lines; no lines where it was carried out before."""

    entries: list[Entry]
    lines: list[bytes]
    mail: Mail | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the entries."""
        return tuple(entry.id or "" for entry in self.entries)
