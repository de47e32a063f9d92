"""Histories of pydantic-ai: the messages of a session's branch, and what is new among those of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ...actors.commands import AppendOptions
from ...actors.host.host import SessionHost
from ...actors.session.session import Session
from ...events.entries import Message
from ...events.errors import InvalidEntry, InvalidInput, LeafMoved
from ...events.json_values import JSON, json_object, raw_object
from ..hosting import Hosting, HostOrRoot
from ..versions import PYDANTIC_AI
from .messages import Data, kept_of, messages_of, restored
from .others import made_of

try:
    from pydantic import ValidationError
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
    from pydantic_core import PydanticSerializationError
except ImportError as error:
    raise PYDANTIC_AI.missing(error, "histories for it need pydantic-ai") from error

PYDANTIC_AI.check()

T = TypeVar("T")


async def load(
    session: Session | str, host: HostOrRoot | None = None, *, leaf_id: str | None = None
) -> list[ModelMessage]:
    """Return the history of a conversation, for `Agent.run(..., message_history=...)`.

    It is what the context shows: after a compaction its summary and what was kept. What other programs wrote is in it,
    too.

    Args:
        session: A session, or the key of one, such as "support-42".
        host: Where the session with this key is: an open host, or a root, which is a directory or a URL.
        leaf_id: The entry with which the branch ends that is wanted; by default it is the session's leaf.

    Returns:
        The messages, oldest first; none if there is no such session.

    Raises:
        InvalidInput: A key was given without a host, or a session with one.
        InvalidEntry: A message is none that this release of pydantic-ai takes, since a later one wrote it.
        TreeringError: The session cannot be read; see `SessionHost.find_by_key`.
    """

    async def read(found: Session | None) -> list[ModelMessage]:
        return [] if found is None else (await history_of(found, leaf_id)).messages

    return await _with_session(session, host, read, make=False)


async def save(
    session: Session | str,
    messages: Sequence[ModelMessage],
    host: HostOrRoot | None = None,
    *,
    leaf_id: str | None = None,
) -> list[str]:
    """Append what is new among some messages, all of it or none, and make it the session's leaf.

    They are the whole history of a run (`result.all_messages()`) or what the run added (`result.new_messages()`), and
    may be saved again: what is there is not appended again. A whole history that leaves the branch at some message,
    because a run went on from there, begins another branch at this message.

    Args:
        session: A session, or the key of one, which is made if there is none.
        messages: The messages.
        host: Where the session with this key is: an open host, or a root, which is a directory or a URL.
        leaf_id: The entry with which the branch ends that the messages belong to; by default it is the session's leaf.

    Returns:
        The ids of the entries that were appended.

    Raises:
        InvalidInput: A key was given without a host, or a session with one.
        InvalidEntry: Something is no message of pydantic-ai, or holds what is no JSON; nothing was written.
        TreeringError: The write failed; see `Session.append`.
    """
    sent = dumped(validated(list(messages), "a message to save"))

    async def write(found: Session | None) -> list[str]:
        return [] if found is None else (await save_to(found, sent, leaf_id))[0]

    return await _with_session(session, host, write, make=bool(sent))


async def save_to(
    session: Session, sent: Sequence[Data], leaf_id: str | None, *, is_whole: bool = False
) -> tuple[list[str], str | None]:
    """Append what is new among messages, and return the entries, and the one with which the messages end.

    Args:
        session: The session.
        sent: The messages, as JSON.
        leaf_id: The entry with which the branch ends that they belong to; None for the leaf.
        is_whole: Whether they are a whole history for certain, and never what a run added.
    """
    while True:
        await session.refresh()
        leaf = session.leaf_id
        history = await history_of(session, leaf if leaf_id is None else leaf_id)
        known = dumped(history.messages)
        there, common = _common(known, history.foreign, sent)
        options: AppendOptions = {"expected_leaf": leaf}
        if common == len(sent):
            return [], history.entry_ids[there - 1] if there else None
        if 0 < there < len(known):
            options["below"] = history.entry_ids[there - 1]
        elif not common and known and (is_whole or _share_a_part(known[0], sent[0])):  # it changed from the start
            options["below"] = None
        else:
            common = common or (0 if is_whole else _overlap(known, sent))
            if leaf_id is not None:
                options["below"] = leaf_id
        fresh = [each for data in sent[common:] for each in messages_of(data)]
        if not fresh:
            return [], history.entry_ids[-1]
        try:
            ids = await session.append_many(fresh, **options)
        except LeafMoved:  # something else was appended, perhaps the same messages
            continue
        return ids, ids[-1]


def _common(known: Sequence[Data], foreign: Sequence[bool], sent: Sequence[Data]) -> tuple[int, int]:
    """Return how many messages two histories begin with together, by the count of each.

    The framework merges requests that follow each other before it runs; those of its own do not.
    """
    there = 0
    for common, each in enumerate(sent):
        size = 1 if there < len(known) and known[there] == each else _merged(known[there:], foreign[there:], each)
        if not size:
            return there, common
        there += size
    return there, len(sent)


def _merged(known: Sequence[Data], foreign: Sequence[bool], sent: Data) -> int:
    """Return how many requests one was merged of, of which something else wrote some; 0 if it was not."""
    wanted, parts = _parts(sent), list[JSON]()
    for size, each in enumerate(known, 1):
        parts += _parts(each)
        if each.get("kind") != "request" or sent.get("kind") != "request" or len(parts) > len(wanted):
            return 0
        if size > 1 and any(foreign[:size]) and all(part in wanted for part in parts) and len(parts) == len(wanted):
            return size
    return 0


def _share_a_part(one: Data, other: Data) -> bool:
    parts = _parts(one)
    return any(part in parts for part in _parts(other))


def _parts(data: Data) -> list[JSON]:
    parts = data.get("parts")
    return parts if isinstance(parts, list) else []


def _overlap(known: Sequence[Data], sent: Sequence[Data]) -> int:
    """Return how many of the last messages that are there the messages begin with."""
    longest = min(len(known), len(sent))
    return next((size for size in range(longest, 0, -1) if known[-size:] == sent[:size]), 0)


class History(NamedTuple):
    """The messages of a branch, the entry that each of them ends with, and whether something else wrote it."""

    messages: list[ModelMessage]
    entry_ids: list[str]
    foreign: list[bool]


async def history_of(session: Session, leaf_id: str | None) -> History:
    """Return what the context shows of a branch."""
    shown = [(each.entry_id, each.message) for each in (await session.context(leaf_id)).messages]
    times = await _times(session, {entry_id for entry_id, message in shown if _own(message) is None})
    found: list[tuple[str, Data, bool]] = []
    names: dict[str, str] = {}
    goes_on = False
    for entry_id, message in shown:
        own = _own(message)
        if own is None:
            data = made_of(message, times.get(entry_id), names)
            goes_on = False
            found += [] if data is None else [(entry_id, data, True)]
            continue
        kept, data = own
        if goes_on and kept.get("joins"):
            found[-1] = (entry_id, found[-1][1] | {"parts": [*_parts(found[-1][1]), *_parts(data)]}, False)
        else:
            found.append((entry_id, data, False))
        goes_on = bool(kept.get("goes_on"))
    messages = validated(msgspec.json.encode([data for _, data, _ in found]), f"a message of session {session.id}")
    return History(messages, [each[0] for each in found], [each[2] for each in found])


def _own(message: Message) -> tuple[Data, Data] | None:
    """Return what a message keeps of one of pydantic-ai's, and this; None for one that something else wrote."""
    kept = kept_of(message)
    data = None if kept is None else restored(message, kept)
    return None if kept is None or data is None else (kept, data)


async def _times(session: Session, entry_ids: set[str]) -> dict[str, str]:
    """Return when entries were written, by one reading of the session."""
    found: dict[str, str] = {}
    if entry_ids:
        async for entry in session.iter_entries():
            if entry.id in entry_ids:
                found[entry.id] = entry.timestamp.isoformat()
    return found


def validated(given: bytes | Sequence[ModelMessage], what: str) -> list[ModelMessage]:
    """Return messages of the framework, of JSON or of what may be some.

    Raises:
        InvalidEntry: They are none that this release takes.
    """
    adapter = ModelMessagesTypeAdapter
    try:  # some releases read base64 from JSON alone
        messages: list[ModelMessage] = (
            adapter.validate_json(given) if isinstance(given, bytes) else adapter.validate_python(given)
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidEntry(
            f"{what} is none that this release of pydantic-ai takes: {first['msg']} at {place}"
        ) from error
    return messages


def dumped(messages: list[ModelMessage]) -> list[Data]:
    """Return messages as JSON.

    Raises:
        InvalidEntry: One holds something that has none.
    """
    try:
        found = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidEntry(f"a message cannot be written as JSON: {error}") from error
    return [json_object(raw_object(each, "a message")) for each in found]


async def _with_session(
    session: Session | str, host: HostOrRoot | None, work: Callable[[Session | None], Awaitable[T]], *, make: bool
) -> T:
    if not isinstance(session, str):
        if host is not None:
            raise InvalidInput("a session is given, which knows its host: leave out the host")
        return await work(session)
    if host is None:
        raise InvalidInput(f"the key {session!r} is given without a host: give an open one, or a directory or a URL")

    async def run(opened: SessionHost) -> T:
        return await work(await (opened.get_or_create(session) if make else opened.find_by_key(session)))

    return await Hosting(host).run(run)
