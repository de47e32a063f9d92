"""Reading and writing of messages in the form of Google's Gemini interface: contents made of parts.

    {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "read_file", "args": {"path": "main.go"}}}]}
    {"role": "user", "parts": [{"function_response": {"id": "c1", "name": "read_file", "response": {"output": "..."}}}]}

Keys are read in both spellings (`inline_data`, `inlineData`) and written in the first. A user's message that holds
only function responses is read as one of role tool. A member that is null counts as absent, and the bytes of an image
may be base64 of either alphabet: Google's own library writes both. Reading leaves out hints on the resolution of a
video or an image, and an image's signature. Writing leaves out empty text and thinking that have no signature. A tool's
image is read beside or within its result, and written beside it.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec import Struct

from ..content import (
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
    plain_text,
    text,
    tool_result,
)
from ..entries import Message
from ..errors import InvalidEntry
from ..json_values import JSON, raw_json
from .common import ANY_IMAGE, Block, image_at, images_of, in_turns, named_image, read, result_text, with_true_type

_KEY = re.compile("(?<!^)[A-Z]")
_FREE = frozenset({"args", "response", "video_metadata", "videoMetadata", "media_resolution", "mediaResolution"})
_MEMBERS = ("text", "inline_data", "file_data", "function_call", "function_response")
UNSIGNED = "skip_thought_signature_validator"
"""What Google accepts as the signature of a call that it did not sign, in all of its interfaces."""

_PLACEHOLDERS = frozenset(
    each
    for word in (UNSIGNED, "context_engineering_is_the_way_to_go")
    for each in (word, b64encode(word.encode()).decode(), urlsafe_b64encode(word.encode()).decode())
)
_STANDARD_BASE64 = str.maketrans("-_", "+/")
_ROLES = {"user": "user", "model": "assistant", "function": "user", "system": "system"}


class GooglePrompt(NamedTuple):
    """The parameters of a request: the system instruction, if any, and alternating contents of user and model."""

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


class _ResponsePart(Struct, forbid_unknown_fields=True):
    inline_data: _Blob | None = None
    file_data: _File | None = None
    video_metadata: Any = None
    media_resolution: Any = None


class _Response(Struct):
    name: str
    response: dict[str, Any] | None = None
    id: str | None = None
    parts: list[_ResponsePart] = []


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
    """Read one of a request's contents, the content of an answer, or a system instruction with the role system added.

    Args:
        message: The content.
        prefix: The prefix of the ids that are generated for calls and responses without one: the second `read_file` of
            a message becomes "call_read_file_2". Use a different prefix for each turn to keep ids unique across turns.

    Raises:
        InvalidEntry: A part has no equivalent, such as code to execute or audio; the error names its place as a JSON
            path.
    """
    decoded = read(_snake(message), _Message, "Google")
    if decoded.role not in _ROLES:
        raise InvalidEntry(f"Invalid value {decoded.role!r} - at `$.role` of a message of Google")
    counts: Counter[str] = Counter()
    parts: list[Content] = []
    for position, part in enumerate(decoded.parts):
        called, generated_id = part.function_call or part.function_response, ""
        if called:
            counts[called.name] += 1
            generated_id = f"{prefix}_{re.sub('[^A-Za-z0-9_-]', '_', called.name)}_{counts[called.name]}"
        parts.append(_from_part(part, generated_id, f"$.parts[{position}]"))
    role = _ROLES[decoded.role]
    names = [part.function_response.name for part in decoded.parts if part.function_response]
    if role == "user" and names and len(names) == len(parts):
        return Message("tool", tuple(parts), tool_name=names[0] if len(names) == 1 else None)
    return Message(role, tuple(parts))


def _from_part(part: _Part, generated_id: str, place: str) -> Content:
    """Read a part, which must have exactly one member; `generated_id` is used for a call without an id."""
    members = [name for name in _MEMBERS if getattr(part, name) is not None]
    if len(members) != 1:
        raise InvalidEntry(f"a part must have one of {', '.join(_MEMBERS)}, not {members} - at `{place}`")
    if part.function_call is not None:
        call = part.function_call
        signature = None if part.thought_signature in _PLACEHOLDERS else part.thought_signature
        return ToolUsePart(ToolUse(call.id or generated_id, call.name, raw_json(call.args or {}), signature))
    if part.function_response is not None:
        return _from_response(part.function_response, generated_id, f"{place}.function_response")
    if part.inline_data is not None:
        return _from_blob(part.inline_data, f"{place}.inline_data")
    if part.file_data is not None:
        return _from_file(part.file_data, f"{place}.file_data")
    content = part.text or ""
    if part.thought:
        return ThinkingPart(Thinking(content, part.thought_signature))
    return TextPart(Text(content, part.thought_signature))


def _from_blob(blob: _Blob, place: str) -> ImagePart:
    _require_image(blob.mime_type, f"{place}.mime_type")
    data = blob.data.translate(_STANDARD_BASE64)
    return image(data + "=" * (-len(data) % 4), blob.mime_type)


def _from_file(file: _File, place: str) -> ImagePart:
    linked_image = image_at(file.file_uri, file.mime_type)
    _require_image(linked_image.image.source.media_type, f"{place}.mime_type")
    return linked_image


def _require_image(media_type: str, place: str) -> None:
    if not media_type.startswith("image/"):
        raise InvalidEntry(f"Expected an image, got {media_type!r} - at `{place}` of a message of Google")


def _from_response(decoded: _Response, generated_id: str, place: str) -> ToolResultPart:
    response = decoded.response or {}
    content = response.get("output", response.get("error", ""))
    if len(response) > 1 or not isinstance(content, str) or not response.keys() <= {"output", "error"}:
        content = bytes(raw_json(response)).decode()
    images = [_from_response_part(part, f"{place}.parts[{at}]") for at, part in enumerate(decoded.parts)]
    caption = [text(content)] if content else []
    return tool_result(
        decoded.id or generated_id, [*caption, *images] if images else content, is_error=response.keys() == {"error"}
    )


def _from_response_part(part: _ResponsePart, place: str) -> ImagePart:
    if part.inline_data is not None and part.file_data is None:
        return _from_blob(part.inline_data, f"{place}.inline_data")
    if part.file_data is not None and part.inline_data is None:
        return _from_file(part.file_data, f"{place}.file_data")
    raise InvalidEntry(f"a part of a response must have one of inline_data, file_data - at `{place}`")


def _snake(block: Mapping[str, object]) -> dict[str, object]:
    """Convert the keys of a content, its parts and their members to snake_case, except in arguments and results.

    Members that are null are left out.
    """
    return {
        _KEY.sub(lambda match: f"_{match[0].lower()}", key): value if key in _FREE else _snake_within(value)
        for key, value in block.items()
        if value is not None
    }


def _snake_within(value: object) -> object:
    if isinstance(value, Mapping):
        return _snake(cast("Mapping[str, object]", value))
    return [_snake_within(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


def to_google(messages: Sequence[Message], *, provider: str = "google") -> GooglePrompt:
    """Write contents; roles that no provider has are rendered as a user's text.

    System messages are collected from all places. Adjacent messages of one role become one content, since the responses
    to parallel calls must come together. If the first content is the model's, a user's that says so comes before it.
    Thinking and signatures in answers of other providers are left out, since the interface rejects what it did not
    sign. It also rejects answers since the last text of a user whose first call has no signature, so such a call gets a
    placeholder for one.

    Args:
        messages: The messages.
        provider: The name that answers of this provider have.
    """
    names: dict[str, str] = {}
    for message in messages:
        for part in message.content:
            if isinstance(part, ToolUsePart):
                names[part.tool_use.id] = part.tool_use.name
            elif isinstance(part, ToolResultPart):
                result = part.tool_result
                names.setdefault(result.tool_use_id, message.tool_name or result.tool_use_id)
    system, turns = in_turns(messages, provider, for_google=True)
    instruction: list[JSON] = [{"text": part.text.content} for part in system]
    contents: list[Block] = []
    for role, content in turns:
        parts: list[JSON] = [_to_part(part, names) for part in content]
        images = [part for each in content if isinstance(each, ToolResultPart) for part in images_of(each.tool_result)]
        parts += map(_to_image, images)
        contents.append({"role": "model" if role == "assistant" else "user", "parts": parts})
    for position in range(_last_prompt(turns), len(turns)):
        role, content = turns[position]
        if role == "assistant":
            _add_placeholder(content, cast("list[Block]", contents[position]["parts"]))
    return GooglePrompt({"parts": instruction} if instruction else None, contents)


def _last_prompt(turns: Sequence[tuple[str, Sequence[Content]]]) -> int:
    """Return the position of the user's last turn with a text; 0 if there is none."""
    prompts = (at for at in range(len(turns) - 1, -1, -1) if turns[at][0] == "user" and plain_text(turns[at][1]))
    return next(prompts, 0)


def _add_placeholder(content: Sequence[Content], parts: list[Block]) -> None:
    """Give the first call of an answer a placeholder if it has no signature; later calls need none."""
    for position, part in enumerate(content):
        if isinstance(part, ToolUsePart):
            if part.tool_use.signature is None:
                parts[position]["thought_signature"] = UNSIGNED
            return


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
    source = with_true_type(part).image.source
    if source.data.startswith("data:"):
        return {"text": named_image(part).text.content}
    if source.type == "url":
        kind: Block = {} if source.media_type == ANY_IMAGE else {"mime_type": source.media_type}
        return {"file_data": {**kind, "file_uri": source.data}}
    return {"inline_data": {"mime_type": source.media_type, "data": source.data}}
