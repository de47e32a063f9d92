"""Recognize entries of a session in a file whose messages carry no ids of their own.

Some programs store messages without ids, so a session that was written for one of them comes back with other ids than
it has here. It is recognized by content: an entry here, written in the format of that program and read back, equals the
message of the file. Messages are followed one by one along the tree, so that a sentence that occurs twice is not
mistaken for its other occurrence.

Nothing here reads a file or a log: callers pass the contents in, and it may run on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import TypeAlias

import msgspec

from ...events.entries import (
    CompactionEntry,
    ContextEdit,
    Entry,
    KnownEntry,
    Message,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ToolExecutionEntry,
    UsageEntry,
)
from ...events.json_values import JSON
from ...events.kinds import MESSAGE_KINDS, Kind
from ...formats.base import IsEntry, Restate
from ...projections.context_edits import edited
from .selection import calls_of, results_of, without_results

COMPARED_KINDS = frozenset(
    {*MESSAGE_KINDS, Kind.CUSTOM_MESSAGE, Kind.BRANCH_SUMMARY, Kind.SESSION_INFO, Kind.COMPACTION}
)
"""The kinds of entries that are compared."""

Places: TypeAlias = tuple[int, ...]
"""Places of messages; see `LogMessages`."""

DESCRIBED = ""
"""Stands for the id of an entry that only describes what the log has."""

_DESCRIBING = (ModelChangeEntry, UsageEntry, ToolExecutionEntry)
_encode = msgspec.json.Encoder(order="deterministic").encode


class LogMessages:
    """The messages of a log as a file of another program would contain them, each below the one before it on its path.

    A message is identified by its place, a number from 1; place 0 is above all others. An edited message has places for
    its original content and for that of each edit, since the file may have been written before an edit or after it.

    Args:
        restate: Returns the messages that such a file would hold for an entry.
        parents: The seq of each line's parent; 0 for a root.
        edits: The edits of each line that has any.

    Attributes:
        places_above: For each place, the places that may be right above it: several below an edited message.
        entry_ids: For each place, the entry that its message comes from.
        statements: What the log says about the session apart from its messages.
    """

    def __init__(self, restate: Restate, parents: Sequence[int], edits: Mapping[int, Sequence[ContextEdit]]) -> None:
        self.places_above: list[Places] = [()]
        self.entry_ids: list[str] = [""]
        self.statements: set[bytes] = set()
        self._restate = restate
        self._parents = parents
        self._edits = edits
        self._calls_left_out: set[str] = set()  # by any edit
        self._system_places: set[int] = set()
        self._last_places: list[Places] = [(0,)]  # for each line, the places that may be the last on the path to it
        self._places_by_content: dict[bytes, list[int]] = {}
        self._places_by_entry: dict[str, range] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Add the next entries of these kinds (`COMPARED_KINDS`), in the order of the log."""
        for entry in entries:
            self.statements.update(_statements(entry))
            if entry.id is None:
                continue
            first, above = len(self.entry_ids), self.last_places(entry.seq)
            ends = [place for form in self._forms(entry) for place in self._add_form(entry.id, form, above)]
            self._places_by_entry[entry.id] = range(first, len(self.entry_ids))
            self._last_places[entry.seq] = tuple(dict.fromkeys(ends))
            if isinstance(entry, CompactionEntry):
                self._note_compaction(entry)

    def _note_compaction(self, entry: CompactionEntry) -> None:
        """Let what a compaction keeps follow the system messages: a file may hold nothing else from before."""
        path = list(self._upwards(self._last_places[entry.seq][0]))
        kept = self._places_by_entry.get(entry.compaction.first_kept_entry_id or "", range(len(self.entry_ids), 0))
        system = [place for place in path if place < kept.start and place in self._system_places]
        for place, above in pairwise(system):
            self.places_above[place] += (above,)
        first = next((place for place in reversed(path) if place >= kept.start), None)
        if first is not None:
            self.places_above[first] += tuple(system[:1])
        else:
            self._last_places[entry.seq] += tuple(system[:1])

    def _upwards(self, place: int) -> Iterator[int]:
        while place:
            yield place
            place = self.places_above[place][0]

    def _forms(self, entry: Entry) -> list[Entry | None]:
        """Return an entry as files may contain it, or None for a file without it: first unedited, then with each edit.

        A file does not contain the results of calls that an edit leaves out.
        """
        forms: list[Entry | None] = [entry]
        for edit in self._edits.get(entry.seq, ()):
            shown = edited(entry, edit, results_of(entry))
            # A result that is left out is mentioned only if its call is shown.
            forms += [shown] if edit.replacement is not None else [shown, None]
            self._calls_left_out |= calls_of(entry) - calls_of(shown)
        if not results_of(entry).isdisjoint(self._calls_left_out):
            forms += [without_results(form, self._calls_left_out) for form in forms if form is not None]
        return forms

    def _add_form(self, entry_id: str, form: Entry | None, above: Places) -> Places:
        """Add the places of one form of an entry, and return the places that may be right above what follows."""
        for message in () if form is None else self._restate(form):
            self._places_by_content.setdefault(_content_hash(message), []).append(len(self.entry_ids))
            self.places_above.append(above)
            if message.role == "system":
                self._system_places.add(len(self.entry_ids))
            above = (len(self.entry_ids),)
            self.entry_ids.append(entry_id)
        return above

    def last_places(self, seq: int) -> Places:
        """Return the places that may be last on the path to a line; all entries before it must have been added."""
        while len(self._last_places) <= seq:
            parent = self._parents[len(self._last_places)]
            self._last_places.append(self._last_places[parent] if parent < len(self._last_places) else (0,))
        return self._last_places[seq]

    def places_of_entry(self, entry_id: str) -> range:
        """Return the places of the messages of an entry."""
        return self._places_by_entry.get(entry_id, range(0))

    def places_with(self, message: Message) -> Iterable[int]:
        """Return the places of the messages with the same content."""
        return self._places_by_content.get(_content_hash(message), ())


