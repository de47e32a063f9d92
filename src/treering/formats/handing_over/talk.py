"""The messages of a path in the least that all programs share.

Programs differ in what they bear: some drop a call without a result together with the words around it, some a second
use of one call id, some everything before a line that they cannot place. So a talk has nothing of that kind. A call's
id and the name of its tool have only letters that all providers take, each id is used once, and times rise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b

from msgspec.structs import replace

from ...events.content import Content, ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart, text
from ...events.dialects.base import in_utc
from ...events.entries import EPOCH, Message
from ...events.findings import NotHeld
from ...events.providers.common import OPENING, sendable, with_true_type
from .base import Role, Said, Talk, not_held

_STEP = timedelta(milliseconds=1)
_TAKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_TAKEN = re.compile(r"[^A-Za-z0-9_-]")


def talk_of(
    session_id: str,
    title: str | None,
    messages: Sequence[tuple[str, datetime, Message]],
    left_out: Iterable[NotHeld] = (),
) -> Talk:
    """Return the messages of a path as they are handed over.

    Args:
        session_id: The session.
        title: Its title.
        messages: The messages that a model would be shown, each with its entry and its time, each call with a result
            right after it and each result with its call. A message that stands for no entry has "" as its id.
        left_out: What of the path is not among them.
    """
    return _Talking(left_out).talk(session_id, title, messages)


class _Talking:
    def __init__(self, left_out: Iterable[NotHeld]) -> None:
        self._left_out = list(left_out)
        self._time = EPOCH
        self._entry_id = ""
        self._call_ids: dict[str, str] = {}  # of the calls that were made last under each id of the session
        self._tools: dict[str, str] = {}

    def talk(self, session_id: str, title: str | None, messages: Sequence[tuple[str, datetime, Message]]) -> Talk:
        said = [each for message in messages for each in self._said(*message)]
        if said and said[0].role == "assistant":  # providers refuse this
            said.insert(0, replace(said[0], role="user", content=(text(OPENING),), time=said[0].time - _STEP))
        return Talk(session_id, title, tuple(said), tuple(self._left_out), self._tools)

    def _said(self, entry_id: str, time: datetime, message: Message) -> Iterator[Said]:
        self._entry_id = entry_id or self._entry_id
        shown = sendable(message)
        if shown is None:
            return
        results = tuple(self._result(part) for part in shown.content if isinstance(part, ToolResultPart))
        if results:
            yield self._next("tool", results, time, shown)
        role: Role = "assistant" if shown.role == "assistant" else "user"
        parts = [part for part in shown.content if not isinstance(part, ToolResultPart)]
        content = tuple(self._parts(role, parts))
        if content:
            yield self._next(role, content, time, shown)

    def _next(self, role: Role, content: tuple[Content, ...], time: datetime, message: Message) -> Said:
        time = in_utc(time).replace(microsecond=time.microsecond // 1000 * 1000)
        self._time = max(time, self._time + _STEP)
        return Said(self._entry_id, self._time, role, content, message.model, message.provider)

    def _parts(self, role: Role, parts: Sequence[Content]) -> Iterator[Content]:
        for part in parts:
            if isinstance(part, TextPart):
                if part.text.content.strip():
                    yield text(part.text.content)
            elif isinstance(part, ToolUsePart):
                yield self._call(part)
            elif isinstance(part, ImagePart) and role == "assistant":
                self._left_out.append(not_held(Said(self._entry_id, self._time, role, ()), part, "an answer's image"))
            elif isinstance(part, ImagePart):
                yield with_true_type(part)
            elif isinstance(part, ThinkingPart):
                yield part

    def _call(self, part: ToolUsePart) -> ToolUsePart:
        call = part.tool_use
        call_id = call.id
        if not _TAKEN.fullmatch(call_id) or call_id in self._tools:
            digest = blake2b(f"{call_id}\n{len(self._tools)}".encode("utf-8", "replace"), digest_size=12)
            call_id = f"call_{digest.hexdigest()}"
        self._call_ids[call.id] = call_id
        name = _NOT_TAKEN.sub("_", call.name)[:64] or "unknown"
        self._tools[call_id] = name
        return ToolUsePart(replace(call, id=call_id, name=name, signature=None))

    def _result(self, part: ToolResultPart) -> ToolResultPart:
        result = part.tool_result
        content = result.content
        if not isinstance(content, str):
            content = tuple(with_true_type(each) if isinstance(each, ImagePart) else each for each in content)
        return ToolResultPart(
            replace(result, tool_use_id=self._call_ids.get(result.tool_use_id, result.tool_use_id), content=content)
        )
