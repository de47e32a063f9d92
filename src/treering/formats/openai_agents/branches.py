"""The branches of AdvancedSQLiteSession: a branch there is a list of rows, of which the first are another branch's.

    message_structure: id, session_id, message_id, branch_id, sequence_number, user_turn_number, ...

Here it is a mark below the last of the rows that it shares, and what was said since. Usage stands below the last entry
of its branch. Names that cannot be used again are kept, as marks with nothing below them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from ...events.entries import KnownEntry
from ...events.json_values import JSON
from ..databases import Database, Value, quoted
from .records import MAIN, Items, entry_id, item_of, mark, usage_record

STRUCTURE = frozenset({"session_id", "message_id", "branch_id", "message_type", "sequence_number", "user_turn_number"})
"""The columns by which the table of branches is known."""

_USAGE = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")


class _Branch(Struct):
    """A branch as far as it was read.

    Attributes:
        tail: Its last entry.
        turn: The number of its last turn.
        anchors: The entries at which its turns begin.
        is_marked: Whether its mark was written; "main" needs none.
    """

    name: str
    tail: str | None
    turn: int
    anchors: dict[int, str]
    is_marked: bool
    begun: Value = None

    def take(self, entry: str, is_prompt: bool) -> None:
        """Go on with an entry."""
        self.turn += is_prompt
        self.anchors.setdefault(self.turn, entry)
        self.tail = entry


class Branches:
    """The tables of a session with branches.

    Args:
        database: The database.
        messages: The name of the table of messages.
    """

    def __init__(self, database: Database, messages: str) -> None:
        self._database = database
        columns = "s.branch_id, s.created_at AS begun, m.id, m.message_data, m.created_at"
        self._query = (
            f"SELECT {columns} FROM message_structure AS s JOIN {quoted(messages)} AS m ON m.id = s.message_id"
            " WHERE s.session_id = ? ORDER BY s.sequence_number {0}, s.id {0}"
        )
        self._without = (
            f"SELECT * FROM {quoted(messages)} WHERE session_id = ?"
            " AND id NOT IN (SELECT message_id FROM message_structure WHERE session_id = ?)"
        )

    def has(self, session: str) -> bool:
        """Return whether a session has branches."""
        found = self._database.rows("SELECT 1 FROM message_structure WHERE session_id = ? LIMIT 1", session)
        return next(found, None) is not None

    def leaf(self, session: str) -> str | None:
        """Return the entry of the item that was said last, on whichever branch."""
        rows = self._database.rows(self._query.format("DESC"), session)
        return next((entry_id(session, row) for row in rows if item_of(row) is not None), None)

    def entries(self, items: Items) -> Iterator[KnownEntry]:
        """Yield the entries of a session, in the order in which its branches grew."""
        session, known, shared = items.session, dict[str, _Branch](), dict[int, tuple[str, bool]]()
        generation, first = self._generation(session), None
        if generation:
            cleared = items.own(mark(MAIN, cleared=True), None, "cleared", str(generation))
            yield cleared
            first = cleared.id
        known[MAIN] = _Branch(MAIN, first, 0, {}, True)
        for row in self._database.rows_until_damage(items.notes, "the items", self._query.format("ASC"), session):
            name, number = str(row["branch_id"]), int(row["id"] or 0)
            branch = known.setdefault(name, _Branch(name, None, 0, {}, False, row["begun"]))
            said = shared.get(number)
            if said is None:
                item = items.item(row)
                if item is None:
                    continue
                if not branch.is_marked:
                    yield from self._mark(items, branch)
                entry = items.entry(row, item, branch.tail)
                if entry is None:
                    continue
                yield entry
                said = shared[number] = entry.id, item.get("role") == "user"
            branch.take(*said)
        for name in self._reserved(session):
            known.setdefault(name, _Branch(name, None, 0, {}, False))
        for branch in known.values():
            if not branch.is_marked:
                yield from self._mark(items, branch)
        yield from self._usage(items, known)
        for row in self._database.rows_until_damage(items.notes, "some items", self._without, session, session):
            items.notes.leave_out("item of no branch", item_of(row))

    @staticmethod
    def _mark(items: Items, branch: _Branch) -> Iterator[KnownEntry]:
        begun, words = {"created_at": branch.begun}, ("branch", branch.name, branch.tail or "")
        marked = items.own(mark(branch.name), branch.tail, *words, row=begun)
        branch.tail, branch.is_marked = marked.id, True
        yield marked

    def _usage(self, items: Items, known: dict[str, _Branch]) -> Iterator[KnownEntry]:
        """Yield what turns used; below the last entry, since usage may come late, and be counted anew."""
        if "turn_usage" not in self._database.tables:
            return
        query = "SELECT * FROM turn_usage WHERE session_id = ? ORDER BY id"
        for row in self._database.rows_until_damage(items.notes, "the usage of turns", query, items.session):
            branch, turn = known.get(str(row["branch_id"])), row["user_turn_number"]
            anchor = None if branch is None or not isinstance(turn, int) else branch.anchors.get(turn)
            if branch is None or anchor is None:
                items.notes.add(
                    "damaged", "warning", f"the usage in row {row['id']!r} is of no turn, so it is left out"
                )
                continue
            data: dict[str, JSON] = {name: _count(row[name]) for name in _USAGE}
            data |= {name: _details(row[name]) for name in _DETAILS}
            words = msgspec.json.encode(data, order="deterministic").decode()
            yield items.own(usage_record(anchor, data), branch.tail, "usage", branch.name, anchor, words, row=row)

    def _generation(self, session: str) -> int:
        """Return how often a session was cleared."""
        if "session_clear_generations" not in self._database.tables:
            return 0
        found = self._database.rows("SELECT generation FROM session_clear_generations WHERE session_id = ?", session)
        return next((_count(row["generation"]) for row in found), 0)

    def _reserved(self, session: str) -> list[str]:
        """Return the names that branches have or had."""
        if "branch_reservations" not in self._database.tables:
            return []
        found = self._database.rows("SELECT branch_id FROM branch_reservations WHERE session_id = ?", session)
        return [str(row["branch_id"]) for row in found]


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _details(value: object) -> JSON:
    if not isinstance(value, str) or not value:
        return None
    try:
        details: JSON = msgspec.json.decode(value)
    except ValueError:
        return None
    return details
