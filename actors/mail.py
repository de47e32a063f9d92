"""What goes through an actor's mailbox: commands, each with a place for its reply."""

from __future__ import annotations

from typing import TypeAlias

import anyio
from msgspec import Struct

from ..events.disk.disk_errors import FULL, NOT_WRITABLE, reason_of, remedy_of
from ..events.entries import Entry
from ..events.errors import AppendError, AppendFailed, AppendInDoubt
from ..events.stores.base import Ref
from .commands import AnswerFromLog, Append, Command

CommandResult: TypeAlias = list[Entry]
"""The entries that a command produced; empty for a move of the leaf."""


class Mail:
    """A command with a place for its reply.

    Attributes:
        command: The command.
        written: Whether some of its lines may be in the log by now.
    """

    __slots__ = ("_done", "_error", "_result", "command", "written")

    def __init__(self, command: Command | AnswerFromLog) -> None:
        self.command = command
        self.written = isinstance(command, AnswerFromLog)
        self._done = anyio.Event()
        self._result: CommandResult | None = None
        self._error: Exception | None = None

    def answer(self, result: CommandResult) -> None:
        """Reply with the entries."""
        self._result = result
        self._done.set()

    def refuse(self, error: Exception) -> None:
        """Reply with an error."""
        self._error = error
        self._done.set()

    @property
    def answered(self) -> bool:
        """Whether there is a reply."""
        return self._done.is_set()

    async def reply(self) -> CommandResult:
        """Wait for the reply."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


def unreachable_error(
    command: Command | AnswerFromLog, ref: Ref, error: OSError, *, written: bool = False
) -> AppendError:
    """Return the error for a command whose log cannot be opened or read.

    Args:
        command: The command. One with a command id may have been tried, and written, before.
        ref: The name of the log.
        error: What the disk reported.
        written: Whether the command may have been written now.
    """
    doubtful = written or (isinstance(command, Append) and command.command_id is not None)
    kind, then = (AppendInDoubt, "retry with the same command id") if doubtful else (AppendFailed, "append again")
    elsewhere = error.filename is not None and not str(error.filename).endswith(ref)  # such as a parent folder
    reason = reason_of(error) if elsewhere else error.strerror or str(error)
    remedy = remedy_of(error) if elsewhere or error.errno in NOT_WRITABLE | FULL else "fix that"
    append_error = kind(f"{ref} cannot be opened or read ({reason}): {remedy}, then {then}")
    append_error.__cause__ = error
    return append_error


class Decision(Struct):
    """The outcome of deciding one command: its entries as values and as lines; no lines for a repeated command."""

    entries: list[Entry]
    lines: list[bytes]
    mail: Mail | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the entries."""
        return tuple(entry.id or "" for entry in self.entries)
