"""Store a running turn in a session as it happens.

The user's message is in the log before the model is called, each answer when it ends, and each result, with the record
of its execution, when it arrives. So a crash at any point leaves a session that can be resumed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import cast

import anyio
from msgspec.structs import replace

from ...events.entries import Message, Usage
from ...events.errors import ContextError, ContextOverflow, LeafMoved, ModelError
from ...events.telemetry import failure_of, logger
from ...events.texts import whole
from ...projections.building.builder import ContextBuilder, ContextBuildResult
from ...projections.building.strategies import FullHistory
from ...projections.building.strategy import SourceUnread, parts_needed
from ...projections.building.summaries import Summarizer, Summary, SummaryRequest
from ..session.branching import BranchReport, left_between, shown_between
from ..session.fitting import source_of
from ..session.open_calls import OpenCall, Recovery, suspension
from ..session.reading import on_host_task
from ..session.session import Session
from .calling import GRACE_S, Finished
from .events import AgentEvent, Compacted, NotCompacted, RequestSent, Retrying
from .model import TextDelta, ThinkingDelta, ToolCallStarted
from .options import LeftWork, Why
from .turn_storage import Emit, Window, history_change_error
from .turns import AgentSetup

_NO_SUMMARY = (ContextError, ModelError, LeafMoved)
"""The errors that mean that no summary could be made, whichever summarizer was asked."""


class LiveTurn:
    """Stores a turn in a session as it happens.

    Args:
        session: The session.
        setup: The builder of its contexts, the hooks and the options of the agent.
        summarizer: Makes summaries.
        emit: Sends events to the reader of the turn's stream.
    """

    saves_immediately = True

    def __init__(self, session: Session, setup: AgentSetup, summarizer: Summarizer, emit: Emit) -> None:
        self._session = session
        self._builder = setup.builder
        self._policy = setup.hooks.leaving
        self._summarizing = setup.options.summarizing
        self._auto_compact = setup.options.auto_compact
        self._summarizer = summarizer
        self._emit = emit
        self._answer: str | None = None
        self._answers = 0
        self.session_id: str | None = session.id

    async def prepare(self) -> Recovery | None:
        """Close the calls that a crash left open; see `TurnStorage.prepare`."""
        await self._session.flush()  # a cancelled turn may have left an append under way
        return await self._session.recover() or None

    async def history(self) -> tuple[Message, ...]:
        """See `TurnStorage.history`."""
        return tuple(await self._session.messages())

    def replace_history(self, history: tuple[Message, ...]) -> None:
        """Refuse; see `TurnStorage.replace_history`."""
        raise history_change_error()

    async def pending(self) -> list[OpenCall]:
        """See `TurnStorage.pending`."""
        return [each for each in await self._session.open_calls() if each.suspended]

    async def thinking_level(self) -> str | None:
        """See `TurnStorage.thinking_level`."""
        index = (await self._session.log()).index
        return (await self._session.context()).thinking_level if index.levels[index.leaf] else None

    async def summary(self) -> str:
        """See `TurnStorage.summary`."""
        await self._session.log()
        return self._session.summary

    async def append_messages(self, messages: Sequence[Message]) -> list[str]:
        """See `TurnStorage.append_messages`."""
        return await self._session.append_many(messages) if messages else []

    async def append_answer(self, message: Message) -> str | None:
        """See `TurnStorage.append_answer`."""
        self._answer = None
        return await self._session.append(message)

    async def append_result(self, finished: Finished, message_id: str | None) -> str | None:
        """See `TurnStorage.append_result`."""
        call, output = finished.call, finished.output
        ids = await self._session.append_tool_execution(
            call.id,
            call.name,
            call.input,
            output.content,
            is_error=output.is_error,
            error=output.error,
            exit_code=output.exit_code,
            duration_ms=finished.duration_ms,
            tokens=output.tokens,
            message_id=message_id or None,
        )
        return ids[0]

    async def suspend(self, calls: Sequence[OpenCall]) -> None:
        """See `TurnStorage.suspend`."""
        await self._session.append(suspension(calls))

    async def keep_failed_attempt(self, partial: Message, error: Exception) -> str | None:
        """Store the failed attempt on a branch of its own; see `TurnStorage.keep_failed_attempt`."""
        self._answer = None
        leaf_id = self._session.leaf_id
        if leaf_id is None:
            return None
        try:
            why = whole(str(error) or type(error).__name__)
            entry_id = await self._session.append(replace(partial, stop_reason="error", error=why))
            if partial.content:
                await self._leave_attempt(leaf_id)
            else:  # there is nothing to summarize
                await self._session.branch(leaf_id)
        except BaseException:  # such as a cancellation: the attempt must not stay on the path
            await on_host_task(self._session, lambda: self._go_back(leaf_id))
            raise
        return entry_id

    async def _go_back(self, entry_id: str) -> None:
        with anyio.move_on_after(GRACE_S, shield=True):
            await self._session.branch(entry_id)

    async def leave(self, entry_id: str, why: Why) -> BranchReport | None:
        """Make an entry the leaf, and summarize the branch that is left if the policy says so.

        Returns:
            The report of the summary; None if none was made.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        return await self._leave(entry_id, why, self._summarizer)

    async def _leave(self, entry_id: str, why: Why, summarizer: Summarizer) -> BranchReport | None:
        session = self._session
        left = await _left_work(session, entry_id, why)
        if left is None or not await self._policy(left):
            await session.branch(entry_id)
            return None
        return await session.summarize_branch(
            entry_id, summarizer, tokenizer=self._builder.tokenizer, options=self._summarizing
        )

    async def _leave_attempt(self, entry_id: str) -> None:
        """Go back from a failed attempt; if the policy wants a summary and none can be made, go back without one.

        The model that makes summaries is usually the one that has just failed.
        """
        summarizer = _WatchedSummarizer(self._summarizer)
        try:
            await self._leave(entry_id, "retry", summarizer)
        except Exception as error:
            if not summarizer.caused(error):
                raise
            logger().warning("not_summarized", session_id=self.session_id, **failure_of(error))
            await self._session.branch(entry_id)

    async def keep_aborted(self, partial: Message) -> None:
        """Append the partial answer to the path, where the next turn sees it; see `TurnStorage.keep_aborted`."""
        if partial.content:
            await self._session.append(replace(partial, stop_reason="aborted"))

    async def context(self, window: Window) -> ContextBuildResult:
        """Build the context, and compact the session if it has outgrown the window; see `TurnStorage.context`.

        The provider's last token count decides, plus an estimate for the messages since. If masking old tool results
        brings the context below the limit, nothing else is done.
        """
        if window.limit is None or not self._auto_compact:
            return await self._session.build_context(window.budget, self._builder)
        used = await self._session.used_tokens(tokenizer=self._builder.tokenizer, overhead=window.overhead)
        if used.total <= window.limit or await self._masking_helps(window):
            built = await self._session.build_context(window.budget, self._builder)
            if built.strategy == FullHistory.name or _only_masked(built):
                return built
        await self._compact(window)
        return await self._session.build_context(window.budget, self._builder)

    async def _masking_helps(self, window: Window) -> bool:
        """Return whether masking old tool results makes the context fit, by the strategies that need the messages only.

        The other strategies read the whole path, which a compaction need not wait for.
        """
        quick = ContextBuilder(
            self._builder.tokenizer, [each for each in self._builder.strategies if not parts_needed(each)]
        )
        try:
            return _only_masked(quick.build(await source_of(self._session, quick.tokenizer), window.budget))
        except (ContextOverflow, SourceUnread):
            return False

    async def shrunk_context(self, window: Window) -> ContextBuildResult:
        """Compact the session and build the context for a smaller window; see `TurnStorage.shrunk_context`."""
        if self._auto_compact:
            await self._compact(window)
        return await self._session.build_context(window.budget, self._builder)

    async def save(self, messages: Sequence[Message], usage: Usage) -> None:
        """See `TurnStorage.save`: everything is in the log."""

    def publish(self, event: AgentEvent) -> None:
        """Publish the pieces of an answer as transient events; see `TurnStorage.publish`."""
        match event:
            case TextDelta(text=piece):
                self._session.emit_text("agent.text", whole(piece), message=self._answer_name())
            case ThinkingDelta(text=piece):
                self._session.emit_text("agent.thinking", whole(piece), message=self._answer_name())
            case ToolCallStarted(call_id=call_id, name=name):
                self._session.emit("agent.call", {"id": whole(call_id), "name": whole(name)})
            case RequestSent(sent=sent):
                self._session.emit("agent.request", sent.counts())
            case Retrying(attempt=attempt, delay_s=delay_s):
                self._session.emit("agent.retry", {"attempt": attempt, "delay_s": delay_s})
            case _:
                pass  # the other events are entries, which subscribers get anyway

    def _answer_name(self) -> str:
        """Return the name of the answer that is being written: the entry before it, and its number in the turn."""
        if self._answer is None:
            self._answers += 1
            self._answer = f"{self._session.leaf_id}.{self._answers}"
        return self._answer

    async def _compact(self, window: Window) -> None:
        """Compact the session, or emit why that failed: the ladder may still find a context that fits, or raise."""
        limit = window.budget.model_context_window
        options = self._summarizing
        if limit:  # the instructions and the answer need room beside the summarized text
            options = replace(options, max_input_tokens=min(options.max_input_tokens, max(limit // 2, 1)))
        summarizer = _WatchedSummarizer(self._summarizer)
        try:
            report = await self._session.compact(
                summarizer, budget=window.budget, tokenizer=self._builder.tokenizer, options=options
            )
        except Exception as error:
            if not summarizer.caused(error):
                raise
            await self._emit_not_compacted(error)
            return
        if report.applied:
            await self._emit(Compacted(report))

    async def _emit_not_compacted(self, error: Exception) -> None:
        logger().warning("not_compacted", session_id=self.session_id, **failure_of(error))
        reported = error
        if not isinstance(reported, _NO_SUMMARY):
            reported = ContextError(
                f"the summarizer failed, and nothing was compacted: {type(error).__name__}: {error}"
            )
            reported.__cause__ = error
        await self._emit(NotCompacted(reported))


class _WatchedSummarizer:
    """A summarizer with the error that it raised last, since a custom one may raise any error."""

    def __init__(self, summarizer: Summarizer) -> None:
        self._summarizer = summarizer
        self._failure: Exception | None = None

    def caused(self, error: Exception) -> bool:
        """Return whether an error means that no summary could be made; any other is the session's and ends the turn."""
        return isinstance(error, _NO_SUMMARY) or error is self._failure

    def __call__(self, request: SummaryRequest) -> Awaitable[Summary]:
        """Make a summary."""
        try:
            pending = self._summarizer(request)
        except Exception as error:  # a summarizer that is not an `async def` may raise before it returns an awaitable
            self._failure = error
            raise
        # A summarizer that returns something else is a mistake of the program, which the caller reports.
        return self._watch(pending) if isinstance(cast("object", pending), Awaitable) else pending

    async def _watch(self, pending: Awaitable[Summary]) -> Summary:
        try:
            return await pending
        except Exception as error:
            self._failure = error
            raise


def _only_masked(built: ContextBuildResult) -> bool:
    """Return whether masked tool results are all that a context leaves out."""
    return bool(built.masked_message_count) and not built.summarized_message_count and built.needs_summary is None


async def _left_work(session: Session, entry_id: str, why: Why) -> LeftWork | None:
    log = await session.log()
    index = log.index
    target = index.seq_of(entry_id)
    _, seqs = left_between(index, index.leaf, target)
    messages = await shown_between(log, index.leaf, seqs)
    count = sum(each.role != "branchSummary" for each in messages)  # a branch summary describes work on another branch
    return LeftWork(session.id, why, index.leaf_id or "", entry_id, count) if count else None
