"""Strands Agents: the files of its `FileSessionManager`, a folder for each session.

session_<id>/session.json
session_<id>/agents/agent_<id>/agent.json
session_<id>/agents/agent_<id>/messages/message_<number>.json     {"message": {...}, "message_id": 0, "created_at": ...}
session_<id>/multi_agents/multi_agent_<id>/multi_agent.json

The framework need not be installed. A folder becomes what `treering.adapters.strands` makes of it: the session itself,
and the conversation of each agent. An agent stands below the last of its messages, as it was then. A message that was
redacted is followed by what it is now; other changes of a message that is here already are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

import msgspec

from ...events.entries import NATIVE_VERSION, ContextEdit, Custom, Header, KnownEntry, Payload, entry_of
from ...events.errors import ForeignFormatError, InvalidEntry, Where
from ...events.json_values import raw_object
from ..base import ForeignSession, Format
from ..chain import derived_id, is_derived
from ..json_lines import Notes, decoded
from ..opening import modified_at
from ..values import Object, as_text, as_time
from .messages import AGENT, MULTI_AGENT, SESSION, UPDATE, key_of, message_of, parts_of, shown_in

NAME = "strands"

_SESSION, _AGENT, _MESSAGE, _MULTI_AGENT = "session_", "agent_", "message_", "multi_agent_"


class StrandsFormat(Format):
    """The folders `session_<id>` of `FileSessionManager`."""

    name = NAME
    title = "Strands Agents"
    checked = "the framework, 1.62.0"

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether a folder is a session of the framework's."""
        if not (path.name.startswith(_SESSION) and (path / "session.json").is_file() and (path / "agents").is_dir()):
            return False
        session = _object(path / "session.json") or {}
        return bool(as_text(session.get("session_id"))) and "session_type" in session

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session, and what each of its agents said; see `Format.read`."""
        session = _object(path / "session.json")
        if session is None:
            raise ForeignFormatError("the session's own file is damaged", where=Where(str(path / "session.json")))
        session_id = as_text(session.get("session_id"))
        yield _foreign(_Reading(path, session_id, key_of(session_id)), session, "session")
        for folder in sorted(path.glob(f"agents/{_AGENT}*")):
            agent = _object(folder / "agent.json")
            agent_id = as_text((agent or {}).get("agent_id")) or folder.name.removeprefix(_AGENT)
            reading = _Reading(folder, session_id, key_of(session_id, agent_id))
            if agent is None:
                reading.damaged(folder / "agent.json")
            yield _foreign(reading, agent or {"agent_id": agent_id}, "agent")


def _foreign(reading: _Reading, data: Object, what: str) -> ForeignSession:
    started = as_time(as_text(data.get("created_at"))) or modified_at(reading.folder)
    reading.time = started
    return ForeignSession(
        header=Header(id=reading.key, version=NATIVE_VERSION, timestamp=started, key=reading.key),
        entries=reading.shared(data) if what == "session" else reading.conversation(data),
        findings=reading.notes.findings,
        is_of_source=is_derived,
    )


class _Reading:
    """A conversion of one folder: a session, or an agent.

    Attributes:
        folder: The folder.
        key: The key of its session here.
        notes: What is damaged.
        time: The last known time.
    """

    def __init__(self, folder: Path, session: str, key: str) -> None:
        self.folder = folder
        self.key = key
        self.notes = Notes(folder)
        self.time = datetime.min
        self._session = session
        self._leaf: str | None = None

    def damaged(self, path: Path) -> None:
        """Report a file that cannot be read."""
        self.notes.add("damaged", "error", f"{path.name} is no file with a JSON object, so it is left out")

    def shared(self, session: Object) -> Iterator[KnownEntry]:
        """Yield the session itself, and the states of several agents together."""
        yield self._entry(Custom(SESSION, raw_object(session, "a session")), "session")
        for folder in sorted(self.folder.glob(f"multi_agents/{_MULTI_AGENT}*")):
            state = _object(folder / "multi_agent.json")
            if state is None:
                self.damaged(folder / "multi_agent.json")
                continue
            data: Object = {"id": folder.name.removeprefix(_MULTI_AGENT), "state": state}
            yield self._entry(Custom(MULTI_AGENT, raw_object(data, "the state")), "multi_agent", _digest(data))

    def conversation(self, agent: Object) -> Iterator[KnownEntry]:
        """Yield an agent's messages, and then the agent as it is now."""
        for number, path in _numbered(self.folder / "messages"):
            record = _object(path)
            if record is None:
                self.damaged(path)
                continue
            try:
                yield from self._message(record, number)
            except InvalidEntry as error:
                self.notes.add("damaged", "error", f"the message {path.name} is left out: {error}")
        data = raw_object(agent, "an agent")
        yield self._entry(Custom(AGENT, data), "agent", self._leaf or "", _digest(agent))

    def _message(self, record: Object, number: int) -> Iterator[KnownEntry]:
        """Yield a message, and what it was redacted to."""
        created = as_text(record.get("created_at"))
        self.time = max(self.time, as_time(created) or self.time)
        said = self._entry(message_of(record | {"redact_message": None}), "message", str(number), created)
        yield said
        if record.get("redact_message") is not None:
            update = Custom(UPDATE, raw_object({"entry": said.id, "record": record}, "a message"))
            yield self._entry(update, "update", str(number), created, _digest(record))
            edit = ContextEdit(said.id, parts_of(shown_in(record)))
            yield self._entry(edit, "edit", str(number), created, _digest(record))

    def _entry(self, payload: Payload, *words: str) -> KnownEntry:
        entry = entry_of(payload, id=derived_id(NAME, self.key, *words), parent_id=self._leaf, timestamp=self.time)
        self._leaf = entry.id
        return entry


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of messages by their numbers."""
    names = ((each.stem.removeprefix(_MESSAGE), each) for each in folder.glob(f"{_MESSAGE}*.json"))
    return sorted((int(number), each) for number, each in names if number.isdecimal())


def _object(path: Path) -> Object | None:
    """Return the object in a file; None if there is none, or the file is a link, which the framework refuses, too."""
    if path.is_symlink() or not path.is_file():
        return None
    return decoded(path.read_bytes())


def _digest(data: Object) -> str:
    return blake2b(msgspec.json.encode(data, order="deterministic"), digest_size=16).hexdigest()
