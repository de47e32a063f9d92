"""The part of a session's handle that appends, and that moves the leaf.

Every call makes one command, and returns when it is carried out: what it appends is in the file and in every view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from ...events.content import ContentLike, ImagePart, TextPart, as_content, tool_result
from ...events.entries import (
    BranchSummary,
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
from ...events.errors import InvalidEntry, InvalidInput
from ...events.json_values import raw_json, raw_object
from ..commands import Append, AppendOptions, MoveLeaf, append_command
from .reading import Reading


class Appending(Reading):
    """The append calls of a session, beside those that read."""

    __slots__ = ()

    async def append(self, payload: Payload, **options: Unpack[AppendOptions]) -> str:
        """Append one entry below the leaf and make it the leaf.

        Args:
            payload: The content of the entry: a `Message`, a `Label`, a `Custom`, or any other payload.
            **options: See `AppendOptions`.

        Returns:
            The entry's id. The entry is in the file and in every view when this returns.

        Raises:
            InvalidInput: The payload is invalid; nothing was written.
            Conflict: The session is not in the state of `expected_leaf` or `expected_seq`, or the command id was used
                before.
            EntryNotFound: The payload or `below` names an entry that does not exist.
            AppendFailed: The write failed; nothing was written.
            AppendInDoubt: It is unknown whether the entry was written; retry with the same `command_id`.
        """
        (entry,) = await self._perform(append_command((payload,), options) if options else Append((payload,)))
        return entry.id or ""

    async def append_many(self, payloads: Sequence[Payload], **options: Unpack[AppendOptions]) -> list[str]:
        """Append entries, each below the one before, all of them or none; see `append`."""
        return await self._append(_as_payloads(payloads), options)

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
            role: "user", "assistant", "tool", "system", or "developer", "bashExecution", "custom", "branchSummary" or
                "compactionSummary". Any other role is kept and shown, but not sent to a model.
            content: A string, a content part, or a sequence of both.
            model: The model that answered.
            provider: Its provider.
            usage: What the provider counted.
            stop_reason: Why the model stopped.
            tool_name: The tool that produced a result.
            metadata: A free JSON object.
            **options: See `AppendOptions`.

        Raises:
            InvalidEntry: The content is neither a string nor parts, the metadata is not an object, the usage is
                invalid, or a field has the wrong type.
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
        (entry,) = await self._perform(append_command((message,), options) if options else Append((message,)))
        return entry.id or ""

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
        """Append a summary that stands for everything on the path before an entry; see `append`.

        What the system messages on the path say is stored with it. With neither a summary nor a first kept entry, it
        clears the context, and nothing is stored with it.

        Args:
            summary: What the context shows instead.
            first_kept_entry_id: The first entry that stays; None keeps nothing. `find_safe_cut` finds one.
            tokens_before: The size of the context that is compacted.
            details: Any JSON value to record with the compaction.
            usage: What making the summary used.
            from_hook: Whether an extension made the compaction.
            **options: See `AppendOptions`.

        Raises:
            UnsafeCut: The cut would separate a tool call from its result, or the entry is not on the path.
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
        """Name the session ("" removes the name), or store a free JSON object about it; see `append`.

        Args:
            name: The title; None leaves it as it is.
            metadata: The new free JSON object, all of it; None leaves it as it is. `update_metadata` merges keys.
            **options: See `AppendOptions`.
        """
        raw = None if metadata is None else raw_object(metadata, "metadata")
        return await self.append(SessionInfo(name, raw_metadata=raw), **options)

    async def append_custom_entry(self, custom_type: str, data: object = None, **options: Unpack[AppendOptions]) -> str:
        """Append an extension's own data, which is never sent to a model; see `append`.

        Args:
            custom_type: Identifies the extension; not empty.
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
        """Append an extension's message, which is sent to the model; see `append`.

        Args:
            custom_type: Identifies the extension; not empty.
            content: What the model sees.
            display: Whether the message is shown to people.
            details: Any JSON value for the user interface; it is not sent to a model.
            **options: See `AppendOptions`.
        """
        raw = None if details is None else raw_json(details)
        return await self.append(CustomMessage(custom_type, as_content(content), display, raw), **options)

    async def append_context_edit(
        self, target_id: str, replacement: ContentLike | None, **options: Unpack[AppendOptions]
    ) -> str:
        """Replace what contexts show of an earlier message, or hide it (None); see `append`.

        The original stays in the log. A tool's result remains the answer to its call: it shows the replacement, and a
        hidden one says only that it was hidden, as long as the call is shown.
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
        """Record usage that belongs to no message; see `append`.

        Args:
            kind: What it was used for, in a word of the program's own; not empty.
            usage: What the provider counted.
            provider: The provider.
            model: The model.
            **options: See `AppendOptions`.
        """
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
            arguments: The arguments of the call.
            content: The result.
            is_error: Whether the tool failed.
            error: What went wrong, for the record.
            exit_code: The exit code of a command.
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
        """Append the messages of one turn and what it used, all of it or nothing.

        Args:
            messages: The messages, oldest first.
            usage: What the whole turn used, including what its messages report.
            metadata: A free JSON object to record with the turn.
            **options: See `AppendOptions`.

        Returns:
            The ids of the messages, followed by that of the turn's record.
        """
        payloads = _as_payloads(messages)
        record = UsageRecord(
            "turn",
            Usage() if usage is None else checked_usage(usage),
            messages=len(payloads),
            raw_metadata=None if metadata is None else raw_object(metadata, "metadata"),
        )
        return await self._append((*payloads, record), options)

    async def set_label(self, target_id: str, label: str | None, **options: Unpack[AppendOptions]) -> str:
        """Bookmark an entry; None or an empty label removes the bookmark; see `append`."""
        return await self.append(Label(target_id, label or None), **options)

    # -- moving the leaf

    async def branch(self, entry_id: str) -> None:
        """Make an entry the leaf, so that the next append goes below it. Nothing is written to the log.

        Raises:
            EntryNotFound: The session has no such entry.
            AppendFailed: The move could not be recorded beside the log; the leaf is where it was.
            AppendInDoubt: The move is in effect, but may not survive a power cut.
        """
        await self._perform(MoveLeaf(entry_id))

    async def reset_leaf(self) -> None:
        """Clear the leaf, so that the next append becomes a root. Nothing is written to the log; see `branch`."""
        await self._perform(MoveLeaf(None))

    async def branch_with_summary(
        self,
        entry_id: str | None,
        summary: str,
        *,
        details: object = None,
        from_hook: bool = False,
        **options: Unpack[AppendOptions],
    ) -> str:
        """Leave the branch that ends at the leaf, and continue below another entry with a summary of what was left.

        Args:
            entry_id: The entry to continue from; None starts a new root.
            summary: What happened on the branch that is left.
            details: Any JSON value to record with the summary.
            from_hook: Whether an extension made the summary.
            **options: See `AppendOptions`; they must not contradict the arguments above.

        Returns:
            The id of the summary's entry, which is now the leaf.

        Raises:
            InvalidInput: The options contain `below` or set `aside`: the summary always goes below `entry_id` and
                becomes the leaf.
        """
        if "below" in options:
            raise InvalidInput("the summary goes below `entry_id`: leave `below` out")
        if options.get("aside"):
            raise InvalidInput("the summary becomes the leaf: to add one aside, call `append` with a `BranchSummary`")
        raw = None if details is None else raw_json(details)
        payload = BranchSummary(summary, "", raw, from_hook=from_hook)
        options["below"] = entry_id
        return await self.append(payload, **options)


def _as_payloads(payloads: Sequence[Payload]) -> tuple[Payload, ...]:
    """Return a sequence of payloads as a tuple.

    Raises:
        InvalidEntry: It is a single payload, or something else that is not a sequence.
    """
    try:
        return tuple(payloads)
    except TypeError:
        raise InvalidEntry(f"`{type(payloads).__name__}` is not a sequence of payloads: give a list") from None
