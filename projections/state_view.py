"""The state of a session as a view that can be followed: it advances by entries, and reads nothing but new branches.

The rules are in `session_state`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .feed import EntryAdded, LeafMove, LogView
from .session_state import SessionState, StateFold, folded, needed


class StateStepper:
    """The state of the session as a view; a change is the state after it."""

    name = "session_state"
    read_by: ClassVar[str] = "await session.state()"

    def __init__(self) -> None:
        self._fold: StateFold
        self._state: SessionState

    @property
    def value(self) -> SessionState:
        """The current state."""
        return self._state

    async def begin(self, log: LogView) -> int:
        """Read the entries from the last answer on."""
        index = log.index
        head = index.head
        await self._read(log, index.tip)
        return head

    async def _read(self, log: LogView, seq: int) -> None:
        index = log.index
        seqs = needed(index, seq)
        entries = await log.entries_at(seqs)
        self._fold = folded(index, [entry for each in seqs if (entry := entries[each]) is not None])
        self._fold.tip = index.ids[seq] if seq else None
        self._state = self._fold.state(index)

    async def step(self, log: LogView, event: EntryAdded | LeafMove) -> Sequence[SessionState]:
        """Fold an entry that follows the last one; after a move to another branch, read the state there."""
        if not isinstance(event, EntryAdded) or not log.index.becomes_leaf(event.entry):
            return ()
        before, entry = self._state, event.entry
        if entry.parent_id == self._fold.tip and entry.parent_id is not None:
            self._fold.add(entry)
            self._state = self._fold.state(log.index)
        else:
            await self._read(log, entry.seq)
        return () if self._state == before else (self._state,)

    def weigh(self, change: SessionState) -> int:
        """Count a change as one."""
        return 1
