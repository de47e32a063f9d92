"""Call ids in the form that a server accepts; a single other id would make it reject the whole request.

A session may come from another program or provider, whose ids are longer or contain other characters. An id that the
server would not accept is replaced by one derived from it, so that a call and its result still match and consecutive
requests have the same beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

from msgspec.structs import replace

from ..events.content import Content, ToolResultPart, ToolUsePart
from ..events.entries import Message


def with_ids(messages: Iterable[Message], accepted: re.Pattern[str]) -> list[Message]:
    """Return messages in which all ids of calls and results match a pattern completely."""
    return [_with_ids(message, accepted) for message in messages]


def _with_ids(message: Message, accepted: re.Pattern[str]) -> Message:
    content = tuple([_with_id(part, accepted) for part in message.content])
    return message if content == message.content else replace(message, content=content)


def _with_id(part: Content, accepted: re.Pattern[str]) -> Content:
    if isinstance(part, ToolUsePart) and not accepted.fullmatch(part.tool_use.id):
        return ToolUsePart(replace(part.tool_use, id=_derived_id(part.tool_use.id)))
    if isinstance(part, ToolResultPart) and not accepted.fullmatch(part.tool_result.tool_use_id):
        return ToolResultPart(replace(part.tool_result, tool_use_id=_derived_id(part.tool_result.tool_use_id)))
    return part


def _derived_id(call_id: str) -> str:
    return blake2b(call_id.encode(), digest_size=16).hexdigest()
