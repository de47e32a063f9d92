"""Gemini CLI: a conversation that a person saved under a name of their own, with `/chat save`.

    checkpoint-<name>.json   {"history":[{"role":"user","parts":[{"text":"Say hello."}]},...],"authType":"..."}
                             [{"role":"user","parts":[{"text":"Say hello."}]},...]      before

It is what the model was told, and says neither when it was said nor by which model. How its messages are read stands in
`gemini_messages`.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from ..content import JSON
from .json_lines import Notes, beginning
from .values import Object, as_object

_BEGINS = re.compile(rb'(\{\s*"history"\s*:\s*)?\[\s*\{\s*("role"\s*:\s*"(user|model)"\s*,\s*"parts"|"parts"\s*:\s*\[)')
_PREFIX = "checkpoint-"
_TYPES: dict[JSON, str] = {"user": "user", "function": "user", "model": "model"}


def is_checkpoint(head: bytes) -> bool:
    """Tell whether a file is a saved conversation, by its first bytes."""
    return _BEGINS.match(beginning(head)) is not None and b'"role"' in head


def contents_of(value: JSON) -> list[JSON] | None:
    """Return what a saved conversation holds; None where this is none."""
    contents = value.get("history") if isinstance(value, dict) else value
    if isinstance(contents, list) and any(_is_content(each) for each in contents):
        return contents
    return None


def messages_of(contents: list[JSON], notes: Notes) -> list[Object]:
    """Return messages as sessions have them; what is none is left out and told."""
    messages: list[Object] = []
    for position, each in enumerate(contents):
        if _is_content(each):
            given = as_object(each)
            messages.append({"type": _TYPES[given["role"]], "content": given["parts"]})
        else:
            notes.add("damaged", "error", f"history[{position}] has no role, or no parts: it is left out")
    return messages


def title_of(path: Path) -> str | None:
    """Return the name under which a conversation was saved, which the file's name tells."""
    return unquote(path.stem.removeprefix(_PREFIX)) if path.stem.startswith(_PREFIX) else None


def _is_content(value: JSON) -> bool:
    given = as_object(value)
    role = given.get("role")
    return isinstance(role, str) and role in _TYPES and isinstance(given.get("parts"), list)
