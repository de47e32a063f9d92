"""Calls that wait for a result: found at the end of a path, and closed where nothing will ever answer them.

A crash between a call and its result leaves the call open. Providers refuse such a history, so it is closed by an error
result that is appended: the words are those that a context makes up for an open call, and what is sent stays the same.

Calls of the last turn of the assistant only are looked at. Further up, where something was answered after them, a
result could not be told to a provider any more, and contexts leave them closed.

A turn that waits on purpose says so by a custom entry behind its calls, which no model is shown and every dialect can
say::

    {"calls":[{"id":"call_1","name":"deploy","input":{"to":"live"},"reason":"needs a person's word"}]}

Those calls are not open by accident, and stay as they are until they are answered, or given up on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from ..events.content import JSON, MaybeRaw, ToolResultPart, json_object, json_value, raw_json
from ..events.entries import Custom, CustomEntry, Message, MessageEntry
from ..events.errors import LeafMoved
from ..events.kinds import MESSAGE_KINDS, Kind
from ..events.showing import shown
from ..events.stores.base import TornTail
from ..projections.building import pairing
from ..projections.context import ContextMessage

if TYPE_CHECKING:
    from .fitting import Fitting
    from .open_log import OpenLog

SUSPENDED_TYPE = "treering.suspended"
"""The custom type of the entries that say which calls wait for something outside."""

_SUSPENDING = frozenset({Kind.CUSTOM})
_ANSWERING = frozenset({*MESSAGE_KINDS, Kind.CUSTOM})


class OpenCall(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A call that has no result.

    Attributes:
        id: The call's id.
        name: The tool.
        raw_input: What it was called with, a JSON object.
        reason: Why it waits, where it does so on purpose.
        raw_data: What the tool left for whoever answers, as JSON.
        suspended: It waits on purpose.
        message_id: The entry of the assistant's message that holds the call; "" where there is none.
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
        """The call's arguments, decoded afresh for this caller."""
        return json_object(self.raw_input)

    @property
    def data(self) -> JSON:
        """What the tool left for whoever answers, decoded afresh for this caller."""
        return None if self.raw_data is None else json_value(self.raw_data)


class Recovery(Struct, frozen=True):
    """What a crash had left at the end of a session, and what became of it.

    Attributes:
        torn_tail: What stood after the last newline when the session was taken up; None where nothing did, and where it
            was told before.
        closed_calls: The calls that were closed now, because nothing will answer them.
        result_ids: The entries of the results that closed them, in the same order.
    """

    torn_tail: TornTail | None
    closed_calls: tuple[OpenCall, ...]
    result_ids: tuple[str, ...]

    def __bool__(self) -> bool:
        """Tell whether there was anything to repair."""
        return self.torn_tail is not None or bool(self.closed_calls)


class _Suspension(Struct, frozen=True):
    """What an entry of a suspended turn says."""

    calls: tuple[OpenCall, ...]


def suspension(calls: Iterable[OpenCall]) -> Custom:
    """Return the payload that says which calls wait."""
    told = [
        {"id": each.id, "name": each.name, "input": each.raw_input, "reason": each.reason}
        | ({} if each.raw_data is None else {"data": each.raw_data})
        for each in calls
    ]
    return Custom(SUSPENDED_TYPE, Raw(msgspec.json.encode({"calls": told})))


def unanswered(messages: Iterable[ContextMessage]) -> list[OpenCall]:
    """Return the calls of the last turn of the assistant that have no result among these messages."""
    shown = list(messages)
    return [
        OpenCall(call.id, call.name, call.raw_input, message_id=shown[position].entry_id)
        for position, call in pairing.unanswered([each.message for each in shown])
    ]


def closing(call: OpenCall) -> Message:
    """Return the result that closes a call which nothing will answer."""
    return pairing.closing(call.id, call.name)


async def find_open_calls(session: Fitting) -> list[OpenCall]:
    """Find the calls that wait at the end of the path; see `Session.open_calls`."""
    return await _open(await session.log())


async def close_open_calls(session: Fitting, *, suspended: bool) -> tuple[list[OpenCall], list[str]]:
    """Close the calls that wait, and return them with the entries of their results; see `Session.close_open_calls`."""
    while True:
        log = await session.log()
        leaf_id = log.index.leaf_id
        calls = [each for each in await _open(log) if suspended or not each.suspended]
        if not calls:
            return [], []
        try:
            return calls, await session.append_many([closing(each) for each in calls], expected_leaf=leaf_id)
        except LeafMoved:
            continue  # somebody appended meanwhile, perhaps the very results: look again


async def recover(session: Fitting, torn_tail: TornTail | None) -> Recovery:
    """Close the calls that a crash left open, and tell what else was repaired; see `Session.recover`."""
    calls, ids = await close_open_calls(session, suspended=False)
    return Recovery(torn_tail, tuple(calls), tuple(ids))


async def _open(log: OpenLog) -> list[OpenCall]:
    index = log.index
    leaf = index.leaf
    calls = unanswered((await log.context(leaf)).messages)
    if not calls:
        return []
    began = min(index.find(each.message_id) for each in calls)
    looked_into = _ANSWERING if index.edits[leaf] else _SUSPENDING
    behind = takewhile(lambda seq: seq > began, index.upward(leaf))
    entries = await log.entries_in([seq for seq in behind if index.kinds[seq] in looked_into][::-1])
    waiting: dict[str, OpenCall] = {}
    answered: set[str] = set()
    for entry in entries:
        if isinstance(entry, CustomEntry) and entry.custom.custom_type == SUSPENDED_TYPE:
            waiting.update((each.id, each) for each in _read(entry.custom))
        elif isinstance(entry, MessageEntry):
            # An edit may hide a result from the context, and the call has been answered all the same.
            parts = entry.message.content
            answered.update(part.tool_result.tool_use_id for part in parts if isinstance(part, ToolResultPart))
    return [
        msgspec.structs.replace(each, suspended=True, reason=waits.reason, raw_data=waits.raw_data)
        if (waits := waiting.get(each.id)) is not None
        else each
        for each in calls
        if each.id not in answered
    ]


def _read(custom: Custom) -> tuple[OpenCall, ...]:
    """Read which calls wait; what another program wrote under this name is none of ours."""
    try:
        return msgspec.json.decode(custom.raw_data or raw_json({}), type=_Suspension).calls
    except msgspec.ValidationError:
        return ()
