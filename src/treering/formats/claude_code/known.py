"""What Claude Code is known to write beside the conversation: an import reports everything else that it leaves out.

The kinds of lines and fields that are named here repeat the conversation, remind the model of a state, or serve only
the program's own screens. An unknown field counts only if it carries text, since each version adds flags and ids.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from ..json_lines import Notes, decoded
from ..values import as_object, as_objects
from .lines import NO_RAW, Outline

_LINES = frozenset(
    {
        *("agent-color", "agent-name", "agent-setting", "ai-title", "atis-latch", "attribution-snapshot"),
        *("bridge-session", "custom-title", "file-history-snapshot", "frame-link", "last-prompt", "mode"),
        *("permission-mode", "pr-link", "progress", "queue-operation", "relocated", "result", "speculation-accept"),
        *("started", "summary", "tag", "task-summary", "worktree-state"),
    }
)
_SYSTEM = frozenset(
    {
        *("agents_killed", "api_error", "api_refusal", "away_summary", "bridge_status", "compact_boundary", "error"),
        *("file_snapshot", "informational", "local_command", "memory_saved", "microcompact_boundary"),
        *("model_refusal_fallback", "permission_retry", "scheduled_task_fire", "session_start", "status"),
        *("stop_hook_summary", "task_notification", "task_started", "thinking", "turn_duration"),
    }
)
_ATTACHMENTS = frozenset(
    {
        *("agent_listing_delta", "agent_mention", "async_hook_response", "auto_mode", "auto_mode_exit"),
        *("batching_reminder_sent", "budget_usd", "command_permissions", "compact_file_reference"),
        *("compaction_reminder", "context_efficiency", "critical_system_reminder", "date_change"),
        *("deferred_tools_delta", "dynamic_skill", "edited_image_file", "hook_additional_context"),
        *("hook_cancelled", "hook_error_during_execution", "hook_non_blocking_error", "hook_permission_decision"),
        *("hook_success", "hook_system_message", "mcp_instructions_delta", "max_turns_reached", "opened_file_in_ide"),
        *("output_style", "output_token_usage", "plan_mode", "plan_mode_exit", "plan_mode_reentry"),
        *("read_truncation_notice", "silent_turn_reminder", "skill_listing", "structured_output", "task_reminder"),
        *("task_status", "team_context", "teammate_shutdown_batch", "todo_reminder", "token_usage"),
        *("total_tokens_reminder", "ultra_effort_enter", "ultra_effort_exit", "ultramemory", "ultrathink_effort"),
        "verify_plan_reminder",
    }
)
_ATTACHMENT_FIELDS = frozenset(
    {
        *("allowedTools", "blockingError", "command", "commandMode", "content", "displayPath", "durationMs"),
        *("exitCode", "filename", "hookEvent", "hookName", "ideName", "imagePasteIds", "isMeta", "lineEnd"),
        *("lineStart", "message", "mtimeMs", "origin", "path", "planContent", "planFilePath", "prompt", "skills"),
        *("snippet", "source_uuid", "stderr", "stdout", "timestamp", "toolUseID", "truncated", "type"),
    }
)
_LINE_FIELDS = (
    *("agentId", "apiError", "attachment", "attributionAgent", "attributionPlugin", "attributionSkill"),
    *("classifierMetaLines", "content", "cwd", "durationMs", "effort", "entrypoint", "error", "errorDetails"),
    *("forkedFrom", "gitBranch", "imagePasteIds", "interruptedByShutdown", "interruptedMessageId"),
    *("isAbortedMidStream", "isApiErrorMessage", "isCompactSummary", "isMeta", "isReplay", "isSidechain"),
    *("isVisibleInTranscriptOnly", "leafUuid", "level", "mcpMeta", "origin", "parentUuid", "parent_tool_use_id"),
    *("permissionMode", "planContent", "promptId", "promptSource", "requestId", "sessionId", "sessionKind"),
    *("session_id", "slug", "sourceToolAssistantUUID", "sourceToolUseID", "subtype", "summarizeMetadata"),
    *("supersedesUuids", "teamName", "thinkingMetadata", "timestamp", "todos", "toolDenialKind", "toolEndsTurn"),
    *("toolUseID", "toolUseResult", "turnCompanion", "type", "userType", "uuid", "version", "advisorModel"),
)
_MESSAGE_FIELDS = (
    *("container", "context_management", "diagnostics", "id", "model", "role", "stop_details", "stop_reason"),
    *("stop_sequence", "type", "usage"),
)
_PART_FIELDS = (
    *("cache_control", "caller", "citations", "content", "context", "data", "from", "id", "input", "is_error"),
    *("name", "signature", "source", "text", "thinking", "title", "to", "tool_use_id", "type"),
)


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
        notes.check_fields("line", value, {*_LINE_FIELDS, "message"}, line=number, byte=byte)
        notes.check_fields("message", message, {*_MESSAGE_FIELDS, "content"}, line=number, byte=byte)
        for part in as_objects(message.get("content")):
            notes.check_fields("part", part, {*_PART_FIELDS}, line=number, byte=byte)
            for inner in as_objects(part.get("content")):
                notes.check_fields("part", inner, {*_PART_FIELDS}, line=number, byte=byte)


def note_unknown_attachment(line: bytes, number: int, byte: int, notes: Notes) -> None:
    """Note the fields of a line's attachment that carry text and that are not known."""
    attachment = as_object((decoded(line) or {}).get("attachment"))
    notes.check_fields("attachment", attachment, _ATTACHMENT_FIELDS, line=number, byte=byte)
