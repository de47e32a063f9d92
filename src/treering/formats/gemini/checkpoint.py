"""Gemini CLI: a conversation that a person saved under a chosen name with `/chat save`.

    checkpoint-<name>.json   {"history":[{"role":"user","parts":[{"text":"Say hello."}]},...],"authType":"..."}
                             [{"role":"user","parts":[{"text":"Say hello."}]},...]      in earlier versions

The file holds what was sent to the model. It records neither the times of the messages nor the model. For how its
messages are read, see `gemini_messages`.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from ...events.json_values import JSON
from ..json_lines import Notes, beginning
from ..values import Object, as_object

_HEAD_PATTERN = re.compile(
    rb'(\{\s*"history"\s*:\s*)?\[\s*\{\s*("role"\s*:\s*"(user|model)"\s*,\s*"parts"|"parts"\s*:\s*\[)'
)
_PREFIX = "checkpoint-"
_CONTENT_FIELDS = frozenset({"parts", "role"})
_TYPES: dict[JSON, str] = {"user": "user", "function": "user", "model": "model"}


def is_checkpoint(head: bytes) -> bool:
    """Return whether a file is a saved conversation, by its first bytes."""
    return _HEAD_PATTERN.match(beginning(head)) is not None and b'"role"' in head


def contents_of(value: JSON) -> list[JSON] | None:
    """Return the contents of a saved conversation; None if `value` is not one."""
    contents = value.get("history") if isinstance(value, dict) else value
    if isinstance(contents, list) and any(_is_content(each) for each in contents):
        return contents
    return None


def messages_of(contents: list[JSON], notes: Notes) -> list[Object]:
    """Return the messages in the form used in sessions; report and leave out items that are not messages."""
    messages: list[Object] = []
    for position, each in enumerate(contents):
        if _is_content(each):
            raw = as_object(each)
            notes.check_fields("message", raw, _CONTENT_FIELDS)
            messages.append({"type": _TYPES[raw["role"]], "content": raw["parts"]})
        else:
            notes.add("damaged", "error", f"history[{position}] has no known role or no parts, so it is left out")
    return messages


def title_of(path: Path) -> str | None:
    """Return the name under which a conversation was saved, from the file's name; None if it has none."""
    return unquote(path.stem.removeprefix(_PREFIX)) if path.stem.startswith(_PREFIX) else None


def _is_content(value: JSON) -> bool:
    raw = as_object(value)
    role = raw.get("role")
    return isinstance(role, str) and role in _TYPES and isinstance(raw.get("parts"), list)
