"""aider: a history in Markdown, `.aider.chat.history.md`, in the folder of each project.

    # aider chat started at 2026-11-27 21:15:00

    > Main model: openai/gpt-4o with diff edit format
    > Added bake.py to the chat.

    #### Count the loaves.

    Three loaves.

    > Tokens: 2.5k sent, 3 received. Cost: $0.0062 message, $0.0062 session.

The file only grows. Each start of the program is a session. Every line of a prompt begins with `####`, and every line
that the program says with `>`; both end with two blanks, by which they are told from Markdown in an answer. Everything
else was answered. There are no ids, and no time but that of the start, which is local.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ..events.content import text
from ..events.entries import (
    NATIVE_VERSION,
    Custom,
    Header,
    KnownEntry,
    Message,
    ModelChange,
    Payload,
    Usage,
    UsageRecord,
)
from ..events.errors import ForeignFormatError, Where
from .base import ForeignSession, Format
from .chain import Chain, derived_id
from .json_lines import Notes, beginning
from .opening import modified_at
from .values import kept_json

NAME = "aider"
START = b"# aider chat started at "
"""How a file, and each session in it, begins."""

_STARTED = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_ASKED, _NOTICED, _END = "####", ">", "  \n"
_COMMAND = re.compile(r"[/!]\S")  # what goes to a model is repeated as a prompt of its own
_MODEL = re.compile(r"(?:Main model|Model): (\S+) with ")
_COUNT = r"\d[\d,]*(?:\.\d+)?[kM]?"
_TOKENS = re.compile(
    rf"Tokens: (?P<sent>{_COUNT}) sent(?:, (?P<written>{_COUNT}) cache write)?"
    rf"(?:, (?P<cached>{_COUNT}) cache hit)?, (?P<received>{_COUNT}) received\."
    r"(?: Cost: \$(?P<cost>\d+(?:\.\d+)?) message)?"
)
_UNITS = {"k": 1_000, "M": 1_000_000}


class AiderFormat(Format):
    """`.aider.chat.history.md` in the folder of a project; each start of aider is a session."""

    name = NAME
    title = "aider"
    checked = "the program, 0.86.2"

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a history of aider."""
        return beginning(head).startswith(START)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read the sessions of a project; see `Format.read`."""
        return _read(path)


class _Run(NamedTuple):
    """One start of the program: when, and its lines, each with the number of the line and its place."""

    started: str
    lines: list[tuple[int, int, str]]


def _runs(path: Path) -> Iterator[_Run]:
    run: _Run | None = None
    byte = 0
    with path.open("rb") as file:
        for number, data in enumerate(file, 1):
            line = data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").replace("\r\n", "\n")
            if (found := _STARTED.fullmatch(line)) is not None:
                if run is not None:
                    yield run
                run = _Run(found[1], [])
            else:
                run = run or _Run("", [])
                run.lines.append((number, byte, line))
            byte += len(data)
    if run is not None:
        yield run


def _read(path: Path) -> Iterator[ForeignSession]:
    folder, found, earlier = str(path.parent.resolve()), False, Counter[str]()
    for run in _runs(path):
        earlier[run.started] += 1
        if not any(_kind_of(line)[0] == _ASKED for _, _, line in run.lines):
            continue  # nobody asked for anything
        found = True
        header = Header(
            id=derived_id(NAME, folder, run.started, str(earlier[run.started])),
            version=NATIVE_VERSION,
            timestamp=_time(run.started) or modified_at(path),
            cwd=folder,
        )
        notes = Notes(path)
        yield ForeignSession(header=header, entries=_entries(header, run, notes), findings=notes.findings)
    if not found:
        raise ForeignFormatError("there is no prompt in this history of aider", where=Where(str(path)))


def _time(started: str) -> datetime | None:
    try:
        return datetime.strptime(started, "%Y-%m-%d %H:%M:%S").astimezone(UTC)  # in the zone of this machine
    except (ValueError, OverflowError):
        return None


def _entries(header: Header, run: _Run, notes: Notes) -> Iterator[KnownEntry]:
    chain = Chain(NAME, header.id, header.timestamp)
    model = ("", "")
    for kind, lines in _blocks(run.lines, notes):
        if kind == _NOTICED:
            for line in lines:
                for payload in _notice(line, model):
                    if isinstance(payload, ModelChange):
                        model = (payload.provider, payload.model_id)
                    yield chain.add(payload)
            continue
        words = "\n".join(lines).strip()
        role = "user" if kind == _ASKED else "assistant"
        is_command = role == "user" and _COMMAND.match(words) is not None
        message = Message(
            role,
            (text(words),),
            model=model[1] or None if role == "assistant" else None,
            provider=model[0] or None if role == "assistant" else None,
            raw_metadata=kept_json({"is_meta": True}) if is_command else None,
        )
        # An answer may be in the file only in part, so its id is derived from its first line.
        yield chain.add(message, beginning=(role, words.partition("\n")[0]))
    notes.close()


def _blocks(lines: Iterable[tuple[int, int, str]], notes: Notes) -> Iterator[tuple[str, list[str]]]:
    """Yield what belongs together, with its kind: the lines of a prompt, of an answer, and what the program says."""
    kind, block = "", list[str]()
    for number, byte, line in lines:
        if not line.endswith("\n"):
            notes.add("damaged", "error", "the line is cut off, so it is left out", line=number, byte=byte)
            continue
        if "\ufffd" in line:
            notes.add(
                "replaced", "warning", "the line is not valid UTF-8: U+FFFD stands for it", line=number, byte=byte
            )
        found, words = _kind_of(line)
        ends_prompt = kind == _ASKED and not line.strip()  # a blank line of the prompt itself has its mark
        if (found != kind or ends_prompt) and not (kind == "" and not words.strip()):
            if any(each.strip() for each in block):
                yield kind, block
            kind, block = ("" if ends_prompt else found), []
        if not ends_prompt:
            block.append(words)
    if any(each.strip() for each in block):
        yield kind, block


def _kind_of(line: str) -> tuple[str, str]:
    """Return who says a line, "" for the model, and the line without its marks."""
    for kind in (_ASKED, _NOTICED):
        if line.startswith(f"{kind} ") and line.endswith(_END):
            return kind, line[len(kind) + 1 : -len(_END)]
    return "", line.removesuffix("\n")


def _notice(line: str, model: tuple[str, str]) -> Iterator[Payload]:
    """Yield a line that the program says, as data that no model sees, and what it tells."""
    yield Custom(f"{NAME}.notice", kept_json({"text": line}))
    if (found := _MODEL.match(line)) is not None:
        provider, slash, name = found[1].partition("/")
        yield ModelChange(provider if slash else NAME, name if slash else provider)
    elif (found := _TOKENS.match(line)) is not None:
        cost = float(found["cost"] or 0)
        sent, written, cached, received = (_count(found[name]) for name in ("sent", "written", "cached", "received"))
        usage = Usage(sent, received, cached, written, sent + received + cached + written, cost)
        yield UsageRecord("response", usage, model[0] or None, model[1] or None, note="rounded by aider")


def _count(shown: str | None) -> int:
    """Return a number of tokens as aider shows it, such as "2.5k"."""
    digits = (shown or "0").replace(",", "")
    return round(float(digits.rstrip("kM")) * _UNITS.get(digits[-1], 1))
