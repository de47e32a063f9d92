"""Attachments of Claude Code: what it sent to the model along with a message, as a text or an image.

{"type":"attachment","attachment":{"type":"file","filename":"/a.py","content":{"type":"text","file":{"content":"..."}}}}
{"type":"attachment","attachment":{"type":"hook_additional_context","hookName":"PostToolUse:Edit","content":["..."]}}

Claude Code sends them again when it resumes a session, as messages of the user that it writes itself. The texts around
the contents are treering's. Attachments that only remind the model of a state that Claude Code knows (its tools, its
todo list, its mode) are no part of the conversation.
"""

from __future__ import annotations

from msgspec import Raw

from ...events.content import Content, text
from ...events.json_values import JSON, json_value
from ...events.providers.common import image_at
from ..values import as_list, as_object, as_text
from .lines import Attachment, AttachmentOutline

_CONTENT = frozenset(
    {
        "directory",
        "edited_text_file",
        "file",
        "hook_additional_context",
        "hook_blocking_error",
        "hook_stopped_continuation",
        "invoked_skills",
        "nested_memory",
        "plan_file_reference",
        "selected_lines_in_ide",
    }
)
_SUCCESS = "hook_success"
_SENT_EVENTS = frozenset({"SessionStart", "UserPromptSubmit"})  # the output of other hooks is only shown
_EMPTY = frozenset({b"", b"null", b'""', b"[]"})


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
