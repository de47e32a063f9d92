"""Qwen Code: one line for each message, each below the one before it, whose parts are those of Google's contents.

The first line has to name the project's folder, and the file is named after the session. A line whose parent is missing
costs everything before it. Answers that follow one another are joined to one, without a break between their texts.
Images are sent to models that are known to take them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

from ...events.content import Content, ThinkingPart, ToolResult
from ...events.json_values import JSON
from ...events.providers.common import images_of, result_text
from ..chain import derived_id
from ..values import Object
from .base import Plan, Said, Surroundings, Talk, Writing, dashed, google_part, json_lines, mark, milliseconds

_VERSION = "0.15.10"
_TYPES = {"user": "user", "assistant": "assistant", "tool": "tool_result"}


class QwenTarget:
    """Files `~/.qwen/projects/<folder>/chats/<session>.jsonl`."""

    title = "Qwen Code"

    def plan(self, talk: Talk, surroundings: Surroundings) -> Plan:
        """Return the session file; see `Target.plan`."""
        own_id = str(uuid4())
        variable = "QWEN_RUNTIME_DIR" if surroundings.environ.get("QWEN_RUNTIME_DIR") else "QWEN_HOME"
        folder = surroundings.folder(variable, ".qwen") / "projects" / dashed(surroundings.cwd) / "chats"
        writing = _Writing(talk, own_id, surroundings.cwd)
        lines = list(writing.lines())
        lines[0] |= mark(talk, own_id)
        return Plan(
            own_id, folder / f"{own_id}.jsonl", json_lines(lines), ("qwen", "--resume", own_id), (*writing.left_out,)
        )


class _Writing(Writing):
    def __init__(self, talk: Talk, own_id: str, cwd: str) -> None:
        super().__init__(talk)
        self._id = own_id
        self._cwd = cwd
        self._parent: str | None = None
        self._count = 0

    def lines(self) -> Iterator[Object]:
        messages = self._talk.messages
        for number, said in enumerate(messages):
            for result in said.results:
                status = "error" if result.is_error else "success"
                shown: Object = {"callId": result.tool_use_id, "status": status, "resultDisplay": result_text(result)}
                yield {**self._line(said, [self._response(said, result)]), "toolCallResult": shown}
            parts = [*self._parts(said, said.content)]
            if number + 1 < len(messages) and said.role == messages[number + 1].role == "assistant":
                parts = _set_off(parts)
            if parts:
                yield self._line(said, parts)

    def _line(self, said: Said, parts: list[JSON]) -> Object:
        self._count += 1
        parent, self._parent = self._parent, derived_id(self._id, str(self._count))
        is_answer = said.role == "assistant"
        return {
            "uuid": self._parent,
            "parentUuid": parent,
            "sessionId": self._id,
            "timestamp": milliseconds(said.time),
            "type": _TYPES[said.role],
            "cwd": self._cwd,
            "version": _VERSION,
            **({"model": said.model or "unknown"} if is_answer else {}),
            "message": {"role": "model" if is_answer else "user", "parts": parts},
        }

    def _response(self, said: Said, result: ToolResult) -> Object:
        images: list[JSON] = [*self._parts(said, images_of(result))]
        name = self._talk.tools.get(result.tool_use_id, "unknown")
        response: Object = {"error" if result.is_error else "output": result_text(result)}
        told: Object = {"id": result.tool_use_id, "name": name, "response": response}
        if images:
            told["parts"] = images
        return {"functionResponse": told}

    def _parts(self, said: Said, content: Sequence[Content]) -> Iterator[JSON]:
        for part in content:
            if (held := google_part(part)) is not None:
                yield held
            elif isinstance(part, ThinkingPart) and part.thinking.content.strip() and not part.thinking.redacted:
                yield {"text": part.thinking.content, "thought": True}
            else:
                for words in self.instead(said, part):
                    yield {"text": words}


def _set_off(parts: list[JSON]) -> list[JSON]:
    """Return the parts of an answer, its last text with a break at the end."""
    texts = [at for at, part in enumerate(parts) if isinstance(part, dict) and "text" in part and "thought" not in part]
    return [
        {"text": f"{part['text']}\n\n"} if texts and at == texts[-1] and isinstance(part, dict) else part
        for at, part in enumerate(parts)
    ]
