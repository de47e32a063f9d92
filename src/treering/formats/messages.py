"""Messages of programs whose messages are a role and a text: reading them, and writing what a path holds in that form.

Read is the format of chat completions as programs store it, less strict than what the API accepts:

    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "function": {"name": "read_file", "arguments": {"path": "main.go"}}}]}
    {"role": "tool", "tool_call_id": "call_1", "name": "read_file", "content": "package main"}

Arguments may be an object or a string that holds one, and a call's name may be in its `function` or beside it. A call
that Google signed has its signature in `extra_content`, as in Google's own form of chat completions. Images may be in
`content_parts`, which repeats the text.

`simple_messages` gives what is written. Such programs have one message per tool result and no place for treering's
other entry types: an extension's message and a branch summary become user text, the form in which a model receives
them. A compaction summary does not become a message; each format decides where to keep it.

`Preambles` tells what programs write themselves in messages of the user: the environment, instructions, notices. Nobody
asked for anything with these words. A message that has no others is marked as `is_meta` in its metadata; if one begins
or ends with them, `asked` tells where in its text the user's own words begin and end. See `kinds.asked_text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from ..events.content import (
    Content,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUse,
    ToolUsePart,
    plain_text,
    text,
    thinking,
    tool_result,
)
from ..events.entries import BranchSummaryEntry, CustomMessageEntry, Entry, Message, MessageEntry
from ..events.json_values import JSON
from ..events.providers.common import image_at, rendered
from .chain import derived_id
from .json_lines import Notes
from .values import Object, as_arguments, as_items, as_list, as_object, as_text, as_words

_CALL_FIELDS = frozenset({"arguments", "extra_content", "function", "id", "index", "name", "type"})
_FUNCTION_FIELDS = frozenset({"arguments", "name", "thought_signature"})
_PART_FIELDS = frozenset({"cache_control", "image_url", "text", "type"})
_ATTACHMENT_FIELDS = frozenset({"content_type", "filename", "ref", "type", "url"})
_UNREAD_OF_RESULT = ("reasoning_content", "tool_calls")
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "tool": "tool"}


def read_message(source: Object, notes: Notes) -> Message | None:
    """Read a message; return None if it has no known role, or is a tool result without a call id.

    Args:
        source: The message as stored.
        notes: Gets the parts and calls that are left out.
    """
    role = _ROLES.get(as_text(source.get("role")))
    content_parts = _content_parts(source, notes)
    if role == "tool":
        call_id = as_text(source.get("tool_call_id"))
        if not call_id:
            return None
        for name in _UNREAD_OF_RESULT:
            if source.get(name):
                notes.leave_out(f"result field {name}", source[name])
        body = (
            content_parts if any(isinstance(part, ImagePart) for part in content_parts) else plain_text(content_parts)
        )
        return Message("tool", (tool_result(call_id, body),), tool_name=as_text(source.get("name")) or None)
    if role is None:
        return None
    calls: list[ToolUsePart] = []
    for each in as_items(source.get("tool_calls")):
        call = read_call(as_object(each))
        if call is not None:
            calls.append(call)
            check_call(as_object(each), notes)
        else:
            notes.leave_out("call without a name", each)
    parts: list[Content] = []
    if reasoning := as_words(source.get("reasoning_content")):
        parts.append(thinking(reasoning))
    if not (calls and content_parts == [text("")]):
        parts += content_parts
    parts += calls
    return Message(role, tuple(parts))


def read_call(source: Object) -> ToolUsePart | None:
    """Read a tool call; return None if it does not name a tool."""
    function = as_object(source.get("function"))
    name = as_text(function.get("name")) or as_text(source.get("name"))
    if not name:
        return None
    arguments = function.get("arguments", source.get("arguments"))
    google = as_object(as_object(source.get("extra_content")).get("google"))
    signature = as_text(google.get("thought_signature")) or as_text(function.get("thought_signature"))
    return ToolUsePart(ToolUse(as_text(source.get("id")), name, as_arguments(arguments), signature or None))


def check_call(source: Object, notes: Notes) -> None:
    """Note the fields of a tool call that carry text and that are not read."""
    notes.check_fields("call", source, _CALL_FIELDS)
    notes.check_fields("call", as_object(source.get("function")), _FUNCTION_FIELDS)


def _content_parts(source: Object, notes: Notes) -> list[TextPart | ImagePart]:
    content_parts: list[TextPart | ImagePart] = []
    content = source.get("content")
    for each in content if isinstance(content, list) else [] if content is None else [content]:
        content_parts += _noted_parts(each, notes)
    content_parts += _repeated_parts(source, content_parts, notes)
    addresses = as_list(source.get("media"))
    for address in addresses:
        if isinstance(address, str) and address:
            content_parts.append(image_at(address))
        elif address:
            notes.leave_out("message field media", address)
    for attachment in as_items(source.get("attachments")):
        if isinstance(attachment, dict):
            content_parts += _attached(attachment, addresses)
        notes.check_items("message field attachments", [attachment])
        notes.check_fields("attachment", as_object(attachment), _ATTACHMENT_FIELDS)
    return content_parts


def _noted_parts(value: JSON, notes: Notes) -> list[TextPart | ImagePart]:
    """Read a part, and note what of it is not read."""
    found = _parts(value)
    if found:
        notes.check_fields("part", as_object(value), _PART_FIELDS)
        notes.check_strings("part", as_object(value), "text")
    else:
        notes.leave_out(f"part of kind {as_text(as_object(value).get('type')) or 'unknown'}", value)
    return found


def _repeated_parts(
    source: Object, content: list[TextPart | ImagePart], notes: Notes
) -> Iterator[TextPart | ImagePart]:
    """Yield what the fields that repeat the content hold beyond it: texts, and images unless they are in `media`."""
    said = plain_text(content)
    for name in ("system_parts", "content_parts"):
        for each in as_items(source.get(name)):
            for part in _noted_parts(each, notes):
                if part.text.content not in said if isinstance(part, TextPart) else "media" not in source:
                    yield part


def _attached(attachment: Object, shown: list[JSON]) -> list[TextPart | ImagePart]:
    """Read a file sent along with a message: an image, or a text that names it; [] if `media` has its address."""
    address, reference = as_text(attachment.get("url")), as_text(attachment.get("ref"))
    media_type, name = as_text(attachment.get("content_type")), as_text(attachment.get("filename"))
    if any(each and each in shown for each in (address, reference)):
        return []
    if address and (media_type.startswith("image/") or attachment.get("type") == "image"):
        return [image_at(address, media_type or None)]
    return [text(f"[file: {name or address or reference or media_type or 'unknown'}]")]


def _parts(value: JSON) -> list[TextPart | ImagePart]:
    """Read a part of the content: a string, a text, an image, or a text with an image; [] if it is none of these."""
    fields = as_object(value)
    url, words = fields.get("image_url"), value if isinstance(value, str) else fields.get("text")
    address = as_text(as_object(url).get("url")) or as_text(url)
    found: list[TextPart | ImagePart] = [text(words)] if isinstance(words, str) else []
    return [*found, image_at(address)] if address else found


class SimpleMessage(Struct, frozen=True):
    """One message with one role.

    Attributes:
        id: The entry's id, or one derived from it for the second and later messages of an entry.
        entry_id: The id of the entry that it comes from.
        time: The entry's time.
        message: The message, of role user, assistant, system or tool; a tool message has exactly one result.
    """

    id: str
    entry_id: str
    time: datetime
    message: Message

    @property
    def role(self) -> str:
        """The message's role."""
        return self.message.role

    @property
    def shown(self) -> tuple[Content, ...]:
        """Its content; for a tool message, the content of the result."""
        result = self.result
        if result is None:
            return self.message.content
        return (text(result.content),) if isinstance(result.content, str) else result.content

    @property
    def text(self) -> str:
        """Its text, with a placeholder for each image, for programs that support only text."""
        return "\n".join(
            f"[image: {part.image.source.media_type}]" if isinstance(part, ImagePart) else part.text.content
            for part in self.shown
            if isinstance(part, (TextPart, ImagePart))
        )

    @property
    def words(self) -> str:
        """Its text, without images."""
        return plain_text(self.shown)

    @property
    def images(self) -> list[ImagePart]:
        """Its images."""
        return [part for part in self.shown if isinstance(part, ImagePart)]

    @property
    def thought(self) -> str:
        """The model's thinking."""
        return "\n".join(part.thinking.content for part in self.message.content if isinstance(part, ThinkingPart))

    @property
    def calls(self) -> list[ToolUse]:
        """The tool calls."""
        return [part.tool_use for part in self.message.content if isinstance(part, ToolUsePart)]

    @property
    def result(self) -> ToolResult | None:
        """The tool result; None if this is not a tool message."""
        results = [part.tool_result for part in self.message.content if isinstance(part, ToolResultPart)]
        return results[0] if results else None


