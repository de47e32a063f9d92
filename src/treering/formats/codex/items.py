"""Codex: reading one item of a conversation as parts of a message.

{"type":"message","role":"user","content":[{"type":"input_text","text":"List the files"}]}
{"type":"reasoning","summary":[{"type":"summary_text","text":"..."}],"encrypted_content":"..."}
{"type":"function_call","call_id":"call_1","name":"shell","arguments":"{\\"command\\":[\\"ls\\"]}"}
{"type":"function_call_output","call_id":"call_1","output":"a.txt\\n"}
"""

from __future__ import annotations

from ...events.content import (
    JSON,
    ImagePart,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolResultPart,
    ToolUse,
    ToolUsePart,
    text,
    tool_result,
)
from ...events.entries import Usage
from ...events.providers.common import image_at
from ..json_lines import Notes
from ..values import Object, as_arguments, as_count, as_json_text, as_list, as_object, as_text

ROLES = {"user": "user", "assistant": "assistant", "developer": "system", "system": "system"}
"""Codex's message roles, and treering's; `developer` is another name for `system`."""

_CALLS = {
    "function_call": ("arguments", ""),
    "custom_tool_call": ("input", ""),
    "local_shell_call": ("action", "local_shell"),
    "tool_search_call": ("arguments", "tool_search"),
}
_OUTPUT_FIELDS = frozenset({"content", "content_items", "success"})
_PART_FIELDS = frozenset({"annotations", "detail", "image_url", "logprobs", "text", "type"})
_OUTPUTS = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "local_shell_call_output": "output",
    "tool_search_output": "tools",
}


def read_content(value: JSON, notes: Notes | None) -> list[TextPart | ImagePart]:
    """Read the content of a message or an output: a string, a part, or a list of parts.

    Args:
        value: The content.
        notes: Gets the parts that are neither text nor an image with an address.
    """
    if isinstance(value, str):
        return [text(value)]
    parts: list[TextPart | ImagePart] = []
    for each in [value] if isinstance(value, dict) else as_list(value):
        part: Object = {"text": each} if isinstance(each, str) else as_object(each)
        content, address = part.get("text"), part.get("image_url")
        url = as_text(address) or as_text(as_object(address).get("url"))
        if isinstance(content, str):
            parts.append(text(content))
        if url:
            parts.append(image_at(url))
        if notes is None:
            continue
        if url or isinstance(content, str):
            notes.check_fields("part", part, _PART_FIELDS)
            notes.check_strings("part", part, "text")
        else:
            notes.leave_out(f"part of kind {as_text(part.get('type')) or 'unknown'}", each)
    return parts


def read_reasoning(item: Object, notes: Notes | None) -> ThinkingPart:
    """Read the model's reasoning: the summary or else the full text, and the sealed form for the provider.

    `notes` is as in `read_content`.
    """
    segments = read_content(item.get("summary"), notes) or read_content(item.get("content"), notes)
    thought = "\n\n".join(part.text.content for part in segments if isinstance(part, TextPart) and part.text.content)
    sealed = as_text(item.get("encrypted_content")) or None
    return ThinkingPart(Thinking(thought, sealed, redacted=not thought and sealed is not None))


def read_call(item: Object) -> ToolUsePart | None:
    """Read a tool call; return None if the item is not a call that an output answers."""
    call_fields = _CALLS.get(as_text(item.get("type")))
    if call_fields is None:
        return None
    member, fallback = call_fields
    name = as_text(item.get("name")) or fallback
    if not name:
        return None
    return ToolUsePart(ToolUse(call_id(item), name, as_arguments(item.get(member))))


def call_id(item: Object) -> str:
    """Return the id that a call and its output share."""
    return as_text(item.get("call_id")) or as_text(item.get("id"))


def read_output(item: Object, notes: Notes | None) -> ToolResultPart | None:
    """Read a tool's output; return None if the item is not one. `notes` is as in `read_content`."""
    member = _OUTPUTS.get(as_text(item.get("type")))
    if member is None:
        return None
    output = item.get(member)
    fields = as_object(output)
    failed = fields.get("success") is False
    if "content" in fields or "content_items" in fields:
        if notes is not None:
            notes.check_fields("output", fields, _OUTPUT_FIELDS)
        output = fields.get("content_items") or fields.get("content")
    if member == "tools" or (fields and "text" not in fields and output is fields):
        return tool_result(call_id(item), as_json_text(output), is_error=failed)
    parts = read_content(output, notes)
    body = parts[0].text.content if len(parts) == 1 and isinstance(parts[0], TextPart) else parts
    return tool_result(call_id(item), body or "", is_error=failed)


def read_usage(info: Object) -> tuple[Usage, int | None]:
    """Return the usage of a request, and the running total, by which a repeated report is recognized."""
    last = as_object(info.get("last_token_usage")) or info
    cached = as_count(last.get("cached_input_tokens"))
    written = as_count(last.get("cache_write_input_tokens"))
    sent = as_count(last.get("input_tokens", last.get("prompt")))
    answered = as_count(last.get("output_tokens", last.get("completion")))
    usage = Usage(
        input_tokens=max(0, sent - cached - written),
        output_tokens=answered,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        total_tokens=as_count(last.get("total_tokens")) or sent + answered,
    )
    total = as_object(info.get("total_token_usage")).get("total_tokens")
    return usage, None if total is None else as_count(total)
