"""Messages of Google's Gemini interface: contents that are made of parts.

    {"role": "model", "parts": [{"function_call": {"id": "call_1", "name": "read_file", "args": {"path": "main.go"}}}]}
    {"role": "user", "parts": [{"function_response": {"id": "call_1", "name": "read_file", "response": {"output": "..."}}}]}

Keys are read in both spellings (`inline_data`, `inlineData`) and written in the first. A user's message that holds
function responses alone is read as one of role tool. What is left out: read, hints on how finely to look at a video or
an image, and an image's signature; written, empty text and thinking that have no signature. A tool's image goes beside
its answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec import Struct

from ..content import (
    JSON,
    Content,
    ImagePart,
    Text,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolResultPart,
    ToolUse,
    ToolUsePart,
    image,
    raw_json,
    tool_result,
)
from ..entries import Message
from ..errors import InvalidEntry
from .reading import ANY_IMAGE, Block, image_at, images_of, read, result_text
from .rendering import in_turns

_KEY = re.compile("(?<!^)[A-Z]")
_FREE = frozenset({"args", "response", "video_metadata", "videoMetadata", "media_resolution", "mediaResolution"})
_MEMBERS = ("text", "inline_data", "file_data", "function_call", "function_response")
_ROLES = {"user": "user", "model": "assistant", "function": "user", "system": "system"}


class GooglePrompt(NamedTuple):
    """What a request takes: the system's instruction apart, if there is one, and contents of user and model in turn."""

    system_instruction: Block | None
    contents: list[Block]


class _Blob(Struct):
    mime_type: str
    data: str


class _File(Struct):
    file_uri: str
    mime_type: str | None = None


class _Call(Struct):
    name: str
    args: dict[str, Any] | None = None
    id: str | None = None


class _Response(Struct):
    name: str
    response: dict[str, Any] | None = None
    id: str | None = None


class _Part(Struct, forbid_unknown_fields=True):
    text: str | None = None
    inline_data: _Blob | None = None
    file_data: _File | None = None
    function_call: _Call | None = None
    function_response: _Response | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    video_metadata: Any = None
    media_resolution: Any = None


class _Message(Struct):
    parts: list[_Part]
    role: str = "user"


def from_google(message: Mapping[str, object], *, prefix: str = "call") -> Message:
    """Read one of a request's contents, the content of an answer, or a system instruction given the role system.

    Args:
        message: The content.
        prefix: How the ids begin that are made up for calls and responses that have none: the second `read_file` of a
            message is "call_read_file_2". Give each turn a prefix of its own to keep its calls apart from other turns'.

    Raises:
        InvalidEntry: It holds what a message cannot hold, such as code to execute or audio; the error names the place
            as a JSON path.
    """
    given = read(_snake(message), _Message, "Google")
    if given.role not in _ROLES:
        raise InvalidEntry(f"Invalid value {given.role!r} - at `$.role` of a message of Google")
    counts: Counter[str] = Counter()
    parts: list[Content] = []
    for position, part in enumerate(given.parts):
        named = part.function_call or part.function_response
        made_up = ""
        if named:
            counts[named.name] += 1
            made_up = f"{prefix}_{re.sub('[^A-Za-z0-9_-]', '_', named.name)}_{counts[named.name]}"
        parts.append(_from_part(part, made_up, f"$.parts[{position}]"))
    role, names = _ROLES[given.role], [part.function_response.name for part in given.parts if part.function_response]
    if role == "user" and names and len(names) == len(parts):
        return Message("tool", tuple(parts), tool_name=names[0] if len(names) == 1 else None)
    return Message(role, tuple(parts))


