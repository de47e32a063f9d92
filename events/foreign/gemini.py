"""Gemini CLI: a metadata line and lines of messages, which later lines of the same id replace; before, one document.

    {"sessionId":"...","projectHash":"...","startTime":"...","lastUpdated":"...","kind":"main"}
    {"id":"u1","timestamp":"...","type":"user","content":[{"text":"Say hello."}]}
    {"id":"g1","timestamp":"...","type":"gemini","content":"","model":"...","tokens":{...},"toolCalls":[...]}
    {"$set":{"lastUpdated":"..."}}          changes the metadata; with `messages`, the whole history
    {"$rewindTo":"u1"}                      goes back to before this message; to the beginning where it is not there

A message that was rewound or replaced stays on its branch, and what follows hangs where the history went on. A session is
held in memory, since its last line may change its first message.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ..content import raw_json
from ..entries import NATIVE_VERSION, Custom, Header, KnownEntry, ModelChange, SessionInfo
from ..errors import ForeignFormatError, Where
from ..findings import Finding
from .base import ForeignSession
from .chain import Chain, derived_id
from .gemini_messages import ASSISTANTS, read_answer, read_user
from .json_lines import Line, Notes, beginning, document, objects
from .values import Object, as_object, as_objects, as_text, as_time

NAME = "gemini"

_START = b'{"id"'
_PROVIDER = "google"


class GeminiFormat:
    """Sessions of Gemini CLI."""

    name = NAME
    title = "Gemini CLI"

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether this is a session of Gemini CLI."""
        return _is_session(head)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session; see `Format.read`."""
        return iter((_read(path),))


def _is_session(head: bytes) -> bool:
    return beginning(head).startswith(b"{") and b'"sessionId"' in head and b'"projectHash"' in head


def _read(path: Path) -> ForeignSession:
    findings: list[Finding] = []
    notes = Notes(path, findings)
    history = _History(notes)
    if _is_document(path):
        history.set(as_object(document(path)))
    else:
        for line in objects(path, notes, _START):
            history.take(line)
    given = history.metadata
    if not given and not history.written:
        raise ForeignFormatError("there is no line of a session of Gemini CLI in this file", where=Where(str(path)))
    first = next((as_time(message.given.get("timestamp")) for message in history.written), None)
    folders = given.get("directories")
    header = Header(
        id=as_text(given.get("sessionId")) or derived_id(NAME, path.name),
        version=NATIVE_VERSION,
        timestamp=as_time(given.get("startTime")) or first or datetime.fromtimestamp(int(path.stat().st_mtime), UTC),
        cwd=as_text(folders[0]) or None if isinstance(folders, list) and folders else None,
    )
    entries, leaf = _entries(header, history)
    notes.close()
    return ForeignSession(header=header, entries=iter(entries), findings=findings, leaf_id=leaf)


def _is_document(path: Path) -> bool:
    """Tell whether a file is one document: its first line is no whole object."""
    with path.open("rb") as file:
        return path.suffix == ".json" or file.readline().strip() == b"{"


class _Written(Struct, eq=False):
    """A message as it was last written, and the one that it follows."""

    given: Object
    after: _Written | None


class _History:
    """What the lines make of the history.

    Attributes:
        metadata: What is said of the session.
        written: All messages, on all branches, in the order in which they were first written.
        current: Those that the history shows, by their ids.
    """

    def __init__(self, notes: Notes) -> None:
        self.metadata: Object = {}
        self.written: list[_Written] = []
        self.current: dict[str, _Written] = {}
        self._notes = notes

    @property
    def last(self) -> _Written | None:
        """The message at which the history stands."""
        return next(reversed(self.current.values()), None)

    def take(self, line: Line) -> None:
        """Take in a line."""
        value = line.value
        rewind = value.get("$rewindTo")
        if isinstance(rewind, str):
            self._rewind(rewind)
        elif "$set" in value:
            self.set(as_object(value["$set"]))
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
        key = as_text(given.get("id")) or derived_id(NAME, str(len(self.written)))
        known = self.current.get(key)
        if known is not None:
            known.given = given
            return
        message = _Written(given, self.last)
        self.written.append(message)
        self.current[key] = message

    def _replace(self, messages: list[Object]) -> None:
        """Go on from the last message that both histories share."""
        same = 0
        for known, given in zip(self.current.values(), messages, strict=False):
            if known.given != given:
                break
            same += 1
        self._keep(same)
        for given in messages[same:]:
            self._add(given)

    def _rewind(self, to: str) -> None:
        while self.current and self.current.popitem()[0] != to:
            pass

    def _keep(self, count: int) -> None:
        while len(self.current) > count:
            self.current.popitem()


def _entries(header: Header, history: _History) -> tuple[list[KnownEntry], str | None]:
    """Return the entries of all branches, and the one at which the history stands."""
    chain = Chain(NAME, header.id, header.timestamp)
    entries: list[KnownEntry] = []
    summary = as_text(history.metadata.get("summary"))
    if summary:
        entries.append(chain.add(SessionInfo(description=summary)))
    tails: dict[_Written | None, str | None] = {None: chain.leaf}
    model = ""
    for message in history.written:
        chain.leaf = tails[message.after]
        given, time = message.given, as_time(message.given.get("timestamp"))
        named = as_text(given.get("model"))
        if named and named != model and as_text(given.get("type")) in ASSISTANTS:
            model = named
            entries.append(chain.add(ModelChange(_PROVIDER, model), time=time))
        entries += _told(chain, given, model)
        tails[message] = chain.leaf
    if history.written and history.last is None:
        chain.leaf = tails[None]
        time = as_time(history.metadata.get("lastUpdated"))
        entries.append(chain.add(Custom("gemini.rewind", raw_json({"to": None})), time=time))
        return entries, None
    return entries, tails[history.last]


def _told(chain: Chain, given: Object, model: str) -> Iterator[KnownEntry]:
    """Yield what a message says: an answer, and the results of its calls."""
    kind, time, message_id = as_text(given.get("type")), as_time(given.get("timestamp")), as_text(given.get("id"))
    if kind in ASSISTANTS:
        answer, results = read_answer(given, model)
        yield chain.add(answer, id=message_id, time=time)
        for result, at in results:
            yield chain.add(result, time=at)
    elif kind == "user":
        yield chain.add(read_user(given), id=message_id, time=time)
    else:
        yield chain.add(Custom(f"gemini.{kind or 'message'}", raw_json(given)), id=message_id, time=time)
