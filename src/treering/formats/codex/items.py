"""Codex: what is known of the lines of a rollout, and reading one item as parts of a message.

{"type":"message","role":"user","content":[{"type":"input_text","text":"List the files"}]}
{"type":"reasoning","summary":[{"type":"summary_text","text":"..."}],"encrypted_content":"..."}
{"type":"function_call","call_id":"call_1","name":"shell","arguments":"{\\"command\\":[\\"ls\\"]}"}
{"type":"function_call_output","call_id":"call_1","output":"a.txt\\n"}
"""

from __future__ import annotations

from ...events.content import (
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
from ...events.entries import CustomMessage, Message, ToolExecution, Usage
from ...events.json_values import JSON
from ...events.providers.common import image_at
from ..json_lines import Notes, names_in
from ..values import Object, as_arguments, as_count, as_json_text, as_list, as_number, as_object, as_text, kept_json

ROLES = {"user": "user", "assistant": "assistant", "developer": "system", "system": "system"}
"""Codex's message roles, and treering's; `developer` is another name for `system`."""

_RUNS = names_in("exec_command_end mcp_tool_call_end patch_apply_end")
LINES = names_in("inter_agent_communication_metadata session_meta world_state")
"""The kinds of lines that hold nothing of the conversation."""

ASIDE = names_in("compaction context_compaction image_generation_call other web_search_call")
"""The kinds of items that are known to be no message, call or output."""

ITEM_FIELDS = names_in(
    "action arguments author call_id content encrypted_content execution ghost_commit id input",
    "internal_chat_message_metadata_passthrough metadata name namespace output phase recipient result revised_prompt",
    "role status summary tools type end_turn timestamp",
)
_WORDS = names_in("action arguments content input output result summary tools")
_WORDS_READ = {
    "agent_message": _WORDS,
    "custom_tool_call": frozenset({"input"}),
    "custom_tool_call_output": frozenset({"output"}),
    "function_call": frozenset({"arguments"}),
    "function_call_output": frozenset({"output"}),
    "local_shell_call": frozenset({"action"}),
    "local_shell_call_output": frozenset({"output"}),
    "message": frozenset({"content"}),
    "reasoning": frozenset({"content", "summary"}),
    "tool_search_call": frozenset({"arguments"}),
    "tool_search_output": frozenset({"tools"}),
}
"""Which of the fields that hold words are read in an item; in an item that is kept as it is, all are."""

ENVELOPE = names_in("ordinal payload timestamp type")
SESSION_FIELDS = names_in(
    "agent_nickname agent_path agent_role base_instructions cli_version context_window cwd dynamic_tools",
    "forked_from_id git history_base history_metadata history_mode id instructions memory_mode model_provider",
    "multi_agent_version originator parent_thread_id selected_capability_roots session_id source thread_source",
    "timestamp type",
)
TURN_FIELDS = names_in(
    "active_permission_profile approval_policy approvals_reviewer base_instructions comp_hash collaboration_mode",
    "current_date cwd developer_instructions effort environments file_system_sandbox_policy final_output_json_schema",
    "model multi_agent_mode network multi_agent_version permission_profile personality realtime_active sandbox_policy",
    "summary timezone trace_id truncation_policy turn_id user_instructions workspace_roots",
)
"""Fields of a session and of a turn: the program's settings and instructions, which messages repeat."""

COMPACTED_FIELDS = names_in("first_window_id message previous_window_id replacement_history window_id window_number")

EVENTS = names_in(
    "agent_message agent_message_delta agent_reasoning agent_reasoning_delta agent_reasoning_raw_content",
    "agent_reasoning_section_break collab_agent_interaction_end collab_agent_spawn_end collab_close_end",
    "collab_resume_end collab_waiting_end context_compacted dynamic_tool_call_request dynamic_tool_call_response",
    "elicitation_request entered_review_mode exec_approval_request exec_command_begin exec_command_end",
    "exec_command_output_delta exited_review_mode image_generation_end item_completed item_started",
    "mcp_tool_call_begin mcp_tool_call_end patch_apply_begin patch_apply_end plan_update raw_response_item",
    "session_configured sub_agent_activity task_complete task_started thread_goal_updated thread_settings_applied",
    "token_count turn_aborted turn_diff turn.completed undo_completed undo_started user_message view_image_tool_call",
    "web_search_begin web_search_end",
)
"""The kinds of events that repeat items or serve only Codex's screens."""

_CALLS = {
    "function_call": ("arguments", ""),
    "custom_tool_call": ("input", ""),
    "local_shell_call": ("action", "local_shell"),
    "tool_search_call": ("arguments", "tool_search"),
}
_OUTPUT_FIELDS = names_in("content content_items success")
_PART_FIELDS = names_in("annotations detail image_url logprobs text type")
_OUTPUTS = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "local_shell_call_output": "output",
    "tool_search_output": "tools",
}


