"""A store for the steps of runs: what happened, and the histories from which a run can go on.

    from pydantic_ai_harness.step_persistence import StepPersistence
    from treering.adapters.pydantic_ai import TreeringStepStore

    agent = Agent(model, capabilities=[StepPersistence(store=TreeringStepStore("~/sessions"))])

The runs of a conversation are kept in one session, which its id names as a key. A snapshot is an entry below the last
message of its history, so it costs what the history grew by, and a run that goes on from an earlier one is a branch.
Where each run is, is in the session with the key "pydantic_ai:runs".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from ...actors.commands import AppendOptions
from ...actors.host.host import SessionHost
from ...actors.session.session import Session
from ...events.entries import Custom, CustomEntry
from ...events.json_values import json_object, raw_object
from ..hosting import Hosting, HostOrRoot
from ..session_index import CustomIndex, SessionIndexes, append_and_let_go
from ..versions import PYDANTIC_AI_HARNESS
from .histories import dumped, history_of, save_to, validated
from .messages import Data

try:
    from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord
except ImportError as error:
    raise PYDANTIC_AI_HARNESS.missing(error, "a store for steps needs pydantic-ai-harness") from error

PYDANTIC_AI_HARNESS.check()

RUNS = "pydantic_ai:runs"
"""The key of the session that knows where runs are."""

RUN, EVENT = "pydantic_ai.run", "pydantic_ai.event"
SNAPSHOT, EFFECT = "pydantic_ai.snapshot", "pydantic_ai.tool_effect"
"""The types of the custom entries: a run, an event, a snapshot, and what is known of a tool's effect."""

_OF_RUNS: TypeAdapter[RunRecord] = TypeAdapter(RunRecord)
_OF_EVENTS: TypeAdapter[StepEvent] = TypeAdapter(StepEvent)
_OF_SNAPSHOTS: TypeAdapter[ContinuableSnapshot] = TypeAdapter(ContinuableSnapshot)
_OF_EFFECTS: TypeAdapter[ToolEffectRecord] = TypeAdapter(ToolEffectRecord)


