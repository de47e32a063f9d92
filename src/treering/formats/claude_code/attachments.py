"""Attachments of Claude Code: what it sent to the model along with a message, as a text or an image.

{"type":"attachment","attachment":{"type":"file","filename":"/a.py","content":{"type":"text","file":{"content":"..."}}}}
{"type":"attachment","attachment":{"type":"hook_additional_context","hookName":"PostToolUse:Edit","content":["..."]}}

Claude Code sends them again when it resumes a session, as messages of the user that it writes itself. The texts around
the contents are treering's. Attachments that only remind the model of a state that Claude Code knows (its tools, its
todo list, its mode) are no part of the conversation.

Here is also what else is known of the lines that hold no message, and of the fields that are not read. Whatever is not
known is reported, so that nothing is left out unnoticed when Claude Code begins to write something new.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from ...events.content import Content, text
from ...events.json_values import JSON, json_value
from ...events.providers.common import image_at
from ..json_lines import Notes, decoded, names_in
from ..values import as_list, as_object, as_objects, as_text
from .lines import NO_RAW, Attachment, AttachmentOutline, Outline

_CONTENT = names_in(
    "directory edited_text_file file hook_additional_context hook_blocking_error hook_stopped_continuation",
    "invoked_skills nested_memory plan_file_reference selected_lines_in_ide",
)
_SUCCESS = "hook_success"
_SENT_EVENTS = frozenset({"SessionStart", "UserPromptSubmit"})  # the output of other hooks is only shown
_EMPTY = frozenset({b"", b"null", b'""', b"[]"})
_LINES = names_in(
    "agent-color agent-name agent-setting ai-title atis-latch attribution-snapshot bridge-session custom-title",
    "file-history-snapshot frame-link last-prompt mode permission-mode pr-link progress queue-operation relocated",
    "result speculation-accept started summary tag task-summary worktree-state",
)
_SYSTEM = names_in(
    "agents_killed api_error api_refusal away_summary bridge_status compact_boundary error file_snapshot",
    "informational local_command memory_saved microcompact_boundary model_refusal_fallback permission_retry",
    "scheduled_task_fire session_start status stop_hook_summary task_notification task_started thinking turn_duration",
)
_ATTACHMENTS = names_in(
    "agent_listing_delta agent_mention async_hook_response auto_mode auto_mode_exit batching_reminder_sent budget_usd",
    "command_permissions compact_file_reference compaction_reminder context_efficiency critical_system_reminder",
    "date_change deferred_tools_delta dynamic_skill edited_image_file hook_additional_context hook_cancelled",
    "hook_error_during_execution hook_non_blocking_error hook_permission_decision hook_success hook_system_message",
    "mcp_instructions_delta max_turns_reached opened_file_in_ide output_style output_token_usage plan_mode",
    "plan_mode_exit plan_mode_reentry read_truncation_notice silent_turn_reminder skill_listing structured_output",
    "task_reminder task_status team_context teammate_shutdown_batch todo_reminder token_usage total_tokens_reminder",
    "ultra_effort_enter ultra_effort_exit ultramemory ultrathink_effort verify_plan_reminder",
)
_ATTACHMENT_FIELDS = names_in(
    "allowedTools blockingError command commandMode content displayPath durationMs exitCode filename hookEvent",
    "hookName ideName imagePasteIds isMeta lineEnd lineStart message mtimeMs origin path planContent planFilePath",
    "prompt skills snippet source_uuid stderr stdout timestamp toolUseID truncated type",
)
_LINE_FIELDS = names_in(
    "agentId apiError attachment attributionAgent attributionPlugin attributionSkill classifierMetaLines content cwd",
    "durationMs effort entrypoint error errorDetails forkedFrom gitBranch imagePasteIds interruptedByShutdown",
    "interruptedMessageId isAbortedMidStream isApiErrorMessage isCompactSummary isMeta isReplay isSidechain",
    "isVisibleInTranscriptOnly leafUuid level mcpMeta origin parentUuid parent_tool_use_id permissionMode planContent",
    "promptId promptSource requestId sessionId sessionKind session_id slug sourceToolAssistantUUID sourceToolUseID",
    "subtype summarizeMetadata supersedesUuids teamName thinkingMetadata timestamp todos toolDenialKind toolEndsTurn",
    "toolUseID toolUseResult turnCompanion type userType uuid version advisorModel",
)
_MESSAGE_FIELDS = names_in(
    "container context_management diagnostics id model role stop_details stop_reason stop_sequence type usage"
)
_PART_FIELDS = names_in(
    "cache_control caller citations content context data from id input is_error name signature source text thinking",
    "title to tool_use_id type",
)


def has_content(attachment: AttachmentOutline) -> bool:
    """Return whether Claude Code sends an attachment to the model for what it contains."""
    if attachment.type == _SUCCESS:
        return attachment.event in _SENT_EVENTS and bytes(attachment.content) not in _EMPTY
    if attachment.type == "hook_additional_context":
        return bytes(attachment.content) not in _EMPTY
    return attachment.type in _CONTENT


def read_attachment(attachment: Attachment) -> list[Content]:
    """Return the parts of the message in which the model sees an attachment."""
    content = _value(attachment.content)
    name = attachment.filename or attachment.path or attachment.plan_path or "unknown"
    match attachment.type:
        case "file":
            return _file(name, as_text(content) or content)
        case "directory":
            return _noted(f"The folder {name} contains:", as_text(content))
        case "nested_memory":
            return _noted(f"The file {name} contains:", as_text(as_object(content).get("content")))
        case "plan_file_reference":
            return _noted(f"The plan in {name}:", attachment.plan or "")
        case "edited_text_file":
            return _noted(f"The file {name} was modified, on purpose, by the user or a tool:", attachment.snippet or "")
        case "selected_lines_in_ide":
            lines = f"{attachment.first_line} to {attachment.last_line}"
            return _noted(f"The user selected the lines {lines} of {name}:", as_text(content))
        case "invoked_skills":
            skills = attachment.skills or []
            return _noted("Skills in use:", "\n\n".join(f"{each.name}:\n{each.content}" for each in skills))
        case "hook_blocking_error":
            reason = attachment.error.text if attachment.error is not None else None
            return _noted(f"The hook {attachment.hook} refused:", reason or "")
        case "hook_stopped_continuation":
            return _noted(f"The hook {attachment.hook} stopped the turn:", attachment.message or "")
        case _:
            texts = [content] if isinstance(content, str) else [as_text(each) for each in as_list(content)]
            return _noted(f"The hook {attachment.hook} added:", "\n".join(texts))


def _file(name: str, content: JSON) -> list[Content]:
    if isinstance(content, str):
        return _noted(f"The file {name} contains:", content)
    file = as_object(as_object(content).get("file"))
    if isinstance(words := file.get("content"), str):
        return _noted(f"The file {name} contains:", words)
    media_type, data = as_text(file.get("type")), as_text(file.get("base64"))
    if media_type.startswith("image/") and data:
        return [*_noted(f"The file {name}:", ""), image_at(f"data:{media_type};base64,{data}", media_type)]
    return _noted(f"[file: {name}]", "")


def _noted(title: str, content: str) -> list[Content]:
    """Return a notice in the form in which Claude Code marks its own."""
    return [text("\n".join(filter(None, ("<system-reminder>", title, content, "</system-reminder>"))))]


def _value(raw: Raw) -> JSON:
    return json_value(raw) if bytes(memoryview(raw)[:1]) else None


def _only(name: str, fields: Iterable[str], **inner: object) -> type[Struct]:
    """Make a type of objects that have some of these fields, and no others."""
    return msgspec.defstruct(
        name,
        [*((each, Raw, NO_RAW) for each in fields), *((each, hint, None) for each, hint in inner.items())],
        forbid_unknown_fields=True,
        gc=False,
    )


_InnerPart = _only("_InnerPart", _PART_FIELDS)
_OWN_PART_FIELDS = tuple(name for name in _PART_FIELDS if name != "content")
_Part = _only("_Part", _OWN_PART_FIELDS, content=str | list[_InnerPart] | None)  # type: ignore[valid-type]
_Message = _only("_Message", _MESSAGE_FIELDS, content=str | list[_Part] | None)  # type: ignore[valid-type]
_knows = msgspec.json.Decoder(_only("_Line", _LINE_FIELDS, message=_Message | None)).decode


def is_known(outline: Outline) -> bool:
    """Return whether a line that is left out is known not to belong to the conversation."""
    if outline.type == "system":
        return outline.subtype in _SYSTEM
    if outline.type == "attachment":
        return outline.attachment is not None and outline.attachment.type in _ATTACHMENTS
    return outline.type in _LINES


def note_unknown_fields(line: bytes, number: int, byte: int, notes: Notes) -> None:
    """Note the fields of a line that carry text and that are not known."""
    try:
        _knows(line)
    except (ValueError, RecursionError):  # seldom: look closely
        value = decoded(line) or {}
        message = as_object(value.get("message"))
        notes.check_fields("line", value, _LINE_FIELDS | {"message"}, line=number, byte=byte)
        notes.check_fields("message", message, _MESSAGE_FIELDS | {"content"}, line=number, byte=byte)
        for part in as_objects(message.get("content")):
            notes.check_fields("part", part, _PART_FIELDS, line=number, byte=byte)
            for inner in as_objects(part.get("content")):
                notes.check_fields("part", inner, _PART_FIELDS, line=number, byte=byte)


def note_unknown_attachment(line: bytes, number: int, byte: int, notes: Notes) -> None:
    """Note the fields of a line's attachment that carry text and that are not known."""
    attachment = as_object((decoded(line) or {}).get("attachment"))
    notes.check_fields("attachment", attachment, _ATTACHMENT_FIELDS, line=number, byte=byte)