class Matching:
    """One pass through a file's entries, in order, that finds those that a log has.

    Args:
        log_messages: The messages of the log.
        has: Returns whether the log has an entry with this id.
        is_implied: See `ForeignSession`.
        leaf: The seq of the leaf of the log's session.
        leaf_id: Its id.

    Attributes:
        leaf_id: See above.
        shared: How many messages of the file the log has.
        log_ids: The ids in the log of the entries that were found by content; they are certain as soon as a new entry
            follows them.
        last: The entry of the file after which it continues, if that was found by content; None otherwise.
        found_by_id: The entry of the file after which it continues, if that was found by its id; None otherwise.
        from_leaf: Whether the session's leaf is that entry, which means that the session has not continued by itself.
    """

    def __init__(
        self, log_messages: LogMessages, has: Callable[[str], bool], is_implied: IsEntry, leaf: int, leaf_id: str | None
    ) -> None:
        self.leaf_id = leaf_id
        self.shared = 0
        self.log_ids: dict[str, str] = {}
        self.last: str | None = None
        self.found_by_id: str | None = None
        self.from_leaf = False
        self._log_messages = log_messages
        self._has = has
        self._is_implied = is_implied
        self._leaf = leaf
        self._has_message = False
        self._places: set[int] = set()  # where in the log the file's last message may be
        self._found_by_content: list[tuple[str, set[int]]] = []  # in a row, up to that message, with their places

    def find(self, entry: KnownEntry) -> str | None:
        """Return an entry's id in the log, `DESCRIBED` if the log need not have it, or None if it is new."""
        if isinstance(entry, MessageEntry):
            log_id = self._find_message(entry)
            self._has_message = True
            self.shared += log_id is not None
        elif self._has(entry.id):
            log_id = entry.id
            self.found_by_id = entry.id if self._places and not self._found_by_content else None
        else:
            log_id = DESCRIBED if self._only_describes(entry) else None
        if log_id is None:
            self._settle_places()
        return log_id

    def _find_message(self, entry: MessageEntry) -> str | None:
        log_messages = self._log_messages
        if self._has(entry.id):
            places = log_messages.places_of_entry(entry.id)
            if places:
                self._note_ids(log_messages.places_above[places[0]])
            self._places = set(places)
            self._found_by_content.clear()
            self.found_by_id = entry.id
            return entry.id
        same = log_messages.places_with(entry.message)
        above = log_messages.places_above
        next_places = {each for each in same if not self._has_message or not self._places.isdisjoint(above[each])}
        if not next_places:
            return None
        self._places = next_places
        self._found_by_content.append((entry.id, next_places))
        self.found_by_id = None
        return log_messages.entry_ids[max(next_places)]

    def _only_describes(self, entry: KnownEntry) -> bool:
        """Return whether an entry adds nothing to messages that the log has; the log may state it in another way."""
        if not self._has_message:
            return True
        if self._found_by_content:
            return isinstance(entry, _DESCRIBING) or self._log_messages.statements.issuperset(_statements(entry))
        return self._is_implied(entry)

    def _settle_places(self) -> None:
        """Choose between several places with the same content: the one at the session's leaf, otherwise the latest."""
        leaf_places = self._log_messages.last_places(self._leaf)
        if self._places:
            self.from_leaf = not self._places.isdisjoint(leaf_places)
        if self._found_by_content:
            self.last = self._found_by_content[-1][0]
            self._note_ids(leaf_places if self.from_leaf else self._places)
        self._places = set()
        self._found_by_content.clear()

    def _note_ids(self, possible: Iterable[int]) -> None:
        """Note the ids in the log of what was found by content, upwards from the possible places of the last one."""
        for entry_id, places in reversed(self._found_by_content):
            place = max(places.intersection(possible), default=0)
            if not place:
                return  # an entry of another branch follows
            self.log_ids[entry_id] = self._log_messages.entry_ids[place]
            possible = self._log_messages.places_above[place]


def _content_hash(message: Message) -> bytes:
    return blake2b(_encode((message.role, message.content)), digest_size=16).digest()


def _statements(entry: Entry) -> Iterator[bytes]:
    """Yield what an entry says about its session, each statement separately."""
    if isinstance(entry, SessionInfoEntry):
        info = entry.session_info
        fields: dict[str, JSON] = {"name": info.name, "summary": info.summary, "description": info.description}
        yield from (_encode((field, value)) for field, value in fields.items() if value is not None)
        yield from (_encode(("metadata", name, value)) for name, value in info.metadata.items())
    elif isinstance(entry, CompactionEntry):
        yield from (_encode((field, entry.compaction.summary)) for field in ("compaction", "summary"))
    else:
        yield _encode((entry.type, entry.id))
