"""Qwen Code: lines that are linked as those of Claude Code are, and hold messages as those of Gemini CLI do.

Since its version 0.5 it appends one line for each prompt, answer and result, and more of its own in between::

    {"uuid":"u1","parentUuid":null,"sessionId":"s","type":"user","cwd":"...","version":"0.15.10",
     "message":{"role":"user","parts":[{"text":"Say hello."}]},...}
    {"uuid":"t1","parentUuid":"u1","type":"system","subtype":"ui_telemetry","systemPayload":{...},...}
    {"uuid":"a1","parentUuid":"t1","type":"assistant","model":"...","message":{"role":"model","parts":[...]},...}
    {"uuid":"r1","parentUuid":"a1","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":...}]},
     "toolCallResult":{"callId":"c1","status":"success",...},...}

The file is read line by line (`records`). The sessions of its sub-agents are files of the same kind,
`subagents/<session>/agent-<agent>.jsonl`, each with a `.meta.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ...events.entries import NATIVE_VERSION, Header
from ...events.errors import ForeignFormatError, Where
from ..base import ForeignSession, Format
from ..chain import derived_id
from ..json_lines import Notes, beginning, decoded, objects
from ..opening import modified_at
from ..values import Object, as_object, as_text, as_time
from .records import NAME, ROLES, TITLED, Records, title_in

_START = b'{"uuid"'
_LONG_LINE = re.compile(rb'\{"uuid":"[^"]*","parentUuid":(null|"[^"]*"),"sessionId":')
_MESSAGE = re.compile(rb'"message":\{"role":"(user|model)","parts":\[')
_MARKS = (b'"parts"', b'"systemPayload"')
_LINES_CHECKED = 50
_AGENTS = "subagents"
_AGENT = "agent-"


class QwenFormat(Format):
    """`chats/<session>.jsonl` since version 0.5, and `subagents/<session>/agent-<agent>.jsonl`."""

    name = NAME
    title = "Qwen Code"
    home = "~/.qwen/projects"
    checked = "the program, 0.15.10 and 0.24.4"
    moved_by = ("QWEN_HOME", "~/.qwen")

    def folder(self, environ: Mapping[str, str]) -> Path | None:
        """Return where it keeps its files; sessions may be elsewhere than all else. See `Format.folder`."""
        apart = environ.get("QWEN_RUNTIME_DIR")
        return Path(apart) / "projects" if apart else super().folder(environ)

    def may_hold(self, folder: Path, path: Path, *, is_folder: bool) -> bool:
        """Return whether it may hold a session that is no sub-agent's; see `Format.may_hold`."""
        return path.name != _AGENTS if is_folder else path.suffix == ".jsonl"

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether one of the first lines is a line of Qwen Code; see `Format.detects`."""
        start = beginning(head)
        if not any(mark in start for mark in _MARKS):
            return False
        return any(_is_line_or_its_beginning(line) for line in start.splitlines()[:_LINES_CHECKED])

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session; see `Format.read`."""
        return iter((_read(path),))


class _Outline(NamedTuple):
    """What is known of a file before its lines are read: a line of its own, and the title that the program made."""

    line: Object
    automatic_title: str | None


def _read(path: Path) -> ForeignSession:
    outline = _outline(path)
    line = outline.line
    agent = as_text(line.get("agentId")) if line.get("isSidechain") is True else ""
    session = as_text(line.get("sessionId")) or derived_id(NAME, path.stem)
    meta = path.with_suffix(".meta.json")
    about = _about(meta) if agent else {}
    header = Header(
        id=f"{session}.{_AGENT}{agent}" if agent else session,
        version=NATIVE_VERSION,
        timestamp=as_time(line.get("timestamp")) or modified_at(path),
        cwd=as_text(line.get("cwd")) or None,
        title=as_text(about.get("description")) or as_text(about.get("agentType")) or outline.automatic_title,
        parent_session=session if agent else None,
    )
    notes = Notes(path)
    return ForeignSession(
        header=header,
        entries=Records(header, notes).entries(objects(path, notes, _START)),
        findings=notes.findings,
        beside=(meta,) if agent else (),
    )


def _outline(path: Path) -> _Outline:
    """Read what the header needs.

    Raises:
        ForeignFormatError: No line is one of Qwen Code.
    """
    first: Object | None = None
    title: str | None = None
    with path.open("rb") as file:
        for line in file:
            value = decoded(line) if first is None or TITLED in line else None
            if value is None:
                continue
            if first is None and is_line(value):
                first = value
            found = title_in(value)
            if found is not None:
                title = found.name if found.is_automatic else None
    if first is None:
        raise ForeignFormatError("the file contains no lines of a Qwen Code session", where=Where(str(path)))
    return _Outline(first, title)


def is_line(value: Object) -> bool:
    """Return whether a line is in the tree of a session, and holds a message of Google's form or the program's data."""
    if "uuid" not in value or "parentUuid" not in value:
        return False
    message = as_object(value.get("message"))
    if isinstance(message.get("parts"), list) and "content" not in message and as_text(message.get("role")) in ROLES:
        return True
    return value.get("type") == "system" and isinstance(value.get("systemPayload"), dict)


def _is_line_or_its_beginning(line: bytes) -> bool:
    value = decoded(line)
    if value is None:  # too long for the head
        return _LONG_LINE.match(line) is not None and _MESSAGE.search(line) is not None
    return is_line(value)


def _about(path: Path) -> Object:
    """Read the optional file about a sub-agent; return an empty object if it is missing or damaged."""
    try:
        return decoded(path.read_bytes()) or {}
    except OSError:
        return {}
