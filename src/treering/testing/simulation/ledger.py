"""What callers were told, and whether a log keeps to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ...events.entries import Entry
from .checks import Broken, token_of

Fate: TypeAlias = Literal["open", "acknowledged", "refused", "unknown"]
"""What a caller knows of what it asked for."""


class Asked(Struct, eq=False):
    """One command: the tokens of its entries, and what became of it.

    Attributes:
        ids: The ids of its entries, once they are known.
        settled: The machine has written them down by itself since.
    """

    tokens: tuple[str, ...]
    fate: Fate = "open"
    ids: tuple[str, ...] = ()
    settled: bool = False


class Ledger:
    """The commands that append to one session, and what their callers were told.

    Attributes:
        asked: All of them, in the order in which they were made.
        acknowledged: How many entries were acknowledged so far.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[Asked] = []
        self.acknowledged = 0

    def ask(self, tokens: Sequence[str]) -> Asked:
        """Note a command that is about to be made."""
        asked = Asked(tuple(tokens))
        self.asked.append(asked)
        return asked

    def answer(self, asked: Asked, ids: Sequence[str]) -> None:
        """Note that a command was acknowledged.

        Raises:
            Broken: It was acknowledged with other ids before.
        """
        ids = tuple(ids)
        if len(ids) < len(asked.tokens):
            raise Broken(f"{self.name}: {len(asked.tokens)} entries were asked for and {len(ids)} acknowledged")
        if asked.ids and asked.ids != ids:
            raise Broken(f"{self.name}: {asked.tokens} had the ids {asked.ids} and now has {ids}")
        if asked.fate != "acknowledged":
            self.acknowledged += len(asked.tokens)
        asked.fate, asked.ids = "acknowledged", ids

    @property
    def in_flight(self) -> int:
        """How many commands wait for their answer."""
        return sum(asked.fate == "open" for asked in self.asked)

    @property
    def in_doubt(self) -> bool:
        """Whether there are commands of which nobody knows what became of them."""
        return any(asked.fate == "unknown" for asked in self.asked)

    def must_hold(self) -> set[str]:
        """Return the tokens that the log must hold."""
        return {token for asked in self.asked if asked.fate == "acknowledged" for token in asked.tokens}

    def settled(self) -> None:
        """Note that all acknowledged entries have reached the disk, whatever the durability."""
        for asked in self.asked:
            asked.settled = asked.settled or asked.fate == "acknowledged"

    def check(self, entries: Sequence[Entry], *, lossy: bool = False) -> None:
        """Hold the visible entries of a log against what callers were told.

        Args:
            entries: All that are visible.
            lossy: The power went, and the log's durability does not cover that: acknowledged entries may be gone.

        Raises:
            Broken: An acknowledged entry is missing or has another id; an entry is there twice; one that was refused is
                there; or a command is there in part.
        """
        found: dict[str, str] = {}
        for entry in entries:
            token = token_of(entry)
            if token is None:
                continue
            if token in found:
                raise Broken(f"{self.name}: {token} is there twice, as {found[token]} and {entry.id}")
            found[token] = entry.id or ""
        for asked in self.asked:
            there = [token for token in asked.tokens if token in found]
            if there and len(there) != len(asked.tokens):
                raise Broken(f"{self.name}: of {asked.tokens} only {there} is there")
            if asked.fate == "acknowledged" and not there and not (lossy and not asked.settled):
                raise Broken(f"{self.name}: {asked.tokens} was acknowledged and is not there")
            if asked.fate == "refused" and there and not lossy:
                raise Broken(f"{self.name}: {there} was refused and is there")
            if there and asked.ids and asked.ids[: len(there)] != tuple(found[token] for token in there):
                raise Broken(f"{self.name}: {there} has not the ids {asked.ids} that were acknowledged")

    def rest(self, entries: Sequence[Entry], *, on_disk: bool) -> None:
        """Take what a log was found to hold, once it was checked, for the truth from here on.

        Args:
            entries: All that are visible.
            on_disk: They come from the disk itself, and not from what the machine holds back. Otherwise an entry that
                nobody acknowledged may still go with the power.
        """
        found = {token: entry.id or "" for entry in entries if (token := token_of(entry)) is not None}
        for asked in self.asked:
            if all(token in found for token in asked.tokens):
                if asked.fate != "acknowledged" and not on_disk:
                    asked.fate = "unknown"
                    continue
                asked.fate, asked.ids = "acknowledged", tuple(found[token] for token in asked.tokens)
            else:
                asked.fate, asked.ids = "refused", ()
