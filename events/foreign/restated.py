"""Entries restated so that a file of another dialect can hold them.

What a file says of itself alone is left out (the marks of its batches), what no other file can hold is wrapped, and a
message that answers several calls at once, as some programs write it, becomes one message a call where the dialect knows
no other. Ids stay; the messages that come in front of such an answer have ids that follow from its own. What such a dialect
refuses when it is appended is told in words: an image that lies elsewhere, what a tool or a command said without more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from ..content import Content, ImagePart, TextPart, ToolResultPart, ToolUsePart, text
from ..dialects.base import Dialect
from ..dialects.camel import CamelDialect
from ..entries import (
    ENTRY_TYPES,
    Compaction,
    CompactionEntry,
    ContextEditEntry,
    Custom,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    KnownEntry,
    Message,
    MessageEntry,
    ModelChangeEntry,
    OpaqueEntry,
)
from ..errors import DialectCannot
from ..kinds import RESET_TYPE
from .chain import derived_id

P = TypeVar("P", bound=Content)

KEPT_AS = "treering.opaque"
"""The custom type under which stands a line that another dialect would take for something else."""


def own_line(dialect: Dialect, entry: OpaqueEntry) -> bytes | None:
    """Return an opaque entry's line, without its newline, where a dialect reads it as the same entry; None elsewhere."""
    line = bytes(entry.raw).strip()
    if b"\n" in line or b"\r" in line:
        return None
    read = dialect.decode(line, entry.seq)
    same = (entry.type, entry.id, entry.parent_id, None)
    return line if isinstance(read, OpaqueEntry) and (read.type, read.id, read.parent_id, read.batch) == same else None


def kept(entry: Entry) -> KnownEntry:
    """Return an entry that any dialect can write: an opaque one as an extension's data, in the same place."""
    if not isinstance(entry, OpaqueEntry):
        return entry
    own_id = entry.id or ""
    if entry.type == RESET_TYPE:  # what hides all that came before it does so everywhere
        return CompactionEntry(
            id=own_id,
            parent_id=entry.parent_id,
            timestamp=entry.timestamp,
            seq=entry.seq,
            aside=entry.aside,
            compaction=Compaction("", None, 0),
        )
    return CustomEntry(
        id=own_id,
        parent_id=entry.parent_id,
        timestamp=entry.timestamp,
        seq=entry.seq,
        aside=entry.aside,
        custom=Custom(KEPT_AS, entry.raw),
    )


def ids_apart(session_id: str, entry: Entry) -> Iterator[str]:
    """Yield the ids of the messages that may come in front of an entry where a message answers one call alone."""
    if isinstance(entry, MessageEntry):
        answers = sum(isinstance(part, ToolResultPart) for part in entry.message.content)
        rest = answers < len(entry.message.content)
        yield from (_id_apart(session_id, entry.id, number) for number in range(1, answers + rest))


def _id_apart(session_id: str, entry_id: str, number: int) -> str:
    return derived_id(session_id, entry_id, f"answer {number}")


