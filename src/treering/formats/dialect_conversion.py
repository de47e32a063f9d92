"""Conversion of entries so that a file of another dialect can hold them.

Batch marks, which are only meaningful in the original file, are dropped. Entries that no other dialect can express
are wrapped as custom entries. A message that answers several calls at once is split into one message per call if the
dialect requires it, and an edit of it into one edit per message. Entry ids are kept; each message or edit split off in
front gets an id derived from the entry's id. Content that the dialect would refuse in an append becomes plain text: an
image given by its URL, or the output of a tool or a command without the details that the dialect requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from ..events.content import Content, ImagePart, TextPart, ToolResult, ToolResultPart, ToolUsePart, text
from ..events.dialects.base import Dialect
from ..events.entries import (
    Compaction,
    CompactionEntry,
    ContextEdit,
    ContextEditEntry,
    Custom,
    CustomMessageEntry,
    Entry,
    KnownEntry,
    Message,
    MessageEntry,
    ModelChangeEntry,
    OpaqueEntry,
    entry_of,
)
from ..events.errors import DialectCannot
from ..events.kinds import RESET_TYPE
from .chain import derived_id

E = TypeVar("E", MessageEntry, ContextEditEntry)
P = TypeVar("P", bound=Content)

KEPT_AS = "treering.opaque"
"""The custom type that wraps a line which another dialect would interpret differently."""


def own_line(dialect: Dialect, entry: OpaqueEntry) -> bytes | None:
    """Return an opaque entry's line, without its newline, or None if `dialect` would not read it as the same entry."""
    line = bytes(entry.raw).strip()
    if b"\n" in line or b"\r" in line:
        return None
    read = dialect.decode(line, entry.seq)
    same = (entry.type, entry.id, entry.parent_id, None)
    return line if isinstance(read, OpaqueEntry) and (read.type, read.id, read.parent_id, read.batch) == same else None


def kept(entry: Entry) -> KnownEntry:
    """Return an entry that any dialect can write; an opaque entry is wrapped in a custom entry in the same place."""
    if not isinstance(entry, OpaqueEntry):
        return entry
    is_reset = entry.type == RESET_TYPE  # it must hide everything before it in any dialect
    return entry_of(
        Compaction("", None, 0) if is_reset else Custom(KEPT_AS, entry.raw),
        id=entry.id or "",
        parent_id=entry.parent_id,
        timestamp=entry.timestamp,
        seq=entry.seq,
        aside=entry.aside,
    )