def simple_messages(entries: Iterable[Entry]) -> Iterator[SimpleMessage]:
    """Yield the messages of entries, oldest first."""
    for entry in entries:
        message = message_of(entry)
        if message is None or entry.id is None or is_empty_answer(message):
            continue
        for position, part in enumerate(_split_results(message)):
            message_id = entry.id if position == 0 else derived_id("spoken", entry.id, str(position))
            yield SimpleMessage(message_id, entry.id, entry.timestamp, part)


def message_of(entry: Entry) -> Message | None:
    """Return an entry's message in the form in which a model receives it; None if the entry has no message."""
    if isinstance(entry, MessageEntry):
        return rendered(entry.message)
    if isinstance(entry, CustomMessageEntry):
        return rendered(Message("custom", entry.custom_message.content))
    if isinstance(entry, BranchSummaryEntry) and entry.branch_summary.summary:
        return rendered(Message("branchSummary", (text(entry.branch_summary.summary),)))
    return None


def is_system(entry: Entry) -> bool:
    """Tell whether an entry is a system message; those before a compaction still count after it."""
    return isinstance(entry, MessageEntry) and entry.message.role == "system"


def is_empty_answer(message: Message) -> bool:
    """Tell whether an answer failed before it had content; providers reject a request with such an answer."""
    return message.role == "assistant" and not message.content