class Restated:
    """Restates the entries of one session, which are given in order, for a file of another dialect.

    Args:
        dialect: What the file is written in.
        session_id: The session's id, from which the ids of new entries follow.
        models: By ordinal, the entry on the path that says who answers; 0 for none. It is given before.
        whole: The file gets all entries, so that a command is not found there in part.
    """

    def __init__(self, dialect: Dialect, session_id: str, models: Sequence[int], *, whole: bool) -> None:
        self._dialect = dialect
        self._models = models
        self._named: dict[int, tuple[str, str]] = {}
        self._session_id = session_id
        self._whole = whole
        self._names: dict[str, str] = {}
        self._first: dict[str, str] = {}

    def lines(self, entries: list[Entry]) -> bytes:
        """Return the lines of the next entries.

        Raises:
            DialectCannot: The dialect has no way to say something of it; the error names the entry.
        """
        return b"".join(line for entry in entries for line in self._lines_of(entry))

    def _lines_of(self, entry: Entry) -> Iterator[bytes]:
        line = own_line(self._dialect, entry) if isinstance(entry, OpaqueEntry) and self._may_pass(entry) else None
        if line is not None:
            yield line + b"\n"
            return
        try:
            self._note_model(entry)
            for each in self._restated(kept(entry)):
                yield self._encoded(each)
        except DialectCannot as error:
            raise DialectCannot(f"entry {entry.id} (seq {entry.seq}) cannot go there: {error}") from error

    def _note_model(self, entry: Entry) -> None:
        if isinstance(entry, ModelChangeEntry):
            self._named[entry.seq] = (entry.model_change.provider, entry.model_change.model_id)
        elif isinstance(entry, MessageEntry) and entry.message.provider is not None and entry.message.model is not None:
            self._named[entry.seq] = (entry.message.provider, entry.message.model)

    def _encoded(self, entry: KnownEntry) -> bytes:
        if isinstance(self._dialect, CamelDialect):
            return self._dialect.encode(entry, self._named.get(self._models[entry.seq]))
        return self._dialect.encode(entry)

    def _may_pass(self, entry: OpaqueEntry) -> bool:
        """Tell whether the program whose dialect it is can be shown a line of this type: it may know the type."""
        if self._dialect.name == "pi" and entry.type == RESET_TYPE:
            return False
        return self._dialect.name == "native" or entry.type not in ENTRY_TYPES

    def _restated(self, entry: KnownEntry) -> Iterator[KnownEntry]:
        aside = entry.aside and self._dialect.can_append_aside
        entry = replace(entry, aside=aside, batch=None, command_id=entry.command_id if self._whole else None)
        if self._dialect.name == "native":
            yield entry
        elif isinstance(entry, MessageEntry):
            yield from self._messages(replace(entry, message=_sayable(entry.message)))
        elif isinstance(entry, CustomMessageEntry):
            said = entry.custom_message
            yield replace(entry, custom_message=replace(said, content=_inline(said.content)))
        elif isinstance(entry, ContextEditEntry):
            new = entry.context_edit.replacement
            new = None if new is None else _inline(new)
            yield replace(entry, context_edit=replace(entry.context_edit, replacement=new))
        elif isinstance(entry, CompactionEntry):
            first_kept = entry.compaction.first_kept_entry_id
            first_kept = first_kept if first_kept is None else self._first.get(first_kept, first_kept)
            yield replace(entry, compaction=replace(entry.compaction, first_kept_entry_id=first_kept))
        else:
            yield entry

    def _messages(self, entry: MessageEntry) -> Iterator[MessageEntry]:
        """Give each answer to a call a message of its own, the last message the entry's id."""
        message = entry.message
        self._names.update(
            (part.tool_use.id, part.tool_use.name) for part in message.content if isinstance(part, ToolUsePart)
        )
        answers = [part for part in message.content if isinstance(part, ToolResultPart)]
        rest = tuple(part for part in message.content if not isinstance(part, ToolResultPart))
        alone = message.role == "tool" and len(answers) == len(message.content) == 1
        if not answers or alone or message.role not in ("tool", "user"):
            yield entry
            return
        said = [self._answer(message, part) for part in answers]
        if rest:
            said.append(replace(message, role="user", content=rest, tool_name=None))
        parent_id = entry.parent_id
        for number, each in enumerate(said, 1):
            own = entry.id if number == len(said) else _id_apart(self._session_id, entry.id, number)
            self._first.setdefault(entry.id, own)
            command_id = entry.command_id if own == entry.id else None
            yield replace(entry, id=own, parent_id=parent_id, command_id=command_id, message=each)
            parent_id = own

    def _answer(self, message: Message, part: ToolResultPart) -> Message:
        name = message.tool_name or self._names.get(part.tool_result.tool_use_id)
        return Message("tool", (part,), tool_name=name)


def _sayable(message: Message) -> Message:
    """Return a message that pi knows: what a tool said that answers no call, and a command that none is, a user says."""
    content = _inline(message.content)
    answers = any(isinstance(part, ToolResultPart) for part in content)
    unknown = (message.role == "tool" and not answers) or (message.role == "bashExecution" and message.bash is None)
    return replace(message, role="user" if unknown else message.role, content=content)


def _inline(content: tuple[Content, ...]) -> tuple[Content, ...]:
    """Return content without images that lie elsewhere: these are named."""
    return tuple(_answer_inline(part) if isinstance(part, ToolResultPart) else _named(part) for part in content)


def _answer_inline(part: ToolResultPart) -> ToolResultPart:
    result = part.tool_result
    if isinstance(result.content, str):
        return part
    return ToolResultPart(replace(result, content=tuple(map(_named, result.content))))


def _named(part: P) -> P | TextPart:
    if isinstance(part, ImagePart) and part.image.source.type == "url":
        return text(f"[image: {part.image.source.data}]")
    return part