class SplitOff:
    """The ids of what is split off from entries in a dialect where a message answers only one call.

    Args:
        session_id: The session's id.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._messages: dict[str, int] = {}  # by entry id, how many messages it becomes

    def ids(self, entry: Entry) -> Iterator[str]:
        """Yield the ids of what may precede an entry; entries are passed in order."""
        messages = 1
        if isinstance(entry, MessageEntry):
            results = sum(isinstance(part, ToolResultPart) for part in entry.message.content)
            messages = self._messages[entry.id] = max(1, results + (results < len(entry.message.content)))
        elif isinstance(entry, ContextEditEntry):
            messages = self._messages.get(entry.context_edit.target_id, 1)
        yield from (_split_id(self._session_id, entry.id or "", number) for number in range(1, messages))


def _split_id(session_id: str, entry_id: str, number: int) -> str:
    return derived_id(session_id, entry_id, f"answer {number}")


class _Piece(NamedTuple):
    """A message that was split off: its id, and the call that it answers, or None for the rest of the message."""

    id: str
    call_id: str | None


class Restated:
    """A converter that rewrites the entries of one session, passed in order, for a file of another dialect.

    Args:
        dialect: The dialect of the target file.
        session_id: The session's id, from which new entry ids are derived.
        models: For each seq, the seq of the entry on its path that names the model; 0 for none. That entry must have
            been passed before.
        whole: Whether the file receives all entries. Otherwise command ids are dropped, since the file might hold only
            some of a command's entries.
    """

    def __init__(self, dialect: Dialect, session_id: str, models: Sequence[int], *, whole: bool) -> None:
        self._dialect = dialect
        self._models = models
        self._model_by_seq: dict[int, tuple[str, str]] = {}
        self._session_id = session_id
        self._whole = whole
        self._tool_names: dict[str, str] = {}
        self._pieces: dict[str, list[_Piece]] = {}  # the messages that an entry was split into, by its id

    def lines(self, entries: list[Entry]) -> bytes:
        """Return the lines of the next entries.

        Raises:
            DialectCannot: The dialect cannot express an entry; the error names it.
        """
        return b"".join(line for entry in entries for line in self._entry_lines(entry))

    def _entry_lines(self, entry: Entry) -> Iterator[bytes]:
        if isinstance(entry, OpaqueEntry) and self._dialect.may_copy(entry.type):
            line = own_line(self._dialect, entry)
            if line is not None:
                yield line + b"\n"
                return
        try:
            self._note_model(entry)
            for converted in self._converted(kept(entry)):
                yield self._dialect.encode(converted, self._model_by_seq.get(self._models[converted.seq]))
        except DialectCannot as error:
            raise DialectCannot(f"entry {entry.id} (seq {entry.seq}) cannot be converted: {error}") from error

    def _note_model(self, entry: Entry) -> None:
        if isinstance(entry, ModelChangeEntry):
            self._model_by_seq[entry.seq] = (entry.model_change.provider, entry.model_change.model_id)
        elif isinstance(entry, MessageEntry) and entry.message.provider is not None and entry.message.model is not None:
            self._model_by_seq[entry.seq] = (entry.message.provider, entry.message.model)

    def _converted(self, entry: KnownEntry) -> Iterator[KnownEntry]:
        aside = entry.aside and self._dialect.can_append_aside
        entry = replace(entry, aside=aside, batch=None, command_id=entry.command_id if self._whole else None)
        if not self._dialect.answers_apart:
            yield entry
        elif isinstance(entry, MessageEntry):
            yield from self._split_messages(replace(entry, message=_supported(entry.message)))
        elif isinstance(entry, CustomMessageEntry):
            custom = entry.custom_message
            yield replace(entry, custom_message=replace(custom, content=_inline(custom.content)))
        elif isinstance(entry, ContextEditEntry):
            yield from self._split_edit(entry)
        elif isinstance(entry, CompactionEntry):
            first_kept_id = entry.compaction.first_kept_entry_id
            if first_kept_id in self._pieces:
                first_kept_id = self._pieces[first_kept_id][0].id
            yield replace(entry, compaction=replace(entry.compaction, first_kept_entry_id=first_kept_id))
        else:
            yield entry

    def _split_messages(self, entry: MessageEntry) -> Iterator[MessageEntry]:
        """Split a message so that each tool result has its own message; the last one keeps the entry's id."""
        message = entry.message
        self._tool_names.update(
            (part.tool_use.id, part.tool_use.name) for part in message.content if isinstance(part, ToolUsePart)
        )
        results = [part for part in message.content if isinstance(part, ToolResultPart)]
        rest = tuple(part for part in message.content if not isinstance(part, ToolResultPart))
        is_single_result = message.role == "tool" and len(results) == len(message.content) == 1
        if not results or is_single_result or message.role not in ("tool", "user"):
            yield entry
            return
        split = [self._result_message(message, part) for part in results]
        calls: list[str | None] = [part.tool_result.tool_use_id for part in results]
        if rest:
            split.append(replace(message, role="user", content=rest, tool_name=None))
            calls.append(None)
        chain = [
            replace(each, message=piece) for each, piece in zip(self._chain(entry, len(split)), split, strict=True)
        ]
        self._pieces[entry.id] = [_Piece(each.id, call_id) for each, call_id in zip(chain, calls, strict=True)]
        yield from chain

    def _split_edit(self, entry: ContextEditEntry) -> Iterator[ContextEditEntry]:
        """Split the edit of a message that was split, so that it applies to all of that message."""
        edit = entry.context_edit
        pieces = self._pieces.get(edit.target_id, [])
        if not pieces:
            yield replace(entry, context_edit=replace(edit, replacement=_unwrapped(edit.replacement)))
            return
        for position, (each, piece) in enumerate(zip(self._chain(entry, len(pieces)), pieces, strict=True)):
            replacement = _of_piece(edit.replacement, piece, is_first=position == 0)
            yield replace(each, context_edit=ContextEdit(piece.id, replacement))

    def _chain(self, entry: E, length: int) -> Iterator[E]:
        """Yield copies of an entry, each below the one before; the last one keeps the entry's id."""
        parent_id = entry.parent_id
        for number in range(1, length):
            split_id = _split_id(self._session_id, entry.id, number)
            yield replace(entry, id=split_id, parent_id=parent_id, command_id=None)
            parent_id = split_id
        yield replace(entry, parent_id=parent_id)

    def _result_message(self, message: Message, part: ToolResultPart) -> Message:
        name = message.tool_name or self._tool_names.get(part.tool_result.tool_use_id)
        return Message("tool", (part,), tool_name=name)


def _unwrapped(replacement: tuple[Content, ...] | None) -> tuple[Content, ...] | None:
    """Return the replacement of a message's content, for a dialect whose tool results are messages of their own."""
    results = [part.tool_result for part in replacement or () if isinstance(part, ToolResultPart)]
    content = _body(results[0]) if results else replacement
    return None if content is None else _inline(content)


def _of_piece(replacement: tuple[Content, ...] | None, piece: _Piece, *, is_first: bool) -> tuple[Content, ...] | None:
    """Return what replaces the content of one of the messages into which a message was split; None for nothing.

    A replacement without results is the content of the first result, as in the context of the original.
    """
    results = [part.tool_result for part in replacement or () if isinstance(part, ToolResultPart)]
    if not results:
        return _unwrapped(replacement) if is_first else None
    if piece.call_id is None:
        rest = tuple(part for part in replacement or () if not isinstance(part, ToolResultPart))
        return _inline(rest) if rest else None
    same_call = [result for result in results if result.tool_use_id == piece.call_id]
    return _inline(_body(same_call[0])) if same_call else None


def _body(result: ToolResult) -> tuple[Content, ...]:
    return (text(result.content),) if isinstance(result.content, str) else result.content


def _supported(message: Message) -> Message:
    """Return a message that pi accepts.

    Tool output that answers no call, and a bash message without its command, become user messages.
    """
    content = _inline(message.content)
    has_results = any(isinstance(part, ToolResultPart) for part in content)
    unsupported = (message.role == "tool" and not has_results) or (
        message.role == "bashExecution" and message.bash is None
    )
    return replace(message, role="user" if unsupported else message.role, content=content)


def _inline(content: tuple[Content, ...]) -> tuple[Content, ...]:
    """Return content in which each image given by a URL is replaced by a text that names it."""
    return tuple(_inline_result(part) if isinstance(part, ToolResultPart) else _image_as_text(part) for part in content)


def _inline_result(part: ToolResultPart) -> ToolResultPart:
    result = part.tool_result
    if isinstance(result.content, str):
        return part
    return ToolResultPart(replace(result, content=tuple(map(_image_as_text, result.content))))


def _image_as_text(part: P) -> P | TextPart:
    if isinstance(part, ImagePart) and part.image.source.type == "url":
        return text(f"[image: {part.image.source.data}]")
    return part
