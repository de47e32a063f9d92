"""The lines of Claude Code's transcripts, as Claude Code 1.x and 2.x write them.

A line is decoded twice. Its `Outline` holds its type and its place in the tree, which is enough to lay out the
conversation and keeps no long texts. Its `Line` holds everything that is imported, and is decoded when its entry is
made. Of the display form of a result (`toolUseResult`), only the sub-agent's id is read: the rest repeats what the
model was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from ...events.json_values import JSON, raw_json
from ..json_lines import decoded, tails
from ..values import Object, dropped, salvaged

S = TypeVar("S", bound=Struct)

_LINE_STARTS = (b'{"parentUuid"', b'{"type"', b'{"isSidechain"')
NO_RAW = Raw(b"")


class PartOutline(Struct, gc=False):
    """The kind and ids of one part of a message."""

    type: str = ""
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None


class MessageOutline(Struct, gc=False):
    """The id of a message, and the outlines of its parts."""

    id: str | None = None
    content: str | list[PartOutline] | None = None


class Segment(Struct, gc=False):
    """The messages that a compaction kept, as the first and the last of them."""

    head: str | None = field(name="headUuid", default=None)
    tail: str | None = field(name="tailUuid", default=None)


class Preserved(Struct, gc=False):
    """The messages that a compaction kept, all of them in order."""

    uuids: list[str] | None = None


class CompactionFacts(Struct, gc=False):
    """What a boundary line says about its compaction."""

    trigger: str | None = None
    tokens_before: int | None = field(name="preTokens", default=None)
    segment: Segment | None = field(name="preservedSegment", default=None)
    preserved: Preserved | None = field(name="preservedMessages", default=None)

    @property
    def kept(self) -> list[str]:
        """The kept messages that it names, in order; the list takes precedence over the older segment."""
        if self.preserved is not None and self.preserved.uuids:
            return self.preserved.uuids
        ends = (self.segment.head, self.segment.tail) if self.segment is not None else ()
        return [uuid for uuid in ends if uuid]


class AttachmentOutline(Struct, gc=False):
    """The type of an attachment; for one of a hook also the event, and what the hook wrote."""

    type: str = ""
    event: str | None = field(name="hookEvent", default=None)
    content: Raw = NO_RAW


class Progress(Struct, gc=False):
    """The sub-agent that a progress report is about."""

    agent: str | None = field(name="agentId", default=None)


class ForkOrigin(Struct, gc=False):
    """The session from which a line was copied when its own session was forked."""

    session: str | None = field(name="sessionId", default=None)


class Outline(Struct, gc=False):
    """A line's type and its place in the tree."""

    type: str = ""
    uuid: str | None = None
    parent: str | None = field(name="parentUuid", default=None)
    logical: str | None = field(name="logicalParentUuid", default=None)
    session: str | None = field(name="sessionId", default=None)
    sidechain: bool = field(name="isSidechain", default=False)
    agent: str | None = field(name="agentId", default=None)
    subtype: str | None = None
    is_summary: bool = field(name="isCompactSummary", default=False)
    timestamp: str | None = None
    cwd: str | None = None
    message: MessageOutline | None = None
    facts: CompactionFacts | None = field(name="compactMetadata", default=None)
    attachment: AttachmentOutline | None = None
    data: Progress | None = None
    parent_call: str | None = field(name="parentToolUseID", default=None)
    custom_title: str | None = field(name="customTitle", default=None)
    ai_title: str | None = field(name="aiTitle", default=None)
    summary: str | None = None
    leaf: str | None = field(name="leafUuid", default=None)
    forked_from: ForkOrigin | None = field(name="forkedFrom", default=None)


class ImageSource(Struct, gc=False, omit_defaults=True):
    """The data or address of an image or a document."""

    type: str = ""
    media_type: str = ""
    data: str = ""
    url: str = ""
    content: Raw = NO_RAW


class Part(Struct, gc=False, omit_defaults=True):
    """A part of a message, with the fields of all kinds."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NO_RAW
    tool_use_id: str | None = None
    content: str | list[Part] | None = None
    is_error: bool | None = None
    source: ImageSource | None = None
    title: str | None = None
    context: str | None = None


class Tokens(Struct, gc=False):
    """The token counts that the provider reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class ApiMessage(Struct, gc=False):
    """A message in the format of the provider's API."""

    role: str | None = None
    id: str | None = None
    model: str | None = None
    content: str | list[Part] | None = None
    stop_reason: str | None = None
    usage: Tokens | None = None


class Skill(Struct, gc=False):
    """The text of a skill that was used."""

    name: str | None = None
    content: str | None = None


class BlockingError(Struct, gc=False):
    """The reason why a hook did not let Claude Code go on."""

    text: str | None = field(name="blockingError", default=None)


class Attachment(Struct, gc=False):
    """What Claude Code sent along with a message, with the fields of all types.

    `prompt` is one that the user sent while the model was working.
    """

    type: str = ""
    prompt: str | list[Part] | None = None
    filename: str | None = None
    path: str | None = None
    content: Raw = NO_RAW
    snippet: str | None = None
    first_line: int | None = field(name="lineStart", default=None)
    last_line: int | None = field(name="lineEnd", default=None)
    skills: list[Skill] | None = None
    plan_path: str | None = field(name="planFilePath", default=None)
    plan: str | None = field(name="planContent", default=None)
    hook: str | None = field(name="hookName", default=None)
    error: BlockingError | None = field(name="blockingError", default=None)
    message: str | None = None


