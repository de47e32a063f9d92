"""opencode: a document as `opencode export` writes it, which `opencode import` takes into its database.

A call and its result are one part of an answer. Messages are in the order of their times, and parts in that of their
ids. Thinking goes to another model as text before the answer. What names the session is in the metadata of opencode's
own record, which an import and an export keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import uuid4

import msgspec

from ...events.content import Content, ImagePart, TextPart, ThinkingPart, ToolResult, ToolUsePart
from ...events.json_values import JSON
from ...events.providers.common import images_of, result_text, url_of
from ..values import Object
from .base import Plan, Said, Surroundings, Talk, Writing, mark, not_held

_VERSION = "1.18.33"
_UNTITLED = "A session of treering"
_NO_TOKENS: Object = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


class OpencodeTarget:
    """Sessions in the database of opencode, by its own command."""

    title = "opencode"

    def plan(self, talk: Talk, surroundings: Surroundings) -> Plan:
        """Return the document; see `Target.plan`."""
        letters = uuid4().hex[:24]
        own_id = f"ses_{letters}"
        now = int(surroundings.now.timestamp() * 1000)
        info: Object = {
            "id": own_id,
            "slug": letters[:12],
            "title": talk.title or _UNTITLED,
            "version": _VERSION,
            "metadata": mark(talk, own_id),
            "time": {"created": now, "updated": now},
        }
        writing = _Writing(talk, surroundings.cwd, letters)
        document: Object = {"info": info, "messages": [*writing.messages()]}
        return Plan(
            own_id,
            surroundings.home / f"{own_id}.json",
            msgspec.json.encode(document),
            ("opencode", "--session", own_id),
            (*writing.left_out,),
            take_in=("opencode", "import"),
        )


class _Writing(Writing):
    def __init__(self, talk: Talk, cwd: str, letters: str) -> None:
        super().__init__(talk)
        self._cwd = cwd
        self._letters = letters
        self._asked = ""
        self._message = ""
        self._count = 0
        self._results: Mapping[str, tuple[Said, ToolResult]] = {
            result.tool_use_id: (said, result) for said in talk.messages for result in said.results
        }
        models = [(each.provider, each.model) for each in talk.messages if each.provider and each.model]
        self._model = models[-1] if models else ("unknown", "unknown")

    def messages(self) -> Iterator[JSON]:
        for number, said in enumerate(self._talk.messages):
            if said.role == "tool":
                continue
            message = f"msg_{self._letters}{number:06x}"
            self._message = message
            parts = [self._placed(part) for part in self._parts(said)]
            if parts:
                own: Object = {"id": message, "sessionID": f"ses_{self._letters}"}
                info = self._user(said) if said.role == "user" else self._answer(said)
                self._asked = message if said.role == "user" else self._asked
                yield {"info": {**own, **info}, "parts": parts}

    def _placed(self, part: Object) -> JSON:
        self._count += 1
        own_id = f"prt_{self._letters}{self._count:06x}"
        return {"id": own_id, "sessionID": f"ses_{self._letters}", "messageID": self._message, **part}

    def _user(self, said: Said) -> Object:
        provider, model = self._model
        return {
            "role": "user",
            "time": {"created": _time(said)},
            "agent": "build",
            "model": {"providerID": provider, "modelID": model},
        }

    def _answer(self, said: Said) -> Object:
        return {
            "role": "assistant",
            "parentID": self._asked,
            "mode": "build",
            "agent": "build",
            "path": {"cwd": self._cwd, "root": self._cwd},
            "cost": 0,
            "tokens": _NO_TOKENS,
            "providerID": said.provider or "unknown",
            "modelID": said.model or "unknown",
            "time": {"created": _time(said), "completed": _time(said)},
            "finish": "tool-calls" if said.calls else "stop",
        }

    def _parts(self, said: Said) -> Iterator[Object]:
        for part in said.content:
            if isinstance(part, TextPart):
                yield {"type": "text", "text": part.text.content}
            elif isinstance(part, ThinkingPart) and part.thinking.content.strip() and not part.thinking.redacted:
                words = f"{part.thinking.content.rstrip()}\n\n"  # nothing stands between it and the answer
                yield {"type": "reasoning", "text": words, "time": {"start": _time(said), "end": _time(said)}}
            elif isinstance(part, ToolUsePart):
                yield self._call(said, part)
            else:
                yield from self._files(said, [part])

    def _files(self, said: Said, parts: Sequence[Content]) -> Iterator[Object]:
        """Yield images; of one that would have to be fetched, the address."""
        for part in parts:
            if isinstance(part, ImagePart) and part.image.source.type == "base64":
                yield {"type": "file", "mime": part.image.source.media_type, "url": url_of(part)}
            else:
                for words in self.instead(said, part):
                    yield {"type": "text", "text": words}

    def _call(self, said: Said, part: ToolUsePart) -> Object:
        call = part.tool_use
        answered, result = self._results[call.id]
        state: Object = {"input": call.input, "time": {"start": _time(said), "end": _time(answered)}}
        images = images_of(result)
        if result.is_error:
            self.left_out += (not_held(answered, each) for each in images)
            state |= {"status": "error", "error": result_text(result) or "(no output)"}
        else:
            state |= {"status": "completed", "output": result_text(result), "title": "", "metadata": {}}
            kept = [each for each in images if each.image.source.type == "base64"]
            self.left_out += (not_held(answered, each) for each in images if each not in kept)
            files = [self._placed(each) for each in self._files(answered, kept)]
            state |= {"attachments": files} if files else {}
        return {"type": "tool", "callID": call.id, "tool": call.name, "state": state}


def _time(said: Said) -> int:
    return int(said.time.timestamp() * 1000)