def check_item(kind: str, item: Object, notes: Notes) -> None:
    """Note the fields of an item that carry text and that are not read."""
    unread = _WORDS - _WORDS_READ.get(kind, _WORDS)
    notes.check_fields(kind or "item", item, ITEM_FIELDS - unread)


def read_content(value: JSON, notes: Notes) -> list[TextPart | ImagePart]:
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
        if url or isinstance(content, str):
            notes.check_fields("part", part, _PART_FIELDS)
            notes.check_strings("part", part, "text")
        else:
            notes.leave_out(f"part of kind {as_text(part.get('type')) or 'unknown'}", each)
    return parts


def read_reasoning(item: Object, notes: Notes) -> ThinkingPart:
    """Read the model's reasoning: the summary or else the full text, and the sealed form for the provider.

    `notes` is as in `read_content`.
    """
    summary = read_content(item.get("summary"), notes)
    if summary:
        notes.check_repeated("reasoning field content", item.get("content"), item["summary"])
    segments = summary or read_content(item.get("content"), notes)
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


def read_output(item: Object, notes: Notes) -> ToolResultPart | None:
    """Read a tool's output; return None if the item is not one. `notes` is as in `read_content`."""
    member = _OUTPUTS.get(as_text(item.get("type")))
    if member is None:
        return None
    output = item.get(member)
    fields = as_object(output)
    failed = fields.get("success") is False
    if "content" in fields or "content_items" in fields:
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


def run_of(kind: str, event: Object) -> Object | None:
    """Return the data of a tool's run; None if the event is not about one."""
    if kind in _RUNS:
        return event
    item = as_object(event.get("item")) if kind == "item_completed" else {}
    return item if item.get("type") == "CommandExecution" else None


def run_of_call(call: ToolUse, event: Object) -> ToolExecution:
    """Return the record of the run of a call."""
    duration, exit_code = as_object(event.get("duration")), as_number(event.get("exit_code"))
    failed = (
        exit_code not in (None, 0)
        or event.get("success") is False
        or event.get("status") == "failed"
        or "Err" in as_object(event.get("result"))
    )
    return ToolExecution(
        call.id,
        call.name,
        call.raw_input,
        success=not failed,
        exit_code=None if exit_code is None else int(exit_code),
        duration_ms=as_count(duration.get("secs")) * 1000 + as_count(duration.get("nanos")) / 1e6 if duration else None,
    )


def failure_of(event: Object, model: str, provider: str) -> Message:
    """Return an answer that failed; Codex shows the error, but no model sees it."""
    details = event.get("codex_error_info")
    return Message(
        "assistant",
        model=model or None,
        provider=provider,
        stop_reason="error",
        error=as_text(event.get("message")) or as_json_text(event),
        raw_metadata=None if details is None else kept_json({"codex_error_info": details}),
    )


def from_agent(kind: str, item: Object, notes: Notes) -> CustomMessage:
    """Return the message that another agent sent, with the sender in its details."""
    return CustomMessage(f"codex.{kind}", (*read_content(item.get("content"), notes),), raw_details=kept_json(item))
