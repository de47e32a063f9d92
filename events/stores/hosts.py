"""The hosts that share a store: who they are, which of them is about to leave, and the commands they send each other.

Both are capabilities of stores that many hosts share. A host that finds a log owned elsewhere posts a letter; the owner
takes it, carries out the command that it holds, and answers; the sender collects the answer. What a letter or an answer
says is opaque to the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from .base import Ref


class HostRow(Struct, frozen=True, kw_only=True):
    """A host, as the others know it.

    Attributes:
        name: Its name: that of its machine, and the id of its process.
        address: Where it answers requests; None if it does not.
        sessions: How many logs it owns.
        lag_s: For how many seconds it has not renewed its lease.
        left_s: The seconds until others may take what it owns, unless it renews before; not above 0 if it is gone.
        draining: Whether it takes no more sessions, and lets go those that it has.
    """

    name: str
    address: str | None
    sessions: int
    lag_s: float
    left_s: float
    draining: bool


@runtime_checkable
class Hosts(Protocol):
    """A store that knows the hosts that share it."""

    @property
    def host_name(self) -> str:
        """The name of this host."""
        ...

    @property
    def draining(self) -> bool:
        """Whether this host was told to take no more sessions, as far as it knew when it last renewed its leases."""
        ...

    def announce(self, address: str | None) -> None:
        """Be a host of this store from the next renewal on, even while no log is owned.

        Args:
            address: Where this host answers requests, for hosts that forward some; None if it does not.
        """
        ...

    def hosts(self) -> list[HostRow]:
        """Return the hosts that have not left, those that died lately included, by their names. Blocks."""
        ...

    def drain(self, name: str) -> bool:
        """Tell a host to take no more sessions; return whether there is one of this name that lives. Blocks."""
        ...


class Letter(Struct, frozen=True):
    """A command for the owner of a log.

    Attributes:
        id: The letter's own id; one that is posted again under the same id is the same letter.
        ref: The log.
        call: The command.
    """

    id: str
    ref: Ref
    call: bytes


class Whereabouts(Enum):
    """What became of a letter that has no answer."""

    WAITING = "waiting"
    """The owner has it, or will take it."""
    UNOWNED = "unowned"
    """Nobody has taken it, and nobody owns its log any more."""
    STRANDED = "stranded"
    """A host has taken it that does not own the log any more: it may have been carried out."""
    LOST = "lost"
    """The store does not have it: it may have been carried out."""


Answer: TypeAlias = bytes | Whereabouts


@runtime_checkable
class Inbox(Protocol):
    """A store through which hosts send each other commands. Every call but `arrived` blocks.

    Without this capability, a command for a session that another host owns is refused there.
    """

    @property
    def letter_bytes_max(self) -> int:
        """The size in bytes that the call of a letter may have."""
        ...

    def post(self, letter: Letter, keep_s: float) -> bool:
        """Post a letter, and tell the owner of its log; posting it again tells the owner again.

        Args:
            letter: The letter.
            keep_s: For how many seconds it may be taken; after that nobody takes it any more.

        Returns:
            Whether it is in the inbox; False if nobody owns the log.

        Raises:
            TooLarge: The call is too long; nothing was posted.
            TooMany: As many letters wait for this log as may; nothing was posted.
        """
        ...

    def withdraw(self, letter_id: str) -> bool:
        """Remove a letter if nobody has taken it; return whether it is certain that nobody ever will."""
        ...

    def answers(self, letter_ids: Sequence[str]) -> dict[str, Answer]:
        """Return the answers to letters, which are gone then, or what became of those that have none."""
        ...

    def take(self, most: int) -> list[Letter]:
        """Take letters for logs that this store owns, each once, in the order in which they were posted.

        Args:
            most: How many to take at most.
        """
        ...

    def answer(self, answers: Mapping[str, bytes]) -> None:
        """Answer letters that were taken, by their ids, and tell their senders; nobody may be there any more."""
        ...

    async def arrived(self) -> None:
        """Wait until letters or answers may have arrived for this store, at most some seconds, of its choice."""
        ...
