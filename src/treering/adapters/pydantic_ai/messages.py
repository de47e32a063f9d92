"""Messages of pydantic-ai as messages, and back.

    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Hello", "timestamp": "2026-01-01T09:00Z"}]}

A request whose parts speak for the system, the user and tools becomes one message for each of these in turn, and a
response one message. What these have no place for (times, ids, kinds of parts that no other program knows) is kept in
their metadata, as the difference to what can be made of the message alone: a message of pydantic-ai comes back equal
to what it was. What it makes of messages that something else wrote is in `others`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from ...events.content import (
    Content,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    image,
    text,
    thinking,
    tool_result,
    tool_use,
)
from ...events.entries import Message, Usage
from ...events.json_values import JSON, json_text, raw_object, same_json
from ...events.providers.common import image_at, url_of
from ...formats.values import as_count

Data: TypeAlias = dict[str, JSON]
"""A message, a part or an item of a part's content as JSON."""

KEPT = "pydantic_ai"
"""The key of a message's metadata below which the rest of one of pydantic-ai's is kept."""

STANDARD, URL_SAFE = str.maketrans("-_", "+/"), str.maketrans("+/", "-_")
"""From pydantic's base64 to the one of everybody else, and back."""

_FORM = "~"
"""The field of what is kept of a part that says which form its content has: "json", "items", "item" or "text"."""

_UNSHOWN = frozenset({"cache-point"})
_WHOLE = "whole"


def messages_of(data: Data) -> list[Message]:
    """Return the messages of one of pydantic-ai's, as its type adapter gives it.

    Raises:
        InvalidEntry: It holds something that is no JSON.
    """
    answers = data.get("kind") == "response"
    listed = data.get("parts")
    runs: list[tuple[str, list[Data]]] = []
    for part in listed if isinstance(listed, list) else []:
        if isinstance(part, dict):
            role = "assistant" if answers else _role(part)
            if not runs or runs[-1][0] != role:
                runs.append((role, []))
            runs[-1][1].append(part)
    fields: Data = {name: value for name, value in data.items() if name != "parts"}
    made: list[Message] = []
    for role, parts in runs or [("assistant" if answers else "user", [])]:
        shown = [_shown(part) for part in parts]
        rest: list[JSON] = [_rest(part, each) for part, each in zip(parts, shown, strict=True)]
        kept: Data = {"message": {"kind": "request"} if made else fields, "parts": rest}
        if made:
            kept["joins"] = True  # what stands before it, which says so, too
        if len(made) < len(runs) - 1:
            kept["goes_on"] = True
        message = Message(role, tuple(part for each in shown for part in each))
        if answers:
            message = msgspec.structs.replace(
                message,
                model=_word(data.get("model_name")),
                provider=_word(data.get("provider_name")),
                usage=_usage(data.get("usage")),
                stop_reason=_word(data.get("finish_reason")),
            )
        elif role == "tool" and len(parts) == 1:
            message = msgspec.structs.replace(message, tool_name=_word(parts[0].get("tool_name")))
        made.append(msgspec.structs.replace(message, raw_metadata=raw_object({KEPT: kept}, "a message")))
    return made


def kept_of(message: Message) -> Data | None:
    """Return what a message keeps of one of pydantic-ai's; None if something else wrote or changed it."""
    kept = message.metadata.get(KEPT) if message.raw_metadata is not None else None
    return kept if isinstance(kept, dict) else None


def restored(message: Message, kept: Data) -> Data | None:
    """Return the message of pydantic-ai that a message was made of, or its share; None if it was changed since."""
    fields, rests = kept.get("message"), kept.get("parts")
    if not isinstance(fields, dict) or not isinstance(rests, list):
        return None
    shown = iter(message.content)
    try:
        parts = [_whole(rest, shown) for rest in rests if isinstance(rest, dict)]
    except StopIteration:
        return None
    again = tuple(each for part in parts for each in _shown(part))
    if again != message.content:
        return None
    return fields | {"parts": [*parts]}


# -- a part as parts of a message


def _role(part: Data) -> str:
    """Return who speaks in a part of a request."""
    kind = part.get("part_kind")
    if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name") is not None):
        return "tool"
    return "user" if kind in ("user-prompt", "retry-prompt", "retry-feedback", "speech", "compaction") else "system"


