"""Messages in the form of Google's contents, as Gemini CLI and Qwen Code store them: the content of one.

    {"type":"user","content":[{"text":"Say hello."}]}
    {"type":"gemini","content":"Hello!","thoughts":[{"subject":"...","description":"..."}],"model":"...","tokens":{...},
     "toolCalls":[{"id":"c1","name":"run_shell_command","args":{...},"status":"success",
                   "result":[{"functionResponse":{...}}]}]}

An answer's calls and their results are in one record, since the record is replaced when the results arrive. A history
that was masked or compressed repeats them as they were sent to the model: thoughts and calls as parts of the answer,
results as parts of a user message. Content that is in both places is read once; content in only one is read from there.
After such a history, the record of each call may hold the results of all calls of its answer, each with what follows
it. In a user message, only images and other files directly after a result belong to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from ..events.content import (
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
from ..events.entries import Message, Usage
from ..events.json_values import JSON
from ..events.providers.common import image_at
from .values import (
    Object,
    as_arguments,
    as_count,
    as_items,
    as_json_text,
    as_object,
    as_objects,
    as_text,
    as_time,
    as_words,
)

USERS = frozenset({"user"})
"""The types of user messages."""

ASSISTANTS = frozenset({"gemini", "model"})
"""The types of the model's messages."""

ASIDE = frozenset({"error", "info", "warning"})
"""The types of messages that Gemini CLI shows to the user and no model sees."""

_FAILED = frozenset({"error", "cancelled"})
_CALL = "functionCall"
_RESPONSE = "functionResponse"
_FILES = frozenset({"inlineData", "fileData"})
_CONTENTS = _FILES | {"text"}


class Call(NamedTuple):
    """A tool call in an answer: its id, its tool, and whether its result is in the answer's record."""

    id: str
    name: str
    answered: bool


class Answer(NamedTuple):
    """The model's message, its calls, and the results in its record with their times."""

    message: Message
    calls: tuple[Call, ...]
    results: tuple[tuple[Message, datetime | None], ...]


def read_user(raw: Object) -> Message | None:
    """Read a user message; return None if it holds only tool results."""
    own_parts, responses = _split(_parts(raw))
    if responses and not own_parts:
        return None
    return Message("user", tuple(content for part in own_parts for content in _contents(part)))


def read_responses(raw: Object, key: str, calls: Sequence[Call]) -> Iterator[Message]:
    """Yield the tool results in a user message that are missing from the record of the preceding answer.

    Args:
        raw: The message as stored.
        key: The prefix of generated ids.
        calls: The calls of the answer; a result without an id belongs to the next call of the same tool.
    """
    call_by_id = {call.id: call for call in calls}
    by_tool: dict[str, deque[Call]] = {}
    for call in calls:
        by_tool.setdefault(call.name, deque()).append(call)
    for position, parts in enumerate(_split(_parts(raw))[1]):
        response = _member(parts[0], _RESPONSE)
        call_id, name = as_text(response.get("id")), _name(response)
        if not call_id:
            call_id = by_tool[name].popleft().id if by_tool.get(name) else f"{key}.{position}"
        if call_id not in call_by_id or not call_by_id[call_id].answered:
            yield _result(call_id, name, parts, failed=False)


def content_of_answer(raw: Object, key: str, after: Iterable[Object] = ()) -> tuple[object, ...]:
    """Return the content of the model's message, its calls and their results, equal for all stored forms of it.

    Args:
        raw: The message as stored.
        key: The prefix of ids generated for calls without one.
        after: The messages after it, the first of which may hold results that its record lacks.
    """
    answer = read_answer(_with_results(raw, after), key, "")
    thoughts = [_plain_thought(part) for part in answer.message.content if isinstance(part, ThinkingPart)]
    others = tuple(part for part in answer.message.content if not isinstance(part, ThinkingPart))
    return thoughts, others, answer.calls, tuple(result for result, _ in answer.results)


def read_answer(raw: Object, key: str, model: str) -> Answer:
    """Read the model's message without its usage, see `read_usage`.

    Args:
        raw: The message as stored.
        key: The prefix of ids generated for calls without one.
        model: The model that answered.
    """
    records = _Records(raw, key)
    parts: list[Content] = []
    for thought in as_items(raw.get("thoughts")):
        lines = [as_words(as_object(thought).get(name)) for name in ("subject", "description")]
        parts.append(thinking("\n\n".join(filter(None, lines)) if isinstance(thought, dict) else as_words(thought)))
    has_thoughts = bool(parts)
    for part in _parts(raw):
        if call := _member(part, _CALL):
            parts += _beside(part)
            parts.append(records.call(call, _signature(as_object(part))))
        elif not (has_thoughts and _is_thought(part)):
            parts += (content for content in _contents(part) if _has_content(content))
    parts += records.rest()
    message = Message("assistant", tuple(parts) or (text(""),), model=model or None, provider="google")
    return Answer(message, tuple(records.calls), tuple(records.results))


