"""Reading and writing of messages in the form of OpenAI's chat completions, which many other servers use too.

    {"role": "assistant", "content": "Let me look.", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\":\"main.go\"}"}}]}
    {"role": "tool", "tool_call_id": "call_1", "content": "package main..."}

Reading leaves out annotations, and hints such as an image's `detail`. Writing leaves out signatures, whether a tool's
result is an error, and thinking unless the server has a field for it. A tool's or an assistant's image goes into a
user's message after it, since only users' messages may hold images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from ..content import (
    Content,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUsePart,
    plain_text,
    text,
    thinking,
    tool_result,
    tool_use,
)
from ..entries import Message
from ..errors import InvalidEntry
from ..json_values import JSON
from .common import Block, image_at, images_of, read, readable_by, result_text, sendable, url_of, with_true_type

REFUSAL = "refusal"
"""The stop reason of an answer in which the model refuses the request."""

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
        decoded = read(message, _Message, "OpenAI")
    except InvalidEntry as error:
        if _has_responses_form(message):
            raise InvalidEntry(f"{error}: an item of the Responses form, and only chat completions are read") from error
        raise
    role = _ROLES.get(decoded.role, decoded.role)
    if role == "tool":
        return _from_tool(decoded)
    if role not in {"user", "assistant", "system"}:
        raise InvalidEntry(f"Invalid value {decoded.role!r} - at `$.role` of a message of OpenAI")
    parts: list[Content] = []
    thought = decoded.reasoning_content or decoded.reasoning
    if thought:
        parts.append(thinking(thought))
    if isinstance(decoded.content, str):
        if decoded.content or not decoded.tool_calls:
            parts.append(text(decoded.content))
    else:
        parts += map(_from_part, decoded.content or ())
    if decoded.refusal is not None:
        parts.append(text(decoded.refusal))
    parts += [_from_call(call, position) for position, call in enumerate(decoded.tool_calls or ())]
    refused = decoded.refusal is not None or (
        isinstance(decoded.content, list) and any(isinstance(part, _Refusal) for part in decoded.content)
    )
    return Message(role, tuple(parts), stop_reason=REFUSAL if refused else None)


def _has_responses_form(message: object) -> bool:
    """Return whether a message has the form of OpenAI's Responses API, whose items and parts state their types."""
    if not isinstance(message, Mapping):
        return False
    item = cast("Mapping[object, object]", message)
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
            raise InvalidEntry(f"these arguments are not a JSON object ({error}) - at `{place}`") from error
    return tool_use(call.id, call.function.name, arguments)


def _from_tool(decoded: _Message) -> Message:
    if decoded.tool_call_id is None:
        raise InvalidEntry("a tool's message must name its call - at `$.tool_call_id` of a message of OpenAI")
    content = decoded.content or ""
    body = content if isinstance(content, str) else [_from_part(part) for part in content]
    return Message("tool", (tool_result(decoded.tool_call_id, body),), tool_name=decoded.name)


def to_openai(
    messages: Sequence[Message], *, thinking_field: str | None = None, provider: str = "openai"
) -> list[Block]:
    """Write messages in the chat completions form; roles that no provider has are rendered as a user's text.

    Args:
        messages: The messages.
        thinking_field: The field of an answer for its thinking, such as "reasoning_content"; a space stands for none.
            None leaves thinking out.
        provider: The name that answers of this provider have; the thinking of others is left out.
    """
    written: list[Block] = []
    after_results: list[Block] = []
    images: list[ImagePart] = []
    own = (sendable(readable_by(each, provider)) for each in messages)
    for message in _with_calls_together(filter(None, own)):
        results = [part.tool_result for part in message.content if isinstance(part, ToolResultPart)]
        if not results:  # nothing may come between an answer and its last result
            written += [*after_results, *_image_message(images)]
            after_results, images = [], []
        for result in results:
            written.append(_to_tool(result))
            images += images_of(result)
        if message.role == "assistant":
            written += _to_assistant(message, thinking_field)
            images += [part for part in message.content if isinstance(part, ImagePart)]
        elif content := _to_parts(message.content):
            block: Block = {"role": "system" if message.role == "system" else "user", "content": content}
            (after_results if results else written).append(block)
    return [*written, *after_results, *_image_message(images)]


def _with_calls_together(messages: Iterable[Message]) -> Iterator[Message]:
    """Merge an answer that calls tools with an answer that follows it directly: results must follow calls at once."""
    last: Message | None = None
    for message in messages:
        if last is None:
            last = message
        elif last.role == message.role == "assistant" and last.has_calls:
            last = Message("assistant", (*last.content, *message.content))
        else:
            yield last
            last = message
    if last is not None:
        yield last


def _image_message(images: Sequence[ImagePart]) -> list[Block]:
    """Write images as a list of one message, or of none if there are none."""
    content: list[JSON] = [{"type": "text", "text": "Shown above:"}, *map(_to_image, images)]
    return [{"role": "user", "content": content}] if images else []


def _to_image(part: ImagePart) -> Block:
    return {"type": "image_url", "image_url": {"url": url_of(with_true_type(part))}}


def _to_parts(content: Sequence[Content]) -> str | list[JSON] | None:
    parts = [part for part in content if isinstance(part, (TextPart, ImagePart))]
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text.content
    return [
        {"type": "text", "text": part.text.content} if isinstance(part, TextPart) else _to_image(part) for part in parts
    ] or None


def _to_assistant(message: Message, thinking_field: str | None) -> list[Block]:
    """Write an answer as a list of one message, or of none if this form can represent nothing of it."""
    texts = [part for part in message.content if isinstance(part, TextPart)]
    calls: list[JSON] = [_to_call(part) for part in message.content if isinstance(part, ToolUsePart)]
    content: str | list[JSON] | None = _to_parts(texts)
    if message.stop_reason == REFUSAL and texts:  # at most one refusal is allowed
        content = [{"type": "refusal", "refusal": plain_text(texts)}]
    block: Block = {"role": "assistant", "content": content}
    if calls:
        block["tool_calls"] = calls
    if thinking_field is not None:  # a server that requires thinking takes a missing or empty one for an error
        thoughts = [part.thinking.content for part in message.content if isinstance(part, ThinkingPart)]
        block[thinking_field] = "\n".join(thoughts) or " "
    return [block] if content is not None or calls else []


def _to_call(part: ToolUsePart) -> Block:
    call = part.tool_use
    arguments = msgspec.json.encode(call.input).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _to_tool(result: ToolResult) -> Block:
    content: JSON = result_text(result)
    if not isinstance(result.content, str) and result.content and not images_of(result):
        content = [{"type": "text", "text": part.text.content} for part in result.content if isinstance(part, TextPart)]
    return {"role": "tool", "tool_call_id": result.tool_use_id, "content": content}
