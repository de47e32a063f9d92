"""Gemini CLI: the history that the lines of a session produce. For the content of a message, see `gemini_messages`.

Messages that were rewound or replaced keep their place; later messages follow the point from which the history
continued.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from .chain import derived_id
from .gemini_messages import ASSISTANTS, USERS, read_answer, read_responses, read_usage, read_user
from .json_lines import Line, Notes
from .values import Object, as_objects, as_text


class HistoryMessage(Struct, eq=False):
    """A message as last written, and the message that it follows.

    Attributes:
        key: Its id, or a derived id if it has none.
        raw: The message as stored.
        after: The message before it; None for the first.
        answer: The model's message to which it belongs: itself, or the last one before it.
    """

    key: str
    raw: Object
    after: HistoryMessage | None
    answer: HistoryMessage | None = None

    @property
    def type(self) -> str:
        """The stored type, which names the author."""
        return as_text(self.raw.get("type"))

    def has_same_content(self, raw: Object) -> bool:
        """Return whether another stored form of a message has the same content."""
        own_raw = self.raw
        if own_raw == raw:
            return True
        if any(own_raw.get(name) != raw.get(name) or not raw.get(name) for name in ("id", "type")):
            return False
        if self.type in ASSISTANTS:
            same_model = own_raw.get("model") == raw.get("model")
            same_usage = read_usage(raw) in (None, read_usage(own_raw))
            return same_model and same_usage and read_answer(own_raw, self.key, "") == read_answer(raw, self.key, "")
        has_responses = _has_responses(own_raw) or _has_responses(raw)
        return self.type in USERS and not has_responses and read_user(own_raw) == read_user(raw)


class History:
    """The history of a session, updated line by line.

    Attributes:
        metadata: The session's metadata.
        messages: All messages on all branches, in the order in which they were first written.
        current: The messages of the current history, by key.
    """

    def __init__(self, format: str, notes: Notes) -> None:
        self.metadata: Object = {}
        self.messages: list[HistoryMessage] = []
        self.current: dict[str, HistoryMessage] = {}
        self._format = format
        self._notes = notes

    @property
    def last(self) -> HistoryMessage | None:
        """The last message of the current history."""
        return next(reversed(self.current.values()), None)

    @property
    def holds_session_data(self) -> bool:
        """Whether any of the lines contained session data."""
        known_types = USERS | ASSISTANTS
        return {"sessionId", "projectHash"} <= self.metadata.keys() or any(
            each.type in known_types for each in self.messages
        )

    def apply(self, line: Line) -> None:
        """Apply a line to the history."""
        value = line.value
        rewind = value.get("$rewindTo")
        update = value.get("$set")
        if isinstance(rewind, str):
            self._rewind(rewind)
        elif isinstance(update, dict):
            self.set(update)
        elif isinstance(value.get("id"), str):
            self._add(value)
        elif "sessionId" in value:
            self.set(value)
        else:
            self._notes.skip("unknown")

    def set(self, update: Object) -> None:
        """Update the metadata, and replace the history if it is included as `messages`."""
        self.metadata.update((key, value) for key, value in update.items() if key != "messages")
        if isinstance(update.get("messages"), list):
            self._replace(as_objects(update["messages"]))

    def _add(self, raw: Object) -> None:
        key = as_text(raw.get("id")) or derived_id(self._format, str(len(self.messages)))
        existing = self.current.get(key)
        if existing is not None:
            existing.raw = raw
            return
        last = self.last
        message = HistoryMessage(key, raw, last, last.answer if last else None)
        if message.type in ASSISTANTS:
            message.answer = message
        self.messages.append(message)
        self.current[key] = message

    def _replace(self, raw_messages: list[Object]) -> None:
        """Replace the current history, continuing from the last message that both histories share.

        A message whose tool results are also in the record of their answer does not end the shared part, since an
        older history may lack it.
        """
        previous: Iterator[HistoryMessage] = iter(list(self.current.values()))
        existing = next(previous, None)
        self.current = {}
        for raw in raw_messages:
            if existing is not None and existing.has_same_content(raw):
                self.current[existing.key] = existing
                existing = next(previous, None)
                continue
            if existing is not None and not self._repeats_answer(raw):
                existing = None
            self._add(raw)

    def _repeats_answer(self, raw: Object) -> bool:
        """Return whether a message holds only results that are also in the record of the answer before it."""
        answer = self.last.answer if self.last else None
        if answer is None or as_text(raw.get("type")) not in USERS or read_user(raw) is not None:
            return False
        calls = read_answer(answer.raw, answer.key, "").calls
        return next(read_responses(raw, "", calls), None) is None

    def _rewind(self, message_id: str) -> None:
        while self.current and self.current.popitem()[0] != message_id:
            pass


def _has_responses(raw: Object) -> bool:
    return next(read_responses(raw, "", ()), None) is not None
