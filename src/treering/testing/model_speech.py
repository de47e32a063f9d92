"""The answers of the model server for tests, and their encoding in the protocols of OpenAI and Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Counts:
    """The token counts that the server reports; `input` includes tokens read from and written to the cache."""

    input: int = 10
    output: int = 5
    cache_read: int = 0
    cache_write: int = 0


COUNTED = Counts()
"""Token counts for tests to which they do not matter."""


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` are the pieces of JSON text in which they are sent."""

    id: str
    name: str
    arguments: Sequence[str] = ("{}",)


@dataclass(frozen=True)
class Speech:
    """An answer.

    Attributes:
        text: The pieces of its text.
        thought: The pieces of the thinking that precedes the text.
        calls: The tool calls.
        stop: Why it ends: "stop", "length", "tool_use" or "refusal"; None for an answer without a reason.
        usage: The token counts to report.
        cut_after: The number of events after which the server cuts the connection; a negative one counts from the end.
        hold_after: The number of events after which the server waits until the client disconnects.
        signature: The signature that Anthropic's protocol requires to be sent back with a thought.
        extra: Events to send unchanged, before the event with the stop reason.
    """

    text: Sequence[str] = ()
    thought: Sequence[str] = ()
    calls: Sequence[Call] = ()
    stop: str | None = "stop"
    usage: Counts | None = COUNTED
    cut_after: int | None = None
    hold_after: int | None = None
    signature: str = "sig"
    extra: Sequence[Mapping[str, Any]] = ()


def _event(data: Mapping[str, Any] | str, name: str | None = None) -> bytes:
    payload = data if isinstance(data, str) else json.dumps(data)
    return f"{f'event: {name}{chr(10)}' if name else ''}data: {payload}\n\n".encode()


_FINISH = {"tool_use": "tool_calls", "refusal": "content_filter"}


def openai_events(speech: Speech) -> Iterator[bytes]:
    """Encode an answer as the chunks of OpenAI's chat completions."""

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in speech.thought:
        yield chunk({"reasoning_content": piece})
    for piece in speech.text:
        yield chunk({"content": piece})
    for index, call in enumerate(speech.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
    for place in range(max((len(call.arguments) for call in speech.calls), default=0)):  # parallel calls take turns
        for index, call in enumerate(speech.calls):
            if place < len(call.arguments):
                fragment = {"index": index, "function": {"arguments": call.arguments[place]}}
                yield chunk({"tool_calls": [fragment]})
    for each in speech.extra:
        yield _event(each)
    if speech.stop is not None:
        yield chunk({}, _FINISH.get(speech.stop, speech.stop))
    if speech.usage is not None:
        counts = speech.usage
        usage = {
            "prompt_tokens": counts.input,
            "completion_tokens": counts.output,
            "total_tokens": counts.input + counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cache_read, "cache_write_tokens": counts.cache_write},
        }
        yield _event(
            {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage}
        )
    yield _event("[DONE]")


_STOPS = {"stop": "end_turn", "length": "max_tokens"}


def anthropic_events(speech: Speech) -> Iterator[bytes]:
    """Encode an answer as the events of Anthropic's messages."""

    def event(name: str, **fields: object) -> bytes:
        return _event({"type": name, **fields}, name)

    counts = speech.usage or COUNTED
    usage = {
        "input_tokens": counts.input - counts.cache_read - counts.cache_write,
        "output_tokens": 1,
        "cache_read_input_tokens": counts.cache_read,
        "cache_creation_input_tokens": counts.cache_write,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    yield event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})
    yield event("ping")
    for index, (start, deltas) in enumerate(_anthropic_blocks(speech)):
        yield event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    for each in speech.extra:
        yield _event(each, str(each["type"]))
    if speech.stop is not None:
        stop = {"stop_reason": _STOPS.get(speech.stop, speech.stop), "stop_sequence": None}
        yield event("message_delta", delta=stop, usage={"output_tokens": counts.output})
        yield event("message_stop")


def _anthropic_blocks(speech: Speech) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the beginning of each content block of an answer, and the deltas that complete it."""
    if speech.thought:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in speech.thought]
        deltas.append({"type": "signature_delta", "signature": speech.signature})
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if speech.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in speech.text]
    for call in speech.calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in call.arguments]
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas
