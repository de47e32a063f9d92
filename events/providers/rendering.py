"""How messages that no provider has a role for are told to a model: as a user's text.

The texts are the ones that pi sends, so that a session which moves between programs reads the same to the model. They
must not change: a provider's prompt cache breaks where they do.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..content import Content, ImagePart, TextPart, ThinkingPart, ToolResultPart, plain_text, text
from ..entries import BashExecution, Message

_SPOKEN = frozenset({"user", "assistant", "tool", "system"})

_ELSEWHERE = "blob:sha256:"  # how oh-my-pi names the file in which it keeps an image

_BRANCH = (
    "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n",
    "</summary>",
)
_COMPACTION = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
)


def rendered(message: Message) -> Message | None:
    """Return the message as a provider can be told it.

    Returns:
        The message itself where providers know its role, a system's in place of a developer's, a user's in place of any
        other of `ROLES`. None where the model is not to see it: a bash execution excluded from the context, or a role
        that only a program knows.
    """
    if message.role in _SPOKEN:
        return message
    if message.role == "developer":
        return replace(message, role="system")
    if message.role == "bashExecution":
        return _rendered_bash(message)
    if message.role == "custom":
        return Message("user", message.content)
    if message.role == "branchSummary":
        return Message("user", _wrapped(message.content, _BRANCH))
    if message.role == "compactionSummary":
        return Message("user", _wrapped(message.content, _COMPACTION))
    return None


def sendable(message: Message) -> Message | None:
    """Return the message as `rendered` has it, with words for the images that are not in the session.

    A request with the name of a file in the place of an image would be refused, this time and from then on.
    """
    told = rendered(message)
    if told is None or not any(map(_is_elsewhere, told.content)):
        return told
    return replace(told, content=tuple(map(_in_words, told.content)))


def _is_elsewhere(part: Content) -> bool:
    if isinstance(part, ToolResultPart):
        return not isinstance(part.tool_result.content, str) and any(map(_is_elsewhere, part.tool_result.content))
    return isinstance(part, ImagePart) and part.image.source.data.startswith(_ELSEWHERE)


def _in_words(part: Content) -> Content:
    if isinstance(part, ToolResultPart) and not isinstance(part.tool_result.content, str):
        return ToolResultPart(replace(part.tool_result, content=tuple(map(_named, part.tool_result.content))))
    return _named(part) if isinstance(part, ImagePart) else part


def _named(part: TextPart | ImagePart) -> TextPart | ImagePart:
    if isinstance(part, ImagePart) and _is_elsewhere(part):
        return text(f"[image: {part.image.source.media_type}]")
    return part


def bash_text(bash: BashExecution) -> str:
    """Return what a model is told of a command that a person ran."""
    told = f"Ran `{bash.command}`\n" + (f"```\n{bash.output}\n```" if bash.output else "(no output)")
    if bash.cancelled:
        told += "\n\n(command cancelled)"
    elif bash.exit_code:
        told += f"\n\nCommand exited with code {bash.exit_code}"
    if bash.truncated and bash.full_output_path:
        told += f"\n\n[Output truncated. Full output: {bash.full_output_path}]"
    return told


def in_turns(
    messages: Sequence[Message], *, for_google: bool = False
) -> tuple[list[TextPart], list[tuple[str, list[Content]]]]:
    """Bring messages into the order that providers want who know a user and an assistant that take turns.

    Args:
        messages: Messages of any role.
        for_google: An assistant's turn may hold images, and empty text that is signed, but no redacted thinking. For
            others, an assistant's images go into the user's turn after it.

    Returns:
        What the system says, and the turns: neighbours of one role are one turn, and a user's begins with the results of
        tools. Empty text and thinking without a signature are left out.
    """
    system: list[TextPart] = []
    turns: list[tuple[str, list[Content]]] = []
    shown: list[Content] = []
    for message in filter(None, map(sendable, messages)):
        content = [part for part in message.content if _is_sayable(part, for_google)]
        if message.role == "system":
            system += [part for part in content if isinstance(part, TextPart)]
        elif message.role == "assistant":
            _take(turns, "user", shown)
            shown = [] if for_google else [part for part in content if isinstance(part, ImagePart)]
            _take(turns, "assistant", [part for part in content if part not in shown])
        else:
            _take(turns, "user", [*shown, *content])
            shown = []
    _take(turns, "user", shown)
    for role, content in turns:
        if role == "user":
            content.sort(key=lambda part: not isinstance(part, ToolResultPart))
    return system, turns


def _is_sayable(part: Content, for_google: bool) -> bool:
    if isinstance(part, TextPart):
        return bool(part.text.content or (for_google and part.text.signature))
    if isinstance(part, ThinkingPart):
        return part.thinking.signature is not None and not (for_google and part.thinking.redacted)
    return True


def _take(turns: list[tuple[str, list[Content]]], role: str, content: Sequence[Content]) -> None:
    if content and turns and turns[-1][0] == role:
        turns[-1][1].extend(content)
    elif content:
        turns.append((role, list(content)))


def _rendered_bash(message: Message) -> Message | None:
    if message.bash is None:
        return Message("user", message.content)
    return None if message.bash.exclude_from_context else Message("user", (text(bash_text(message.bash)),))


def _wrapped(content: tuple[Content, ...], around: tuple[str, str]) -> tuple[Content, ...]:
    before, after = around
    others = (part for part in content if not isinstance(part, TextPart))
    return (text(f"{before}{plain_text(content)}{after}"), *others)
