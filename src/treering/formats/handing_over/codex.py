"""Codex: one line for each item of its provider's responses; events beside them are what its lists and screens show.

The name begins with `rollout-`, and the id of the first line counts. A line without a time is dropped without a word,
and so is one that lacks a field. A failed call has no mark, so its text says that it failed. Thinking is left out: its
provider takes back only what it encrypted itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

from ...events.content import Content, ImagePart, TextPart, ThinkingPart, ToolResult, plain_text
from ...events.json_values import JSON
from ...events.providers.common import url_of
from ..values import Object
from .base import Plan, Said, Surroundings, Talk, Writing, failed_text, json_lines, mark, milliseconds, not_held

_VERSION = "0.169.0"


class CodexTarget:
    """Files `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<session>.jsonl`."""

    title = "Codex"

    def plan(self, talk: Talk, surroundings: Surroundings) -> Plan:
        """Return the rollout; see `Target.plan`."""
        own_id = str(uuid4())
        when, now = surroundings.now, milliseconds(surroundings.now)
        name = f"sessions/{when:%Y/%m/%d}/rollout-{when:%Y-%m-%dT%H-%M-%S}-{own_id}.jsonl"
        payload: Object = {
            "id": own_id,
            "timestamp": now,
            "cwd": surroundings.cwd,
            "originator": "treering",
            "cli_version": _VERSION,
            "source": "cli",
        }
        writing = _Writing(talk)
        head: Object = {"timestamp": now, "type": "session_meta", "payload": payload, **mark(talk, own_id)}
        return Plan(
            own_id,
            surroundings.folder("CODEX_HOME", ".codex") / name,
            json_lines([head, *writing.lines()]),
            ("codex", "resume", own_id),
            (*writing.left_out,),
        )


class _Writing(Writing):
    def lines(self) -> Iterator[Object]:
        for said in self._talk.messages:
            time = milliseconds(said.time)
            for kind, payload in self._payloads(said):
                yield {"timestamp": time, "type": kind, "payload": payload}

    def _payloads(self, said: Said) -> Iterator[tuple[str, Object]]:
        for result in said.results:
            output = self._output(said, result)
            yield "response_item", {"type": "function_call_output", "call_id": result.tool_use_id, "output": output}
        kind = "output_text" if said.role == "assistant" else "input_text"
        content = [part for part in said.content if isinstance(part, (TextPart, ImagePart))]
        self.left_out += (not_held(said, part) for part in said.content if isinstance(part, ThinkingPart))
        if content:
            item: Object = {"type": "message", "role": said.role, "content": self._parts(said, content, kind)}
            yield "response_item", item
            event = "user_message" if said.role == "user" else "agent_message"
            yield "event_msg", {"type": event, "message": plain_text(content)}
        for call in said.calls:
            called: Object = {"name": call.name, "arguments": call.input_text, "call_id": call.id}
            yield "response_item", {"type": "function_call", **called}

    def _output(self, said: Said, result: ToolResult) -> JSON:
        if isinstance(result.content, str):
            return failed_text(result.content) if result.is_error else result.content
        failed: list[JSON] = [_text(failed_text(""))] if result.is_error else []
        return [*failed, *self._parts(said, result.content, "input_text")]

    def _parts(self, said: Said, content: Sequence[Content], kind: str) -> list[JSON]:
        parts: list[JSON] = []
        for part in content:
            if isinstance(part, TextPart):
                parts.append(_text(part.text.content, kind))
            elif isinstance(part, ImagePart) and part.image.source.type == "base64":
                parts.append({"type": "input_image", "image_url": url_of(part)})
            else:
                parts += (_text(words, kind) for words in self.instead(said, part))
        return parts


def _text(words: str, kind: str = "input_text") -> Object:
    return {"type": kind, "text": words}
