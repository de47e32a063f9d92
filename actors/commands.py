"""What goes through an actor's mailbox: commands, each with a place for its reply.

A command is a value. It says what its caller wants and what the caller relies on; whether it can be carried out is
decided against the state (`actors.decide`), by the one actor that owns the session.
"""

from __future__ import annotations

from contextvars import copy_context
from typing import TypeAlias, TypedDict

import anyio
from msgspec import UNSET, Struct, UnsetType

from ..events.arguments import check_text
from ..events.disk.disk_errors import FULL, NOT_WRITABLE, reason_of, remedy_of
from ..events.entries import Entry, Payload
from ..events.errors import AppendError, AppendFailed, AppendInDoubt, InvalidInput
from ..events.stores.base import Ref


class AppendOptions(TypedDict, total=False):
    """Options that every append call takes.

    Attributes:
        below: The entry to append to; None starts a new root. The default is the leaf.
        aside: Do not make the new entry the leaf; needs `below`.
        expected_leaf: Raise `LeafMoved` unless this entry (None: no entry) is the leaf.
        expected_seq: Raise `LeafMoved` unless the log ends with this seq.
        command_id: The caller's own id for this request. A repeated id appends nothing and returns the same result.
    """

    below: str | None
    aside: bool
    expected_leaf: str | None
    expected_seq: int
    command_id: str


class Append(Struct, frozen=True, gc=False):
    """Append entries, all or none; see `AppendOptions` for what the fields mean."""

    payloads: tuple[Payload, ...]
    below: str | UnsetType | None = UNSET
    aside: bool = False
    expected_leaf: str | UnsetType | None = UNSET
    expected_seq: int | None = None
    command_id: str | None = None


def append_command(payloads: tuple[Payload, ...], options: AppendOptions) -> Append:
    """Return the command to append payloads.

    Raises:
        InvalidInput: The command id is empty, or it or the expected leaf is not a string, or not valid UTF-8.
    """
    check_text("the expected leaf", options.get("expected_leaf"))
    check_text("the command id", command_id := options.get("command_id"))
    if command_id == "":  # two requests without an id would be one, and the second would be lost
        raise InvalidInput("the command id is empty: give each request its own id, or leave it out")
    return Append(payloads, **options)


class MoveLeaf(Struct, frozen=True):
    """Make an entry the leaf, or clear the leaf (None); nothing is written to the log."""

    leaf_id: str | None


class Unarchive(Struct, frozen=True):
    """Bring the session back from the archive; writes nothing if it is not archived."""


class AnswerFromLog(Struct, frozen=True):
    """Reply with entries that are already in the log, looked up by their ids."""

    ids: tuple[str, ...]


Command: TypeAlias = Append | MoveLeaf | Unarchive
"""Everything that callers can ask of an actor."""


class Mail:
    """A command with a place for its reply.

    Attributes:
        command: The command.
        context: The context of its caller, whom another task serves.
        written: Whether some of its lines may be in the log by now.
    """

    __slots__ = ("_done", "_error", "_result", "command", "context", "written")

    def __init__(self, command: Command | AnswerFromLog) -> None:
        self.command = command
        self.context = copy_context()
        self.written = isinstance(command, AnswerFromLog)
        self._done = anyio.Event()
        self._result: list[Entry] | None = None
        self._error: Exception | None = None

    def answer(self, result: list[Entry]) -> None:
        """Reply with the entries that the command produced; none for a move of the leaf."""
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

    async def reply(self) -> list[Entry]:
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
