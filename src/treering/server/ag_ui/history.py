"""Messages: what a page is shown of entries, and what is appended of what it sends.

A message that a page sent keeps its id there: it is in the entry's command id, so sending it again appends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeAlias, cast

from msgspec import Meta, Struct

from ...actors.session.session import Session
from ...events.content import (
    Content,
    ImagePart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    image,
    plain_text,
    text,
    tool_result,
)
from ...events.entries import Entry, Message, MessageEntry, message
from ...events.json_values import JSON
from ...events.stores.base import Cursor
from ..http.problems import Malformed

_SENT = "ag-ui:"
_MESSAGES_MAX = 1000
_AT_ONCE = 64

Shown: TypeAlias = dict[str, Any]
"""A message as the protocol has it."""


class SentMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message that a page sends; those that the session has are passed over.

    Attributes:
        content: A text, or parts: `{"type": "text", "text": …}`, `{"type": "image", "source": …}`.
        tool_call_id: The call that a message of a tool answers.
        error: Why the tool failed.
    """

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    role: str
    content: Any = None  # of this role's form
    tool_call_id: str | None = None
    error: str | None = None


def message_id_of(entry: Entry) -> str:
    """Return the id of an entry's message: that which a page gave it, or else the entry's."""
    sent = entry.command_id
    return sent.removeprefix(_SENT) if sent is not None and sent.startswith(_SENT) else entry.id or ""


def command_id_of(sent: SentMessage) -> str:
    """Return the id of the command that appends a message."""
    return _SENT + sent.id


# -- what a page is shown


class History(Struct):
    """The messages of a path, the last ones, within bounds; and where the session was.

    Attributes:
        messages: The messages, in the order of the path.
        leaf_id: The end of the path.
        cursor: The end of the log.
    """

    messages: list[Shown]
    leaf_id: str | None
    cursor: Cursor


async def history(session: Session, bytes_max: int) -> History:
    """Return the messages of the path to the leaf."""
    log = await session.log()
    index = log.index
    path, shown = index.path(index.leaf), History([], index.leaf_id, log.cursor)
    left = bytes_max
    for end in range(len(path), 0, -_AT_ONCE):
        for entry, size in reversed(await log.sized_entries_in(path[max(0, end - _AT_ONCE) : end])):
            left -= size
            if shown.messages and (left < 0 or len(shown.messages) >= _MESSAGES_MAX):
                shown.messages.reverse()
                return shown
            shown.messages += reversed(messages_of(entry))
    shown.messages.reverse()
    return shown


def messages_of(entry: Entry) -> list[Shown]:
    """Return what a page is shown of an entry, as messages in their order; none of most that are no messages."""
    if not isinstance(entry, MessageEntry):
        return []
    said, id_ = entry.message, message_id_of(entry)
    if said.role == "assistant":
        return [*_reasoning(id_, said), *_answer(id_, said)]
    if said.role == "tool":
        return [
            {"id": result_id, "role": "tool", "toolCallId": call_id, "content": told}
            for result_id, call_id, told in results_of(id_, said)
        ]
    if said.role == "bashExecution" and said.bash is not None:
        return [{"id": id_, "role": "user", "content": f"$ {said.bash.command}\n{said.bash.output}"}]
    if said.role == "user":
        return [{"id": id_, "role": "user", "content": _content(said.content)}]
    if said.role in ("system", "developer"):
        return [{"id": id_, "role": said.role, "content": plain_text(said.content)}]
    return []


def reasoning_id(message_id: str) -> str:
    """Return the id of the reasoning that belongs to an answer."""
    return f"{message_id}/reasoning"


def thoughts_of(said: Message) -> str:
    """Return the reasoning of an answer; "" if there is none, or none that may be read."""
    return "\n".join(part.thinking.content for part in said.content if isinstance(part, ThinkingPart))


def results_of(message_id: str, said: Message) -> Iterator[tuple[str, str, str]]:
    """Yield the results of a message: an id for the message of each, its call, and its text."""
    results = [part.tool_result for part in said.content if isinstance(part, ToolResultPart)]
    for number, result in enumerate(results):
        yield message_id if not number else f"{message_id}/{number}", result.tool_use_id, result.text


def calls_of(said: Message) -> Iterator[tuple[str, str, str]]:
    """Yield the calls of an answer: the id, the tool, and the arguments as JSON."""
    for part in said.content:
        if isinstance(part, ToolUsePart):
            yield part.tool_use.id, part.tool_use.name, part.tool_use.input_text


def _reasoning(id_: str, said: Message) -> list[Shown]:
    thoughts = thoughts_of(said)
    return [{"id": reasoning_id(id_), "role": "reasoning", "content": thoughts}] if thoughts else []


def _answer(id_: str, said: Message) -> list[Shown]:
    shown: Shown = {"id": id_, "role": "assistant", "content": plain_text(said.content)}
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls_of(said)
    ]
    return [{**shown, "toolCalls": calls} if calls else shown]


def _content(parts: Sequence[Content]) -> str | list[Shown]:
    if not any(isinstance(part, ImagePart) for part in parts):
        return plain_text(parts)
    shown: list[Shown] = []
    for part in parts:
        if isinstance(part, ImagePart):
            source = part.image.source
            kind = "url" if source.type == "url" else "data"
            shown.append(
                {"type": "image", "source": {"type": kind, "value": source.data, "mimeType": source.media_type}}
            )
        elif told := plain_text([part]):
            shown.append({"type": "text", "text": told})
    return shown


# -- what a page sends


def payloads_of(sent: Iterable[SentMessage], open_calls: frozenset[str]) -> list[tuple[str, Message]]:
    """Return what is to be appended of messages that a page sends, each with its command id.

    Those are a person's messages, and the results of calls that are open. All others are what the session said.

    Args:
        sent: The messages that the session does not have.
        open_calls: The ids of the session's open calls.

    Raises:
        Malformed: A message has no content of its role's form.
    """
    payloads: list[tuple[str, Message]] = []
    for each in sent:
        if each.role == "user":
            payloads.append((command_id_of(each), message("user", _parts(each))))
        elif each.role == "tool" and each.tool_call_id in open_calls:
            told = tool_result(each.tool_call_id, plain_text(_parts(each)), is_error=each.error is not None)
            payloads.append((command_id_of(each), message("tool", [told])))
    return payloads


def _parts(sent: SentMessage) -> list[Content]:
    if isinstance(sent.content, str):
        return [text(sent.content)]
    content: object = sent.content
    if not isinstance(content, list):
        raise Malformed(f"the message {sent.id!r} has no content: send a text, or a list of parts")
    return [_part(sent.id, part) for part in cast("list[JSON]", content)]  # as it was parsed


def _part(message_id: str, part: JSON) -> Content:
    match part:
        case {"type": "text", "text": str(said)}:
            return text(said)
        case {"type": "image", "source": {"type": "data", "value": str(data), "mimeType": str(media_type)}}:
            return image(data, media_type)
        case {"type": "binary", "mimeType": str(kind), "data": str(data)} if kind.startswith("image/"):
            return image(data, kind)  # as releases of the protocol before the parts for images sent it
        case {"type": "binary", "mimeType": str(kind), "url": str(url)} if kind.startswith("image/"):
            return image(url, kind, kind="url")
        case {"type": "image", "source": {"type": "url", "value": str(url), **more}}:
            named = more.get("mimeType")
            return image(url, named if isinstance(named, str) else "image/*", kind="url")
        case _:
            raise Malformed(f"a part of the message {message_id!r} is neither a text nor an image: leave it out")
