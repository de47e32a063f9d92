"""The part of a session's handle that appends.

Every call makes one command and returns when its entries are in the file and in every view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from ..events.content import ContentLike, ImagePart, TextPart, as_content, raw_json, raw_object, tool_result
from ..events.entries import (
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    Label,
    Message,
    ModelChange,
    Payload,
    SessionInfo,
    ThinkingLevel,
    ToolExecution,
    Usage,
    UsageRecord,
    checked_usage,
)
from ..events.errors import InvalidEntry
from .commands import AppendOptions
from .handle import Handle


class Appending(Handle):
    """What can be appended to a session."""

    __slots__ = ()

    async def append(self, payload: Payload, **options: Unpack[AppendOptions]) -> str:
        """Append one entry below the leaf and make it the leaf.

        Args:
            payload: What the entry says: a `Message`, a `Label`, a `Custom`, any payload.
            **options: See `AppendOptions`.

        Returns:
            The entry's id. The entry is in the file, and in every view, when this returns.

        Raises:
            InvalidInput: The payload breaks a rule; nothing was written.
            Conflict: The session is not as `expected_leaf` or `expected_seq` said, or the command id was used before.
            EntryNotFound: The payload or `below` names an entry that is not there.
            AppendFailed: The disk refused; nothing was written.
            AppendInDoubt: The disk did not say; retry with the same `command_id`.
        """
        return await self._append_one(payload, options)

    async def append_many(self, payloads: Sequence[Payload], **options: Unpack[AppendOptions]) -> list[str]:
        """Append entries, each below the one before, all or none of them; see `append`."""
        return await self._append(_listed(payloads), options)

    async def append_message(
        self,
        role: str,
        content: ContentLike,
        *,
        model: str | None = None,
        provider: str | None = None,
        usage: Usage | None = None,
        stop_reason: str | None = None,
        tool_name: str | None = None,
        metadata: Mapping[str, object] | None = None,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Append a message; see `append`.

        Args:
            role: "user", "assistant", "tool", "system", or another of `ROLES`. A role of a program's own is kept and
                shown, and no model is told of it.
            content: A string, a content part, or a sequence of both.
            model: The model that answered.
            provider: Its provider.
            usage: What the provider counted.
            stop_reason: Why the model stopped.
            tool_name: The tool that a result comes from.
            metadata: A free JSON object.
            **options: See `AppendOptions`.

        Raises:
            InvalidEntry: The content is neither a string nor parts, the metadata no object, or the usage none; also
                where a field has the wrong type.
        """
        message = Message(
            role,
            as_content(content),
            model=model,
            provider=provider,
            usage=None if usage is None else checked_usage(usage),
            stop_reason=stop_reason,
            tool_name=tool_name,
            raw_metadata=None if metadata is None else raw_object(metadata, "metadata"),
        )
        return await self._append_one(message, options)

    async def append_model_change(self, provider: str, model_id: str, **options: Unpack[AppendOptions]) -> str:
        """Record that another model answers from here on; see `append`."""
        return await self.append(ModelChange(provider, model_id), **options)

    async def append_thinking_level_change(self, level: str, **options: Unpack[AppendOptions]) -> str:
        """Record that the model thinks at another level from here on; see `append`."""
        return await self.append(ThinkingLevel(level), **options)

    async def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str | None,
        tokens_before: int,
        *,
        details: object = None,
        usage: Usage | None = None,
        from_hook: bool = False,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Let a summary stand for everything on the path before an entry; see `append`.

        Args:
            summary: What the context shows instead.
            first_kept_entry_id: The first entry that stays; None keeps nothing. `find_safe_cut` finds one.
            tokens_before: The size of the context that is compacted.
            details: Anything that the caller wants to note, as JSON.
            usage: What making the summary took.
            from_hook: An extension made it.
            **options: See `AppendOptions`.

        Raises:
            UnsafeCut: It would part a tool call from its result, or the entry is not on the path.
        """
        raw = None if details is None else raw_json(details)
        used = None if usage is None else checked_usage(usage)
        payload = Compaction(
            summary, first_kept_entry_id, tokens_before, raw_details=raw, usage=used, from_hook=from_hook
        )
        return await self.append(payload, **options)

    async def append_session_info(
        self, name: str | None = None, *, metadata: Mapping[str, object] | None = None, **options: Unpack[AppendOptions]
    ) -> str:
        """Name the session ("" takes the name away), or note a free JSON object about it; see `append`."""
        raw = None if metadata is None else raw_object(metadata, "metadata")
        return await self.append(SessionInfo(name, raw_metadata=raw), **options)

    async def append_custom_entry(self, custom_type: str, data: object = None, **options: Unpack[AppendOptions]) -> str:
        """Append an extension's own data, which no model sees; see `append`.

        Args:
            custom_type: Whose data it is; not empty.
            data: Any JSON value.
            **options: See `AppendOptions`.
        """
        return await self.append(Custom(custom_type, None if data is None else raw_json(data)), **options)

    async def append_custom_message(
        self,
        custom_type: str,
        content: ContentLike,
        *,
        display: bool = True,
        details: object = None,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Append an extension's message that the model sees; see `append`.

        Args:
            custom_type: Whose message it is; not empty.
            content: What the model sees.
            display: Whether people are shown it.
            details: Anything for the user interface, as JSON; no model sees it.
            **options: See `AppendOptions`.
        """
        raw = None if details is None else raw_json(details)
        return await self.append(CustomMessage(custom_type, as_content(content), display, raw), **options)

    async def append_context_edit(
        self, target_id: str, replacement: ContentLike | None, **options: Unpack[AppendOptions]
    ) -> str:
        """Change what contexts show of an earlier message, or (None) leave it out; the original stays; see `append`.

        The result of a tool stays the answer to its call: the replacement is what it says then, and one that is left
        out says only that, as long as the call is shown.
        """
        content = None if replacement is None else as_content(replacement)
        return await self.append(ContextEdit(target_id, content), **options)

    async def append_usage(
        self,
        kind: str,
        usage: Usage,
        *,
        provider: str | None = None,
        model: str | None = None,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Record usage that no message carries; see `append`."""
        return await self.append(UsageRecord(kind, checked_usage(usage), provider, model), **options)

    async def append_tool_execution(
        self,
        tool_call_id: str,
        tool_name: str,
        arguments: Mapping[str, object],
        content: str | Sequence[TextPart | ImagePart],
        *,
        is_error: bool = False,
        error: str | None = None,
        exit_code: int | None = None,
        duration_ms: float | None = None,
        tokens: int | None = None,
        message_id: str | None = None,
        **options: Unpack[AppendOptions],
    ) -> list[str]:
        """Append a tool's result, which the model sees, and the record of its run, as one batch.

        Args:
            tool_call_id: The id of the call.
            tool_name: The tool.
            arguments: What it was called with.
            content: What it answered.
            is_error: Whether it failed.
            error: What went wrong, for the record.
            exit_code: A command's exit code.
            duration_ms: How long it ran, in milliseconds.
            tokens: The size of the result, in tokens.
            message_id: The entry of the assistant's message that holds the call.
            **options: See `AppendOptions`.

        Returns:
            The ids of the result's message and of the record.
        """
        result = Message("tool", (tool_result(tool_call_id, content, is_error=is_error),), tool_name=tool_name)
        record = ToolExecution(
            tool_call_id,
            tool_name,
            raw_object(arguments, "the arguments"),
            success=not is_error,
            error=error,
            exit_code=exit_code,
            duration_ms=duration_ms,
            tokens=tokens,
            message_id=message_id,
        )
        return await self._append((result, record), options)

    async def save_turn(
        self,
        messages: Sequence[Message],
        usage: Usage | None = None,
        *,
        metadata: Mapping[str, object] | None = None,
        **options: Unpack[AppendOptions],
    ) -> list[str]:
        """Append the messages of one turn and what it used, all or nothing.

        Returns:
            The ids of the messages, and last that of the turn's record.
        """
        given = _listed(messages)
        record = UsageRecord(
            "turn",
            Usage() if usage is None else checked_usage(usage),
            messages=len(given),
            raw_metadata=None if metadata is None else raw_object(metadata, "metadata"),
        )
        return await self._append((*given, record), options)

    async def set_label(self, target_id: str, label: str | None, **options: Unpack[AppendOptions]) -> str:
        """Bookmark an entry; an empty label, or None, takes the bookmark away; see `append`."""
        return await self.append(Label(target_id, label or None), **options)


def _listed(payloads: Sequence[Payload]) -> tuple[Payload, ...]:
    """Return payloads as what is appended in one piece.

    Raises:
        InvalidEntry: It is one of them, or something else.
    """
    try:
        return tuple(payloads)
    except TypeError:
        raise InvalidEntry(f"`{type(payloads).__name__}` is no sequence of payloads: give a list of them") from None
