"""The jobs that a peer may be able to do. A peer has the methods of those that it can, and needs no other."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from msgspec import Struct

from .timing import Sample
from .workspace import Log, Workspace

TEXT = "The quick brown fox jumps over the lazy dog, and then over it again; " * 15
TEXT_1_KB = TEXT[:1024]


class Appends(Struct, frozen=True):
    """Append messages of 1 KB, one call after the other in each session, all sessions at once.

    Attributes:
        sessions: How many sessions there are; they exist before the clock starts.
        calls: How many calls each of them gets.
        batch: How many messages one call appends.
    """

    sessions: int
    calls: int
    batch: int = 1

    @property
    def messages(self) -> int:
        """How many messages that makes."""
        return self.sessions * self.calls * self.batch


class Peer(Protocol):
    """What can be measured.

    Attributes:
        name: What the tables call it.
        durability: What an append has survived when its call returns.
    """

    @property
    def name(self) -> str: ...
    @property
    def durability(self) -> str: ...

    def absent(self) -> str | None:
        """Say why it cannot run here; None where it can."""
        ...


@runtime_checkable
class Appender(Protocol):
    """A peer that appends."""

    def append(self, job: Appends, space: Workspace) -> Sample:
        """Do the job; one operation of the sample is one message."""
        ...


@runtime_checkable
class Opener(Protocol):
    """A peer that opens a log so that it can be appended to."""

    def open(self, log: Log, *, prepared: bool) -> Sample | None:
        """Open a log once.

        Args:
            log: The log.
            prepared: With what an earlier opening may have left beside it; otherwise from the log alone.

        Returns:
            The sample, or None where the peer keeps nothing beside a log.
        """
        ...


@runtime_checkable
class ContextBuilder(Protocol):
    """A peer that builds what a model is shown."""

    def context(self, log: Log, *, again: bool) -> Sample:
        """Build the context of an open log, for the first time or `again`; the clock does not count the opening."""
        ...


@runtime_checkable
class Holder(Protocol):
    """A peer of which a program holds many sessions that do nothing."""

    def hold(self, sessions: int, space: Workspace) -> Sample:
        """Make sessions, use each, let it rest; the value is the bytes that each takes from then on."""
        ...
