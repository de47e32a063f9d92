"""The ids of calls as a server takes them, which refuses the whole request for one that it does not.

A session may come from another program, or have been answered by another provider, whose ids are longer or hold other
characters. An id that is not taken gives way to one that follows from it, so that a call and its result stay together
and a request begins as the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

from msgspec.structs import replace

from ..events.content import Content, ToolResultPart, ToolUsePart
from ..events.entries import Message


def with_ids(messages: Iterable[Message], taken: re.Pattern[str]) -> list[Message]:
    """Return messages in which the ids of calls and results are of a form, as a whole."""
    return [_with_ids(message, taken) for message in messages]


def _with_ids(message: Message, taken: re.Pattern[str]) -> Message:
    content = tuple([_with_id(part, taken) for part in message.content])
    return message if content == message.content else replace(message, content=content)


def _with_id(part: Content, taken: re.Pattern[str]) -> Content:
    if isinstance(part, ToolUsePart) and not taken.fullmatch(part.tool_use.id):
        return ToolUsePart(replace(part.tool_use, id=_following(part.tool_use.id)))
    if isinstance(part, ToolResultPart) and not taken.fullmatch(part.tool_result.tool_use_id):
        return ToolResultPart(replace(part.tool_result, tool_use_id=_following(part.tool_result.tool_use_id)))
    return part


def _following(call_id: str) -> str:
    return blake2b(call_id.encode(), digest_size=16).hexdigest()
