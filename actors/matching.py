"""Telling whether what a file says is in a session already, where the file's messages carry no ids of their own.

Some programs keep messages without ids, so that a session that was written for one of them comes back under other ids
than it has here. It is known again by what it says: an entry here, written in the format of that program and read
again, says the same as the message of the file. Messages are followed from one to the next along the tree, so that a
word that was said twice is not taken for another.

Nothing here reads a file or a log: it is told what these hold, and may run on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b

import msgspec

from ..events.content import JSON
from ..events.entries import (
    CompactionEntry,
    Entry,
    KnownEntry,
    Message,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ToolExecutionEntry,
    UsageEntry,
)
from ..events.foreign.base import Restate
from ..events.foreign.nanocoder_records import untold_run
from ..events.kinds import MESSAGE_KINDS, Kind

SAYING = frozenset({*MESSAGE_KINDS, Kind.CUSTOM_MESSAGE, Kind.BRANCH_SUMMARY, Kind.SESSION_INFO, Kind.COMPACTION})
"""The kinds of entries that are looked at."""

DESCRIBED = ""
"""Stands for the id of an entry that only describes what is there."""

_DESCRIBING = (ModelChangeEntry, UsageEntry, ToolExecutionEntry)
_encode = msgspec.json.Encoder(order="deterministic").encode


class Spoken:
    """What a log says, as another program's file would say it: messages, each below the one before it on its path.

    A message is known here by its place, a number from 1; place 0 stands above all.

    Args:
        restate: Tells what of an entry comes back from such a file.
        parents: Of each line of the log, the ordinal of its parent; 0 of a root.

    Attributes:
        above: Of each place, the one above it.
        ids: Of each place, the entry that says the message.
        said: What the log says of the session beside its messages.
    """

    def __init__(self, restate: Restate, parents: Sequence[int]) -> None:
        self.above: list[int] = [0]
        self.ids: list[str] = [""]
        self.said: set[bytes] = set()
        self._restate = restate
        self._parents = parents
        self._latest: list[int] = [0]  # of each line, the last place on the path to it
        self._by_words: dict[bytes, list[int]] = {}
        self._of_entry: dict[str, range] = {}

    def take(self, entries: Iterable[Entry]) -> None:
        """Take in the next entries of these kinds (`SAYING`), in the order of the log."""
        for entry in entries:
            self.said.update(_described(entry))
            if entry.id is None:
                continue
            first, above = len(self.ids), self.latest(entry.seq)
            for message in self._restate(entry):
                self._by_words.setdefault(_words(message), []).append(len(self.ids))
                self.above.append(above)
                above = len(self.ids)
                self.ids.append(entry.id)
            self._of_entry[entry.id] = range(first, len(self.ids))
            self._latest[entry.seq] = above

    def latest(self, seq: int) -> int:
        """Return the last place on the path to a line; all before it were taken in."""
        while len(self._latest) <= seq:
            parent = self._parents[len(self._latest)]
            self._latest.append(self._latest[parent] if parent < len(self._latest) else 0)
        return self._latest[seq]

    def of_entry(self, entry_id: str) -> range:
        """Return the places of the messages that an entry says."""
        return self._of_entry.get(entry_id, range(0))

    def that_say(self, message: Message) -> Iterable[int]:
        """Return the places of the messages that say the same."""
        return self._by_words.get(_words(message), ())


class Matching:
    """One pass through a file's entries, in order, which finds those that a log has.

    Args:
        spoken: What the log says.
        has: Tells whether the log has an entry of this id.
        leaf: The ordinal of the entry at which the log's session stands.
        leaf_id: Its id.

    Attributes:
        leaf_id: See above.
        shared: How many messages of the file the log has.
        names: The ids in the log of the entries that were found by what they say, known for certain as soon as a new
            entry follows them.
        last: The entry of the file after which it goes on, where that was found by what it says; None elsewhere.
        from_leaf: The session stands at that entry, and so has not gone on by itself.
    """

    def __init__(self, spoken: Spoken, has: Callable[[str], bool], leaf: int, leaf_id: str | None) -> None:
        self.leaf_id = leaf_id
        self.shared = 0
        self.names: dict[str, str] = {}
        self.last: str | None = None
        self.from_leaf = False
        self._spoken = spoken
        self._has = has
        self._leaf = leaf
        self._begun = False
        self._places: set[int] = set()  # where in the log the file may be
        self._followed: list[str] = []  # found by what they say, one below the other, up to there

    def known(self, entry: KnownEntry) -> str | None:
        """Return the id of an entry in the log, `DESCRIBED` where the log need not have it, None where it is new."""
        if isinstance(entry, MessageEntry):
            found = self._message(entry)
            self._begun = True
            self.shared += found is not None
        elif self._has(entry.id):
            found = entry.id
        else:
            found = DESCRIBED if self._describes(entry) else None
        if found is None:
            self._goes_on()
        return found

    def _message(self, entry: MessageEntry) -> str | None:
        spoken = self._spoken
        if self._has(entry.id):
            places = spoken.of_entry(entry.id)
            if places:
                self._name(spoken.above[places[0]])
            self._places = set(places)
            self._followed.clear()
            return entry.id
        same = spoken.that_say(entry.message)
        places_now = {each for each in same if not self._begun or spoken.above[each] in self._places}
        if not places_now:
            return None
        self._places = places_now
        self._followed.append(entry.id)
        return spoken.ids[max(places_now)]

    def _describes(self, entry: KnownEntry) -> bool:
        """Tell whether an entry says nothing but what a session says otherwise, of messages that it has."""
        if not self._begun:
            return True
        if self._followed:
            return isinstance(entry, _DESCRIBING) or self._spoken.said.issuperset(_described(entry))
        return isinstance(entry, ToolExecutionEntry) and entry.id == untold_run(entry.parent_id or "")

    def _goes_on(self) -> None:
        """Choose of several places where the same was said: where the session stands, or else the latest."""
        if self._followed:
            stands = self._spoken.latest(self._leaf)
            self.from_leaf = stands in self._places
            self.last = self._followed[-1]
            self._name(stands if self.from_leaf else max(self._places))
        self._places = set()
        self._followed.clear()

    def _name(self, place: int) -> None:
        """Name the entries that were found by what they say, upwards from the last one's place."""
        for entry_id in reversed(self._followed):
            self.names[entry_id] = self._spoken.ids[place]
            place = self._spoken.above[place]


def _words(message: Message) -> bytes:
    return blake2b(_encode((message.role, message.content)), digest_size=16).digest()


def _described(entry: Entry) -> Iterator[bytes]:
    """Yield what an entry says of its session, each statement by itself."""
    if isinstance(entry, SessionInfoEntry):
        info = entry.session_info
        told: dict[str, JSON] = {"name": info.name, "summary": info.summary, "description": info.description}
        yield from (_encode((field, value)) for field, value in told.items() if value is not None)
        yield from (_encode(("metadata", name, value)) for name, value in info.metadata.items())
    elif isinstance(entry, CompactionEntry):
        yield from (_encode((field, entry.compaction.summary)) for field in ("compaction", "summary"))
    else:
        yield _encode((entry.type, entry.id))
