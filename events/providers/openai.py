"""Messages of OpenAI's chat completions, and of the many servers that speak the same.

    {"role": "assistant", "content": "Let me look.", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\":\"main.go\"}"}}]}
    {"role": "tool", "tool_call_id": "call_1", "content": "package main..."}

What is left out: read, hints such as an image's `detail` and annotations; written, thinking, signatures, and whether a
tool's result is an error. A tool's or an assistant's image goes into a user's message after it, since only users may
show images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from ..content import (
    JSON,
    Content,
    ImagePart,
    TextPart,
    ToolResult,
    ToolResultPart,
    ToolUsePart,
    text,
    thinking,
    tool_result,
    tool_use,
)
from ..entries import Message
from ..errors import InvalidEntry
from .reading import Block, image_at, images_of, read, result_text, url_of
from .rendering import sendable

REFUSAL = "refusal"
"""The stop reason of an answer in which the model refuses."""

_ROLES = {"developer": "system"}


class _Text(Struct, tag="text"):
    text: str


class _Refusal(Struct, tag="refusal"):
    refusal: str


class _Url(Struct):
    url: str


class _Image(Struct, tag="image_url"):
    image_url: _Url | str


class _Function(Struct):
    name: str
    arguments: str | dict[str, Any] = ""


class _Call(Struct, tag="function"):
    id: str
    function: _Function


_Part: TypeAlias = _Text | _Refusal | _Image


class _Message(Struct):
    role: str
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    audio: None = None
    function_call: None = None


def from_openai(message: Mapping[str, object]) -> Message:
    """Read a message of the chat completions form.

    A system's and a developer's message become one of role system. A refusal becomes text with the stop reason
    "refusal". The reasoning that some servers put beside the content becomes thinking.

    Raises:
        InvalidEntry: It holds what a message cannot hold, such as audio; the error names the place as a JSON path.
    """
    try:
        given = read(message, _Message, "OpenAI")
    except InvalidEntry as error:
        if _is_of_responses(message):
            raise InvalidEntry(f"{error}: an item of the Responses form, and only chat completions are read") from error
        raise
    role = _ROLES.get(given.role, given.role)
    if role == "tool":
        return _from_tool(given)
    if role not in {"user", "assistant", "system"}:
        raise InvalidEntry(f"Invalid value {given.role!r} - at `$.role` of a message of OpenAI")
    parts: list[Content] = []
    thought = given.reasoning_content or given.reasoning
    if thought:
        parts.append(thinking(thought))
    if isinstance(given.content, str):
        if given.content or not given.tool_calls:
            parts.append(text(given.content))
    else:
        parts += map(_from_part, given.content or ())
    if given.refusal is not None:
        parts.append(text(given.refusal))
    parts += [_from_call(call, position) for position, call in enumerate(given.tool_calls or ())]
    refused = given.refusal is not None or (
        isinstance(given.content, list) and any(isinstance(part, _Refusal) for part in given.content)
    )
    return Message(role, tuple(parts), stop_reason=REFUSAL if refused else None)


def _is_of_responses(given: object) -> bool:
    """Tell whether this is what OpenAI's other interface takes and gives, whose items and parts say their types."""
    if not isinstance(given, Mapping):
        return False
    item = cast("Mapping[object, object]", given)
    parts = item.get("content")
    first = cast("list[object]", parts)[0] if isinstance(parts, list) and parts else None
    kind = cast("Mapping[object, object]", first).get("type") if isinstance(first, Mapping) else None
    return "type" in item or str(kind).startswith(("input_", "output_"))


def _from_part(part: _Part) -> TextPart | ImagePart:
    if isinstance(part, _Text):
        return text(part.text)
    if isinstance(part, _Refusal):
        return text(part.refusal)
    return image_at(part.image_url if isinstance(part.image_url, str) else part.image_url.url)


def _from_call(call: _Call, position: int) -> ToolUsePart:
    arguments = call.function.arguments
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            place = f"$.tool_calls[{position}].function.arguments"
            raise InvalidEntry(f"these arguments are no JSON object ({error}) - at `{place}`") from error
    return tool_use(call.id, call.function.name, arguments)


def _from_tool(given: _Message) -> Message:
    if given.tool_call_id is None:
        raise InvalidEntry("a tool's message must name its call - at `$.tool_call_id` of a message of OpenAI")
    content = given.content or ""
    body = content if isinstance(content, str) else [_from_part(part) for part in content]
    return Message("tool", (tool_result(given.tool_call_id, body),), tool_name=given.name)


def to_openai(messages: Sequence[Message]) -> list[Block]:
    """Write messages in the chat completions form; roles that no provider knows are rendered as a user's text."""
    written: list[Block] = []
    shown: list[ImagePart] = []
    for message in filter(None, map(sendable, messages)):
        results = [part.tool_result for part in message.content if isinstance(part, ToolResultPart)]
        if shown and not results:
            written.append(_shown(shown))
            shown = []
        for result in results:
            written.append(_to_tool(result))
            shown += images_of(result)
        if message.role == "assistant":
            written += _to_assistant(message)
            shown += [part for part in message.content if isinstance(part, ImagePart)]
        elif content := _to_parts(message.content):
            written.append({"role": "system" if message.role == "system" else "user", "content": content})
    if shown:
        written.append(_shown(shown))
    return written


def _shown(images: Sequence[ImagePart]) -> Block:
    content: list[JSON] = [{"type": "text", "text": "Shown above:"}, *map(_to_image, images)]
    return {"role": "user", "content": content}


def _to_image(part: ImagePart) -> Block:
    return {"type": "image_url", "image_url": {"url": url_of(part)}}


def _to_parts(content: Sequence[Content]) -> str | list[JSON] | None:
    parts = [part for part in content if isinstance(part, (TextPart, ImagePart))]
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text.content
    return [
        {"type": "text", "text": part.text.content} if isinstance(part, TextPart) else _to_image(part) for part in parts
    ] or None


def _to_assistant(message: Message) -> list[Block]:
    """Write an answer, or nothing where it says nothing that this form can say."""
    texts = [part for part in message.content if isinstance(part, TextPart)]
    calls: list[JSON] = [_to_call(part) for part in message.content if isinstance(part, ToolUsePart)]
    refusals: list[JSON] = [{"type": "refusal", "refusal": part.text.content} for part in texts]
    content = (refusals or None) if message.stop_reason == REFUSAL else _to_parts(texts)
    written: Block = {"role": "assistant", "content": content}
    if calls:
        written["tool_calls"] = calls
    return [written] if content is not None or calls else []


def _to_call(part: ToolUsePart) -> Block:
    call = part.tool_use
    arguments = msgspec.json.encode(call.input).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _to_tool(result: ToolResult) -> Block:
    content: JSON = result_text(result)
    if not isinstance(result.content, str) and result.content and not images_of(result):
        content = _texts(result)
    return {"role": "tool", "tool_call_id": result.tool_use_id, "content": content}


def _texts(result: ToolResult) -> list[JSON]:
    return [{"type": "text", "text": part.text.content} for part in result.content if isinstance(part, TextPart)]
