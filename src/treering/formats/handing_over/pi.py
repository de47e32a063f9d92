"""pi: one line for each message, each below the one before it; a result is a message of its own.

Answers name a provider that nobody has: pi sends no model the thinking of another one, so thinking is left out. Images
have to be in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

from ...events.content import Content, ImagePart, TextPart, ToolUsePart, text
from ...events.json_values import JSON
from ..values import Object
from .base import Plan, Said, Surroundings, Talk, Writing, json_lines, mark, milliseconds

_PROVIDER = "treering"
_KINDS = ("input", "output", "cacheRead", "cacheWrite")
_NO_COST: Object = dict.fromkeys((*_KINDS, "total"), 0)
_NO_USAGE: Object = {**dict.fromkeys((*_KINDS, "totalTokens"), 0), "cost": _NO_COST}


class PiTarget:
    """Files `~/.pi/agent/sessions/--<project>--/<time>_<session>.jsonl`."""

    title = "pi"

    def plan(self, talk: Talk, surroundings: Surroundings) -> Plan:
        """Return the session file; see `Target.plan`."""
        own_id = str(uuid4())
        now = milliseconds(surroundings.now)
        project = surroundings.cwd.removeprefix("/").replace("/", "-").replace("\\", "-").replace(":", "-")
        folder = surroundings.folder("PI_CODING_AGENT_DIR", ".pi", "agent") / "sessions" / f"--{project}--"
        head: Object = {"type": "session", "version": 3, "id": own_id, "timestamp": now, "cwd": surroundings.cwd}
        writing = _Writing(talk)
        lines = [head | mark(talk, own_id), *writing.lines()]
        return Plan(
            own_id,
            folder / f"{now.replace(':', '-').replace('.', '-')}_{own_id}.jsonl",
            json_lines(lines),
            ("pi", "--session", own_id),
            (*writing.left_out,),
        )


class _Writing(Writing):
    _count = 0

    def lines(self) -> Iterator[Object]:
        for said in self._talk.messages:
            for message in self._messages(said):
                self._count += 1
                yield {
                    "type": "message",
                    "id": f"{self._count:08x}",
                    "parentId": f"{self._count - 1:08x}" if self._count > 1 else None,
                    "timestamp": milliseconds(said.time),
                    "message": {**message, "timestamp": int(said.time.timestamp() * 1000)},
                }

    def _messages(self, said: Said) -> Iterator[Object]:
        if said.role == "user":
            yield {"role": "user", "content": self._blocks(said, said.content)}
        elif said.role == "assistant":
            yield {
                "role": "assistant",
                "content": self._blocks(said, said.content),
                "api": _PROVIDER,
                "provider": _PROVIDER,
                "model": said.model or "unknown",
                "usage": _NO_USAGE,
                "stopReason": "toolUse" if said.calls else "stop",
            }
        for result in said.results:
            content = (text(result.content),) if isinstance(result.content, str) else result.content
            yield {
                "role": "toolResult",
                "toolCallId": result.tool_use_id,
                "toolName": self._talk.tools.get(result.tool_use_id, "unknown"),
                "content": self._blocks(said, content),
                "isError": result.is_error,
            }

    def _blocks(self, said: Said, content: Sequence[Content]) -> list[JSON]:
        return [block for part in content for block in self._block(said, part)]

    def _block(self, said: Said, part: Content) -> Iterator[JSON]:
        if isinstance(part, TextPart):
            yield {"type": "text", "text": part.text.content}
        elif isinstance(part, ToolUsePart):
            call = part.tool_use
            yield {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.input}
        elif isinstance(part, ImagePart) and part.image.source.type == "base64":
            yield {"type": "image", "data": part.image.source.data, "mimeType": part.image.source.media_type}
        else:
            for words in self.instead(said, part):
                yield {"type": "text", "text": words}
