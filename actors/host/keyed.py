"""Conversations by key, for programs that answer many chats: each call names its conversation.

    sessions = KeyedSessions(host)
    await sessions.add_message("telegram:123456", "user", "What's the weather?")
    ...
    await sessions.add_message("telegram:123456", "assistant", "It's sunny today.")

What is added is written when the call returns. Reading creates nothing: a conversation that does not exist has an empty
history and an empty summary. The same calls without the key are methods of `Session`, which `get_or_create` returns.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn, Unpack

import anyio

from ...events.content import ContentLike
from ...events.entries import Message
from ..commands import AppendOptions
from ..session.session import Session
from .host import SessionHost
from .names import ref_of_key

SAVE_EVERY_S = 30.0
"""The default interval at which all conversations are saved, in seconds."""


class KeyedSessions:
    """The sessions of a host by their keys.

    Args:
        host: The host, which must be open when a call is made.
    """

    __slots__ = ("host",)

    def __init__(self, host: SessionHost) -> None:
        self.host = host

    async def get_or_create(self, key: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session of a conversation, or create it if it does not exist; see `SessionHost.get_or_create`."""
        return await self.host.get_or_create(key, cwd=cwd)

    async def keys(self) -> list[str]:
        """Return the keys of all written conversations that are not archived, the most recently used first."""
        return [row.key for row in await self.host.list_sessions() if row.key is not None]

    # -- adding

    async def add_message(self, key: str, role: str, content: ContentLike, **options: Unpack[AppendOptions]) -> str:
        """Add a message to a conversation, which is created if it does not exist; see `Session.append_message`."""
        return await (await self.host.get_or_create(key)).append_message(role, content, **options)

    async def add_full_message(self, key: str, message: Message, **options: Unpack[AppendOptions]) -> str:
        """Add a message with all its parts, such as tool calls; see `Session.append`."""
        return await (await self.host.get_or_create(key)).append(message, **options)

    # -- the history

    async def history(self, key: str) -> list[Message]:
        """Return a conversation's messages, oldest first, as the caller's own list; empty if it does not exist."""
        session = await self.host.find_by_key(key)
        return [] if session is None else await session.history()

    async def set_history(self, key: str, messages: Sequence[Message], **options: Unpack[AppendOptions]) -> list[str]:
        """Start a conversation over with other messages; see `Session.set_history`."""
        return await (await self.host.get_or_create(key)).set_history(messages, **options)

    async def truncate_history(
        self, key: str, keep_last: int, *, summary: str | None = None, **options: Unpack[AppendOptions]
    ) -> str | None:
        """Keep a conversation's last messages in its context; see `Session.truncate_history`."""
        return await (await self.host.get_or_create(key)).truncate_history(keep_last, summary=summary, **options)

    # -- the summary

    async def summary(self, key: str) -> str:
        """Return a conversation's summary; empty if there is none."""
        session = await self.host.find_by_key(key)
        return "" if session is None else session.summary

    async def set_summary(self, key: str, summary: str, **options: Unpack[AppendOptions]) -> str:
        """Store a summary beside a conversation's messages; see `Session.set_summary`."""
        return await (await self.host.get_or_create(key)).set_summary(summary, **options)

    # -- saving and deleting

    async def save(self, key: str) -> None:
        """Wait until everything added to a conversation is as durable as the host promises.

        Each call that adds something waits for that itself, so saving is never necessary. If there is nothing to wait
        for, as for a conversation that has not been opened yet, this returns at once.

        Raises:
            InvalidSessionId: The key is invalid.
        """
        core = self.host.core
        core.check()
        await core.registry.answered(ref_of_key(key))

    async def save_all(self) -> None:
        """Save every conversation that is in memory; see `save`."""
        await self.host.flush()

    async def save_every(self, interval_s: float = SAVE_EVERY_S) -> NoReturn:
        """Save every conversation repeatedly until cancelled: `tasks.start_soon(sessions.save_every)`.

        Args:
            interval_s: How long to wait between two rounds, in seconds.
        """
        while True:
            await anyio.sleep(interval_s)
            await self.save_all()

    async def delete(self, key: str) -> None:
        """Delete a conversation permanently; do nothing if it does not exist. See `SessionHost.delete`."""
        session = await self.host.find_by_key(key)
        if session is not None:
            await self.host.delete(session)
