"""A history provider: the messages of conversations, of which only those are appended that are not there."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeVar

from ...actors.host.host import SessionHost
from ...actors.session.session import Session
from ...events.entries import CompactionEntry, ContextEditEntry, Entry, MessageEntry
from ...events.errors import LeafMoved
from ...events.json_values import json_object, raw_object
from ...formats.agent_framework.messages import Data, data_of, has_id, identity_of, message_of
from ..hosting import Hosting, HostOrRoot
from ..session_index import SessionIndex, SessionIndexes
from ..versions import AGENT_FRAMEWORK

try:
    from agent_framework import HistoryProvider, Message
except ImportError as error:
    raise AGENT_FRAMEWORK.missing(error, "a history needs Microsoft's Agent Framework") from error

AGENT_FRAMEWORK.check()

T = TypeVar("T")

SOURCE_ID = "treering_history"
"""What the framework calls the provider, unless it is given another name."""

NAMELESS = "default"
"""The key of the conversation of an agent that runs without a session."""


class TreeringHistoryProvider(HistoryProvider):
    """A history provider whose conversations are the sessions of a host.

    Messages may be sent again, alone or as the whole history: only those are appended that are not there, and nothing
    that is there is read again for it. It may be used in any event loop, by any number of agents.

    Args:
        host: An open host, or a root: a directory or a URL. Objects with the same root share one host.
        source_id: What the framework calls the provider.
        load_messages: Whether an agent is given the history.
        store_inputs: Whether what is asked is kept.
        store_context_messages: Whether what other providers add is kept.
        store_context_from: Of which providers it is; None for all.
        store_outputs: Whether answers are kept.
        skip_excluded: Whether messages are left out that the framework's compaction excluded.

    Raises:
        InvalidInput: The host is none.
    """

    def __init__(
        self,
        host: HostOrRoot,
        *,
        source_id: str = SOURCE_ID,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
    ) -> None:
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self._hosting = Hosting(host)
        self._stored = SessionIndexes(_Stored)

    def __repr__(self) -> str:
        return f"TreeringHistoryProvider({self._hosting!r})"

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: object
    ) -> list[Message]:
        """Return the messages that the context shows, oldest first.

        Args:
            session_id: The conversation.
            state: Not needed.
            **kwargs: Not needed.

        Raises:
            TreeringError: The session cannot be read; see `SessionHost.get_or_create`.
        """

        async def read(host: SessionHost) -> list[Data]:
            session = await host.find_by_key(session_id or NAMELESS)
            return [] if session is None else await _shown(session)

        found = [Message.from_dict(each) for each in await self._hosting.run(read)]
        return [each for each in found if not (self.skip_excluded and each.additional_properties.get("_excluded"))]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> None:
        """Append those of some messages that are not there, all of them or none.

        Args:
            session_id: The conversation.
            messages: The messages: the next ones, or all so far with the next ones.
            state: Not needed.
            **kwargs: Not needed.

        Raises:
            InvalidEntry: A message holds something that is no JSON; nothing was written.
            TreeringError: The write failed; see `Session.append`.
        """
        if messages:
            data = [json_object(raw_object(each.to_dict(), "a message")) for each in messages]
            await self._hosting.run(lambda host: self._save(host, session_id or NAMELESS, data))

    async def _save(self, host: SessionHost, key: str, messages: Sequence[Data]) -> None:
        stored = await self._stored.made(host, key)
        session = stored.session
        async with stored.lock:
            await stored.catch_up()
            while True:
                leaf = session.leaf_id
                fresh = _new(await stored.identities(), messages)
                if not fresh:
                    return
                try:
                    ids = await session.append_many([message_of(each) for each in fresh], expected_leaf=leaf)
                except LeafMoved:  # something else was appended, perhaps the same messages
                    await stored.refresh()
                    continue
                stored.note(ids, fresh)
                return


class _Stored(SessionIndex):
    """By what the messages of a session are told apart."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._identities: dict[str, bytes] = {}
        self._is_edited = False

    def _see(self, entry: Entry) -> None:
        if isinstance(entry, MessageEntry):
            data = data_of(entry.message)
            if data is not None:
                self._identities[entry.id] = _digest(data)
        elif isinstance(entry, (CompactionEntry, ContextEditEntry)):
            self._is_edited = True

    def note(self, ids: Sequence[str], messages: Sequence[Data]) -> None:
        """Take messages that were just appended."""
        self._identities.update((entry_id, _digest(each)) for entry_id, each in zip(ids, messages, strict=True))
        self.skip(len(ids))

    async def identities(self) -> list[bytes]:
        """Return what tells the messages of the context apart, oldest first."""
        if self._is_edited:  # the context is not what the entries on the way to the leaf say
            return [_digest(each) for each in await _shown(self.session)]
        known = self._identities
        return [known[entry_id] for entry_id in self.session.path() if entry_id in known]


async def _shown(session: Session) -> list[Data]:
    """Return the messages of a session's context."""
    made = (data_of(each) for each in await session.messages())
    return [each for each in made if each is not None]


def _digest(data: Data) -> bytes:
    named = b"id" if has_id(data) else str(data.get("role")).encode()
    return blake2b(identity_of(data), digest_size=16).digest() + named


# -- which of some messages are new


def _new(stored: Sequence[bytes], messages: Sequence[Data]) -> Sequence[Data]:
    """Return the messages after those that are there, by the rule of the framework's own providers.

    What is there may stand anywhere in what is sent, or what is sent may begin with the last that is there. A user's
    message without an id that is sent again alone is said again.
    """
    sent = [_digest(each) for each in messages]
    if not stored:
        return messages
    says_again = stored[-1].endswith(b"user")
    if len(stored) <= len(sent):
        begins = _found(stored, sent)
        if begins is not None and not (begins == 0 and len(stored) == 1 and says_again):
            return messages[begins + len(stored) :]
    overlap = _overlap(stored, sent)
    return messages if overlap == 1 and says_again else messages[overlap:]


def _found(wanted: Sequence[T], among: Sequence[T]) -> int | None:
    """Return where a sequence first stands within another one; None if it does not."""
    borders, matched = _borders(wanted), 0
    for at, each in enumerate(among):
        while matched and wanted[matched] != each:
            matched = borders[matched - 1]
        matched += wanted[matched] == each
        if matched == len(wanted):
            return at + 1 - matched
    return None


def _overlap(before: Sequence[T], after: Sequence[T]) -> int:
    """Return how many of the last of a sequence another one begins with."""
    borders, matched = _borders(after), 0
    for each in before[max(0, len(before) - len(after)) :]:
        while matched and (matched == len(after) or after[matched] != each):
            matched = borders[matched - 1]
        matched += after[matched] == each
    return matched


def _borders(of: Sequence[T]) -> list[int]:
    """Return for each beginning of a sequence the length of its longest beginning that is its end, too."""
    borders, matched = [0] * len(of), 0
    for at in range(1, len(of)):
        while matched and of[matched] != of[at]:
            matched = borders[matched - 1]
        matched += of[matched] == of[at]
        borders[at] = matched
    return borders
