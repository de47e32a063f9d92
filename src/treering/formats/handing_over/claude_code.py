"""Claude Code: one line for each part of a message, each below the one before it.

Lines with one message id are one answer, and lines without any would all become one. Thinking is sent only to the model
that thought it, which is that of the last answer, and a provider refuses what it did not sign: all other thinking is
left out. The folder is named after the project, and the file after the session, whatever its lines say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

from ...events.content import Content, ImagePart, ThinkingPart, ToolResultPart
from ...events.entries import Message
from ...events.json_values import JSON
from ...events.providers.anthropic import to_anthropic
from ..chain import derived_id
from ..values import Object, as_list
from .base import Plan, Said, Surroundings, Talk, Writing, dashed, json_lines, mark, milliseconds, not_held

_VERSION = "2.1.197"
_FOLDER_MAX = 200
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MODEL = "claude-"


class ClaudeCodeTarget:
    """Files `~/.claude/projects/<folder>/<session>.jsonl`."""

    title = "Claude Code"

    def plan(self, talk: Talk, surroundings: Surroundings) -> Plan:
        """Return the transcript; see `Target.plan`."""
        own_id = str(uuid4())
        folder = surroundings.folder("CLAUDE_CONFIG_DIR", ".claude") / "projects" / folder_of(surroundings.cwd)
        writing = _Writing(talk, own_id, surroundings.cwd)
        lines = list(writing.lines())
        lines[0] |= mark(talk, own_id)
        return Plan(
            own_id, folder / f"{own_id}.jsonl", json_lines(lines), ("claude", "--resume", own_id), (*writing.left_out,)
        )


def folder_of(cwd: str) -> str:
    """Return the name of a project's folder."""
    name = dashed(cwd)
    if len(name) <= _FOLDER_MAX:
        return name
    units, number = cwd.encode("utf-16-le", "surrogatepass"), 0
    for at in range(0, len(units), 2):
        number = (number * 31 + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    return f"{name[:_FOLDER_MAX]}-{_base36(abs(number - (1 << 32) if number >> 31 else number))}"


def _base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits


class _Writing(Writing):
    def __init__(self, talk: Talk, own_id: str, cwd: str) -> None:
        super().__init__(talk)
        self._id = own_id
        self._cwd = cwd
        self._parent: str | None = None
        self._count = 0
        models = [each.model for each in talk.messages if each.role == "assistant" and _is_own(each)]
        self._model = models[-1] if models else None

    def lines(self) -> Iterator[Object]:
        for number, said in enumerate(self._talk.messages):
            content = list(self._kept(said))
            role = "assistant" if said.role == "assistant" else "user"
            turns = to_anthropic([Message("tool" if said.role == "tool" else role, tuple(content))]).messages
            blocks = [block for turn in turns if turn["role"] == role for block in as_list(turn["content"])]
            if said.role == "tool" or role == "assistant":
                for block in blocks:
                    yield self._line(said, role, [block], number)
            elif blocks:
                yield self._line(said, role, blocks, number)

    def _kept(self, said: Said) -> Iterator[Content]:
        for part in said.content:
            is_sent = _is_own(said) and said.model == self._model
            if isinstance(part, ThinkingPart) and not (is_sent and part.thinking.signature):
                self.left_out.append(not_held(said, part))
                continue
            images: Sequence[object] = (part,)
            if isinstance(part, ToolResultPart) and not isinstance(part.tool_result.content, str):
                images = part.tool_result.content
            self.left_out += (
                not_held(said, each) for each in images if isinstance(each, ImagePart) and not _held(each)
            )
            yield part

    def _line(self, said: Said, role: str, blocks: list[JSON], number: int) -> Object:
        self._count += 1
        parent, self._parent = self._parent, derived_id(self._id, str(self._count))
        message: Object = {"role": role, "content": blocks}
        if role == "assistant":
            message = {
                "id": f"msg_{derived_id(self._id, 'answer', str(number)).replace('-', '')[:24]}",
                "type": "message",
                "role": role,
                "model": said.model or "unknown",
                "content": blocks,
                "stop_reason": "tool_use" if said.calls else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            }
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self._cwd,
            "sessionId": self._id,
            "version": _VERSION,
            "gitBranch": "",
            "type": role,
            "message": message,
            "uuid": self._parent,
            "timestamp": milliseconds(said.time),
        }


def _is_own(said: Said) -> bool:
    return said.provider in (None, "anthropic") and (said.model or "").startswith(_MODEL)


def _held(part: ImagePart) -> bool:
    source = part.image.source
    if source.type == "url":
        return not source.data.startswith("data:")
    return source.media_type in _IMAGES
