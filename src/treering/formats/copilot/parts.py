"""GitHub Copilot CLI: what the data of its events become: messages, results and usage."""

from __future__ import annotations

import re

from ...events.content import (
    Content,
    ImagePart,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolUse,
    ToolUsePart,
    file_text,
    image,
    text,
    tool_result,
)
from ...events.entries import BashExecution, Message, Usage
from ...events.json_values import JSON
from ..json_lines import Notes, names_in
from ..values import Object, as_arguments, as_count, as_items, as_object, as_objects, as_text, as_words, kept_json

PROVIDER = "github-copilot"

_USER_FIELDS = names_in(
    "agentMode attachments content delivery interactionId isAutopilotContinuation messageId",
    "nativeDocumentPathFallbackPaths parentAgentTaskId responsesReasoning source supportedNativeDocumentMimeTypes",
    "transformedContent turnId",
)
_ANSWER_FIELDS = names_in(
    "apiCallId chunkCount chunkIndex clientRequestId content encryptedContent interactionId messageId model",
    "originatingMessageId outputTokens parentToolCallId phase providerId reasoningBlocks reasoningOpaque",
    "reasoningText reasoningWireField requestId rte serviceRequestId toolRequests turnId",
)
_CALL_FIELDS = names_in("arguments caller intentionSummary mcpServerName mcpToolName name toolCallId toolTitle type")
_RESULT_FIELDS = names_in("binaryResultsForLlm content contents detailedContent mcpMeta uiResource")
"""The fields of a result that are read, or only repeat for people what the model was sent."""

_FILE_FIELDS = names_in(
    "assetId byteLength data displayName filePath lineRange mimeType omittedReason path repo selection",
    "taggedFilesEntry text title type url",
)
_FROM_AGENT = "agent-"  # the prompt that another agent wrote
_AROUND = re.compile(r"\s*<(?P<tag>\w+)\b[^>]*>.*?</(?P=tag)>\s*", re.DOTALL)


def read_user(data: Object, assets: dict[str, Object], notes: Notes) -> Message:
    """Read a prompt, or what the program says in the role of the user.

    Args:
        data: The data of the event.
        assets: The data of files sent along, by their ids.
        notes: Gets what is left out.
    """
    notes.check_fields("prompt", data, _USER_FIELDS)
    words = as_words(data.get("content"))
    parts: list[Content] = [text(words)] if words or not data.get("attachments") else []
    for each in as_items(data.get("attachments")):
        parts.append(_attached(as_object(each), assets, notes))
        notes.check_items("attachment of an unknown form", [each])
    sent = data.get("transformedContent")
    if (sent if words else None) and _AROUND.sub("", as_words(sent).replace(words, "", 1)).strip():
        notes.leave_out("prompt field transformedContent", sent)
    source = as_text(data.get("source"))
    by_program = source and source != "user" and not source.startswith(_FROM_AGENT)
    marks: Object = {"is_meta": True} if by_program or data.get("isAutopilotContinuation") is True else {}
    return Message("user", tuple(parts), raw_metadata=kept_json(marks) if marks else None)


def _attached(source: Object, assets: dict[str, Object], notes: Notes) -> TextPart | ImagePart:
    notes.check_fields("attachment", source, _FILE_FIELDS)
    asset = assets.get(as_text(source.get("assetId")), {})
    data = as_text(source.get("data")) or as_text(asset.get("data"))
    media_type = as_text(source.get("mimeType")) or as_text(asset.get("mimeType"))
    names = (as_text(source.get(name)) for name in ("filePath", "path", "displayName", "title", "url"))
    shown = next(filter(None, names), media_type or "unknown")
    if data and media_type.startswith("image/"):
        return image(data, media_type)
    if words := as_words(source.get("text")):
        return file_text(shown, words)
    return text(f"[file: {shown}]")


def read_answer(data: Object, thought: str, notes: Notes) -> Message | None:
    """Read an answer; return None if there is nothing in it.

    Args:
        data: The data of the event.
        thought: The thinking that an event before it had.
        notes: Gets what is left out.
    """
    notes.check_fields("answer", data, _ANSWER_FIELDS)
    parts: list[Content] = []
    own, sealed = as_words(data.get("reasoningText")), as_text(data.get("reasoningOpaque"))
    notes.check_repeated("thinking before an answer", thought if own else "", own)
    thought = own or thought
    if thought or sealed:
        parts.append(ThinkingPart(Thinking(thought, sealed or None)))
    if words := as_words(data.get("content")):
        parts.append(text(words))
    for each in as_items(data.get("toolRequests")):
        call = as_object(each)
        if name := as_text(call.get("name")):
            parts.append(
                ToolUsePart(ToolUse(as_text(call.get("toolCallId")), name, as_arguments(call.get("arguments"))))
            )
            notes.check_fields("call", call, _CALL_FIELDS)
        else:
            notes.leave_out("call without a name", each)
    if not parts:
        return None
    return Message("assistant", tuple(parts), model=as_text(data.get("model")) or None, provider=PROVIDER)


def read_result(data: Object, notes: Notes) -> Message:
    """Read the result of a call."""
    result, error = data.get("result"), as_object(data.get("error"))
    fields = as_object(result)
    notes.check_fields("result", fields, _RESULT_FIELDS)
    words = as_words(fields.get("content")) if isinstance(result, dict) else as_words(result)
    if message := as_words(error.get("message")):
        words = f"{words}\n{message}" if words else message
    notes.check_fields("error", error, frozenset({"code", "message", "stack"}))
    notes.check_repeated("result field contents", fields.get("contents"), words)
    images = [*_images(fields.get("contents")), *_images(fields.get("binaryResultsForLlm"))]
    body: str | list[TextPart | ImagePart] = [text(words), *images] if images else words
    call = as_text(data.get("toolCallId"))
    return Message("tool", (tool_result(call, body, is_error=data.get("success") is False),))


def _images(blocks: JSON) -> list[ImagePart]:
    found = [(as_text(each.get("data")), as_text(each.get("mimeType"))) for each in as_objects(blocks)]
    return [image(data, media_type) for data, media_type in found if data and media_type.startswith("image/")]


def read_shell(requested: Object, data: Object, notes: Notes) -> Message:
    """Read a command that the user ran, with its output; the model sees both."""
    result = read_result(data, notes).content[0]
    words = result.tool_result.text if result.type == "tool_result" else ""
    command = as_words(as_object(requested.get("arguments")).get("command"))
    return Message("bashExecution", bash=BashExecution(command, words, exit_code(data)))


def exit_code(data: Object) -> int | None:
    """Return the exit code of the shell that a tool ran; None if it ran none or goes on."""
    code = as_object(data.get("shellExecution")).get("exitCode")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def read_usage(usage: Object) -> Usage:
    """Return the usage of one request; its cost is in units of the program's own."""
    sent, answered = as_count(usage.get("inputTokens")), as_count(usage.get("outputTokens"))
    cached, written = as_count(usage.get("cacheReadTokens")), as_count(usage.get("cacheWriteTokens"))
    return Usage(max(0, sent - cached - written), answered, cached, written, sent + answered)
