"""Files of other programs, named where a session was asked for: what they are, and what can be done with them."""

from __future__ import annotations

import shlex
from pathlib import Path

_PROGRAMS = {
    "treering-json": "an export of treering's as JSON",
    "dive": "a session of dive",
    "codex": "a session of Codex",
    "claude-code": "a session of Claude Code",
    "gemini": "a session of Gemini CLI",
    "opencode": "a session of opencode",
    "nanocoder": "a session of nanocoder",
    "picoclaw": "a session of picoclaw",
}
"""What is imported, by the names of the formats."""


def advice_on(path: str) -> str | None:
    """Say what a file is that is no session of treering's, and how it becomes one; None where nobody knows it."""
    from ..events.errors import ForeignFormatError
    from ..events.foreign.detect import format_named, head_of

    source = Path(path)
    try:
        head = head_of(source)
        found = next((name for name in _PROGRAMS if format_named(name).recognizes(source, head)), None)
    except (ForeignFormatError, OSError):  # it is gone, or may not be read, which is told already
        return None
    return None if found is None else f"it is {_PROGRAMS[found]}: `treering import {shlex.quote(path)}` takes it in"