class Line(Struct, gc=False):
    """Everything in a line that is imported."""

    message: ApiMessage | None = None
    content: str | None = None
    attachment: Attachment | None = None
    is_meta: bool | None = field(name="isMeta", default=None)
    is_error: bool | None = field(name="isApiErrorMessage", default=None)
    is_aborted: bool | None = field(name="isAbortedMidStream", default=None)
    request: str | None = field(name="requestId", default=None)
    cwd: str | None = None
    branch: str | None = field(name="gitBranch", default=None)
    version: str | None = None


class Meta(Struct, gc=False):
    """What a sub-agent is: it stands in a file beside its transcript, or in a line that the Claude Agent SDK adds."""

    agent_type: str | None = field(name="agentType", default=None)
    description: str | None = None
    call: str | None = field(name="toolUseId", default=None)

    @property
    def title(self) -> str | None:
        """What the sub-agent is for."""
        return self.description or self.agent_type


class _Result(Struct, gc=False):
    agent: str | None = field(name="agentId", default=None)


class _WithResult(Struct, gc=False):
    result: _Result | None = field(name="toolUseResult", default=None)


class _CallInput(Struct, gc=False):
    prompt: str | None = None


class _Call(Struct, gc=False):
    id: str | None = None
    input: _CallInput | None = None


class _Calls(Struct, gc=False):
    content: list[_Call] = []


class _WithCalls(Struct, gc=False):
    message: _Calls | None = None


_outline = msgspec.json.Decoder(Outline).decode
_line = msgspec.json.Decoder(Line).decode
_with_result = msgspec.json.Decoder(_WithResult).decode
_calls = msgspec.json.Decoder(_WithCalls).decode


def outline_of(data: bytes) -> Outline | None:
    """Decode the outline of a line; return None if the line is not a JSON object."""
    try:
        return _outline(data)
    except (ValueError, RecursionError):
        return _decode_leniently(data, Outline, _outline)


def line_of(data: bytes) -> tuple[Line, bool]:
    """Decode everything in a line that is imported, and tell whether that is exactly what it says.

    A field of an unexpected type counts as absent.
    """
    try:
        return _line(data), True
    except (ValueError, RecursionError):
        return _decode_leniently(data, Line, _line) or Line(), False


def whole_line_in(data: bytes) -> bytes | None:
    """Return the whole line that another write appended to a torn one without a newline; None if there is none."""
    for tail in tails(data, *_LINE_STARTS):
        with suppress(ValueError, RecursionError):
            outline = _outline(tail)
            if outline.uuid or outline.session:
                return bytes(tail)
    return None


def meta_in(data: bytes) -> Meta:
    """Decode what is known of a sub-agent; what is damaged says nothing."""
    try:
        return msgspec.json.decode(data, type=Meta)
    except (ValueError, RecursionError):
        return Meta()


def agent_of_result(data: bytes) -> str | None:
    """Return the sub-agent whose result a line is; None if the line does not say."""
    if b'"agentId"' not in data:
        return None
    try:
        result = _with_result(data).result
    except (ValueError, RecursionError):
        return None
    return None if result is None else result.agent


def prompts_of(data: bytes) -> dict[str, str]:
    """Return the prompts that the calls in a line give to sub-agents, by call id."""
    try:
        message = _calls(data).message
    except (ValueError, RecursionError):
        return {}
    parts = message.content if message is not None else []
    return {part.id: part.input.prompt for part in parts if part.id and part.input and part.input.prompt}


def unread_in(data: bytes) -> Iterator[tuple[str, JSON]]:
    """Yield what of a line has an unexpected form and therefore counts as absent: the name of its field, and itself."""
    return dropped(_with_listed_parts(decoded(data) or {}), Line)


def _with_listed_parts(line: Object) -> Object:
    """Return a line whose message has its content in the usual form; see `_listed_parts`."""
    message = line.get("message")
    if not isinstance(message, dict) or "content" not in message:
        return line
    return {**line, "message": {**message, "content": _listed_parts(message["content"])}}


def _listed_parts(content: JSON, levels: int = 1) -> JSON:
    """Return content as a list of parts, in which a string counts as a text: also that of results, a level below."""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return content
    parts: list[JSON] = [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]
    return [
        {**each, "content": _listed_parts(each["content"], levels - 1)}
        if levels and isinstance(each, dict) and "content" in each
        else each
        for each in parts
    ]


def _decode_leniently(data: bytes, kind: type[S], read: Callable[[bytes], S]) -> S | None:
    fields = decoded(data)
    if fields is None:
        return None
    fields = _with_listed_parts(fields)
    try:
        return read(bytes(raw_json(salvaged(fields, kind))))
    except (ValueError, RecursionError):  # numbers that JSON does not allow, or too deeply nested
        return None
