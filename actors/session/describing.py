"""The part of a session's handle that describes the session: its metadata, its figures, its project.

A change is an appended session_info entry: a crash at any point leaves the old value or the new one, and the log keeps
both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Unpack

from msgspec import Struct

from ...events.entries import Message, MessageEntry, Provider, SessionInfo, ToolExecutionEntry
from ...events.errors import EntryNotFound, InvalidInput, LeafMoved
from ...events.json_values import JSON, raw_json, raw_object
from ...projections.building.budget import ContextBudget, calculate_budget
from ...projections.stats import SessionStats, StatsProjection
from ...projections.summary import SessionMetadata, metadata_of
from ...projections.tokens import Tokenizer, message_tokens, tokenizer_of
from ..commands import AppendOptions
from ..host.names import checked_path
from ..log.open_log import OpenLog
from .appending import Appending
from .reading import all_entries, read_log

_TRIES_MAX = 100


class StoredMessage(Struct, frozen=True):
    """A message as it is stored.

    Attributes:
        id: The entry's id.
        seq: The seq of its line.
        parent_id: The entry above it; None for a root.
        timestamp: When it was appended.
        message: The message.
        tokens: How many tokens it takes when sent to a provider.
    """

    id: str
    seq: int
    parent_id: str | None
    timestamp: datetime
    message: Message
    tokens: int


class Describing(Appending):
    """The calls that describe a session as a whole."""

    __slots__ = ()

    @property
    def metadata(self) -> SessionMetadata:
        """The session's metadata; changing the returned object changes nothing that is stored."""
        return metadata_of(self._index())

    async def update_metadata(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        provider: Provider | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> str:
        """Change the session's metadata by one appended entry; arguments that are not given leave their value as it is.

        Args:
            name: The title, which no automatic one replaces from then on; "" removes it.
            description: What the session is about; "" removes it.
            provider: Who answers.
            metadata: Keys to set in the free JSON object that programs keep with the session; None removes a key.

        Returns:
            The id of the entry.

        Raises:
            InvalidInput: Nothing is given, or a value is not valid JSON.
            Conflict: The session changes faster than its free JSON object can be updated.
        """
        if name is None and description is None and provider is None and metadata is None:
            raise InvalidInput("nothing to change: give a name, a description, a provider or `metadata`")
        if metadata is None:
            return await self.append(SessionInfo(name, description=description, provider=provider))
        raw_object(metadata, "`metadata`")
        tries = 0
        while True:
            index = (await self.log()).index
            raw = raw_json(_merged(index.info.metadata, metadata))
            info = SessionInfo(name, description=description, provider=provider, raw_metadata=raw)
            try:
                return await self.append(info, expected_seq=index.seen)
            except LeafMoved:  # something was appended after the index was read
                tries += 1
                if tries == _TRIES_MAX:
                    raise

    async def stored_message(self, entry_id: str, *, tokenizer: Tokenizer | None = None) -> StoredMessage:
        """Return a message with its place in the log and in the tree, and how many tokens it takes.

        Args:
            entry_id: The id that `append_message` returned.
            tokenizer: Counts the tokens; by default they are estimated from the bytes.

        Raises:
            EntryNotFound: The session has no such entry.
            InvalidInput: The entry is not a message.
        """
        entry = await self.entry(entry_id)
        if entry is None:
            raise EntryNotFound(entry_id)
        if not isinstance(entry, MessageEntry):
            raise InvalidInput(f"entry {entry_id!r} is a {entry.type}: give the id of a message")
        message = entry.message
        tokens = message_tokens(message, tokenizer)
        return StoredMessage(entry.id, entry.seq, entry.parent_id, entry.timestamp, message, tokens)

    async def rebind(self, project: str | os.PathLike[str], **options: Unpack[AppendOptions]) -> str:
        """Bind the session to another project, or to the same one after its folder moved, by one appended entry.

        Args:
            project: The project's folder.
            **options: See `AppendOptions`.

        Returns:
            The id of the entry.

        Raises:
            InvalidInput: It is not a path.
        """
        from ...events.projects import real_path  # deferred to keep the import of the package small

        path = await self._core.runtime.offload(real_path, checked_path(project))
        return await self.append(SessionInfo(project=path), **options)

    async def stats(self, *, tokenizer: Tokenizer | None = None) -> SessionStats:
        """Return the figures of the session: messages, tool runs, tokens.

        Args:
            tokenizer: Counts the tokens. By default they are estimated from the bytes, and the result is kept beside
                the log, so that the next call counts only newer entries.
        """
        if tokenizer is None:
            return await self.view(StatsProjection())
        projection = StatsProjection(tokenizer_of(tokenizer))

        async def read(log: OpenLog) -> SessionStats:
            stats = projection.initial(log.index.header)
            async for entry in all_entries(log):
                stats, _ = projection.apply(stats, entry)
            return stats

        return await read_log(self, read)

    async def total_tokens(self, *, tokenizer: Tokenizer | None = None) -> int:
        """Return how many tokens all messages of the session take; see `stats`."""
        return (await self.stats(tokenizer=tokenizer)).total_tokens

    async def tool_executions(self) -> list[ToolExecutionEntry]:
        """Return the records of all tool runs, in the order of the file."""

        async def read(log: OpenLog) -> list[ToolExecutionEntry]:
            return [entry async for entry in all_entries(log) if isinstance(entry, ToolExecutionEntry)]

        return await read_log(self, read)

    def budget(
        self,
        system_prompt: str = "",
        tool_definitions: str = "",
        *,
        tokenizer: Tokenizer | None = None,
        reserve_for_response: int | None = None,
    ) -> ContextBudget:
        """Return the budget of the session's model, from the context window in its metadata.

        Args:
            system_prompt: System text that is not part of the session.
            tool_definitions: The definitions of the tools, as they are sent.
            tokenizer: Counts the tokens of both; by default they are estimated from the bytes.
            reserve_for_response: How many tokens to keep free for the answer; by default a quarter of the window.

        Raises:
            InvalidInput: The metadata names no context window.
        """
        provider = self._index().info.provider
        if provider is None or not provider.context_window:
            raise InvalidInput(
                f"session {self.id!r} names no context window: set one with `update_metadata(provider=...)`, or use "
                "`calculate_budget`"
            )
        return calculate_budget(
            provider.context_window,
            system_prompt,
            tool_definitions,
            tokenizer,
            reserve_for_response=reserve_for_response,
        )


def _merged(old: Mapping[str, JSON], new: Mapping[str, object]) -> dict[str, object]:
    merged = {**old, **new}
    return {key: value for key, value in merged.items() if value is not None or key not in new}
