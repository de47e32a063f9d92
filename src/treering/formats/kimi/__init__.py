"""Kimi Code: one line per record, in a file for each agent of a session, and the session's state beside them.

    sessions/<workspace>/<session>/state.json               {"id":"session_...","cwd":"/work/project",...}
    sessions/<workspace>/<session>/agents/main/wire.jsonl   {"type":"metadata","protocol_version":"1.5",...}
    sessions/<workspace>/<session>/agents/agent-0/wire.jsonl

Files only grow: what the user undid stays in them. Each sub-agent becomes a session of its own. The files of the older
Kimi CLI, which Kimi Code brings over itself, are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ...events.entries import NATIVE_VERSION, Header
from ...events.errors import ForeignFormatError, UnsupportedVersion, Where
from ..base import ForeignSession, Format
from ..chain import derived_id
from ..json_lines import Notes, beginning, decoded, document_beside, objects, unheard
from ..opening import modified_at
from ..values import Object, as_object, as_text, as_time
from .wire import NAME, Wire

_MAIN = "main"
_FILE = "wire.jsonl"
_STATE = "state.json"
_INDEX = "session_index.jsonl"
_START = b'{"'
_MAJOR = 1
_REPLACEABLE = "replaceable"  # the latest prompt
_OWN = ("context.", "full_compaction.", "llm.", "profile.", "runtime.", "turn.")


class KimiFormat(Format):
    """`agents/<agent>/wire.jsonl` of a session, with its `state.json`."""

    name = NAME
    title = "Kimi Code"
    home = "~/.kimi-code/sessions"
    checked = "the program, 2.1.0"
    moved_by = ("KIMI_CODE_HOME", "~/.kimi-code")

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is the file of an agent, also one of the older Kimi CLI, which is refused."""
        lines = beginning(head).splitlines()
        first = decoded(lines[0]) if lines else None
        if first is not None and first.get("type") == "metadata":
            return isinstance(first.get("protocol_version"), str)
        return any(_is_own(decoded(line)) for line in lines[1:3])

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read the session of one agent; see `Format.read`.

        Raises:
            UnsupportedVersion: A later version of the program wrote it.
        """
        return iter((_read(path),))

    def only_lists(self, path: Path, head: bytes) -> bool:
        """Return whether a file is the state of a session, or the list of all sessions."""
        return path.name == _INDEX or (path.name == _STATE and (path.parent / "agents").is_dir())


def _is_own(value: Object | None) -> bool:
    value = value or {}
    return as_text(value.get("type")).startswith(_OWN) and isinstance(value.get("agentId"), str) and "time" in value


def _read(path: Path) -> ForeignSession:
    where, first, is_own = Where(str(path)), Object(), False
    cwd = ""
    for line in objects(path, unheard(), _START):
        kind = line.value.get("type")
        if kind == "metadata":
            first = first or line.value
        elif "payload" in as_object(line.value.get("message")):
            raise ForeignFormatError(
                "this is a session of the older Kimi CLI, which treering does not read: bring it over by `kimi "
                "migrate`, and import what Kimi Code made of it",
                where=where,
            )
        is_own = is_own or _is_own(line.value)
        cwd = cwd or as_text(as_object(line.value.get("environmentDisclosure")).get("cwd"))
        if is_own and cwd:
            break
    if not is_own:
        raise ForeignFormatError("the file has no records of Kimi Code", where=where)
    version = as_text(first.get("protocol_version"))
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) > _MAJOR:
        raise UnsupportedVersion(
            f"the records have version {version}, this reads version {_MAJOR}: upgrade treering", where=where
        )
    return _session(path, as_time(first.get("created_at")), cwd)


def _session(path: Path, begun: datetime | None, cwd: str) -> ForeignSession:
    agent, folder = path.parent.name, path.parent.parent.parent
    notes = Notes(path)
    in_session = path.parent.parent.name == "agents"
    state: Object = {}
    if in_session:
        without = "the session has the name of its folder and no title"
        state = document_beside(folder / _STATE, notes, "state", "session's state", without)
    session = as_text(state.get("id")) or (folder.name if in_session else agent)
    title = as_text(state.get("title")) if state.get("titleKind") != _REPLACEABLE else ""
    is_main = agent == _MAIN or not in_session
    started = _Started("", None) if is_main else _start_of(path, agent, state)
    header = Header(
        id=session if is_main else derived_id(NAME, session, agent),
        version=NATIVE_VERSION,
        timestamp=begun or as_time(state.get("createdAt")) or modified_at(path),
        cwd=as_text(state.get("cwd")) or cwd or None,
        parent_session=None if is_main else session,
        parent_entry=started.caller,
        title=(title if is_main else started.description) or None,
    )
    entries = Wire(header, notes).entries(objects(path, notes, _START))
    return ForeignSession(header=header, entries=entries, findings=notes.findings)


class _Started(NamedTuple):
    """How a sub-agent was started: what it is for, and the step that called it."""

    description: str
    caller: str | None


def _start_of(path: Path, agent: str, state: Object) -> _Started:
    """Find how a sub-agent was started, in the file of the agent that started it."""
    parent = as_text(as_object(as_object(state.get("agents")).get(agent)).get("parentAgentId")) or _MAIN
    callers: dict[str, str] = {}
    parent_file = path.parent.parent / Path(parent).name / _FILE
    for line in objects(parent_file, unheard(), _START) if parent_file.is_file() else ():
        event = as_object(line.value.get("event"))
        if event.get("type") == "tool.call":
            callers[as_text(event.get("toolCallId"))] = as_text(event.get("stepUuid"))
        elif line.value.get("type") == "subagent.spawned" and line.value.get("subagentId") == agent:
            caller = callers.get(as_text(line.value.get("parentToolCallId")))
            return _Started(as_text(line.value.get("description")), caller)
    return _Started("", None)
