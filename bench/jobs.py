"""The jobs that a peer may be able to do: what is asked for, as values that travel to the process that does it."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from msgspec import Struct

TEXT = "The quick brown fox jumps over the lazy dog, and then over it again; " * 15
TEXT_1_KB = TEXT[:1024]


class Appends(Struct, frozen=True, tag=True):
    """Append messages of 1 KB, one call after the other in each session, all sessions at once.

    Attributes:
        sessions: How many sessions there are; they exist before the clock starts.
        calls: How many calls each of them gets.
        batch: How many messages one call appends.
        seconds_max: When to stop, for whoever does not get through; the sample says how many messages there were.
        durability: For a peer that has several: "os", "file" or "group".
    """

    verb: ClassVar[str] = "append"
    sessions: int
    calls: int
    batch: int = 1
    seconds_max: float = 60.0
    durability: str = "os"

    @property
    def messages(self) -> int:
        """How many messages that makes."""
        return self.sessions * self.calls * self.batch


class Reads(Struct, frozen=True, tag=True):
    """Read the whole history of one session of 1 KB messages that is on disk, by a process that has not read it yet."""

    verb: ClassVar[str] = "read"
    entries: int


class Opens(Struct, frozen=True, tag=True):
    """Open a long session so that it can be appended to.

    Attributes:
        entries: How many messages of 1.1 KB it has.
        prepared: With what an earlier opening may have left beside it; otherwise from the log alone.
        context: Build its context, too, before the clock stops.
        compacted: It was compacted a little before its end.
    """

    verb: ClassVar[str] = "open"
    entries: int
    prepared: bool = False
    context: bool = False
    compacted: bool = False


class Contexts(Struct, frozen=True, tag=True):
    """Build what a model is shown of an open session; the clock does not count the opening.

    Attributes:
        entries: How long its path is.
        compacted: It was compacted a little before its end.
        again: Build it a second time.
    """

    verb: ClassVar[str] = "context"
    entries: int
    compacted: bool = False
    again: bool = False


class Branches(Struct, frozen=True, tag=True):
    """Go back to the middle of a long session and append one message there, as often as `count` says."""

    verb: ClassVar[str] = "branch"
    entries: int
    count: int = 10


class Lists(Struct, frozen=True, tag=True):
    """List all sessions.

    Attributes:
        sessions: How many there are.
        entries: How many messages of 1 KB each of them has.
        warm: The same process has listed them before.
    """

    verb: ClassVar[str] = "list"
    sessions: int
    entries: int
    warm: bool = False


class Searches(Struct, frozen=True, tag=True):
    """Search all sessions for a word; who has an index has brought it up to date, and has searched before.

    Attributes:
        sessions: How many there are; see `bench.searched`.
        entries: How many messages each of them has.
        word: What is looked for.
        hits: How many hits that gives, of which no more than 50 are wanted.
        scan: Read the logs, although there is an index.
    """

    verb: ClassVar[str] = "search"
    sessions: int
    entries: int
    word: str
    hits: int
    scan: bool = False


class FanOuts(Struct, frozen=True, tag=True):
    """Let subscribers of one session receive what is appended; one operation is one delivery.

    Attributes:
        subscribers: How many follow it.
        events: How many messages are appended.
        burst: How many are appended at once.
    """

    verb: ClassVar[str] = "fan_out"
    subscribers: int
    events: int
    burst: int = 1


class Holds(Struct, frozen=True, tag=True):
    """Hold sessions that were appended to once; the value is the bytes of memory that each takes.

    Attributes:
        sessions: How many.
        live: They are active; otherwise they were let go as far as the peer can.
    """

    verb: ClassVar[str] = "hold"
    sessions: int
    live: bool = False


class Descriptors(Struct, frozen=True, tag=True):
    """Append one message of 1 KB to each of many sessions; the value is how many more files are open then than before."""

    verb: ClassVar[str] = "descriptors"
    sessions: int


class Stalls(Struct, frozen=True, tag=True):
    """Append from many sessions while a ticker wakes every 5 ms; the value is its p99 delay in milliseconds."""

    verb: ClassVar[str] = "stall"
    sessions: int
    seconds: float = 2.0


Job: TypeAlias = (
    Appends | Reads | Opens | Contexts | Branches | Lists | Searches | FanOuts | Holds | Descriptors | Stalls
)
"""Anything that a peer may be asked to do."""
