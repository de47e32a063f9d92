"""The programs that a session can be handed over to, each loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

from ...events.arguments import check_word
from .base import Target

_PLACES = {
    "claude-code": ("claude_code", "ClaudeCodeTarget"),
    "codex": ("codex", "CodexTarget"),
    "gemini": ("gemini", "GeminiTarget"),
    "opencode": ("opencode", "OpencodeTarget"),
    "pi": ("pi", "PiTarget"),
    "qwen": ("qwen", "QwenTarget"),
}


def target_names() -> tuple[str, ...]:
    """Return the names of the programs."""
    return (*_PLACES,)


def target_named(name: str) -> Target:
    """Return the program with a name.

    Raises:
        InvalidInput: There is none.
    """
    check_word("program", name, _PLACES)
    module, kind = _PLACES[name]
    target: Target = getattr(import_module(f".{module}", __package__), kind)()
    return target
