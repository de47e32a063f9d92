"""What must hold: the invariants of every log at every moment, and that it agrees with the answers that callers got."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

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


Fate: TypeAlias = Literal["open", "acknowledged", "refused", "unknown"]
"""The outcome of a command as its caller knows it."""


class CommandRecord(Struct, eq=False):
    """One command: the tokens of its entries, and its outcome.

    Attributes:
        tokens: The tokens of its entries.
        fate: Its outcome.
        ids: The ids of its entries, once they are known.
        settled: Whether they have reached the disk since, without a flush.
    """

    tokens: tuple[str, ...]
    fate: Fate = "open"
    ids: tuple[str, ...] = ()
    settled: bool = False


class Ledger:
    """The commands that append to one session, with their outcomes.

    Attributes:
        commands: The commands, in the order in which they were sent.
        acknowledged: The number of entries acknowledged so far.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.commands: list[CommandRecord] = []
        self.acknowledged = 0

    def note_command(self, tokens: Sequence[str]) -> CommandRecord:
        """Record a command that is about to be sent."""
        record = CommandRecord(tuple(tokens))
        self.commands.append(record)
        return record

    def answer(self, record: CommandRecord, ids: Sequence[str]) -> None:
        """Record that a command was acknowledged.

        Raises:
            Broken: There are too few ids, or it was acknowledged with other ids before.
        """
        ids = tuple(ids)
        if len(ids) < len(record.tokens):
            raise Broken(f"{self.name}: {len(record.tokens)} entries were requested but {len(ids)} acknowledged")
        if record.ids and record.ids != ids:
            raise Broken(f"{self.name}: {record.tokens} had the ids {record.ids} and now has {ids}")
        if record.fate != "acknowledged":
            self.acknowledged += len(record.tokens)
        record.fate, record.ids = "acknowledged", ids

    @property
    def in_flight(self) -> int:
        """The number of commands that have no answer yet."""
        return sum(record.fate == "open" for record in self.commands)

    @property
    def in_doubt(self) -> bool:
        """Whether there are commands whose outcome is unknown."""
        return any(record.fate == "unknown" for record in self.commands)

    def must_hold(self) -> set[str]:
        """Return the tokens that the log must contain."""
        return {token for record in self.commands if record.fate == "acknowledged" for token in record.tokens}

    def note_settled(self) -> None:
        """Record that all acknowledged entries have reached the disk, whatever the durability."""
        for record in self.commands:
            record.settled = record.settled or record.fate == "acknowledged"

    def check(self, entries: Sequence[Entry], *, lossy: bool = False) -> None:
        """Compare the visible entries of a log with what callers know.

        Args:
            entries: The visible entries.
            lossy: The power failed and the durability does not cover that, so acknowledged entries may be lost.

        Raises:
            Broken: An acknowledged entry is missing or has another id, an entry is stored twice, a refused entry is
                stored, or a command is stored only in part.
        """
        id_by_token: dict[str, str] = {}
        for entry in entries:
            token = token_of(entry)
            if token is None:
                continue
            if token in id_by_token:
                raise Broken(f"{self.name}: {token} is stored twice, as {id_by_token[token]} and {entry.id}")
            id_by_token[token] = entry.id or ""
        for record in self.commands:
            stored = [token for token in record.tokens if token in id_by_token]
            if stored and len(stored) != len(record.tokens):
                raise Broken(f"{self.name}: only {stored} of {record.tokens} is stored")
            if record.fate == "acknowledged" and not stored and not (lossy and not record.settled):
                raise Broken(f"{self.name}: {record.tokens} was acknowledged but is not stored")
            if record.fate == "refused" and stored and not lossy:
                raise Broken(f"{self.name}: {stored} was refused but is stored")
            if stored and record.ids and record.ids[: len(stored)] != tuple(id_by_token[token] for token in stored):
                raise Broken(f"{self.name}: {stored} does not have the acknowledged ids {record.ids}")

    def accept(self, entries: Sequence[Entry], *, on_disk: bool) -> None:
        """Take the checked content of a log as the expected content from now on.

        Args:
            entries: The visible entries.
            on_disk: Whether they were read from the disk itself, not from the machine's cache. Otherwise a power cut
                may still remove an entry that was not acknowledged.
        """
        id_by_token = {token: entry.id or "" for entry in entries if (token := token_of(entry)) is not None}
        for record in self.commands:
            if all(token in id_by_token for token in record.tokens):
                if record.fate != "acknowledged" and not on_disk:
                    record.fate = "unknown"
                    continue
                record.fate, record.ids = "acknowledged", tuple(id_by_token[token] for token in record.tokens)
            else:
                record.fate, record.ids = "refused", ()