def _split_results(message: Message) -> Iterator[Message]:
    """Yield one message for each tool result, then one with the remaining content."""
    results = [part for part in message.content if isinstance(part, ToolResultPart)]
    for part in results:
        yield replace(message, role="tool", content=(part,))
    rest = tuple(part for part in message.content if not isinstance(part, ToolResultPart))
    if rest or not results:
        yield replace(message, content=rest) if results else message


class Preambles:
    """The texts that one program writes.

    Args:
        block: Matches one that ends by itself, so that words of the user may follow in the same text.
        whole: Matches the beginning of one that takes the whole text.
    """

    def __init__(self, block: str, whole: str) -> None:
        self._block = re.compile(rf"\s*(?:{block})\s*", re.DOTALL | re.IGNORECASE)
        self._whole = re.compile(rf"\s*(?:{whole})", re.IGNORECASE)

    def length(self, text: str) -> int:
        """Return how many characters at the beginning of a text the program wrote."""
        end = 0
        while (found := self._block.match(text, end)) is not None:
            end = found.end()
        return len(text) if self._whole.match(text, end) is not None else end


def tagged(*names: str) -> str:
    """Return a pattern of what stands between the tags of one of these names."""
    return rf"<(?P<tag>{'|'.join(names)})\b[^>]*>.*?</(?P=tag)>"


def opened(*names: str) -> str:
    """Return a pattern of a tag of one of these names."""
    return rf"<(?:{'|'.join(names)})\b"


def marks_of(content: Sequence[Content], length: Callable[[int, TextPart], int]) -> Object:
    """Return the metadata that tells what of a user's message the program wrote.

    Args:
        content: The content of the message.
        length: Returns how many characters at the beginning of a text part the program wrote, given its position too.
    """
    lengths = [length(at, part) if isinstance(part, TextPart) else -1 for at, part in enumerate(content)]
    asked = [
        at for at, part in enumerate(content) if not isinstance(part, TextPart) or lengths[at] < len(part.text.content)
    ]
    if not any(own > 0 for own in lengths):
        return {}
    if not asked:
        return {"is_meta": True}
    words, first, last = plain_text(content), asked[0], asked[-1]
    start = len(words) - len(plain_text(content[first:])) + max(0, lengths[first])
    end = len(plain_text(content[: last + 1]))
    return {"asked": [start, end]} if (start, end) != (0, len(words)) else {}
