"""Files of programs that treering has no reader for, and that resemble those of another program.

They are refused by name: read as the other program's, they would be imported with their words left out.
"""

from __future__ import annotations

import re

from ..events.json_values import JSON
from .json_lines import beginning, decoded
from .values import Object, as_object, as_text

_LINES_CHECKED = 50
_QWEN = "Qwen Code"
_QWEN_START = re.compile(rb'\{"uuid":"[^"]*","parentUuid":(null|"[^"]*"),"sessionId":')
_QWEN_LINE = re.compile(rb'"message":\{"role":"(user|model)","parts":\[')
_OLD_QWEN = re.compile(rb'\{\s*"sessionId"\s*:.{0,4000}?"type"\s*:\s*"qwen"', re.DOTALL)
_QWEN_ROLES = frozenset({"user", "model"})


def program_of(head: bytes) -> str | None:
    """Return the program without a reader that wrote a file, judged by the file's first bytes; None for any other."""
    start = beginning(head)
    if _OLD_QWEN.match(start) is not None:
        return _QWEN
    if b'"parts"' in start or b'"systemPayload"' in start:
        lines = start.splitlines()[:_LINES_CHECKED]
        if any(_is_line_of_qwen(line) for line in lines):
            return _QWEN
    return None


def _is_line_of_qwen(line: bytes) -> bool:
    """Return whether a line is in the tree of a Qwen Code session, and holds a message of Google's or its own data."""
    value = decoded(line)
    if value is None:  # too long for the head
        return _QWEN_START.match(line) is not None and _QWEN_LINE.search(line) is not None
    if "uuid" not in value or "parentUuid" not in value:
        return False
    return _is_content(as_object(value.get("message"))) or (
        value.get("type") == "system" and isinstance(value.get("systemPayload"), dict)
    )


def _is_content(message: Object) -> bool:
    parts: JSON = message.get("parts")
    return isinstance(parts, list) and "content" not in message and as_text(message.get("role")) in _QWEN_ROLES
