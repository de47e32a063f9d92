"""Gemini CLI: the history that the lines of a session produce. For the content of a message, see `google_messages`.

Messages that were rewound or replaced keep their place; later messages follow the point from which the history
continued. What Gemini CLI itself puts before every conversation that it resumes is not part of one.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ...events.entries import Message
from ..chain import derived_id
from ..google_messages import ASSISTANTS, USERS, content_of_answer, read_answer, read_responses, read_usage, read_user
from ..json_lines import Line, Notes
from ..messages import Preambles, marks_of, opened, tagged
from ..values import Object, as_objects, as_text


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

    @property
    def repeats_answer(self) -> bool:
        """Whether it holds only results that are also in the record of the answer before it."""
        return _repeats(self.raw, self.answer)

    def has_same_content(self, raw: Object, after: Iterable[Object] = ()) -> bool:
        """Return whether another stored form of a message has the same content.

        Args:
            raw: The other form.
            after: The messages that are stored after it; the first of them may hold results of its calls.
        """
        own_raw = self.raw
        if own_raw == raw:
            return True
        if any(own_raw.get(name) != raw.get(name) or not raw.get(name) for name in ("id", "type")):
            return False
        if self.type in ASSISTANTS:
            same_model = raw.get("model") in (None, own_raw.get("model"))
            same_usage = read_usage(raw) in (None, read_usage(own_raw))
            return same_model and same_usage and self._says(raw, after)
        has_responses = _has_responses(own_raw) or _has_responses(raw)
        return self.type in USERS and not has_responses and read_user(own_raw) == read_user(raw)

    def _says(self, raw: Object, after: Iterable[Object]) -> bool:
        own = content_of_answer(self.raw, self.key)
        return own in (content_of_answer(raw, self.key), content_of_answer(raw, self.key, after))


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
        self._replaced: list[HistoryMessage] = []
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
            self._notes.leave_out("unknown line", value, line=line.number, byte=line.byte)

    def set(self, update: Object) -> None:
        """Update the metadata, and replace the history if it is included as `messages`."""
        self.metadata.update((key, value) for key, value in update.items() if key != "messages")
        self._notes.check_items("message of an unknown form", update.get("messages"))
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

        A session that is resumed may first be emptied, and then get its history back.
        """
        current = [*self.current.values()]
        shared = max((_shared(path, raw_messages) for path in (current, self._replaced)), key=len)
        end = max(shared, default=-1)
        self._replaced = current
        self.current = {}
        for position, raw in enumerate(raw_messages):
            if position > end:
                self._add(raw)
            elif position in shared:
                self.current[shared[position].key] = shared[position]

    def _rewind(self, message_id: str) -> None:
        while self.current and self.current.popitem()[0] != message_id:
            pass


def _shared(path: list[HistoryMessage], raw_messages: list[Object]) -> dict[int, HistoryMessage]:
    """Return the messages of a path with which a new history begins, by their positions in the new history.

    A message whose tool results are also in the record of their answer does not end the shared part, since the other
    history may lack it. Neither does what the program itself puts at the beginning, anew for each resumption.
    """
    shared: dict[int, HistoryMessage] = {}
    rest = iter([each for each in path if not each.repeats_answer])
    existing, answer = next(rest, None), None
    for position, raw in enumerate(raw_messages):
        if existing is None:
            break
        if not shared and is_preamble(raw) and not is_preamble(existing.raw):
            continue
        begins_alike = not shared and is_preamble(raw) and is_preamble(existing.raw)  # it names files, and they change
        after = (raw_messages[later] for later in range(position + 1, len(raw_messages)))
        if begins_alike or existing.has_same_content(raw, after):
            shared[position], answer = existing, existing.answer
            existing = next(rest, None)
        elif not _repeats(raw, answer):
            break
    return shared


def _repeats(raw: Object, answer: HistoryMessage | None) -> bool:
    """Return whether a message holds only results that are also in the record of the answer before it."""
    if answer is None or as_text(raw.get("type")) not in USERS or read_user(raw) is not None:
        return False
    calls = read_answer(answer.raw, answer.key, "").calls
    return next(read_responses(raw, "", calls), None) is None


def _has_responses(raw: Object) -> bool:
    return next(read_responses(raw, "", ()), None) is not None


_PREAMBLES = Preambles(
    tagged("session_context", "hook_context"),
    rf"{opened('session_context', 'hook_context')}"
    r"|This is the Gemini CLI\.\s+We are setting up the context for our chat",
)
"""What Gemini CLI writes before the first prompt, and what hooks add."""


def marks_of_user(message: Message) -> Object:
    """Return the metadata that tells what of a user's message the program wrote; see `marks_of`."""
    return marks_of(message.content, lambda _, part: _PREAMBLES.length(part.text.content))


def is_preamble(raw: Object) -> bool:
    """Return whether a message holds nothing that a user or a model said."""
    message = read_user(raw) if as_text(raw.get("type")) in USERS else None
    return message is not None and marks_of_user(message) == {"is_meta": True}
