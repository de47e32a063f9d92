"""GitHub Copilot CLI: one line per event, in `session-state/<session>/events.jsonl`.

    {"type":"session.start","data":{"sessionId":"34f7...","version":1,"producer":"copilot-agent",...},"id":"f063...",
     "timestamp":"...","parentId":null}
    {"type":"user.message","data":{"content":"Count the loaves.",...},"id":"a4d9...","parentId":"f063...",...}
    {"type":"assistant.message","data":{"content":"","toolRequests":[{"toolCallId":"call_1","name":"bash",...}]},...}
    {"type":"tool.execution_complete","data":{"toolCallId":"call_1","success":true,"result":{"content":"..."}},...}

`parentId` links each event to the one before it. A rewind cuts the file, and what follows goes below what was kept: an
import adds it as a branch. The events of sub-agents are among those of the session that started them, and have an
`agentId`; each becomes a session of its own. The session's name is in `workspace.yaml` beside the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, field

from ...events.entries import EPOCH, NATIVE_VERSION, Header
from ...events.errors import ForeignFormatError, UnsupportedVersion, Where
from ..base import ForeignSession, Format
from ..chain import is_derived_or_random
from ..json_lines import Line, Notes, beginning, decoded, objects, unheard
from ..opening import modified_at
from ..values import Object, as_count, as_object, as_objects, as_text, as_time
from .events import NAME, Events

_VERSION = 1
_START = b'{"type"'
_FIRST = re.compile(rb'\{"type":"session\.start","data":\{"sessionId":"')
_KINDS = ("assistant.", "session.", "system.", "tool.", "user.")
_EVENTS_FILE = "events.jsonl"
_NAME_LINE = re.compile(r"^name:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_NAMED_BY_USER = re.compile(r"^user_named:[ \t]*true[ \t]*$", re.MULTILINE)


class CopilotFormat(Format):
    """`session-state/<session>/events.jsonl`, with the sub-agents in it."""

    name = NAME
    title = "GitHub Copilot CLI"
    home = "~/.copilot/session-state"
    checked = "the program, 1.0.102"
    moved_by = ("COPILOT_HOME", "~/.copilot")

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a file of events."""
        return any(map(_is_line, beginning(head).splitlines()[:2]))

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session, then those of its sub-agents; see `Format.read`.

        Raises:
            UnsupportedVersion: A later version of the program wrote it.
        """
        return _read(path)


def _is_line(line: bytes) -> bool:
    value = decoded(line)
    if value is None:  # too long for the head, or damaged
        return _FIRST.match(line) is not None
    return _is_event(value)


def _is_event(value: Object) -> bool:
    return (
        {"id", "parentId", "timestamp"} <= value.keys()
        and isinstance(value.get("data"), dict)
        and as_text(value.get("type")).startswith(_KINDS)
    )


class _Agent(Struct):
    """A sub-agent: how it was started, the message that called it, and its lines."""

    started: Object = {}
    caller: str | None = None
    lines: list[Line] = field(default_factory=list[Line])


class _Outline(Struct):
    """What a first pass through a file finds."""

    start: Object = {}
    time: str = ""
    events: int = 0
    agents: dict[str, _Agent] = field(default_factory=dict[str, _Agent])


def _outline(path: Path) -> _Outline:
    outline, callers = _Outline(), dict[str, str]()
    for line in objects(path, unheard(), _START):
        event, data = line.value, as_object(line.value.get("data"))
        outline.events += _is_event(event)
        outline.time = outline.time or as_text(event.get("timestamp"))
        if agent_id := as_text(event.get("agentId")):
            agent = outline.agents.setdefault(agent_id, _Agent())
            agent.lines.append(line)
            if event.get("type") == "subagent.started":
                agent.started, agent.caller = data, callers.get(as_text(data.get("toolCallId")))
        elif event.get("type") == "session.start":
            outline.start = outline.start or data
        for call in as_objects(data.get("toolRequests")):
            callers[as_text(call.get("toolCallId"))] = as_text(event.get("id"))
    return outline


def _read(path: Path) -> Iterator[ForeignSession]:
    outline = _outline(path)
    if not outline.events:
        raise ForeignFormatError("the file has no events of GitHub Copilot CLI", where=Where(str(path)))
    version = as_count(outline.start.get("version"))
    if version > _VERSION:
        raise UnsupportedVersion(
            f"the events have version {version}, this reads up to {_VERSION}: upgrade treering", where=Where(str(path))
        )
    start = outline.start
    in_folder, changed = path.name == _EVENTS_FILE, modified_at(path)
    session = as_text(start.get("sessionId")) or (path.parent.name if in_folder else path.stem)
    cwd = as_text(as_object(start.get("context")).get("cwd")) or None
    beside = (path.with_name("workspace.yaml"),) if in_folder else ()
    name, is_given = _name(*beside) if beside else ("", False)
    header = Header(
        id=session,
        version=NATIVE_VERSION,
        timestamp=as_time(start.get("startTime")) or as_time(outline.time) or changed,
        cwd=cwd,
        parent_session=as_text(start.get("detachedFromSpawningParentSessionId")) or None,
        title=name or None,
    )
    notes = Notes(path)
    own = (each for each in objects(path, notes, _START) if not each.value.get("agentId"))
    yield _session(header, own, notes, changed, name if is_given else "", beside)
    for agent_id, agent in outline.agents.items():
        times = (as_time(each.value.get("timestamp")) for each in agent.lines)
        of_agent = Header(
            id=agent_id,
            version=NATIVE_VERSION,
            timestamp=next(filter(None, times), EPOCH),
            cwd=cwd,
            parent_session=session,
            parent_entry=agent.caller,
            title=as_text(agent.started.get("agentDescription")) or as_text(agent.started.get("agentName")) or None,
        )
        yield _session(of_agent, agent.lines, Notes(path), changed)


def _session(
    header: Header,
    lines: Iterable[Line],
    notes: Notes,
    changed: datetime,
    name: str = "",
    beside: tuple[Path, ...] = (),
) -> ForeignSession:
    return ForeignSession(
        header=header,
        entries=Events(header, notes).entries(lines, name),
        findings=notes.findings,
        is_of_source=is_derived_or_random,  # a rewind deletes events
        changed=changed,
        beside=beside,
    )


def _name(path: Path) -> tuple[str, bool]:
    """Return the session's name, and whether the user gave it; "" if it is not in a single line."""
    try:
        described = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", False  # it is optional
    found = _NAME_LINE.search(described)
    name = found[1] if found else ""
    if name.startswith('"'):
        try:
            name = msgspec.json.decode(name, type=str)
        except (ValueError, RecursionError):
            return "", False
    elif name.startswith("'"):
        name = name[1:].removesuffix("'").replace("''", "'")
    elif name.startswith(("|", ">", "[", "{", "&", "*", "!")) or name == "null":
        return "", False
    return name, _NAMED_BY_USER.search(described) is not None
