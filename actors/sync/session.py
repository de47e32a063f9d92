"""The blocking twin of `Session`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from ...events.content import ContentLike, ImagePart, TextPart
from ...events.counts import check_count
from ...events.entries import Entry, Header, Message, Payload, Provider, ToolExecutionEntry, Usage
from ...events.redaction import Redaction
from ...events.stores.base import Cursor
from ...projections.base import Projection, Valued
from ...projections.building.budget import ContextBudget
from ...projections.building.builder import ContextBuilder, ContextBuildResult
from ...projections.building.summaries import DEFAULT_SUMMARIZER_OPTIONS, Summarizer, SummarizerOptions
from ...projections.building.summary_cache import StoredSummary
from ...projections.building.used_tokens import UsedTokens
from ...projections.changes import Changed, Snapshot
from ...projections.context import Context, ContextChange
from ...projections.labels import LabelChange
from ...projections.metadata import SessionMetadata
from ...projections.stats import SessionStats
from ...projections.subscriptions import refuse_entry_arguments
from ...projections.tokens import Tokenizer
from ...projections.tree import Tree, TreeChange
from ..commands import AppendOptions
from ..exports import ExportFormat
from ..session.branching import BRANCH_SUMMARY_TOKENS, BranchReport, SessionCopy, copy_of
from ..session.compaction import CompactionReport
from ..session.describing import StoredMessage
from ..session.open_calls import OpenCall, Recovery
from ..session.reading import is_of_custom_type
from ..session.session import Session
from .bridge import Bridge
from .subscriptions import SyncEntrySubscription, SyncSubscription, SyncTransientSubscription

V = TypeVar("V")
C = TypeVar("C")


class SyncSession:
    """One session of a `SyncHost`, which creates it; every method may be called from any thread.

    Attributes:
        id: The session's id, from its header.
        ref: The name of its log in the store.
        twin: The handle in the host's event loop, which does the work; internal.
    """

    __slots__ = ("__weakref__", "_bridge", "id", "ref", "twin")

    def __init__(self, bridge: Bridge, twin: Session) -> None:
        self._bridge = bridge
        self.twin = twin
        self.id = twin.id
        self.ref = twin.ref

    def __repr__(self) -> str:
        return f"SyncSession({self.id!r})"

    def copy(self) -> SessionCopy:
        """Return a copy of the whole session, which any host can put or fork; internal."""
        return self._bridge.wait(lambda: copy_of(self.twin))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- appending

    def append(self, payload: Payload, **options: Unpack[AppendOptions]) -> str:
        """See `Session.append`."""
        return self._bridge.wait(lambda: self.twin.append(payload, **options))

    def append_many(self, payloads: Sequence[Payload], **options: Unpack[AppendOptions]) -> list[str]:
        """See `Session.append_many`."""
        return self._bridge.wait(lambda: self.twin.append_many(payloads, **options))

    def append_message(
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
        """See `Session.append_message`."""
        return self._bridge.wait(
            lambda: self.twin.append_message(
                role,
                content,
                model=model,
                provider=provider,
                usage=usage,
                stop_reason=stop_reason,
                tool_name=tool_name,
                metadata=metadata,
                **options,
            )
        )

    def append_model_change(self, provider: str, model_id: str, **options: Unpack[AppendOptions]) -> str:
        """See `Session.append_model_change`."""
        return self._bridge.wait(lambda: self.twin.append_model_change(provider, model_id, **options))

    def append_thinking_level_change(self, level: str, **options: Unpack[AppendOptions]) -> str:
        """See `Session.append_thinking_level_change`."""
        return self._bridge.wait(lambda: self.twin.append_thinking_level_change(level, **options))

    def append_compaction(
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
        """See `Session.append_compaction`."""
        return self._bridge.wait(
            lambda: self.twin.append_compaction(
                summary,
                first_kept_entry_id,
                tokens_before,
                details=details,
                usage=usage,
                from_hook=from_hook,
                **options,
            )
        )

    def append_session_info(
        self, name: str | None = None, *, metadata: Mapping[str, object] | None = None, **options: Unpack[AppendOptions]
    ) -> str:
        """See `Session.append_session_info`."""
        return self._bridge.wait(lambda: self.twin.append_session_info(name, metadata=metadata, **options))

    def append_custom_entry(self, custom_type: str, data: object = None, **options: Unpack[AppendOptions]) -> str:
        """See `Session.append_custom_entry`."""
        return self._bridge.wait(lambda: self.twin.append_custom_entry(custom_type, data, **options))

    def append_custom_message(
        self,
        custom_type: str,
        content: ContentLike,
        *,
        display: bool = True,
        details: object = None,
        **options: Unpack[AppendOptions],
    ) -> str:
        """See `Session.append_custom_message`."""
        return self._bridge.wait(
            lambda: self.twin.append_custom_message(custom_type, content, display=display, details=details, **options)
        )

    def append_context_edit(
        self, target_id: str, replacement: ContentLike | None, **options: Unpack[AppendOptions]
    ) -> str:
        """See `Session.append_context_edit`."""
        return self._bridge.wait(lambda: self.twin.append_context_edit(target_id, replacement, **options))

    def append_usage(
        self,
        kind: str,
        usage: Usage,
        *,
        provider: str | None = None,
        model: str | None = None,
        **options: Unpack[AppendOptions],
    ) -> str:
        """See `Session.append_usage`."""
        return self._bridge.wait(lambda: self.twin.append_usage(kind, usage, provider=provider, model=model, **options))

    def append_tool_execution(
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
        """See `Session.append_tool_execution`."""
        return self._bridge.wait(
            lambda: self.twin.append_tool_execution(
                tool_call_id,
                tool_name,
                arguments,
                content,
                is_error=is_error,
                error=error,
                exit_code=exit_code,
                duration_ms=duration_ms,
                tokens=tokens,
                message_id=message_id,
                **options,
            )
        )

    def save_turn(
        self,
        messages: Sequence[Message],
        usage: Usage | None = None,
        *,
        metadata: Mapping[str, object] | None = None,
        **options: Unpack[AppendOptions],
    ) -> list[str]:
        """See `Session.save_turn`."""
        return self._bridge.wait(lambda: self.twin.save_turn(messages, usage, metadata=metadata, **options))

    def set_label(self, target_id: str, label: str | None, **options: Unpack[AppendOptions]) -> str:
        """See `Session.set_label`."""
        return self._bridge.wait(lambda: self.twin.set_label(target_id, label, **options))

    # -- branching

    def branch(self, entry_id: str) -> None:
        """See `Session.branch`."""
        self._bridge.wait(lambda: self.twin.branch(entry_id))

    def reset_leaf(self) -> None:
        """See `Session.reset_leaf`."""
        self._bridge.wait(self.twin.reset_leaf)

    def branch_with_summary(
        self,
        entry_id: str | None,
        summary: str,
        *,
        details: object = None,
        from_hook: bool = False,
        **options: Unpack[AppendOptions],
    ) -> str:
        """See `Session.branch_with_summary`."""
        return self._bridge.wait(
            lambda: self.twin.branch_with_summary(entry_id, summary, details=details, from_hook=from_hook, **options)
        )

    def create_branched_session(self, leaf_id: str) -> SyncSession:
        """See `Session.create_branched_session`."""
        return SyncSession(self._bridge, self._bridge.wait(lambda: self.twin.create_branched_session(leaf_id)))

    def fork(self, session_id: str | None = None) -> SyncSession:
        """See `Session.fork`."""
        return SyncSession(self._bridge, self._bridge.wait(lambda: self.twin.fork(session_id)))

    def summarize_branch(
        self,
        entry_id: str,
        summarizer: Summarizer,
        *,
        target_tokens: int = BRANCH_SUMMARY_TOKENS,
        tokenizer: Tokenizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> BranchReport:
        """See `Session.summarize_branch`; the summarizer runs in the host's event loop."""
        return self._bridge.wait(
            lambda: self.twin.summarize_branch(
                entry_id, summarizer, target_tokens=target_tokens, tokenizer=tokenizer, options=options
            )
        )

    # -- resuming after an interruption

    def open_calls(self) -> list[OpenCall]:
        """See `Session.open_calls`."""
        return self._bridge.wait(self.twin.open_calls)

    def close_open_calls(self, *, suspended: bool = False) -> list[str]:
        """See `Session.close_open_calls`."""
        return self._bridge.wait(lambda: self.twin.close_open_calls(suspended=suspended))

    def recover(self) -> Recovery:
        """See `Session.recover`."""
        return self._bridge.wait(self.twin.recover)

    # -- as a whole

    @property
    def metadata(self) -> SessionMetadata:
        """See `Session.metadata`."""
        return self._bridge.read(lambda: self.twin.metadata)

    def update_metadata(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        provider: Provider | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> str:
        """See `Session.update_metadata`."""
        return self._bridge.wait(
            lambda: self.twin.update_metadata(name=name, description=description, provider=provider, metadata=metadata)
        )

    def stored_message(self, entry_id: str, *, tokenizer: Tokenizer | None = None) -> StoredMessage:
        """See `Session.stored_message`."""
        return self._bridge.wait(lambda: self.twin.stored_message(entry_id, tokenizer=tokenizer))

    def rebind(self, project: str | os.PathLike[str], **options: Unpack[AppendOptions]) -> str:
        """See `Session.rebind`."""
        return self._bridge.wait(lambda: self.twin.rebind(project, **options))

    def stats(self, *, tokenizer: Tokenizer | None = None) -> SessionStats:
        """See `Session.stats`."""
        return self._bridge.wait(lambda: self.twin.stats(tokenizer=tokenizer))

    def total_tokens(self, *, tokenizer: Tokenizer | None = None) -> int:
        """See `Session.total_tokens`."""
        return self._bridge.wait(lambda: self.twin.total_tokens(tokenizer=tokenizer))

    def tool_executions(self) -> list[ToolExecutionEntry]:
        """See `Session.tool_executions`."""
        return self._bridge.wait(self.twin.tool_executions)

    def budget(
        self,
        system_prompt: str = "",
        tool_definitions: str = "",
        *,
        tokenizer: Tokenizer | None = None,
        reserve_for_response: int | None = None,
    ) -> ContextBudget:
        """See `Session.budget`."""
        return self._bridge.read(
            lambda: self.twin.budget(
                system_prompt, tool_definitions, tokenizer=tokenizer, reserve_for_response=reserve_for_response
            )
        )

    # -- as one conversation

    def history(self) -> list[Message]:
        """See `Session.history`."""
        return self._bridge.wait(self.twin.history)

    def set_history(self, messages: Sequence[Message], **options: Unpack[AppendOptions]) -> list[str]:
        """See `Session.set_history`."""
        return self._bridge.wait(lambda: self.twin.set_history(messages, **options))

    def truncate_history(
        self, keep_last: int, *, summary: str | None = None, **options: Unpack[AppendOptions]
    ) -> str | None:
        """See `Session.truncate_history`."""
        return self._bridge.wait(lambda: self.twin.truncate_history(keep_last, summary=summary, **options))

    @property
    def summary(self) -> str:
        """See `Session.summary`."""
        return self._bridge.read(lambda: self.twin.summary)

    def set_summary(self, summary: str, **options: Unpack[AppendOptions]) -> str:
        """See `Session.set_summary`."""
        return self._bridge.wait(lambda: self.twin.set_summary(summary, **options))

    @property
    def title(self) -> str | None:
        """See `Session.title`."""
        return self._bridge.read(lambda: self.twin.title)

    def set_title(self, title: str, **options: Unpack[AppendOptions]) -> str:
        """See `Session.set_title`."""
        return self._bridge.wait(lambda: self.twin.set_title(title, **options))

    @property
    def updated(self) -> datetime:
        """See `Session.updated`."""
        return self._bridge.read(lambda: self.twin.updated)

    def event_count(self) -> int:
        """See `Session.event_count`."""
        return self._bridge.wait(self.twin.event_count)

    def total_usage(self, leaf_id: str | None = None) -> Usage:
        """See `Session.total_usage`."""
        return self._bridge.wait(lambda: self.twin.total_usage(leaf_id))

    # -- making contexts fit

    def build_context(
        self,
        budget: ContextBudget,
        builder: ContextBuilder | None = None,
        *,
        leaf_id: str | None = None,
        summarizer: Summarizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> ContextBuildResult:
        """See `Session.build_context`; the summarizer runs in the host's event loop."""
        return self._bridge.wait(
            lambda: self.twin.build_context(budget, builder, leaf_id=leaf_id, summarizer=summarizer, options=options)
        )

    def used_tokens(self, *, tokenizer: Tokenizer | None = None, overhead: int = 0) -> UsedTokens:
        """See `Session.used_tokens`."""
        return self._bridge.wait(lambda: self.twin.used_tokens(tokenizer=tokenizer, overhead=overhead))

    def compact(
        self,
        summarizer: Summarizer,
        *,
        budget: ContextBudget | None = None,
        keep_tokens: int | None = None,
        target_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> CompactionReport:
        """See `Session.compact`; the summarizer runs in the host's event loop."""
        return self._bridge.wait(
            lambda: self.twin.compact(
                summarizer,
                budget=budget,
                keep_tokens=keep_tokens,
                target_tokens=target_tokens,
                tokenizer=tokenizer,
                options=options,
            )
        )

    def dry_compact(
        self,
        *,
        budget: ContextBudget | None = None,
        keep_tokens: int | None = None,
        target_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> CompactionReport:
        """See `Session.dry_compact`."""
        return self._bridge.wait(
            lambda: self.twin.dry_compact(
                budget=budget, keep_tokens=keep_tokens, target_tokens=target_tokens, tokenizer=tokenizer
            )
        )

    def summary_for_range(
        self,
        start_id: str,
        end_id: str,
        target_tokens: int,
        summarizer: Summarizer,
        *,
        tokenizer: Tokenizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> StoredSummary:
        """See `Session.summary_for_range`; the summarizer runs in the host's event loop."""
        return self._bridge.wait(
            lambda: self.twin.summary_for_range(
                start_id, end_id, target_tokens, summarizer, tokenizer=tokenizer, options=options
            )
        )

    # -- reading the index

    @property
    def header(self) -> Header:
        """See `Session.header`."""
        return self._bridge.read(lambda: self.twin.header)

    @property
    def file_path(self) -> str | None:
        """See `Session.file_path`."""
        return self._bridge.read(lambda: self.twin.file_path)

    @property
    def created(self) -> datetime:
        """See `Session.created`."""
        return self._bridge.read(lambda: self.twin.created)

    @property
    def name(self) -> str | None:
        """See `Session.name`."""
        return self._bridge.read(lambda: self.twin.name)

    @property
    def leaf_id(self) -> str | None:
        """See `Session.leaf_id`."""
        return self._bridge.read(lambda: self.twin.leaf_id)

    @property
    def cursor(self) -> Cursor:
        """See `Session.cursor`."""
        return self._bridge.read(lambda: self.twin.cursor)

    @property
    def message_count(self) -> int:
        """See `Session.message_count`."""
        return self._bridge.read(lambda: self.twin.message_count)

    def tree(self) -> Tree:
        """See `Session.tree`."""
        return self._bridge.read(self.twin.tree)

    def path(self, leaf_id: str | None = None) -> list[str]:
        """See `Session.path`."""
        return self._bridge.read(lambda: self.twin.path(leaf_id))

    def children(self, parent_id: str | None) -> list[str]:
        """See `Session.children`."""
        return self._bridge.read(lambda: self.twin.children(parent_id))

    def label(self, entry_id: str) -> str | None:
        """See `Session.label`."""
        return self._bridge.read(lambda: self.twin.label(entry_id))

    def labels(self) -> list[tuple[str, str]]:
        """See `Session.labels`."""
        return self._bridge.read(self.twin.labels)

    def find_by_label(self, label: str) -> list[str]:
        """See `Session.find_by_label`."""
        return self._bridge.read(lambda: self.twin.find_by_label(label))

    # -- reading entries

    def entry(self, entry_id: str) -> Entry | None:
        """See `Session.entry`."""
        return self._bridge.wait(lambda: self.twin.entry(entry_id))

    def entries(self, *, custom_type: str | None = None) -> list[Entry]:
        """See `Session.entries`."""
        return self._bridge.wait(lambda: self.twin.entries(custom_type=custom_type))

    def iter_entries(self, after: int = 0, *, custom_type: str | None = None) -> Iterator[Entry]:
        """See `Session.iter_entries`."""
        check_count("after", after)
        log = self._bridge.wait(self.twin.log)
        head = log.index.head
        while after < head:
            entries, after = self._bridge.wait(partial(log.page, after, head))
            yield from (entry for entry in entries if is_of_custom_type(entry, custom_type))

    def context(self, leaf_id: str | None = None) -> Context:
        """See `Session.context`."""
        return self._bridge.wait(lambda: self.twin.context(leaf_id))

    def messages(self) -> list[Message]:
        """See `Session.messages`."""
        return self._bridge.wait(self.twin.messages)

    def all_messages(self) -> list[Message]:
        """See `Session.all_messages`."""
        return self._bridge.wait(self.twin.all_messages)

    def find_safe_cut(self, keep_tokens: int, *, tokenizer: Tokenizer | None = None) -> str | None:
        """See `Session.find_safe_cut`."""
        return self._bridge.wait(lambda: self.twin.find_safe_cut(keep_tokens, tokenizer=tokenizer))

    def view(self, projection: Valued[V]) -> V:
        """See `Session.view`."""
        return self._bridge.wait(lambda: self.twin.view(projection))

    def rebuild(self, projection: Valued[V]) -> V:
        """See `Session.rebuild`."""
        return self._bridge.wait(lambda: self.twin.rebuild(projection))

    # -- exporting

    @overload
    def export(
        self,
        format: ExportFormat,
        destination: None = None,
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> bytes: ...
    @overload
    def export(
        self,
        format: ExportFormat,
        destination: str | os.PathLike[str],
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> Path: ...

    def export(
        self,
        format: ExportFormat,
        destination: str | os.PathLike[str] | None = None,
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> bytes | Path:
        """See `Session.export`."""
        if destination is None:
            return self._bridge.wait(
                lambda: self.twin.export(format, leaf_id=leaf_id, redact=redact, overwrite=overwrite)
            )
        return self._bridge.wait(
            lambda: self.twin.export(format, destination, leaf_id=leaf_id, redact=redact, overwrite=overwrite)
        )

    # -- following

    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: Literal[False] = False
    ) -> SyncEntrySubscription: ...
    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: Literal[True]
    ) -> SyncTransientSubscription: ...
    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: bool
    ) -> SyncEntrySubscription | SyncTransientSubscription: ...
    @overload
    def subscribe(self, view: Literal["context"]) -> SyncSubscription[Snapshot[Context] | Changed[ContextChange]]: ...
    @overload
    def subscribe(self, view: Literal["tree"]) -> SyncSubscription[Snapshot[Tree] | Changed[TreeChange]]: ...
    @overload
    def subscribe(
        self, view: Literal["labels"]
    ) -> SyncSubscription[Snapshot[list[tuple[str, str]]] | Changed[LabelChange]]: ...
    @overload
    def subscribe(self, view: str) -> SyncEntrySubscription | SyncSubscription[Snapshot[Any] | Changed[Any]]: ...
    @overload
    def subscribe(self, view: Projection[V, C]) -> SyncSubscription[Snapshot[V] | Changed[C]]: ...

    def subscribe(
        self,
        view: str | Projection[Any, Any] = "entries",
        *,
        after: Cursor | int = 0,
        transient: bool = False,
    ) -> SyncEntrySubscription | SyncTransientSubscription | SyncSubscription[Any]:
        """See `Session.subscribe`: `with session.subscribe() as entries: for entry in entries: ...`."""
        if view == "entries" and transient:
            items = self._bridge.read(lambda: self.twin.subscribe(after=after, transient=True))
            return SyncTransientSubscription(self._bridge, items)
        if view == "entries":
            entries = self._bridge.read(lambda: self.twin.subscribe(after=after))
            return SyncEntrySubscription(self._bridge, entries)
        refuse_entry_arguments(after, transient)
        return SyncSubscription(self._bridge, self._bridge.read(lambda: self.twin.subscribe(view)))

    def emit(self, name: str, data: object) -> None:
        """See `Session.emit`."""
        self._bridge.read(lambda: self.twin.emit(name, data))

    # -- refreshing and closing

    def refresh(self) -> None:
        """See `Session.refresh`."""
        self._bridge.wait(self.twin.refresh)

    def flush(self) -> None:
        """See `Session.flush`."""
        self._bridge.wait(self.twin.flush)

    def close(self) -> None:
        """See `Session.close`."""
        self._bridge.wait(self.twin.close)

    def passivate(self) -> bool:
        """See `Session.passivate`."""
        return self._bridge.wait(self.twin.passivate)
