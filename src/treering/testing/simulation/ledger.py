"""The outcomes that callers know of, and a check that a log agrees with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ...events.entries import Entry
from .checks import Broken, token_of

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
