"""An answer of Anthropic's Messages API, assembled from the events of its stream.

    {"type": "message_start", "message": {"usage": {"input_tokens": 25, "cache_read_input_tokens": 1800, ...}, ...}}
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}
    {"type": "content_block_stop", "index": 0}
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}
    {"type": "message_stop"}

Citations are left out, since a message has no place for them. A block of an unexpected kind is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ..actors.agents.model import ModelEvent, TextDelta, ThinkingDelta, ToolCallStarted
from ..events.entries import Message
from ..events.json_values import JSON, MaybeRaw, json_object
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


class _Start(Struct):
    usage: _Usage | None = None


class _Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None


class StreamEvent(Struct):
    """An event of any type, with the fields that are read; with `error`, there is no answer."""

    type: str
    index: int = -1
    message: _Start | None = None
    raw_block: MaybeRaw = msgspec.field(name="content_block", default=None)
    delta: _Delta | None = None
    usage: _Usage | None = None
    raw_error: MaybeRaw = msgspec.field(name="error", default=None)


decode_event = msgspec.json.Decoder(StreamEvent).decode
"""Decodes the data of an event."""


class _Block:
    """An incomplete block; `fields` is its beginning."""

    def __init__(self, fields: dict[str, JSON]) -> None:
        self.fields = fields
        self.type = fields.get("type")
        self.pieces: list[str] = []

    def read(self, *, cut: bool) -> dict[str, JSON]:
        """Return the block with its pieces joined."""
        pieces = "".join(self.pieces)
        if self.type == "tool_use" and (pieces or cut or not self.fields.get("input")):
            return {**self.fields, "input": msgspec.json.decode(arguments_of(pieces, cut=cut))}
        if self.type in {"text", "thinking"}:
            name = str(self.type)
            return {**self.fields, name: f"{self.fields.get(name) or ''}{pieces}"}
        return self.fields


class AnthropicAnswer:
    """The part of an answer that has arrived.

    Attributes:
        begun: Whether anything has arrived.
    """

    def __init__(self) -> None:
        self.begun = False
        self._blocks: dict[int, _Block] = {}
        self._stop_reason: str | None = None
        self._usage = _Usage()

    @property
    def whole(self) -> bool:
        """Whether the answer has a stop reason; what its connection does after that does not matter."""
        return self._stop_reason is not None

    def take(self, event: StreamEvent) -> Iterator[ModelEvent]:
        """Add an event to the answer, and yield the resulting model events."""
        self.begun = True
        if event.message is not None:
            self._count(event.message.usage)
        self._count(event.usage)
        if event.raw_block is not None:
            block = self._blocks[event.index] = _Block(json_object(event.raw_block))
            if block.type == "tool_use":
                yield ToolCallStarted(str(block.fields.get("id")), str(block.fields.get("name")))
        if event.delta is not None:
            self._stop_reason = event.delta.stop_reason or self._stop_reason
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
        """Update the usage: later counts are totals that replace earlier ones, but not every count is repeated."""
        if usage is not None:
            later = {name: count for name, count in asdict(usage).items() if count is not None}
            self._usage = replace(self._usage, **later)

    def message(self, provider: str, model_id: str) -> Message:
        """Return the complete answer.

        Raises:
            InvalidEntry: It contains a block that a message cannot hold.
        """
        reason = _STOP_REASONS.get(self._stop_reason or "")
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