class TreeringStepStore:
    """A step store whose conversations are sessions of a host.

    It may be used in any event loop, by any number of agents.

    Args:
        host: An open host, or a root: a directory or a URL. Objects with the same root share one host.

    Raises:
        InvalidInput: The host is none.
    """

    def __init__(self, host: HostOrRoot) -> None:
        self._hosting = Hosting(host)
        self._runs = SessionIndexes(_Runs, shared=True)
        self._conversations = SessionIndexes(_Conversation)

    def __repr__(self) -> str:
        return f"TreeringStepStore({self._hosting!r})"

    async def register_run(self, record: RunRecord) -> None:
        """Note a run; a record takes the place of an earlier one of the same run."""
        data, run_id = _OF_RUNS.dump_python(record, mode="json"), record.run_id

        async def register(host: SessionHost) -> None:
            await self._place(host, run_id, record.conversation_id or run_id, data)

        await self._hosting.run(register)

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        """Return the record of a run; None if it is not registered."""
        records = await self._hosting.run(self._records)
        return None if run_id not in records else _OF_RUNS.validate_python(records[run_id])

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """Return the records of runs, those that began first at first.

        Args:
            parent_run_id: Only those that this run began.
            conversation_id: Only those of this conversation.
        """
        records = map(_OF_RUNS.validate_python, (await self._hosting.run(self._records)).values())
        chosen = [
            each
            for each in records
            if parent_run_id in (None, each.parent_run_id) and conversation_id in (None, each.conversation_id)
        ]
        return sorted(chosen, key=lambda each: each.started_at)

    async def append_event(self, event: StepEvent) -> None:
        """Append an event; one with the idempotency key of an earlier one of its run is not appended again."""
        data, key = _OF_EVENTS.dump_python(event, mode="json"), (event.run_id, event.idempotency_key)

        async def append(host: SessionHost) -> None:
            conversation = await self._made(host, event.run_id)
            async with conversation.lock:
                await conversation.refresh()
                if key not in conversation.event_keys:
                    await conversation.note(EVENT, data)

        await self._hosting.run(append)

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """Return the events of a run in the order in which they were appended."""

        async def read(host: SessionHost) -> list[Data]:
            conversation = await self._of(host, run_id)
            listed = [] if conversation is None else await conversation.session.entries(custom_type=EVENT)
            found = [_data(each) for each in listed]
            return [each for each in found if each.get("run_id") == run_id]

        return [_OF_EVENTS.validate_python(each) for each in await self._hosting.run(read)]

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Store a history from which a run can go on: the messages that are not there, and where it ends.

        One with the idempotency key of an earlier one, or with a lower sequence in it, is not stored again.

        Raises:
            InvalidEntry: A message holds something that is no JSON; nothing was written.
        """
        run_id = snapshot.run_id
        sent = dumped(validated(list(snapshot.messages), "a message of a snapshot"))
        data = _OF_SNAPSHOTS.dump_python(replace(snapshot, messages=[]), mode="json")

        async def store(host: SessionHost) -> None:
            conversation = await self._made(host, run_id)
            async with conversation.lock:
                await conversation.refresh()
                if not conversation.is_stored(run_id, snapshot.idempotency_key):
                    _, end = await save_to(conversation.session, sent, None, is_whole=True)
                    await conversation.note(SNAPSHOT, {"snapshot": data, "end": end}, end)

        await self._hosting.run(store)

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> ContinuableSnapshot | None:
        """Return the last snapshot of a run; None if there is none.

        Args:
            run_id: The run.
            include_interrupted: Whether one will do whose tools had not all answered.
        """
        found = await self._snapshots(run_id, include_interrupted, last=1)
        return found[0] if found else None

    async def list_snapshots(self, *, run_id: str, include_interrupted: bool = False) -> list[ContinuableSnapshot]:
        """Return the snapshots of a run in the order in which they were stored; see `latest_snapshot`."""
        return await self._snapshots(run_id, include_interrupted, last=None)

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Note what is known of a tool's effect; a record takes the place of an earlier one of the same call."""
        data = _OF_EFFECTS.dump_python(record, mode="json")

        async def note(host: SessionHost) -> None:
            conversation = await self._made(host, record.run_id)
            async with conversation.lock:
                await conversation.note(EFFECT, data)

        await self._hosting.run(note)

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """Return what is known of the effect of a call; None if nothing is."""
        effects = await self._hosting.run(lambda host: self._effects(host, run_id))
        data = effects.get((run_id, tool_call_id))
        return None if data is None else _OF_EFFECTS.validate_python(data)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """Return the calls of a run that began, and of which it is not known that they ended."""
        effects = await self._hosting.run(lambda host: self._effects(host, run_id))
        found = [_OF_EFFECTS.validate_python(data) for (run, _), data in effects.items() if run == run_id]
        return [each for each in found if each.status == "started"]

    # -- on the host's loop

    async def _records(self, host: SessionHost) -> dict[str, Data]:
        runs = await self._runs.of(host, RUNS)
        return {} if runs is None else dict(runs.records)

    async def _effects(self, host: SessionHost, run_id: str) -> dict[tuple[str, str], Data]:
        conversation = await self._of(host, run_id)
        return {} if conversation is None else dict(conversation.effects)

    async def _snapshots(
        self, run_id: str, include_interrupted: bool, *, last: int | None
    ) -> list[ContinuableSnapshot]:
        async def read(host: SessionHost) -> list[ContinuableSnapshot]:
            conversation = await self._of(host, run_id)
            if conversation is None:
                return []
            states = ("complete", "interrupted") if include_interrupted else ("complete",)
            listed = [each for each, state in conversation.snapshots.get(run_id, {}).items() if state in states]
            return [await conversation.snapshot(each) for each in listed[-last if last else 0 :]]

        return await self._hosting.run(read)

    async def _place(self, host: SessionHost, run_id: str, key: str, record: Data | None) -> str:
        """Note where a run is, unless that is known, and its record; return the key."""
        runs = await self._runs.made(host, RUNS)
        async with runs.lock:
            await runs.refresh()
            known = runs.keys.get(run_id)
            if known is None or record is not None:
                data: Data = {"run_id": run_id, "key": known or key, "record": record}
                await append_and_let_go(runs.session, Custom(RUN, raw_object(data, "a run")))
            return known or key

    async def _of(self, host: SessionHost, run_id: str) -> _Conversation | None:
        runs = await self._runs.of(host, RUNS)
        key = None if runs is None else runs.keys.get(run_id)
        return None if key is None else await self._conversations.of(host, key)

    async def _made(self, host: SessionHost, run_id: str) -> _Conversation:
        """Return the conversation of a run, which is one of its own if the run was not registered."""
        runs = await self._runs.of(host, RUNS)
        key = None if runs is None else runs.keys.get(run_id)
        return await self._conversations.made(host, key or await self._place(host, run_id, run_id, None))


