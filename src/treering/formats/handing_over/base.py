"""What is handed over, where to, and what a program's module offers.

The first line of a file that is handed over has one more field, which programs leave alone. It names the session that
the file comes from, so that an import finds it again; what the session itself recorded decides::

    {"type":"user",...,"treering":{"session":"given","id":"0f6c..."}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from ...events.content import Content, ImagePart, TextPart, ThinkingPart, ToolResult, ToolUse, ToolUsePart
from ...events.findings import NotHeld
from ...events.json_values import JSON
from ...events.texts import one_line
from ..base import ForeignSession, KeptSession
from ..json_lines import decoded
from ..opening import opened
from ..values import Object, as_object, as_text

MARK = "treering"
"""The field that names the session which a file comes from."""

Role: TypeAlias = Literal["user", "assistant", "tool"]

_UNITS = re.compile(r"[^a-zA-Z0-9]")
_SHOWN_CHARS = 80
_LINE_MAX = 64 * 1024 * 1024


class Said(Struct, frozen=True):
    """A message of the path.

    Attributes:
        entry_id: The entry that it comes from; that of the message before it for one that stands for no entry.
        time: When it was written, to the millisecond; later than that of every message before it.
        role: Who said it. A system's message is a user's here, since most programs have no place for it elsewhere.
        content: Its parts: results in a tool's message and only there, calls and thinking in an assistant's.
        model: The model that answered.
        provider: That model's provider.
    """

    entry_id: str
    time: datetime
    role: Role
    content: tuple[Content, ...]
    model: str | None = None
    provider: str | None = None

    @property
    def calls(self) -> list[ToolUse]:
        """The tool calls."""
        return [part.tool_use for part in self.content if part.type == "tool_use"]

    @property
    def results(self) -> list[ToolResult]:
        """The tool results."""
        return [part.tool_result for part in self.content if part.type == "tool_result"]


class Talk(Struct, frozen=True):
    """What is handed over.

    Attributes:
        session_id: The session that it comes from.
        title: What the session is about; None if it has no title.
        messages: The messages of the path, each call with one result after it.
        left_out: What no program is given.
        tools: The name of the tool of each call, by the call's id.
    """

    session_id: str
    title: str | None
    messages: tuple[Said, ...]
    left_out: tuple[NotHeld, ...]
    tools: Mapping[str, str]


class Surroundings(Struct, frozen=True):
    """Where a program runs.

    Attributes:
        cwd: The folder in which it is to go on, as a real path.
        environ: The environment, which may say where the program keeps its files.
        now: The time of the handing over.
    """

    cwd: str
    environ: Mapping[str, str]
    now: datetime

    @property
    def home(self) -> Path:
        """The person's home folder."""
        home = self.environ.get("HOME")
        return Path(home) if home else Path.home()

    def folder(self, variable: str, *below_home: str) -> Path:
        """Return the folder that an environment variable names, or else one below the home folder."""
        named = self.environ.get(variable)
        return Path(named) if named else self.home.joinpath(*below_home)


class Plan(Struct, frozen=True):
    """A session as one program is to find it.

    Attributes:
        id: What the program's option to resume a session takes.
        path: The file to create; for a program that takes sessions in by a command, the file that it is given.
        data: What is in it.
        command: The command that resumes the session, to be run in the folder of `Surroundings`.
        left_out: What it does not hold of the path.
        beside: Other files that the program needs, each to be created if it does not exist.
        take_in: The command that makes the program take the file in, without the file; empty if it finds it by itself.
    """

    id: str
    path: Path
    data: bytes
    command: tuple[str, ...]
    left_out: tuple[NotHeld, ...] = ()
    beside: tuple[tuple[Path, bytes], ...] = ()
    take_in: tuple[str, ...] = ()


class Target(Protocol):
    """A program that a session can be handed over to."""

    title: str
    """The program's name as people know it."""

    def plan(self, talk: Talk, surroundings: Surroundings) -> Plan:
        """Return the session file; nothing is written."""
        ...


def dashed(cwd: str) -> str:
    """Return a folder's path as programs written in JavaScript name a folder after it: `-` for each odd unit."""
    units = cwd.encode("utf-16-le", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2))
    return "".join(_UNITS.sub("-", chr(code)) for code in codes)


def mark(talk: Talk, own_id: str) -> Object:
    """Return the field that names the session, for the first line of a file."""
    return {MARK: {"session": talk.session_id, "id": own_id}}


def json_lines(lines: Sequence[Object]) -> bytes:
    """Encode lines. The last one ends with a newline too, since programs append to the file at once."""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def milliseconds(time: datetime) -> str:
    """Format a time as programs written in JavaScript do."""
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def not_held(said: Said, part: Content, kind: str = "") -> NotHeld:
    """Return what tells that a part of a message cannot be held."""
    if isinstance(part, ThinkingPart):
        return NotHeld(said.entry_id, kind or "thinking", one_line(part.thinking.content, _SHOWN_CHARS))
    if isinstance(part, ImagePart):
        source = part.image.source
        shown = source.data if source.type == "url" else source.media_type
        return NotHeld(said.entry_id, kind or "image", one_line(shown, _SHOWN_CHARS))
    words = part.text.content if isinstance(part, TextPart) else part.type
    return NotHeld(said.entry_id, kind or part.type, one_line(words, _SHOWN_CHARS))


class Writing:
    """What a program's file holds of a talk.

    Args:
        talk: The talk.

    Attributes:
        left_out: What it does not hold.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.left_out: list[NotHeld] = [*talk.left_out]

    def instead(self, said: Said, part: Content) -> Iterator[str]:
        """Note an image or thinking that cannot be held, and yield the text that stands for an image: its address."""
        if isinstance(part, (ImagePart, ThinkingPart)):
            self.left_out.append(not_held(said, part))
        if isinstance(part, ImagePart):
            yield f"[image: {part.image.source.data}]"


def google_part(part: Content) -> Object | None:
    """Return a text, a call or an image as a part of Google's contents; None for anything else."""
    match part:
        case TextPart(text=said):
            return {"text": said.content}
        case ToolUsePart(tool_use=call):
            return {"functionCall": {"id": call.id, "name": call.name, "args": call.input}}
        case ImagePart(image=shown) if shown.source.type == "base64":
            return {"inlineData": {"mimeType": shown.source.media_type, "data": shown.source.data}}
        case _:
            return None


def failed_text(output: str) -> str:
    """Return the text of a failed call, for programs whose results have no mark of a failure."""
    return f"(The call failed.)\n{output}" if output.strip() else "(The call failed.)"


class Mark(Struct, frozen=True):
    """What a file says of where it comes from.

    Attributes:
        session: The session that was handed over.
        id: The program's session that it became.
    """

    session: str
    id: str


def mark_in(path: Path, session: ForeignSession | KeptSession) -> Mark | None:
    """Return the mark of a session; None if it has none, or if it is that of another session, of which this is a copy.

    Args:
        path: The file, or a folder.
        session: The session.
    """
    origin: JSON = session.origin if isinstance(session, ForeignSession) else None
    if origin is None and not path.is_dir():
        with opened(path) as file:
            line = file.readline(_LINE_MAX)
        origin = decoded(line) if MARK.encode() in line else None
    fields = as_object(as_object(origin).get(MARK))
    found = Mark(as_text(fields.get("session")), as_text(fields.get("id")))
    return found if found.session and found.id == session.header.id else None
