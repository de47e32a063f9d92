"""Tool calls without a result: found at the end of a path, and closed if nothing will ever answer them.

A crash between a call and its result leaves the call open. Providers refuse such a history, so an error result is
appended that closes the call. Its words are those with which a context closes an open call, so what is sent does not
change. Only calls of the assistant's last turn are considered. Further up, where other answers followed, a provider
would no longer accept a result, and contexts close them in any case.

A turn that waits on purpose says so by a custom entry after its calls, which is never shown to a model and exists in
every dialect::

    {"calls":[{"id":"call_1","name":"deploy","input":{"to":"live"},"reason":"needs a person's word"}]}

These calls are not open by accident, and stay as they are until they are answered or deliberately given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

import msgspec
from msgspec import Raw, Struct

from ...events.content import ToolResultPart
from ...events.entries import Custom, CustomEntry, Message, MessageEntry
from ...events.errors import LeafMoved
from ...events.json_values import JSON, MaybeRaw, json_object, json_value, raw_json, shown
from ...events.kinds import MESSAGE_KINDS, Kind
from ...events.stores.base import TornTail
from ...projections.building import pairing
from ...projections.context import ContextMessage
from ...projections.session_state import SUSPENDED_TYPE
from ..log.open_log import OpenLog
from .appending import Appending
from .reading import read_log

_SUSPENDING = frozenset({Kind.CUSTOM})
_ANSWERING = frozenset({*MESSAGE_KINDS, Kind.CUSTOM})


class OpenCall(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A call that has no result.

    Attributes:
        id: The call's id.
        name: The tool.
        raw_input: The call's arguments, a JSON object.
        reason: Why it waits, if it waits on purpose.
        raw_data: What the tool left for whoever answers, as JSON.
        suspended: Whether it waits on purpose.
        message_id: The entry of the assistant's message that holds the call; "" if there is none.
    """

    id: str
    name: str
    raw_input: Raw = msgspec.field(name="input", default=Raw(b"{}"))
    reason: str = ""
    raw_data: MaybeRaw = msgspec.field(name="data", default=None)
    suspended: bool = False
    message_id: str = ""

    __repr__ = shown

    @property
    def input(self) -> dict[str, JSON]:
        """The call's arguments, decoded again for each caller."""
        return json_object(self.raw_input)

    @property
    def data(self) -> JSON:
        """What the tool left for whoever answers, decoded again for each caller."""
        return None if self.raw_data is None else json_value(self.raw_data)


class Recovery(Struct, frozen=True):
    """What a crash had left at the end of a session, and how it was repaired.

    Attributes:
        torn_tail: What followed the last newline when the session was activated; None if there was nothing, or if it
            was already reported.
        closed_calls: The calls that were closed now, because nothing will answer them.
        result_ids: The entries of the results that closed them, in the same order.
    """

    torn_tail: TornTail | None
    closed_calls: tuple[OpenCall, ...]
    result_ids: tuple[str, ...]

    def __bool__(self) -> bool:
        """Return whether there was anything to repair."""
        return self.torn_tail is not None or bool(self.closed_calls)


class _Suspension(Struct, frozen=True):
    """The content of an entry that suspends a turn."""

    calls: tuple[OpenCall, ...]


def suspension(calls: Iterable[OpenCall]) -> Custom:
    """Return the payload that lists the waiting calls."""
    listed_calls = [
        {"id": each.id, "name": each.name, "input": each.raw_input, "reason": each.reason}
        | ({} if each.raw_data is None else {"data": each.raw_data})
        for each in calls
    ]
    return Custom(SUSPENDED_TYPE, Raw(msgspec.json.encode({"calls": listed_calls})))


def unanswered(messages: Sequence[ContextMessage]) -> list[OpenCall]:
    """Return the calls of the assistant's last turn that have no result among these messages."""
    turn = messages[pairing.last_turn(messages) :]
    waiting = pairing.Unanswered()
    for each in turn:
        waiting.add(each.message)
    return [
        OpenCall(call.id, call.name, call.raw_input, message_id=turn[position].entry_id)
        for position, _, call in waiting.calls
    ]


def closing(call: OpenCall) -> Message:
    """Return the result that closes a call that nothing will answer."""
    return pairing.closing(call.id, call.name)


class Resuming(Appending):
    """The calls that resume a session after an interruption."""

    __slots__ = ()

    async def open_calls(self) -> list[OpenCall]:
        """Return the tool calls at the end of the path that have no result, including those that wait on purpose."""
        return await read_log(self, _open_calls)

    async def close_open_calls(self, *, suspended: bool = False) -> list[str]:
        """Close the tool calls at the end of the path that will never be answered, by appending error results.

        All of them are closed or none. What a model is shown does not change: a context closes open calls with the same
        words anyway.

        Args:
            suspended: Also close the calls that wait on purpose, which abandons their turn.

        Returns:
            The ids of the results; empty if no call is open, so a second call does nothing.
        """
        return (await self._close_open_calls(suspended=suspended))[1]

    async def recover(self) -> Recovery:
        """Repair what a crash left at the end of the session, and report what it was.

        A torn tail is repaired whenever a session is activated; this reports it, once. Calls without results are
        closed, as `close_open_calls` does.
        """
        self._check()
        actor = self._source.actor if self._read_only else await self._core.registry.activate(self._source)
        calls, ids = await self._close_open_calls(suspended=False)
        report = Recovery(None if actor is None else actor.torn, tuple(calls), tuple(ids))
        if actor is not None:
            actor.torn = None
        return report

    async def _close_open_calls(self, *, suspended: bool) -> tuple[list[OpenCall], list[str]]:
        """Close the open calls, and return them with the entries of their results."""
        while True:
            log = await self.log()
            leaf_id = log.index.leaf_id
            calls = [each for each in await _open_calls(log) if suspended or not each.suspended]
            if not calls:
                return [], []
            try:
                return calls, await self.append_many([closing(each) for each in calls], expected_leaf=leaf_id)
            except LeafMoved:
                continue  # another append came first, perhaps of these very results: look again


async def _open_calls(log: OpenLog) -> list[OpenCall]:
    index = log.index
    leaf = index.leaf
    calls = unanswered((await log.context(leaf)).messages)
    if not calls:
        return []
    first = min(index.find(each.message_id) for each in calls)
    relevant_kinds = _ANSWERING if index.edits[leaf] else _SUSPENDING
    seqs_after = takewhile(lambda seq: seq > first, index.upward(leaf))
    entries = await log.entries_in([seq for seq in seqs_after if index.kinds[seq] in relevant_kinds][::-1])
    waiting: dict[str, OpenCall] = {}
    answered: set[str] = set()
    for entry in entries:
        if isinstance(entry, CustomEntry) and entry.custom.custom_type == SUSPENDED_TYPE:
            waiting.update((each.id, each) for each in _read(entry.custom))
        elif isinstance(entry, MessageEntry):
            # An edit may hide a result from the context, but the call has been answered all the same.
            parts = entry.message.content
            answered.update(part.tool_result.tool_use_id for part in parts if isinstance(part, ToolResultPart))
    return [
        msgspec.structs.replace(each, suspended=True, reason=suspended.reason, raw_data=suspended.raw_data)
        if (suspended := waiting.get(each.id)) is not None
        else each
        for each in calls
        if each.id not in answered
    ]


def _read(custom: Custom) -> tuple[OpenCall, ...]:
    """Return the calls that an entry lists; data of another program under the same name lists none."""
    try:
        return msgspec.json.decode(custom.raw_data or raw_json({}), type=_Suspension).calls
    except msgspec.ValidationError:
        return ()
