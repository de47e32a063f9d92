"""Gemini CLI: what the lines of a session make of its history. What a message says stands in `gemini_messages`.

A message that was rewound or replaced stays where it was, and what follows hangs where the history went on.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from .chain import derived_id
from .gemini_messages import ASSISTANTS, USERS, read_answer, read_responses, read_usage, read_user
from .json_lines import Line, Notes
from .values import Object, as_objects, as_text


class Written(Struct, eq=False):
    """A message as it was last written, and the one that it follows.

    Attributes:
        key: Its id; where it has none, one that is made up.
        given: What was written.
        after: The message before it.
        answer: The model's message that it belongs to: itself, or the last one before it.
    """

    key: str
    given: Object
    after: Written | None
    answer: Written | None = None

    @property
    def type(self) -> str:
        """Who says it."""
        return as_text(self.given.get("type"))

    def says(self, given: Object) -> bool:
        """Tell whether another writing of a message says the same, in whichever shape."""
        mine = self.given
        if mine == given:
            return True
        if any(mine.get(name) != given.get(name) or not given.get(name) for name in ("id", "type")):
            return False
        if self.type in ASSISTANTS:
            same_model = mine.get("model") == given.get("model")
            took = read_usage(given) in (None, read_usage(mine))
            return same_model and took and read_answer(mine, self.key, "") == read_answer(given, self.key, "")
        answers = _has_responses(mine) or _has_responses(given)
        return self.type in USERS and not answers and read_user(mine) == read_user(given)


class History:
    """What the lines make of the history.

    Attributes:
        metadata: What is said of the session.
        written: All messages, on all branches, in the order in which they were first written.
        current: Those that the history shows, by their ids.
    """

    def __init__(self, format: str, notes: Notes) -> None:
        self.metadata: Object = {}
        self.written: list[Written] = []
        self.current: dict[str, Written] = {}
        self._format = format
        self._notes = notes

    @property
    def last(self) -> Written | None:
        """The message at which the history stands."""
        return next(reversed(self.current.values()), None)

    @property
    def is_of_a_session(self) -> bool:
        """Whether anything of it is what a session holds."""
        known = USERS | ASSISTANTS
        return {"sessionId", "projectHash"} <= self.metadata.keys() or any(each.type in known for each in self.written)

    def take(self, line: Line) -> None:
        """Take in a line."""
        value = line.value
        rewind = value.get("$rewindTo")
        given = value.get("$set")
        if isinstance(rewind, str):
            self._rewind(rewind)
        elif isinstance(given, dict):
            self.set(given)
        elif isinstance(value.get("id"), str):
            self._add(value)
        elif "sessionId" in value:
            self.set(value)
        else:
            self._notes.skip("unknown")

    def set(self, given: Object) -> None:
        """Take in metadata, and the history where it stands among them."""
        self.metadata.update((key, value) for key, value in given.items() if key != "messages")
        if isinstance(given.get("messages"), list):
            self._replace(as_objects(given["messages"]))

    def _add(self, given: Object) -> None:
        key = as_text(given.get("id")) or derived_id(self._format, str(len(self.written)))
        known = self.current.get(key)
        if known is not None:
            known.given = given
            return
        last = self.last
        message = Written(key, given, last, last.answer if last else None)
        if message.type in ASSISTANTS:
            message.answer = message
        self.written.append(message)
        self.current[key] = message

    def _replace(self, messages: list[Object]) -> None:
        """Go on from the last message that both histories share.

        Results of tools that stand in the record of their answer, too, part no histories: an older one does not have them.
        """
        before: Iterator[Written] = iter(list(self.current.values()))
        known = next(before, None)
        self.current = {}
        for given in messages:
            if known is not None and known.says(given):
                self.current[known.key] = known
                known = next(before, None)
                continue
            if known is not None and not self._is_told(given):
                known = None
            self._add(given)

    def _is_told(self, given: Object) -> bool:
        """Tell whether a message says only what the answer before it has in its record."""
        answer = self.last.answer if self.last else None
        if answer is None or as_text(given.get("type")) not in USERS or read_user(given) is not None:
            return False
        calls = read_answer(answer.given, answer.key, "").calls
        return next(read_responses(given, "", calls), None) is None

    def _rewind(self, to: str) -> None:
        while self.current and self.current.popitem()[0] != to:
            pass


def _has_responses(given: Object) -> bool:
    return next(read_responses(given, "", ()), None) is not None
