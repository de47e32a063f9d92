"""The invariants of every log at every moment, whatever has happened to it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ...actors.session.session import Session
from ...events.content import plain_text
from ...events.dialects.detect import detect
from ...events.entries import BranchSummaryEntry, CustomEntry, Entry, LabelEntry, MessageEntry, SessionInfoEntry
from ...events.index import LogIndex
from ...events.kinds import Kind


class Broken(AssertionError):
    """An invariant was violated.

    Attributes:
        trace: The events before it, one per line, if a simulation found it.
    """

    trace: Sequence[str] = ()


class Replay(Struct):
    """The entries in the complete lines of a file, read without using the store's code."""

    index: LogIndex
    entries: list[Entry | None]

    @property
    def tokens(self) -> list[str]:
        """The tokens of the visible entries, in the order of the file."""
        # Lines that are still withheld have no kind yet.
        visible = zip(self.entries, self.index.kinds[1:], strict=False)
        return tokens_of([entry for entry, kind in visible if entry is not None and kind != Kind.ABORTED])


def replayed(data: bytes, path: str) -> Replay:
    """Replay a log file from its bytes, ignoring anything after the last newline.

    Raises:
        NotASession: The bytes do not begin with a header.
    """
    detected = detect(data, path)
    replay = Replay(LogIndex(detected.header), [])
    complete, newline, _ = data[detected.size :].rpartition(b"\n")
    for line in complete.split(b"\n") if newline else ():
        if line.strip():
            entry = detected.dialect.decode(line.removesuffix(b"\r"), len(replay.entries) + 1)
            replay.entries.append(entry)
            replay.index.fold(entry)
    return replay


def check_file(data: bytes, path: str) -> Replay:
    """Replay a native log that only treering has written, and check each of its lines.

    Raises:
        Broken: A line is damaged, stores a wrong seq, or has an earlier time than the line before it.
    """
    replay = replayed(data, path)
    lines = [line for line in data.split(b"\n")[1:] if line]
    last = replay.index.header.timestamp
    for seq, entry in enumerate(replay.entries, 1):
        if entry is None:
            raise Broken(f"{path}: line {seq} is damaged: {lines[seq - 1]!r}")
        stored = msgspec.json.decode(lines[seq - 1]).get("seq")
        if stored != seq:
            raise Broken(f"{path}: line {seq} stores the seq {stored}")
        if entry.timestamp < last and seq > 1:
            raise Broken(f"{path}: line {seq} has an earlier time than the line before it")
        last = entry.timestamp
    return replay


async def check_session(session: Session, data: bytes, path: str) -> list[Entry]:
    """Check that an idle session agrees with its file, and return its entries.

    Raises:
        Broken: The host's state differs from a replay of the file, or the entries that it reads are incomplete.
    """
    log = await session.log()
    replay = replayed(data, path)
    if log.index != replay.index:
        raise Broken(f"{path}: the state differs from a replay of the file")
    entries = await session.entries()
    expected_seqs = [seq for seq in range(1, log.index.head + 1) if log.index.is_entry(seq)]
    if [entry.seq for entry in entries] != expected_seqs:
        raise Broken(f"{path}: read the seqs {[entry.seq for entry in entries]} instead of {expected_seqs}")
    ids = [entry.id for entry in entries]
    if ids != [log.index.ids[seq] for seq in expected_seqs]:
        raise Broken(f"{path}: the ids that were read differ from those in the index")
    return entries


def token_of(entry: Entry) -> str | None:
    """Return the first word of an entry's text, by which a simulation identifies it."""
    content = ""
    match entry:
        case MessageEntry():
            content = plain_text(entry.message.content)
        case CustomEntry():
            content = str(entry.custom.data)
        case LabelEntry():
            content = entry.label.label or ""
        case BranchSummaryEntry():
            content = entry.branch_summary.summary
        case SessionInfoEntry():
            content = entry.session_info.name or ""
        case _:
            pass
    return content.partition(" ")[0] or None


def tokens_of(entries: Sequence[Entry]) -> list[str]:
    """Return the tokens of those entries that have one."""
    return [token for entry in entries if (token := token_of(entry)) is not None]
