"""Gemini CLI: what one message says.

    {"type":"user","content":[{"text":"Say hello."}]}
    {"type":"gemini","content":"Hello!","thoughts":[{"subject":"...","description":"..."}],"model":"...","tokens":{...},
     "toolCalls":[{"id":"c1","name":"run_shell_command","args":{...},"status":"success","result":[{"functionResponse":{...}}]}]}

An answer's calls and their results stand in one record, since the record is replaced when the results come. A history that
was masked or compressed tells the same once more as the model was told it: thoughts and calls as parts of the answer,
results as parts of a user's message. What stands in both is read once, and what stands in one alone is read from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from ..content import (
    JSON,
    Content,
    ImagePart,
    Text,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolUse,
    ToolUsePart,
    image,
    text,
    thinking,
    tool_result,
)
from ..entries import Message, Usage
from ..providers.reading import image_at
from .values import Object, as_arguments, as_count, as_json_text, as_object, as_objects, as_text, as_time

USERS = frozenset({"user"})
"""The types of people's messages."""

ASSISTANTS = frozenset({"gemini", "model"})
"""The types of the model's messages."""

_FAILED = frozenset({"error", "cancelled"})
_CALL = "functionCall"
_RESPONSE = "functionResponse"


class Call(NamedTuple):
    """A call of an answer: its id, its tool, and whether its result stands in the answer's record."""

    id: str
    name: str
    answered: bool


class Answer(NamedTuple):
    """What the model said, its calls, and the results in its record with their times."""

    message: Message
    calls: tuple[Call, ...]
    results: tuple[tuple[Message, datetime | None], ...]


def read_user(given: Object) -> Message | None:
    """Read a person's message; None where it holds nothing but results of tools."""
    parts = _parts(given)
    said = [part for part in parts if not _named(part, _RESPONSE)]
    if parts and not said:
        return None
    return Message("user", tuple(content for part in said for content in _shown(part)))


def read_responses(given: Object, key: str, calls: Sequence[Call]) -> Iterator[Message]:
    """Yield the results in a user's message that the record of the answer above it does not have.

    Args:
        given: The message.
        key: How ids begin that are made up.
        calls: The calls of the answer; a result without an id is that of the next call of the same tool.
    """
    known = {call.id: call for call in calls}
    alike: dict[str, deque[Call]] = {}
    for call in calls:
        alike.setdefault(call.name, deque()).append(call)
    for position, part in enumerate(_parts(given)):
        response = _named(part, _RESPONSE)
        if not response:
            continue
        call_id, name = as_text(response.get("id")), _name(response)
        if not call_id:
            call_id = alike[name].popleft().id if alike.get(name) else f"{key}.{position}"
        if call_id not in known or not known[call_id].answered:
            yield _result(call_id, name, part, failed=False)


def read_answer(given: Object, key: str, model: str) -> Answer:
    """Read the model's message, but not what it took; see `read_usage`.

    Args:
        given: The message.
        key: How ids begin that are made up for calls without one.
        model: The model that answered.
    """
    records = _Records(given, key)
    parts: list[Content] = []
    for thought in as_objects(given.get("thoughts")):
        told = filter(None, (as_text(thought.get("subject")), as_text(thought.get("description"))))
        parts.append(thinking("\n\n".join(told)))
    thoughts_are_told = bool(parts)
    for part in _parts(given):
        if call := _named(part, _CALL):
            parts.append(records.call(call, _signature(as_object(part))))
        elif not (thoughts_are_told and _is_thought(part)):
            parts += (content for content in _shown(part) if _says_something(content))
    parts += records.rest()
    message = Message(
        "assistant", tuple(parts) or (text(""),), model=model or None, provider="google" if model else None
    )
    return Answer(message, tuple(records.calls), tuple(records.results))


def read_usage(given: Object) -> Usage | None:
    """Read what the model's message took; None where it does not say."""
    tokens = given.get("tokens")
    if not isinstance(tokens, dict):
        return None
    asked, cached = as_count(tokens.get("input")), as_count(tokens.get("cached"))
    answered = as_count(tokens.get("output")) + as_count(tokens.get("thoughts"))
    return Usage(
        input_tokens=max(0, asked - cached) + as_count(tokens.get("tool")),
        output_tokens=answered,
        cache_read_tokens=cached,
        total_tokens=as_count(tokens.get("total")) or asked + answered,
    )


class _Records:
    """The calls of an answer, of which each may stand in the record, among the parts, or in both.

    Attributes:
        calls: The calls.
        results: The results that stand in the record.
    """

    def __init__(self, given: Object, key: str) -> None:
        self.calls: list[Call] = []
        self.results: list[tuple[Message, datetime | None]] = []
        self._key = key
        self._waiting: dict[str, Object] = {}  # records that no part told of, by the ids of their calls
        self._unnamed: dict[str, deque[str]] = {}  # those ids by their tools, for parts that have no id
        for position, record in enumerate(as_objects(given.get("toolCalls"))):
            call_id, name = as_text(record.get("id")), _name(record)
            if not call_id or call_id in self._waiting:
                call_id = f"{key}.{position}"
            result = _recorded(record, call_id, name)
            if result is not None:
                self.results.append((result, as_time(record.get("timestamp"))))
            self.calls.append(Call(call_id, name, result is not None))
            self._waiting[call_id] = record
            self._unnamed.setdefault(name, deque()).append(call_id)

    def call(self, part: Object, signature: str | None) -> ToolUsePart:
        """Read a call among the parts."""
        name, call_id = _name(part), as_text(part.get("id"))
        alike = self._unnamed.get(name, deque())
        while not call_id and alike:
            found = alike.popleft()
            call_id = found if found in self._waiting else ""
        record = self._waiting.pop(call_id, None)
        if record is None:
            call_id = call_id or f"{self._key}.{len(self.calls)}"
            self.calls.append(Call(call_id, name, answered=False))
        arguments = part.get("args", (record or {}).get("args"))
        return ToolUsePart(ToolUse(call_id, name, as_arguments(arguments), signature))

    def rest(self) -> Iterator[ToolUsePart]:
        """Yield the calls that stand in the record alone."""
        for call_id, record in self._waiting.items():
            yield ToolUsePart(ToolUse(call_id, _name(record), as_arguments(record.get("args"))))


def _name(call: Object) -> str:
    return as_text(call.get("name")) or "unknown"


def _parts(given: Object) -> list[JSON]:
    content = given.get("content")
    if content is None or content == "":
        content = given.get("parts", "")
    return _listed(content)


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value] if isinstance(value, (str, dict)) else []


def _named(part: JSON, name: str) -> Object:
    return as_object(as_object(part).get(name))


def _is_thought(part: JSON) -> bool:
    return as_object(part).get("thought") is True


def _signature(part: Object) -> str | None:
    return as_text(part.get("thoughtSignature")) or None


def _says_something(part: Content) -> bool:
    return not isinstance(part, TextPart) or bool(part.text.content or part.text.signature)


def _shown(part: JSON) -> Iterator[TextPart | ImagePart | ThinkingPart]:
    """Yield what a part shows: nothing where it is empty, JSON where it is of a kind that no message here holds.

    A file that is no image is named in words.
    """
    given = as_object(part)
    inline, file = as_object(given.get("inlineData")), as_object(given.get("fileData"))
    if isinstance(part, str):
        yield text(part)
    elif isinstance(given.get("text"), str):
        words, signature = as_text(given["text"]), _signature(given)
        yield ThinkingPart(Thinking(words, signature)) if _is_thought(part) else TextPart(Text(words, signature))
    elif inline:
        media_type = as_text(inline.get("mimeType"))
        is_image = media_type.startswith("image/")
        yield image(as_text(inline.get("data")), media_type) if is_image else _file(media_type)
    elif file:
        address, media_type = as_text(file.get("fileUri")), as_text(file.get("mimeType"))
        is_image = not media_type or media_type.startswith("image/")
        yield image_at(address, media_type or None) if is_image else _file(address or media_type)
    elif given:
        yield text(as_json_text(given))


def _file(name: str) -> TextPart:
    """Name a file that is no image, which no model is shown as one: a document, sound, a film."""
    return text(f"[file: {name or 'unknown'}]")


def _recorded(record: Object, call_id: str, name: str) -> Message | None:
    """Return the result in the record of a call, or None while there is none."""
    given, failed = record.get("result"), as_text(record.get("status")) in _FAILED
    return None if given is None and not failed else _result(call_id, name, given, failed=failed)


def _result(call_id: str, name: str, given: JSON, *, failed: bool) -> Message:
    body: list[TextPart | ImagePart] = []
    for part in _listed(given):
        answered = _named(part, _RESPONSE)
        response = answered.get("response")
        if isinstance(response, dict):
            told = response.get("output", response.get("error"))
            failed = failed or "error" in response
            response = response if told is None else told
        if response:
            body.append(text(as_json_text(response)))
        shown = _listed(answered.get("parts")) if answered else [part]
        body += (each for one in shown for each in _shown(one) if not isinstance(each, ThinkingPart))
    said = [part.text.content for part in body if isinstance(part, TextPart)]
    content = "\n".join(said) if len(said) == len(body) else body
    return Message("tool", (tool_result(call_id, content, is_error=failed),), tool_name=name)