def _shown(part: Data) -> list[Content]:
    """Return what a part says: one part of a message, or one for each item of a prompt that has items."""
    kind, content = str(part.get("part_kind")), part.get("content")
    if kind == "user-prompt" and isinstance(content, list):
        return [each for each in map(_shown_item, content) if each is not None]
    if kind == "thinking":
        return [thinking(_words(content), signature=_word(part.get("signature")))]
    if kind == "file":
        return [_shown_item(content) or text("[file]")]
    call_id, name = _word(part.get("tool_call_id")), _word(part.get("tool_name"))
    if kind == "tool-call" and call_id is not None and name is not None:
        return [tool_use(call_id, name, _arguments(part.get("args")))]
    if kind in ("tool-return", "retry-prompt") and call_id is not None and name is not None:
        failed = kind == "retry-prompt" or part.get("outcome", "success") != "success"
        form, items = _form(content)
        if form in ("items", "item"):
            result = [each for each in map(_shown_item, items) if each is not None]
            return [tool_result(call_id, result, is_error=failed)]
        return [tool_result(call_id, json_text(content) if form == "json" else _words(content), is_error=failed)]
    if kind in ("builtin-tool-call", "builtin-tool-return"):  # which the provider ran: no call that waits for a result
        said = part.get("args", content)
        return [text(f"[{name}] {said if isinstance(said, str) else json_text(said)}")]
    said = part.get("transcript") if kind == "speech" else content
    return [text(said if isinstance(said, str) else f"[{kind}]" if said is None else json_text(said))]


def _shown_item(item: JSON) -> TextPart | ImagePart | None:
    """Return what an item of a part's content says; None for a mark that says nothing."""
    if not isinstance(item, dict):
        return text(item if isinstance(item, str) else json_text(item))
    kind, url, data = item.get("kind"), item.get("url"), item.get("data")
    media = item.get("media_type")
    if kind in _UNSHOWN:
        return None
    if kind == "image-url" and isinstance(url, str):
        return image_at(url, media if isinstance(media, str) else None)
    if kind == "binary" and isinstance(data, str) and str(media).startswith("image/"):
        return image(data.translate(STANDARD), str(media))
    said = item.get("content")
    return text(said if isinstance(said, str) and said else f"[{url or media or item.get('file_id') or kind}]")


def _form(content: JSON) -> tuple[str | None, Sequence[JSON]]:
    """Return the form of a tool's result, and its items if it has images and the like."""
    if isinstance(content, str):
        return None, ()
    items = content if isinstance(content, list) else [content]
    if any(isinstance(each, dict) and "kind" in each for each in items):
        return ("items", items) if isinstance(content, list) else ("item", items)
    return "json", ()


def _arguments(given: JSON) -> Mapping[str, object]:
    """Return the arguments of a call as a JSON object; those that are none stand in one."""
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except ValueError:
            given = {"input": given}
    return given if isinstance(given, dict) else {} if given is None else {"input": given}


# -- what is kept of a part, and back


def _rest(part: Data, shown: Sequence[Content]) -> Data:
    """Return what leads from what a message says back to a part."""
    rest = _difference(part, shown)
    return rest if same_json(_whole(rest, iter(shown)), part) else {_WHOLE: part}


def _difference(part: Data, shown: Sequence[Content]) -> Data:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "user-prompt" and isinstance(content, list):
        says = iter(shown)
        return part | {"content": [_item_rest(each, says) for each in content], _FORM: "items"}
    if kind == "file":
        return part | {"content": _item_rest(content, iter(shown)), _FORM: "item"}
    form: str | None = None
    if kind in ("tool-return", "retry-prompt") and isinstance(shown[0], ToolResultPart):
        form, items = _form(content)
        if form in ("items", "item") and not isinstance(parts := shown[0].tool_result.content, str):
            says = iter(parts)
            rests: list[JSON] = [_item_rest(each, says) for each in items]
            part = part | {"content": rests if form == "items" else rests[0]}
    elif kind == "tool-call" and isinstance(part.get("args"), str):
        form = "text"
    base = _base(shown[0], form)
    rest: Data = {name: value for name, value in part.items() if name not in base or not same_json(base[name], value)}
    return rest if form is None else rest | {_FORM: form}


