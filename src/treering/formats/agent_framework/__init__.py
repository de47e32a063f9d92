"""Microsoft's Agent Framework: the files of its `FileHistoryProvider`, one for each conversation.

    {"type": "message", "role": "user", "contents": [{"type": "text", "text": "Hello"}], "additional_properties": {}}

A line is a message. The file's name is the conversation's, in base32 after `~session-` if that can name no file. The
framework need not be installed. A conversation becomes what `treering.adapters.agent_framework` makes of one; its
messages have no times, and get the file's.
"""

from __future__ import annotations

from base64 import b32decode
from binascii import Error as NotEncoded
from collections.abc import Iterator
from pathlib import Path

from ...events.entries import NATIVE_VERSION, Header, KnownEntry
from ...events.errors import InvalidEntry
from ..base import ForeignSession, Format
from ..chain import Chain, derived_id, is_derived
from ..json_lines import Line, Notes, beginning, first_object, objects
from ..opening import modified_at
from ..values import Object
from .messages import message_of

NAME = "agent-framework"

_ENCODED, _DIGEST = "~session-", "sha256-"
_START = b'{"type":"message",'


class AgentFrameworkFormat(Format):
    """`<session>.jsonl` of `FileHistoryProvider`."""

    name = NAME
    title = "Microsoft Agent Framework"
    checked = "the framework, 1.23.0"

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether a file's first line is one of the framework's messages."""
        first = first_object(head)
        if first is None:  # longer than the head: the framework writes these first
            return beginning(head).startswith(_START) and b'"contents":[' in head
        return _is_message(first)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read the conversation of a file; see `Format.read`."""
        notes, key, started = Notes(path), _session_of(path), modified_at(path)
        if key is None:
            message = "the name of this conversation is too long to stand in the file's: it is imported without a key"
            notes.add("unnamed", "warning", message)
        header = Header(id=key or derived_id(NAME, path.stem), version=NATIVE_VERSION, timestamp=started, key=key)
        yield ForeignSession(
            header=header,
            entries=_entries(path, Chain(NAME, header.id, started), notes),
            findings=notes.findings,
            is_of_source=is_derived,
        )


def _session_of(path: Path) -> str | None:
    """Return the conversation that a file is named after; None if the name does not tell."""
    encoded = path.stem.removeprefix(_ENCODED)
    if encoded == path.stem:
        return path.stem
    if encoded.startswith(_DIGEST):
        return None
    try:
        return b32decode(encoded.upper() + "=" * (-len(encoded) % 8)).decode()
    except (NotEncoded, UnicodeDecodeError):
        return None


def _entries(path: Path, chain: Chain, notes: Notes) -> Iterator[KnownEntry]:
    for line in objects(path, notes, _START):
        entry = _entry(line, chain, notes)
        if entry is not None:
            yield entry
    notes.close()


def _entry(line: Line, chain: Chain, notes: Notes) -> KnownEntry | None:
    if not _is_message(line.value):
        notes.leave_out("line that is no message", line.value, line=line.number, byte=line.byte)
        return None
    try:
        return chain.add(message_of(line.value), beginning=line.value)
    except InvalidEntry as error:
        notes.at(line, "damaged", "error", f"the message is left out: {error}")
        return None


def _is_message(value: Object) -> bool:
    is_of_kind = value.get("type") == "message" and isinstance(value.get("role"), str)
    return is_of_kind and isinstance(value.get("contents"), list)
