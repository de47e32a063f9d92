"""Calls in a form that both sides accept: ids and names for a server, arguments for the log.

A session may come from another program or provider, whose ids and names are longer or contain other characters, and
some servers use the same ids in every answer; a single one that a server does not accept would make it reject the whole
request. Such an id or name is replaced by one derived from it, so that a call and its result still match and
consecutive requests have the same beginning. Arguments should be a JSON object, and sometimes are not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..actors.agents.model import MALFORMED_ARGUMENTS
from ..events.content import Content, ToolResultPart, ToolUsePart
from ..events.entries import Message
from ..events.json_values import raw_json
from ..events.texts import whole_json

CUT_OFF = frozenset({"length", "refusal"})
"""The stop reasons with which an answer may end in the middle of its last call."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS_MAX = 64


def with_ids(messages: Iterable[Message], accepted: re.Pattern[str], *, unique: bool = False) -> list[Message]:
    """Return messages in which all ids of calls and results match a pattern completely.

    Args:
        messages: The messages, oldest first.
        accepted: The pattern.
        unique: Whether the server rejects an id that an earlier turn has used, too.
    """
    ids = _Ids(accepted, unique)
    return [_with_content(message, [ids.accepted(part) for part in message.content]) for message in messages]


def with_names(messages: Iterable[Message], tools: AbstractSet[str]) -> list[Message]:
    """Return messages in which all names of called tools have the form that OpenAI and Anthropic accept.

    Args:
        messages: The messages.
        tools: The names of the tools in the request, which are kept in any form: the calls must not differ from them.
    """
    return [_with_content(message, [_named(part, tools) for part in message.content]) for message in messages]


class _Ids:
    def __init__(self, accepted: re.Pattern[str], unique: bool) -> None:
        self._accepted = accepted
        self._unique = unique
        self._uses: Counter[str] = Counter()

    def accepted(self, part: Content) -> Content:
        """Return a part with an accepted id. The result of a call belongs to the latest call with its id."""
        if isinstance(part, ToolUsePart):
            self._uses[part.tool_use.id] += 1
            accepted_id = self._accepted_id(part.tool_use.id)
            return part if accepted_id == part.tool_use.id else ToolUsePart(replace(part.tool_use, id=accepted_id))
        if isinstance(part, ToolResultPart):
            accepted_id = self._accepted_id(part.tool_result.tool_use_id)
            if accepted_id != part.tool_result.tool_use_id:
                return ToolResultPart(replace(part.tool_result, tool_use_id=accepted_id))
        return part

    def _accepted_id(self, call_id: str) -> str:
        use = self._uses[call_id]
        if self._unique and use > 1:
            return _derived_id(f"{call_id}\n{use}")
        return call_id if self._accepted.fullmatch(call_id) else _derived_id(call_id)


def _named(part: Content, tools: AbstractSet[str]) -> Content:
    if not isinstance(part, ToolUsePart) or part.tool_use.name in tools:
        return part
    name = _NOT_IN_NAMES.sub("_", part.tool_use.name)[:_NAME_CHARS_MAX] or "unknown"
    return part if name == part.tool_use.name else ToolUsePart(replace(part.tool_use, name=name))


def _with_content(message: Message, content: list[Content]) -> Message:
    if all(new is old for new, old in zip(content, message.content, strict=True)):
        return message
    return replace(message, content=tuple(content))


def _derived_id(call_id: str) -> str:
    return blake2b(call_id.encode(), digest_size=16).hexdigest()


def arguments_of(written: str, *, cut: bool) -> str:
    """Return arguments as a JSON object: as written, or under a key that marks them as malformed.

    Args:
        written: The joined fragments of the arguments; an empty text means an empty object.
        cut: The answer was cut off in the middle, so an empty text means arguments that never arrived.
    """
    if not written.strip() and not cut:
        return "{}"
    for encode in (str.encode, _with_whole_characters):
        try:
            encoded = encode(written)
            msgspec.json.decode(encoded, type=dict[str, Any])
            raw_json(Raw(encoded))  # rejects arguments that are nested too deep to be stored
        except (ValueError, RecursionError):
            continue
        return encoded.decode()
    return msgspec.json.encode({MALFORMED_ARGUMENTS: written}).decode()


def _with_whole_characters(written: str) -> bytes:
    """Replace lone surrogates, as left by cutting a string, by U+FFFD."""
    return whole_json(written.encode())