def _whole(rest: Data, shown: Iterator[Content]) -> Data:
    """Return a part again.

    Raises:
        StopIteration: The message says less than it did.
    """
    whole = rest.get(_WHOLE)
    if isinstance(whole, dict):
        for _ in _shown(whole):
            next(shown)
        return whole
    form = rest.get(_FORM)
    part: Data = {name: value for name, value in rest.items() if name != _FORM}
    content = part.get("content")
    if part.get("part_kind") == "user-prompt" and form == "items" and isinstance(content, list):
        return part | {"content": [_whole_item(each, shown) for each in content]}
    if part.get("part_kind") == "file":
        return part | {"content": _whole_item(content, shown)}
    says = next(shown)
    if form in ("items", "item") and isinstance(says, ToolResultPart):
        answers = iter(() if isinstance(says.tool_result.content, str) else says.tool_result.content)
        items = [_whole_item(each, answers) for each in (content if isinstance(content, list) else [content])]
        part = part | {"content": items if form == "items" else items[0]}
    return _base(says, form) | part


def _base(shown: Content, form: JSON) -> Data:
    """Return the fields of a part that a part of a message gives by itself."""
    match shown:
        case TextPart(text=said):
            return {"content": said.content}
        case ThinkingPart(thinking=thought):
            return {"content": thought.content, "signature": thought.signature}
        case ToolUsePart(tool_use=call):
            arguments: JSON = call.input_text if form == "text" else call.input
            return {"tool_name": call.name, "args": arguments, "tool_call_id": call.id}
        case ToolResultPart(tool_result=result):
            answered: Data = {"tool_call_id": result.tool_use_id}
            if form in ("items", "item") or not isinstance(result.content, str):
                return answered
            content: JSON = msgspec.json.decode(result.content) if form == "json" else result.content
            return answered | {"content": content}
    return {}


def _item_rest(item: JSON, shown: Iterator[Content]) -> JSON:
    """Return what is kept of an item beside what the message says; None if that is all."""
    if isinstance(item, dict) and item.get("kind") in _UNSHOWN:
        return item
    base = _item_base(item.get("kind") if isinstance(item, dict) else None, next(shown))
    if not isinstance(item, dict):
        return None if isinstance(item, str) and item == base else {_WHOLE: item}
    if not isinstance(base, dict) or "kind" not in item or base.keys() - item.keys():
        return {_WHOLE: item}
    return {name: value for name, value in item.items() if name not in base or not same_json(base[name], value)}


def _whole_item(rest: JSON, shown: Iterator[Content]) -> JSON:
    if isinstance(rest, dict) and rest.get("kind") in _UNSHOWN:
        return rest
    says = next(shown)
    if not isinstance(rest, dict):
        return _item_base(None, says)
    if _WHOLE in rest:
        return rest[_WHOLE]
    base = _item_base(rest.get("kind"), says)
    return base | rest if isinstance(base, dict) else rest


def _item_base(kind: JSON, shown: Content) -> JSON:
    match shown:
        case TextPart(text=said):
            return said.content if kind is None else {"content": said.content} if kind == "text-content" else {}
        case ImagePart(image=seen):
            if kind == "image-url":
                return {"url": url_of(shown)}
            return {"data": seen.source.data.translate(URL_SAFE), "media_type": seen.source.media_type}
    return {}


# -- values


def _usage(counted: JSON) -> Usage | None:
    if not isinstance(counted, dict):
        return None
    cached, stored = as_count(counted.get("cache_read_tokens")), as_count(counted.get("cache_write_tokens"))
    asked, answered = as_count(counted.get("input_tokens")), as_count(counted.get("output_tokens"))
    return Usage(
        input_tokens=max(asked - cached - stored, 0),
        output_tokens=answered,
        cache_read_tokens=cached,
        cache_write_tokens=stored,
        total_tokens=asked + answered,
        cost=_cost(counted.get("cost")),
    )


def _cost(value: JSON) -> float:
    """Return a decimal, which pydantic writes as text."""
    try:
        return max(float(value), 0.0) if isinstance(value, (str, int, float)) else 0.0
    except ValueError:
        return 0.0


def _word(value: JSON) -> str | None:
    return value if isinstance(value, str) and value else None


def _words(value: JSON) -> str:
    return value if isinstance(value, str) else "" if value is None else json_text(value)