def read_usage(raw: Object) -> Usage | None:
    """Read the usage of the model's message; return None if it is not recorded."""
    tokens = raw.get("tokens")
    if not isinstance(tokens, dict):
        return None
    input_tokens, cached = as_count(tokens.get("input")), as_count(tokens.get("cached"))
    output_tokens = as_count(tokens.get("output")) + as_count(tokens.get("thoughts"))
    return Usage(
        input_tokens=max(0, input_tokens - cached) + as_count(tokens.get("tool")),
        output_tokens=output_tokens,
        cache_read_tokens=cached,
        total_tokens=as_count(tokens.get("total")) or input_tokens + output_tokens,
    )


class _Records:
    """The calls of an answer; each may be in the record, among the parts, or in both.

    Attributes:
        calls: The calls.
        results: The results in the record.
    """

    def __init__(self, raw: Object, key: str) -> None:
        self.calls: list[Call] = []
        self.results: list[tuple[Message, datetime | None]] = []
        self._key = key
        self._unmatched: dict[str, Object] = {}  # records not matched with a part so far, by call id
        self._ids_by_tool: dict[str, deque[str]] = {}  # these call ids by tool, for parts without an id
        for position, record in enumerate(as_objects(raw.get("toolCalls"))):
            call_id, name = as_text(record.get("id")), _name(record)
            if not call_id or call_id in self._unmatched:
                call_id = f"{key}.{position}"
            result = _recorded_result(record, call_id, name)
            if result is not None:
                self.results.append((result, as_time(record.get("timestamp"))))
            self.calls.append(Call(call_id, name, result is not None))
            self._unmatched[call_id] = record
            self._ids_by_tool.setdefault(name, deque()).append(call_id)

    def call(self, part: Object, signature: str | None) -> ToolUsePart:
        """Read a call among the parts."""
        name, call_id = _name(part), as_text(part.get("id"))
        same_tool_ids = self._ids_by_tool.get(name, deque())
        while not call_id and same_tool_ids:
            candidate = same_tool_ids.popleft()
            call_id = candidate if candidate in self._unmatched else ""
        record = self._unmatched.pop(call_id, None)
        if record is None:
            call_id = call_id or f"{self._key}.{len(self.calls)}"
            self.calls.append(Call(call_id, name, answered=False))
        arguments = part.get("args", (record or {}).get("args"))
        return ToolUsePart(ToolUse(call_id, name, as_arguments(arguments), signature))

    def rest(self) -> Iterator[ToolUsePart]:
        """Yield the calls that are only in the record."""
        for call_id, record in self._unmatched.items():
            yield ToolUsePart(ToolUse(call_id, _name(record), as_arguments(record.get("args"))))


def _name(call: Object) -> str:
    return as_text(call.get("name")) or "unknown"


def _with_results(raw: Object, after: Iterable[Object]) -> Object:
    """Return the model's message with added records of those calls that only the messages after it answer."""
    calls = {as_text(call.get("id")): call for call in (_member(part, _CALL) for part in _parts(raw)) if call}
    records = as_objects(raw.get("toolCalls"))
    unanswered = calls.keys() - {"", *(as_text(record.get("id")) for record in records)}
    added: list[JSON] = []
    for message in after if unanswered else ():
        if as_text(message.get("type")) not in USERS or read_user(message) is not None:
            break
        for parts in _split(_parts(message))[1]:
            call_id = as_text(_member(parts[0], _RESPONSE).get("id"))
            if call_id in unanswered:
                unanswered.remove(call_id)
                added.append({**calls[call_id], "result": parts})
    return {**raw, "toolCalls": [*records, *added]} if added else raw


def _plain_thought(part: ThinkingPart) -> str:
    """Return a thought in the form of the record: the subject, which stands between asterisks, before the rest."""
    thought = part.thinking.content
    before, opening, rest = thought.partition("**")
    subject, closing, after = rest.partition("**")
    if not opening or not closing:
        return thought.strip()
    return "\n\n".join(filter(None, (subject.strip(), f"{before}{after}".strip())))


