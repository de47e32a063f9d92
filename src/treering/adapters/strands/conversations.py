"""What is known of sessions of Strands Agents beyond what they hold: the numbers of messages, and where agents are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...actors.session.session import Session
from ...events.entries import Custom, CustomEntry, Entry, MessageEntry
from ...events.json_values import json_object
from ...formats.strands.messages import AGENT, MULTI_AGENT, SESSION, UPDATE, Data, is_shown, number_of, record_of
from ..session_index import CustomIndex, SessionIndex


class Shared(CustomIndex):
    """The session itself, and the entries of the states of several agents together."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.data: Data | None = None
        self.multi_agents: dict[str, str] = {}

    def _note(self, entry_id: str, custom: Custom) -> None:
        if custom.raw_data is None:
            return
        if custom.custom_type == SESSION:
            self.data = json_object(custom.raw_data)
        elif custom.custom_type == MULTI_AGENT:
            self.multi_agents[str(json_object(custom.raw_data).get("id"))] = entry_id


class PathState(NamedTuple):
    """What is known at an entry: the number of the last message on the way to it, and the agent as it was there."""

    number: int = -1
    agent_entry_id: str | None = None


class Conversation(SessionIndex):
    """The messages of one agent.

    Attributes:
        numbers: The number of each message; those of others come after the message before them.
        seqs: Where each of them stands in the log.
        updates: The entries that hold messages as they are now.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.numbers: dict[str, int] = {}
        self.seqs: dict[str, int] = {}
        self.updates: dict[str, str] = {}
        self._own: set[str] = set()
        self._states: dict[str | None, PathState] = {}

    @property
    def agent_entry_id(self) -> str | None:
        """The entry that holds the agent as it was at the leaf."""
        return self._states.get(self.session.leaf_id, PathState()).agent_entry_id

    def path(self) -> list[str]:
        """Return the messages on the way to the leaf."""
        return [each for each in self.session.path() if each in self.numbers]

    def found(self, number: int) -> str | None:
        """Return the message with a number on the way to the leaf; the last of them, should there be several."""
        if number > self._states.get(self.session.leaf_id, PathState()).number:
            return None
        return next((each for each in reversed(self.path()) if self.numbers[each] == number), None)

    def written(self, number: int) -> str | None:
        """Return the message with a number that the framework wrote."""
        if number > self._states.get(self.session.leaf_id, PathState()).number:
            return None
        return next((each for each in self.path() if self.numbers[each] == number and each in self._own), None)

    async def agent(self) -> Data | None:
        """Return the agent as it was at the leaf; None if there was none."""
        return None if self.agent_entry_id is None else await data_at(self.session, self.agent_entry_id)

    async def record(self, entry_id: str) -> Data:
        """Return the record of a message, as it is now."""
        (record,) = await self.records([entry_id])
        return record

    async def records(self, entry_ids: Sequence[str]) -> list[Data]:
        """Return the records of messages, as they are now, by one reading of the log from the first of them on."""
        now = [self.updates.get(each, each) for each in entry_ids]
        needed, found = set(now), dict[str, Data]()
        if len(entry_ids) == 1:
            entries = [await self.session.entry(now[0])]
        else:
            after = min((self.seqs[each] for each in entry_ids), default=1) - 1
            listed = self.session.iter_entries(after)
            entries = [each async for each in listed if each.id in needed] if needed else []
        for entry in entries:
            if isinstance(entry, MessageEntry):
                found[entry.id] = record_of(entry, self.numbers[entry.id])
            elif isinstance(entry, CustomEntry) and entry.custom.raw_data is not None:
                record = json_object(entry.custom.raw_data).get("record")
                found[entry.id] = record if isinstance(record, dict) else {}
        return [found[each] for each in now]

    def note(self, entry_id: str, parent_id: str | None, number: int) -> None:
        """Take a message of the framework that was just appended."""
        state = self._states.get(parent_id, PathState())
        self._states[entry_id] = self._take(state, entry_id, self.read_to + 1, number, is_own=True)
        self.skip(1)

    def _take(self, state: PathState, entry_id: str, seq: int, number: int, *, is_own: bool) -> PathState:
        if is_own:
            self._own.add(entry_id)
        self.numbers[entry_id], self.seqs[entry_id] = number, seq
        return state._replace(number=max(state.number, number))

    def _see(self, entry: Entry) -> None:
        state = self._states.get(entry.parent_id, PathState())
        if isinstance(entry, MessageEntry):
            number = number_of(entry.message)
            if number is not None or is_shown(entry.message):
                at = state.number + 1 if number is None else number
                state = self._take(state, entry.id, entry.seq, at, is_own=number is not None)
        elif isinstance(entry, CustomEntry) and entry.custom.raw_data is not None:
            if entry.custom.custom_type == AGENT:
                state = state._replace(agent_entry_id=entry.id)
            elif entry.custom.custom_type == UPDATE:
                self.updates[str(json_object(entry.custom.raw_data).get("entry"))] = entry.id
        self._states[entry.id] = state


async def data_at(session: Session, entry_id: str) -> Data | None:
    """Return the data of a custom entry."""
    entry = await session.entry(entry_id)
    raw = entry.custom.raw_data if isinstance(entry, CustomEntry) else None
    return None if raw is None else json_object(raw)
