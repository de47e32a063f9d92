"""What a model is shown of sessions and entries: without secrets, and bounded.

Whatever a client gets may go to the provider of a model, so each text is redacted (see `events.redaction`), as a whole,
before anything is cut off: what remains of a secret that was cut might not be recognized. Ids stay as they are, since
they are how a client asks for more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

import anyio.to_thread
import msgspec
from msgspec import Struct

from ..events.content import Content, ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart
from ..events.entries import Entry, MessageEntry, OpaqueEntry, payload_of
from ..events.redaction import Redaction
from ..projections.summary import SessionSummary

OUTPUT_CHARS_MAX = 24_000
"""About how many characters one answer may have; models read no more than some ten thousand tokens of a tool."""

ENTRY_CHARS_MAX = 4_000
"""How much of one entry a page shows."""

_WORD_CHARS_MAX = 300
_CUT = "…"
_INLINE_BYTES_MAX = 64 * 1024
"""Size of a line up to which its entry is redacted on the event loop."""

T = TypeVar("T")


class ShownSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as an answer shows it; see `SessionSummary` for what fields mean. The status "active" is left out."""

    id: str
    title: str | None = None
    key: str | None = None
    project: str | None = None
    state: str | None = None
    status: str | None = None
    archived: bool = False
    messages: int
    last_entry: datetime
    parent_session: str | None = None


class ShownEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry as an answer shows it.

    Attributes:
        id: Its id.
        role: The role of a message, or the type of another entry.
        at: When it was appended.
        text: What it says, or the beginning.
        chars: How long it is, if `text` is not all of it.
        label: Its label.
    """

    id: str
    role: str
    at: datetime
    text: str
    chars: int | None = None
    label: str | None = None


def word(text: str | None, redaction: Redaction) -> str | None:
    """Return a name, a label or the like, which people keep short."""
    if text is None:
        return None
    if text.endswith(_CUT):  # a title that was cut from a message, perhaps in the middle of a secret
        text = f"{text.rpartition(' ')[0]} {_CUT}"
    shown = redaction.text(text)
    return shown if len(shown) <= _WORD_CHARS_MAX else shown[:_WORD_CHARS_MAX] + _CUT


def session_shown(row: SessionSummary, redaction: Redaction) -> ShownSession:
    """Return a session's row as an answer shows it."""
    return ShownSession(
        id=row.id,
        title=word(row.title, redaction),
        key=word(row.key, redaction),
        project=word(row.project, redaction),
        state=None if row.state is None else row.state.state,
        status=None if row.status == "active" else word(row.status, redaction),
        archived=row.archived,
        messages=row.message_count,
        last_entry=row.last_entry,
        parent_session=word(row.parent_session, redaction),
    )


def role_of(entry: Entry) -> str:
    """Return the role of a message, or the type of another entry."""
    return entry.message.role if isinstance(entry, MessageEntry) else entry.type


def entry_shown(entry: Entry, text: str, label: str | None, redaction: Redaction) -> ShownEntry:
    """Return an entry as a page shows it, given its whole text."""
    return ShownEntry(
        id=entry.id or "",
        role=word(role_of(entry), redaction) or "",
        at=entry.timestamp,
        text=text[:ENTRY_CHARS_MAX],
        chars=len(text) if len(text) > ENTRY_CHARS_MAX else None,
        label=word(label, redaction),
    )


async def redacted(entry: Entry, size: int, redaction: Redaction) -> Entry:
    """Return an entry without its secrets; of one with a long line, that is found out in a thread."""
    run = partial(redaction.entry, entry)
    return run() if size <= _INLINE_BYTES_MAX else await anyio.to_thread.run_sync(run)


def text_of(entry: Entry) -> str:
    """Return all that an entry says, as a text."""
    if isinstance(entry, OpaqueEntry):
        return f"[an entry of the type {entry.type}: {entry.reason}]"
    if isinstance(entry, MessageEntry):
        said = entry.message
        pieces = [*map(_part_text, said.content)]
        if said.bash is not None:
            pieces += [f"$ {said.bash.command}", said.bash.output]
        if said.error:
            pieces.append(f"[error: {said.error}]")
    else:
        payload = payload_of(entry)
        pieces = [*payload.searched()] or [payload.preview(lambda entry_id: entry_id)]
    return "\n".join(piece for piece in pieces if piece)


def _part_text(part: Content) -> str:
    match part:
        case TextPart():
            return part.text.content
        case ThinkingPart():
            return f"[thinking: {part.thinking.content}]" if part.thinking.content else ""
        case ToolUsePart():
            return f"[call of {part.tool_use.name}: {part.tool_use.input_text}]"
        case ToolResultPart():
            mark = "error" if part.tool_result.is_error else "result"
            return f"[{mark}: {part.tool_result.text}]"
        case ImagePart():
            return f"[image, {part.image.source.media_type}]"


def within(items: Iterable[T]) -> list[T]:
    """Return the first items that one answer has room for, at least one."""
    kept: list[T] = []
    left = OUTPUT_CHARS_MAX
    for item in items:
        left -= size_of(item)
        if kept and left < 0:
            break
        kept.append(item)
    return kept


def size_of(item: object) -> int:
    """Return about how many characters an item takes."""
    return len(msgspec.json.encode(item))


def spread(start: int, count: int) -> Sequence[int]:
    """Return the numbers below a count by their distance from one of them."""
    return sorted(range(count), key=lambda at: abs(at - start))
