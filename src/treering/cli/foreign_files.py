"""Files of other programs that were given in place of a session: what they are, and how to import them."""

from __future__ import annotations

import shlex
from pathlib import Path

_PROGRAMS = {
    "treering-json": "a JSON export of treering",
    "dive": "a session of dive",
    "codex": "a session of Codex",
    "claude-code": "a session of Claude Code",
    "gemini": "a session of Gemini CLI",
    "opencode": "a session of opencode",
    "nanocoder": "a session of nanocoder",
    "picoclaw": "a session of picoclaw",
}
"""A description of each importable file, by the name of its format."""


def advice_on(path: str) -> str | None:
    """Return what a foreign file is and how to import it, or None if its format is unknown."""
    from ..events.errors import ForeignFormatError
    from ..formats.detect import format_named, head_of

    source = Path(path)
    try:
        head = head_of(source)
        format_name = next((name for name in _PROGRAMS if format_named(name).recognizes(source, head)), None)
    except (ForeignFormatError, OSError):  # it is gone or unreadable, which has been reported already
        return None
    if format_name is None:
        return None
    return f"it is {_PROGRAMS[format_name]}: import it with `treering import {shlex.quote(path)}`"
