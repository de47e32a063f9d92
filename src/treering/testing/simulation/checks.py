"""What has to hold of every log at every moment, whatever happened to it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ...actors.session import Session
from ...events.content import plain_text
from ...events.dialects.detect import detect
from ...events.entries import BranchSummaryEntry, CustomEntry, Entry, LabelEntry, MessageEntry, SessionInfoEntry
from ...events.index import LogIndex
from ...events.kinds import Kind


class Broken(AssertionError):
    """A promise was broken.

    Attributes:
        trace: What happened before, line by line, where a simulation found it.
    """

    trace: Sequence[str] = ()


class Replay(Struct):
    """What the whole lines of a file say, read without any of the store's code."""

    index: LogIndex
    entries: list[Entry | None]

    @property
    def tokens(self) -> list[str]:
        """The tokens of the visible entries, in the order of the file."""
        visible = zip(self.entries, self.index.kinds[1:], strict=False)  # withheld lines have no kind yet
        return tokens_of([entry for entry, kind in visible if entry is not None and kind != Kind.ABORTED])


def replayed(data: bytes, path: str) -> Replay:
    """Fold the bytes of a log file from nothing; what stands after the last newline is left out.

    Raises:
        NotASession: They do not begin with a header.
    """
    found = detect(data, path)
    replay = Replay(LogIndex(found.header), [])
    whole, newline, _ = data[found.size :].rpartition(b"\n")
    for line in whole.split(b"\n") if newline else ():
        if line.strip():
            entry = found.dialect.decode(line.removesuffix(b"\r"), len(replay.entries) + 1)
            replay.entries.append(entry)
            replay.index.fold(entry)
    return replay


def check_file(data: bytes, path: str) -> Replay:
    """Replay a native log that treering alone has written, and check each of its lines.

    Raises:
        Broken: A line is damaged, stores another ordinal than it has, or an earlier time than the line before it.
    """
    replay = replayed(data, path)
    lines = [line for line in data.split(b"\n")[1:] if line]
    last = replay.index.header.timestamp
    for seq, entry in enumerate(replay.entries, 1):
        if entry is None:
            raise Broken(f"{path}: line {seq} is damaged: {lines[seq - 1]!r}")
        stored = msgspec.json.decode(lines[seq - 1]).get("seq")
        if stored != seq:
            raise Broken(f"{path}: line {seq} says that it is line {stored}")
        if entry.timestamp < last and seq > 1:
            raise Broken(f"{path}: line {seq} is of an earlier time than the line before it")
        last = entry.timestamp
    return replay


async def check_session(session: Session, data: bytes, path: str) -> list[Entry]:
    """Check that a session at rest is what its file says, and return its entries.

    Raises:
        Broken: What the host knows is not what a replay of the file gives; or entries are missing among those it reads.
    """
    log = await session.log()
    replay = replayed(data, path)
    if log.index != replay.index:
        raise Broken(f"{path}: the state is not what a replay of the file gives")
    entries = await session.entries()
    named = [seq for seq in range(1, log.index.head + 1) if log.index.is_entry(seq)]
    if [entry.seq for entry in entries] != named:
        raise Broken(f"{path}: reads the ordinals {[entry.seq for entry in entries]} of {named}")
    shown = [entry.id for entry in entries]
    if shown != [log.index.ids[seq] for seq in named]:
        raise Broken(f"{path}: the ids that are read are not those of the index")
    return entries


def token_of(entry: Entry) -> str | None:
    """Return the word by which a simulation knows an entry: the first one of what it says."""
    said = ""
    match entry:
        case MessageEntry():
            said = plain_text(entry.message.content)
        case CustomEntry():
            said = str(entry.custom.data)
        case LabelEntry():
            said = entry.label.label or ""
        case BranchSummaryEntry():
            said = entry.branch_summary.summary
        case SessionInfoEntry():
            said = entry.session_info.name or ""
        case _:
            pass
    return said.partition(" ")[0] or None


def tokens_of(entries: Sequence[Entry]) -> list[str]:
    """Return the tokens of entries; those that have none are left out."""
    return [token for entry in entries if (token := token_of(entry)) is not None]
