"""Commands, and what became of them, as bytes: for ways to a session's owner that carry no objects.

The entries of a call are lines of the native dialect, whatever that of the session is. An answer holds the seqs of the
entries, which the sender reads from the log, or the problem that tells of a refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...events.dialects.native import NativeDialect
from ...events.entries import EPOCH, OpaqueEntry, Payload, entry_of, payload_of
from ...events.errors import AppendInDoubt, EntryNotFound, InvalidEntry, InvalidInput, TreeringError
from ...events.problem import FilePosition, Problem, attributes_of, error_of, names_of, public_class
from ...events.stores.base import Cursor
from ..commands import Append, MoveLeaf

Sendable: TypeAlias = Append | MoveLeaf
"""A command that can be sent to another host."""

_native = NativeDialect()


class _Append(Struct, frozen=True, tag="append", omit_defaults=True, kw_only=True):
    entries: list[Raw]
    command_id: str
    below: str | UnsetType | None = UNSET
    aside: bool = False
    expected_leaf: str | UnsetType | None = UNSET
    expected_seq: int | None = None


class _MoveLeaf(Struct, frozen=True, tag="move_leaf"):
    leaf_id: str | None


class Done(Struct, frozen=True, tag="done"):
    """A command was carried out, now or by an earlier call with its id.

    Attributes:
        seqs: The seqs of its entries.
        generation: The generation of their log.
    """

    seqs: list[int]
    generation: str


class Refused(Struct, frozen=True, tag="refused"):
    """A command was not carried out, or it is unknown whether it was."""

    problem: Problem

    @property
    def error(self) -> TreeringError:
        """The error that the owner raised."""
        return error_of(self.problem)


_calls: msgspec.json.Decoder[_Append | _MoveLeaf] = msgspec.json.Decoder(_Append | _MoveLeaf)
_answers: msgspec.json.Decoder[Done | Refused] = msgspec.json.Decoder(Done | Refused)


def encode_call(command: Sendable, new_id: Callable[[], str]) -> bytes:
    """Return a command as bytes.

    Args:
        command: The command. An append without a command id gets one, so that it may arrive more than once.
        new_id: Returns a fresh id.

    Raises:
        InvalidInput: A field has the wrong type, or a payload cannot be written.
        EntryNotFound: The command names an entry by what is no text.
    """
    if isinstance(command, MoveLeaf):
        _check_entry_id(command.leaf_id)
        return _encoded(_MoveLeaf(command.leaf_id))
    _check_entry_id(command.below)
    return _encoded(
        _Append(
            entries=[_line_of(each) for each in command.payloads],
            command_id=new_id() if command.command_id is None else command.command_id,
            below=command.below,
            aside=command.aside,
            expected_leaf=command.expected_leaf,
            expected_seq=command.expected_seq,
        )
    )


def _encoded(call: _Append | _MoveLeaf) -> bytes:
    try:
        encoded = msgspec.json.encode(call)
        _calls.decode(encoded)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidInput(
            f"an option of the command cannot be sent ({error}): give what its description says"
        ) from error
    return encoded


def _check_entry_id(entry_id: object) -> None:
    if not (entry_id is None or entry_id is UNSET or isinstance(entry_id, str)):
        raise EntryNotFound(entry_id)  # type: ignore[arg-type]  # as a command is told that is decided here


def _line_of(payload: Payload) -> Raw:
    line, _ = _native.write(entry_of(payload, id="new", parent_id=None, timestamp=EPOCH))
    return Raw(line)


def decode_call(call: bytes) -> Sendable:
    """Return the command of a call.

    Raises:
        InvalidInput: It is no call that this version knows.
    """
    try:
        known = _calls.decode(call)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"this host does not know the command ({error}): run one version on all hosts") from error
    if isinstance(known, _MoveLeaf):
        return MoveLeaf(known.leaf_id)
    return Append(
        tuple(_payload_of(bytes(each)) for each in known.entries),
        below=known.below,
        aside=known.aside,
        expected_leaf=known.expected_leaf,
        expected_seq=known.expected_seq,
        command_id=known.command_id,
    )


def _payload_of(line: bytes) -> Payload:
    entry = _native.decode(line, 1)
    if entry is None or isinstance(entry, OpaqueEntry):
        raise InvalidEntry("this host does not know the type of an entry that was sent: run one version on all hosts")
    return payload_of(entry)


def encode_done(seqs: list[int], cursor: Cursor) -> bytes:
    """Return the answer for a command that was carried out."""
    return msgspec.json.encode(Done(seqs, cursor.generation))


def encode_refusal(error: TreeringError) -> bytes:
    """Return the answer for a command that was refused."""
    kind = public_class(error)
    name, title = names_of(kind)
    where = None if error.where is None else FilePosition(error.where.path, error.where.line, error.where.byte)
    problem = Problem(name, title, 0, error.message, error=kind.__name__, where=where, attributes=attributes_of(error))
    return msgspec.json.encode(Refused(problem))


def decode_answer(answer: bytes) -> Done | Refused:
    """Return an answer.

    Raises:
        AppendInDoubt: It is none that this version knows.
    """
    try:
        return _answers.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AppendInDoubt(f"the owner's answer cannot be read ({error}): run one version on all hosts") from error
