"""An answer of Anthropic's messages, put together from the events of its stream.

    {"type": "message_start", "message": {"usage": {"input_tokens": 25, "cache_read_input_tokens": 1800, ...}, ...}}
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}
    {"type": "content_block_stop", "index": 0}
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}
    {"type": "message_stop"}

What is left out are citations, which a message has no place for. A block of a kind that nobody asked for is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ..actors.agents.model import ModelEvent, TextDelta, ThinkingDelta, ToolCallStarted
from ..events.content import JSON, MaybeRaw, json_object
from ..events.entries import Message
from ..events.providers.anthropic import from_anthropic
from .arguments import arguments_of

_STOP_REASONS = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "refusal": "refusal",
}


class _Usage(Struct, omit_defaults=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Said(Struct):
    usage: _Usage | None = None


class _Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None


class StreamEvent(Struct):
    """An event of any type, as far as it is read; with an `error`, the answer is none."""

    type: str
    index: int = -1
    message: _Said | None = None
    raw_block: MaybeRaw = msgspec.field(name="content_block", default=None)
    delta: _Delta | None = None
    usage: _Usage | None = None
    raw_error: MaybeRaw = msgspec.field(name="error", default=None)


decode_event = msgspec.json.Decoder(StreamEvent).decode
"""Decodes the data of an event."""


class _Block:
    """A block whose pieces are still coming; `fields` is how it began."""

    def __init__(self, fields: dict[str, JSON]) -> None:
        self.fields = fields
        self.type = fields.get("type")
        self.pieces: list[str] = []

    def read(self, *, cut: bool) -> dict[str, JSON]:
        """Return the block, with its pieces where they belong."""
        pieces = "".join(self.pieces)
        if self.type == "tool_use" and (pieces or cut or not self.fields.get("input")):
            return {**self.fields, "input": msgspec.json.decode(arguments_of(pieces, cut=cut))}
        if self.type in {"text", "thinking"}:
            name = str(self.type)
            return {**self.fields, name: f"{self.fields.get(name) or ''}{pieces}"}
        return self.fields


class AnthropicAnswer:
    """What has come of an answer.

    Attributes:
        begun: Whether anything has come.
    """

    def __init__(self) -> None:
        self.begun = False
        self._blocks: dict[int, _Block] = {}
        self._stop: str | None = None
        self._usage = _Usage()

    @property
    def whole(self) -> bool:
        """Whether the answer has said why it ended; what its connection does after that is of no matter."""
        return self._stop is not None

    def take(self, event: StreamEvent) -> Iterator[ModelEvent]:
        """Take an event in, and yield what an agent is told of it."""
        self.begun = True
        if event.message is not None:
            self._count(event.message.usage)
        self._count(event.usage)
        if event.raw_block is not None:
            block = self._blocks[event.index] = _Block(json_object(event.raw_block))
            if block.type == "tool_use":
                yield ToolCallStarted(str(block.fields.get("id")), str(block.fields.get("name")))
        if event.delta is not None:
            self._stop = event.delta.stop_reason or self._stop
            if event.index in self._blocks:
                yield from self._grow(self._blocks[event.index], event.delta)

    def _grow(self, block: _Block, delta: _Delta) -> Iterator[ModelEvent]:
        if delta.signature:
            block.fields["signature"] = delta.signature
        if delta.text:
            block.pieces.append(delta.text)
            yield TextDelta(delta.text)
        elif delta.thinking:
            block.pieces.append(delta.thinking)
            yield ThinkingDelta(delta.thinking)
        elif delta.partial_json:
            block.pieces.append(delta.partial_json)

    def _count(self, usage: _Usage | None) -> None:
        """Take counts in: later ones are sums and stand for earlier ones, but not all of them come again."""
        if usage is not None:
            later = {name: count for name, count in asdict(usage).items() if count is not None}
            self._usage = replace(self._usage, **later)

    def message(self, provider: str, model_id: str) -> Message:
        """Return the whole answer.

        Raises:
            InvalidEntry: It holds a block that a message cannot hold.
        """
        reason = _STOP_REASONS.get(self._stop or "")
        last = max(self._blocks, default=-1)
        content: list[JSON] = [
            block.read(cut=reason == "length" and index == last)
            for index, block in sorted(self._blocks.items())
            if block.type not in {"text", "thinking"} or block.pieces or block.fields.get("signature")
        ]
        usage = {name: count for name, count in asdict(self._usage).items() if count is not None}
        message = from_anthropic({"role": "assistant", "content": content, "usage": usage})
        default = "tool_use" if message.has_calls else "stop"
        return replace(message, provider=provider, model=model_id, stop_reason=reason or default)