def _beside(part: JSON) -> Iterator[TextPart | ImagePart | ThinkingPart]:
    """Yield the contents of a part that stand beside its call or its response."""
    rest: Object = {name: value for name, value in as_object(part).items() if name in _CONTENTS or name == "thought"}
    if _CONTENTS & rest.keys():
        yield from (content for content in _contents(rest) if _has_content(content))


def _split(parts: Sequence[JSON]) -> tuple[list[JSON], list[list[JSON]]]:
    """Return the parts that belong to no tool's result, and for each result its own, beginning with the response."""
    others: list[JSON] = []
    results: list[list[JSON]] = []
    in_result = False
    for part in parts:
        if _member(part, _RESPONSE):
            results.append([part])
            in_result = True
            words = as_object(part).get("text")
            if words:
                others.append({"text": words})
        elif in_result and _FILES & as_object(part).keys():
            results[-1].append(part)
        else:
            others.append(part)
            in_result = False
    return others, results


def _parts(raw: Object) -> list[JSON]:
    content = raw.get("content")
    if content is None or content == "":
        content = raw.get("parts", "")
    return _listed(content)


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value] if isinstance(value, (str, dict)) else []


def _member(part: JSON, name: str) -> Object:
    return as_object(as_object(part).get(name))


def _is_thought(part: JSON) -> bool:
    return as_object(part).get("thought") is True


def _signature(part: Object) -> str | None:
    return as_text(part.get("thoughtSignature")) or None


def _has_content(part: Content) -> bool:
    return not isinstance(part, TextPart) or bool(part.text.content or part.text.signature)


def _contents(part: JSON) -> Iterator[TextPart | ImagePart | ThinkingPart]:
    """Yield the contents of a part: nothing if it is empty, its JSON text if treering has no content type for it.

    A file that is not an image becomes a text that names it.
    """
    raw = as_object(part)
    inline, file = as_object(raw.get("inlineData")), as_object(raw.get("fileData"))
    has_text = isinstance(raw.get("text"), str)
    if has_text:
        words, signature = as_text(raw["text"]), _signature(raw)
        yield ThinkingPart(Thinking(words, signature)) if _is_thought(part) else TextPart(Text(words, signature))
    if inline:
        media_type = as_text(inline.get("mimeType"))
        is_image = media_type.startswith("image/")
        yield image(as_text(inline.get("data")), media_type) if is_image else _file(media_type)
    if file:
        address, media_type = as_text(file.get("fileUri")), as_text(file.get("mimeType"))
        is_image = not media_type or media_type.startswith("image/")
        yield image_at(address, media_type or None) if is_image else _file(address or media_type)
    if part and not (has_text or inline or file):
        yield text(as_json_text(part))


def _shown(part: TextPart | ImagePart | ThinkingPart) -> TextPart | ImagePart:
    """Return a part as a result may hold it: a thought becomes a text."""
    return text(part.thinking.content) if isinstance(part, ThinkingPart) else part


def _file(name: str) -> TextPart:
    """Return a text that names a file which is not an image, such as a document, audio, or a video."""
    return text(f"[file: {name or 'unknown'}]")


def _recorded_result(record: Object, call_id: str, name: str) -> Message | None:
    """Return the result in the record of a call, or None if the record has none so far.

    If the record holds the results of several calls, each reaches from its response to the next one.
    """
    raw, failed = record.get("result"), as_text(record.get("status")) in _FAILED
    if raw is None and failed:
        raw = record.get("resultDisplay")
    parts = _listed(raw)
    starts = [at for at, part in enumerate(parts) if _member(part, _RESPONSE)]
    for start, end in pairwise((*starts, len(parts))):
        if len(starts) > 1 and as_text(_member(parts[start], _RESPONSE).get("id")) == call_id:
            raw = parts[start:end]
    return None if raw is None and not failed else _result(call_id, name, raw, failed=failed)


def _result(call_id: str, name: str, raw: JSON, *, failed: bool) -> Message:
    body: list[TextPart | ImagePart] = []
    for part in _listed(raw):
        answer = _member(part, _RESPONSE)
        response = answer.get("response")
        if isinstance(response, dict):
            failed = failed or "error" in response
            named = [response[name] for name in ("output", "error") if response.get(name) is not None]
            body += (text(as_json_text(each)) for each in (named or [response]) if each)
        elif response:
            body.append(text(as_json_text(response)))
        content_parts = _listed(answer.get("parts")) if answer else [part]
        body += map(_shown, (each for item in content_parts for each in _contents(item)))
    texts = [part.text.content for part in body if isinstance(part, TextPart)]
    content = "\n".join(texts) if len(texts) == len(body) else body
    return Message("tool", (tool_result(call_id, content, is_error=failed),), tool_name=name)