def _from_part(part: _Part, made_up: str, place: str) -> Content:
    """Read a part that has just one member; `made_up` is the id of a call that has none."""
    members = [name for name in _MEMBERS if getattr(part, name) is not None]
    if len(members) != 1:
        raise InvalidEntry(f"a part must have one of {', '.join(_MEMBERS)}, not {members} - at `{place}`")
    if part.function_call is not None:
        call = part.function_call
        return ToolUsePart(ToolUse(call.id or made_up, call.name, raw_json(call.args or {}), part.thought_signature))
    if part.function_response is not None:
        return _from_response(part.function_response, made_up)
    if part.inline_data is not None:
        _require_image(part.inline_data.mime_type, f"{place}.inline_data.mime_type")
        return image(part.inline_data.data, part.inline_data.mime_type)
    if part.file_data is not None:
        found = image_at(part.file_data.file_uri, part.file_data.mime_type)
        _require_image(found.image.source.media_type, f"{place}.file_data.mime_type")
        return found
    content = part.text or ""
    if part.thought:
        return ThinkingPart(Thinking(content, part.thought_signature))
    return TextPart(Text(content, part.thought_signature))


def _require_image(media_type: str, place: str) -> None:
    if not media_type.startswith("image/"):
        raise InvalidEntry(f"Expected an image, got {media_type!r} - at `{place}` of a message of Google")


def _from_response(given: _Response, made_up: str) -> ToolResultPart:
    response = given.response or {}
    content = response.get("output", response.get("error", ""))
    if len(response) > 1 or not isinstance(content, str) or not response.keys() <= {"output", "error"}:
        content = bytes(raw_json(response)).decode()
    return tool_result(given.id or made_up, content, is_error=response.keys() == {"error"})


def _snake(block: Mapping[str, object]) -> dict[str, object]:
    """Spell the keys of a content, its parts and their members in snake_case, but not those of arguments and answers."""
    return {
        _KEY.sub(lambda found: f"_{found[0].lower()}", key): value if key in _FREE else _snake_within(value)
        for key, value in block.items()
    }


def _snake_within(value: object) -> object:
    if isinstance(value, Mapping):
        return _snake(cast("Mapping[str, object]", value))
    return [_snake_within(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


def to_google(messages: Sequence[Message]) -> GooglePrompt:
    """Write contents; roles that no provider knows are rendered as a user's text.

    System messages are gathered wherever they stand. Neighbours of one role become one content, since the responses to
    calls that were made together must come together.
    """
    names = {
        part.tool_use.id: part.tool_use.name
        for message in messages
        for part in message.content
        if isinstance(part, ToolUsePart)
    }
    for message in messages:
        for part in message.content:
            if isinstance(part, ToolResultPart):
                result = part.tool_result
                names.setdefault(result.tool_use_id, message.tool_name or result.tool_use_id)
    system, turns = in_turns(messages, for_google=True)
    instruction: list[JSON] = [{"text": part.text.content} for part in system]
    contents: list[Block] = []
    for role, content in turns:
        parts: list[JSON] = [_to_part(part, names) for part in content]
        shown = [part for each in content if isinstance(each, ToolResultPart) for part in images_of(each.tool_result)]
        parts += map(_to_image, shown)
        contents.append({"role": "model" if role == "assistant" else "user", "parts": parts})
    return GooglePrompt({"parts": instruction} if instruction else None, contents)


def _to_part(part: Content, names: Mapping[str, str]) -> Block:
    match part:
        case TextPart():
            return _signed({"text": part.text.content}, part.text.signature)
        case ThinkingPart():
            return _signed({"text": part.thinking.content, "thought": True}, part.thinking.signature)
        case ImagePart():
            return _to_image(part)
        case ToolUsePart():
            call = part.tool_use
            return _signed({"function_call": {"id": call.id, "name": call.name, "args": call.input}}, call.signature)
        case ToolResultPart():
            result = part.tool_result
            response: Block = {"error" if result.is_error else "output": result_text(result)}
            name = names[result.tool_use_id]
            return {"function_response": {"id": result.tool_use_id, "name": name, "response": response}}


def _signed(block: Block, signature: str | None) -> Block:
    return block if signature is None else {**block, "thought_signature": signature}


def _to_image(part: ImagePart) -> Block:
    source = part.image.source
    if source.type == "url":
        kind: Block = {} if source.media_type == ANY_IMAGE else {"mime_type": source.media_type}
        return {"file_data": {**kind, "file_uri": source.data}}
    return {"inline_data": {"mime_type": source.media_type, "data": source.data}}
