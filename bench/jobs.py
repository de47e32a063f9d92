"""The jobs that a peer may be able to do, as values that are sent to the process that does them."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from msgspec import Struct

TEXT = "The quick brown fox jumps over the lazy dog, and then over it again; " * 15
TEXT_1_KB = TEXT[:1024]


class Appends(Struct, frozen=True, tag=True):
    """Append messages of 1 KB: one call after another in each session, all sessions concurrently.

    Attributes:
        sessions: The number of sessions; they exist before the clock starts.
        calls: The number of calls for each session.
        batch: The number of messages that one call appends.
        seconds_max: The time limit, after which a peer stops early; the sample says how many messages there were.
    """

    verb: ClassVar[str] = "append"
    sessions: int
    calls: int
    batch: int = 1
    seconds_max: float = 60.0

    @property
    def messages(self) -> int:
        """The total number of messages."""
        return self.sessions * self.calls * self.batch


class DatabaseAppends(Struct, frozen=True, tag=True):
    """Append messages of 1 KB to sessions in a PostgreSQL server: one after another in each, all concurrently.

    Attributes:
        url: The address of the server, for libpq.
        sessions: The number of sessions; they exist before the clock starts.
        calls: The number of calls for each session.
        seconds_max: The time limit, after which a peer stops early; the sample says how many messages there were.
    """

    verb: ClassVar[str] = "append_to_database"
    url: str
    sessions: int
    calls: int
    seconds_max: float


class Begins(Struct, frozen=True, tag=True):
    """Append to sessions that are not in use, one session after another; one operation is one session.

    Attributes:
        sessions: The number of sessions.
        messages: The number of messages of 1 KB for each; with several, each session is created and closed as well.
        again: Whether the sessions hold a message already, and are at rest.
    """

    verb: ClassVar[str] = "begin"
    sessions: int
    messages: int
    again: bool = False


class Reads(Struct, frozen=True, tag=True):
    """Read the whole history of one session of 1 KB messages from disk, in a process that has not read it before."""

    verb: ClassVar[str] = "read"
    entries: int


class Opens(Struct, frozen=True, tag=True):
    """Open a long session for appending.

    Attributes:
        entries: The number of messages of 1.1 KB in it.
        prepared: Use what an earlier opening left beside the log; otherwise open it from the log alone.
        context: Also build its context before the clock stops.
        compacted: Whether it was compacted shortly before its end.
    """

    verb: ClassVar[str] = "open"
    entries: int
    prepared: bool = False
    context: bool = False
    compacted: bool = False


class Contexts(Struct, frozen=True, tag=True):
    """Build the model context of an open session; opening it is not timed.

    Attributes:
        entries: The length of its path.
        compacted: Whether it was compacted shortly before its end.
        again: Time the second context instead of the first.
    """

    verb: ClassVar[str] = "context"
    entries: int
    compacted: bool = False
    again: bool = False


class Branches(Struct, frozen=True, tag=True):
    """Branch from the middle of a long session and append one message there, `count` times."""

    verb: ClassVar[str] = "branch"
    entries: int
    count: int = 10


class Lists(Struct, frozen=True, tag=True):
    """List all sessions.

    Attributes:
        sessions: The number of sessions.
        entries: The number of messages of 1 KB in each of them.
        warm: Whether the same process has listed them before.
        calls: The number of listings, one after another.
        seconds_max: The time limit, after which a peer stops early.
    """

    verb: ClassVar[str] = "list"
    sessions: int
    entries: int
    warm: bool = False
    calls: int = 1
    seconds_max: float = 2.0


class Searches(Struct, frozen=True, tag=True):
    """Search all sessions for a word; a peer with an index has searched before, so that its index is up to date.

    Attributes:
        sessions: The number of sessions; see `bench.search_data`.
        entries: The number of messages in each of them.
        word: The word to search for.
        hits: The number of hits to expect; a search stops after 50.
        scan: Read the logs instead of using the index.
    """

    verb: ClassVar[str] = "search"
    sessions: int
    entries: int
    word: str
    hits: int
    scan: bool = False


class FanOuts(Struct, frozen=True, tag=True):
    """Deliver appended entries to the subscribers of one session; one operation is one delivery.

    Attributes:
        subscribers: The number of subscribers.
        events: The number of messages appended.
        burst: The number of messages appended in one call.
        at_once: Whether subscribers receive all entries that have arrived in one call, instead of one by one.
    """

    verb: ClassVar[str] = "fan_out"
    subscribers: int
    events: int
    burst: int = 1
    at_once: bool = False


class Holds(Struct, frozen=True, tag=True):
    """Hold sessions that had one append each; the value is the memory that each takes, in bytes.

    Attributes:
        sessions: The number of sessions.
        live: Keep them live; otherwise they are released as far as the peer can.
    """

    verb: ClassVar[str] = "hold"
    sessions: int
    live: bool = False


class Descriptors(Struct, frozen=True, tag=True):
    """Append one message of 1 KB to each of many sessions; the value is how many more files are open than before."""

    verb: ClassVar[str] = "descriptors"
    sessions: int


class Stalls(Struct, frozen=True, tag=True):
    """Append from many sessions while a ticker wakes every 5 ms; the value is its p99 delay in milliseconds."""

    verb: ClassVar[str] = "stall"
    sessions: int
    seconds: float = 2.0


class Conversations(Struct, frozen=True, tag=True):
    """Append messages of 1 KB to conversations, one after another in each, and then read them all; several figures.

    Attributes:
        sessions: The number of conversations; each has a message before the clock starts.
        messages: The number of messages for each.
        paced: How many more are appended to all together, each at its time.
    """

    verb: ClassVar[str] = "converse"
    sessions: int
    messages: int
    paced: int


Job: TypeAlias = (
    Appends
    | DatabaseAppends
    | Begins
    | Reads
    | Opens
    | Contexts
    | Branches
    | Lists
    | Searches
    | FanOuts
    | Holds
    | Descriptors
    | Stalls
    | Conversations
)
"""Any job."""