class _Runs(CustomIndex):
    """Where runs are, and their records."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.keys: dict[str, str] = {}
        self.records: dict[str, Data] = {}

    def _note(self, entry_id: str, custom: Custom) -> None:
        data: Any = custom.data
        if custom.custom_type == RUN:
            self.keys[data["run_id"]] = data["key"]
            if data["record"] is not None:
                self.records[data["run_id"]] = data["record"]


class _Conversation(CustomIndex):
    """What is known of the runs of a conversation."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.event_keys: set[tuple[str, str | None]] = set()
        self.snapshots: dict[str, dict[str, str]] = {}
        self.effects: dict[tuple[str, str], Data] = {}
        self._snapshot_keys: dict[str, set[str]] = {}
        self._sequences: dict[str, int] = {}

    async def note(self, custom_type: str, data: Data, below: str | None = None) -> None:
        """Append an entry beside the messages, so that it is no leaf."""
        above = below or self.session.leaf_id
        options: AppendOptions = {} if above is None else {"below": above, "aside": True}
        payload = Custom(custom_type, raw_object(data, "a step"))
        self._note(await self.session.append(payload, **options), payload)

    def is_stored(self, run_id: str, key: str | None) -> bool:
        """Return whether a snapshot with this key, or a later one, is there."""
        sequence = _sequence(key)
        if sequence is not None and sequence < self._sequences.get(run_id, 0):
            return True
        return key is not None and key in self._snapshot_keys.get(run_id, ())

    async def snapshot(self, entry_id: str) -> ContinuableSnapshot:
        """Return a snapshot with its messages."""
        data = _data(await self.session.entry(entry_id))
        end = data.get("end")
        messages = (await history_of(self.session, end)).messages if isinstance(end, str) else []
        return replace(_OF_SNAPSHOTS.validate_python(data.get("snapshot")), messages=messages)

    def _note(self, entry_id: str, custom: Custom) -> None:
        data: Any = custom.data
        if custom.custom_type == EVENT and data["idempotency_key"] is not None:
            self.event_keys.add((data["run_id"], data["idempotency_key"]))
        elif custom.custom_type == EFFECT:
            self.effects[data["run_id"], data["tool_call_id"]] = data
        elif custom.custom_type == SNAPSHOT:
            run_id, key = data["snapshot"]["run_id"], data["snapshot"]["idempotency_key"]
            self.snapshots.setdefault(run_id, {})[entry_id] = data["snapshot"]["state"]
            if key is not None:
                self._snapshot_keys.setdefault(run_id, set()).add(key)
                self._sequences[run_id] = max(self._sequences.get(run_id, 0), _sequence(key) or 0)


def _sequence(key: str | None) -> int | None:
    """Return the number that a key begins with, which rises from snapshot to snapshot of a run."""
    number, separator, _ = (key or "").partition(":")
    return int(number) if separator and number.isdecimal() else None


def _data(entry: object) -> Data:
    raw = entry.custom.raw_data if isinstance(entry, CustomEntry) else None
    return {} if raw is None else json_object(raw)
