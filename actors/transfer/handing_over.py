"""Handing over: a path becomes another program's own session, and the session records what it became.

The order is such that a crash at any point harms nobody. The file is first written to a folder of its own and read
back there, as an import will read it. Then the session records under which ids its entries were read back. Only then
does the file appear where the program looks, under a name that did not exist.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from ...events.content import ToolResultPart, ToolUsePart, plain_text, shown_text
from ...events.entries import EPOCH, CompactionEntry, Custom, Entry, Header, KnownEntry, Message, OpaqueEntry
from ...events.errors import ExportExists, ForeignFormatError, InvalidInput, ProgramFailed
from ...events.findings import NotHeld
from ...events.offload import carried_out
from ...events.texts import one_line
from ...formats.base import ForeignSession, KeptSession
from ...formats.handing_over.base import Plan, Surroundings, Talk, Target
from ...formats.handing_over.talk import talk_of
from ...formats.handing_over.targets import target_named
from ...formats.programs import format_named
from ...projections.building.pairing import paired
from ...projections.context import ContextMessage, message_of
from ..log.open_log import OpenLog
from ..session.reading import read_log
from .reports import HandedOver
from .target import new_file

if TYPE_CHECKING:
    from ..host.core import HostCore
    from ..session.appending import Appending

RECORD = "treering.handed_over"
"""The custom type of the entry that records what was handed over."""

_TAKES_AT_MOST_S = 120


class Record(Struct, frozen=True):
    """What a session remembers of having been handed over.

    Attributes:
        program: To which program.
        id: The id of the program's session.
        leaf_id: The end of the path that was handed over.
        entries: The entries as they are read back from the program, each with the entry that it comes from.
    """

    program: str
    id: str
    leaf_id: str
    entries: list[tuple[str, str]]


async def hand_over(
    core: HostCore, session: Appending, program: str, leaf_id: str | None, cwd: str | None, *, dry_run: bool
) -> HandedOver:
    """Hand a session over; see `Session.hand_over`."""
    target, offload = target_named(program), core.runtime.offload
    path = await read_log(session, lambda log: _path(log, leaf_id))
    where = await offload(_folder, cwd, path.header.cwd)
    plan = await offload(target.plan, path.talk, Surroundings(where, os.environ, datetime.now(UTC)))
    if dry_run:
        return HandedOver(program, None, None, where, None, plan.left_out)
    program_path = _program_of(plan)
    record = await offload(_read_back, program, path, plan)
    payload = Custom(RECORD, Raw(msgspec.json.encode(record)))
    if path.can_append_aside:
        await session.append(payload, below=path.leaf_id, aside=True)
    else:
        await session.append(payload)
    await carried_out(offload, _create, target, plan, program_path, where)
    file = None if plan.take_in else str(plan.path)
    return HandedOver(program, plan.id, file, where, shlex.join(plan.command), plan.left_out)


class _Path(Struct, frozen=True):
    """A path of a session, to be handed over."""

    header: Header
    leaf_id: str
    can_append_aside: bool
    talk: Talk


async def _path(log: OpenLog, leaf_id: str | None) -> _Path:
    """Read a path: the messages that a model is shown, and what of the path is not among them."""
    index = log.index
    end = index.path_end(leaf_id)
    context = await log.context(end)
    messages = paired(context.messages)
    entries = {each.id: each for each in await log.entries_in([*index.upward(end)][::-1])}
    given = [
        (each.entry_id, entries[each.entry_id].timestamp if each.entry_id in entries else EPOCH, each.message)
        for each in messages
    ]
    in_context = {each.entry_id for each in context.messages}
    left_out = [*_unsaid([*entries.values()], in_context, {each.entry_id for each in messages})]
    left_out += _unpaired(context.messages, messages)
    title = index.info.name or index.header.title or index.first_message or None
    talk = talk_of(index.header.id, title, given, left_out)
    if not talk.messages:
        raise InvalidInput(f"session {index.header.id!r} has no message on this path that could be handed over")
    return _Path(index.header, index.ids[end], log.dialect.can_append_aside, talk)


def _unsaid(entries: Sequence[Entry], in_context: AbstractSet[str], said: AbstractSet[str]) -> Iterator[NotHeld]:
    """Yield the messages on a path that are not handed over at all."""
    for entry in entries:
        message = None if isinstance(entry, CompactionEntry) else message_of(entry)
        if message is not None and entry.id is not None and entry.id not in said and (words := _words(message)):
            kind = "message that models are not shown" if entry.id in in_context else "message before the summary"
            yield NotHeld(entry.id, kind, one_line(words))


def _words(message: Message) -> str:
    if message.bash is not None:
        return message.bash.command
    results = [part.tool_result.text for part in message.content if isinstance(part, ToolResultPart)]
    calls = [part.tool_use.name for part in message.content if isinstance(part, ToolUsePart)]
    said = "\n".join(filter(None, (plain_text(message.content), *results, *calls)))
    return said or " ".join(map(shown_text, message.content))


def _unpaired(shown: Sequence[ContextMessage], said: Sequence[ContextMessage]) -> Iterator[NotHeld]:
    """Yield the results without a call in messages of which the rest is handed over."""
    kept = {(each.entry_id, part) for each in said for part in each.content if isinstance(part, ToolResultPart)}
    said_ids = {each.entry_id for each in said}
    for each in shown:
        for part in each.content if each.entry_id in said_ids else ():
            if isinstance(part, ToolResultPart) and (each.entry_id, part) not in kept:
                yield NotHeld(each.entry_id, "result without a call", one_line(part.tool_result.text))


def _folder(given: str | None, of_session: str | None) -> str:
    """Return where the program is to go on: the given folder, or else the session's own, if it is there.

    Raises:
        InvalidInput: The given folder does not exist.
    """
    if given is not None and not os.path.isdir(given):
        raise InvalidInput(f"there is no folder {given}: create it, or give another one in which to go on")
    if given is None:
        given = of_session if of_session is not None and os.path.isdir(of_session) else os.getcwd()
    return os.path.realpath(given)


def _read_back(program: str, path: _Path, plan: Plan) -> Record:
    """Read a planned file as an import will, and return which entries it yields and where they come from.

    Raises:
        ForeignFormatError: It does not yield one session with the planned id.
    """
    said = path.talk.messages
    times = [each.time for each in said]
    with tempfile.TemporaryDirectory(prefix="treering-") as folder:
        file = Path(folder) / plan.path.name
        file.write_bytes(plan.data)
        (found,) = format_named(program).read(file)
        if found.header.id != plan.id:
            raise ForeignFormatError(f"what was planned for {program} is read back as session {found.header.id!r}")
        entries = [
            (each.id, said[max(0, bisect_right(times, each.timestamp) - 1)].entry_id) for each in known_entries(found)
        ]
    return Record(program, plan.id, path.leaf_id, entries)


def known_entries(session: ForeignSession | KeptSession) -> list[KnownEntry]:
    """Return the entries of a session of another program, without what no entry could be made of."""
    if isinstance(session, ForeignSession):
        return list(session.entries)
    decoded = (session.dialect.decode(line[:-1], seq) for seq, line in enumerate(session.lines, 1))
    return [each for each in decoded if each is not None and not isinstance(each, OpaqueEntry)]


def _program_of(plan: Plan) -> str:
    """Return the path of the program that takes a session in; "" if none has to be run.

    Raises:
        ProgramFailed: It is not installed.
    """
    if not plan.take_in:
        return ""
    name = plan.take_in[0]
    found = shutil.which(name)
    if found is None:
        raise ProgramFailed(f"{name} keeps sessions in a database of its own and must take this one in: install {name}")
    return found


def _create(target: Target, plan: Plan, program: str, cwd: str) -> None:
    """Create the planned files, or have the program take the session in.

    Raises:
        ExportExists: A file of this name exists.
        ProgramFailed: The program did not take the session in.
        OSError: A file cannot be written.
    """
    if program:
        with tempfile.TemporaryDirectory(prefix="treering-") as folder:
            file = Path(folder) / plan.path.name
            file.write_bytes(plan.data)
            _take_in(target, [program, *plan.take_in[1:], str(file)], plan.id, cwd)
        return
    for path, data in plan.beside:
        with suppress(ExportExists):
            new_file(path, data)
    new_file(plan.path, plan.data)


def _take_in(target: Target, command: Sequence[str], own_id: str, cwd: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TAKES_AT_MOST_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(f"{target.title} did not take the session in within {_TAKES_AT_MOST_S} s") from error
    if done.returncode or own_id not in done.stdout:
        said = one_line(done.stderr.strip() or done.stdout.strip(), 300)
        raise ProgramFailed(f"{target.title} did not take the session in (exit status {done.returncode}): {said}")
