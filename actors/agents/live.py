"""Keeping a running turn in a session, as it happens.

The user's message is in the log before the model is asked, each answer when it ends, each result with the record of its
run when it comes, in the order in which they come. So a crash at any point leaves a session that can be taken up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import cast

import anyio
from msgspec.structs import replace

from ...events.characters import whole
from ...events.entries import Message, Usage
from ...events.errors import ContextError, ContextOverflow, LeafMoved, ModelError
from ...events.telemetry import failure_of, logger
from ...projections.building.builder import ContextBuilder, ContextBuildResult
from ...projections.building.full_history import FullHistory
from ...projections.building.strategy import needs_path
from ...projections.building.summaries import Summarizer, SummarizerOptions, Summary, SummaryRequest
from ..open_calls import OpenCall, Recovery, suspension
from ..session import Session
from .calling import GRACE_S, Finished
from .events import AgentEvent, Compacted, NotCompacted, RequestSent, Retrying
from .hooks import LeavePolicy
from .keeping import Tell, refuse_history
from .leaving import leave
from .model import TextDelta, ThinkingDelta, ToolCallStarted
from .window import Window

_NO_SUMMARY = (ContextError, ModelError, LeafMoved)
"""The errors by which a summary is not to be had, whoever makes it."""


class LiveTurn:
    """Keeps a turn in a session as it happens.

    Args:
        session: The session.
        builder: What builds its contexts.
        summarizer: Makes summaries.
        summarizing: How it is asked.
        policy: Decides whether work that is left gets a summary.
        auto_compact: Compact when the next request takes more than the window minus the reserve.
        tell: Tells whoever streams the turn.
    """

    at_once = True

    def __init__(
        self,
        session: Session,
        builder: ContextBuilder,
        summarizer: Summarizer,
        summarizing: SummarizerOptions,
        policy: LeavePolicy,
        *,
        auto_compact: bool,
        tell: Tell,
    ) -> None:
        self._session = session
        self._builder = builder
        self._summarizer = summarizer
        self._summarizing = summarizing
        self._policy = policy
        self._auto_compact = auto_compact
        self._tell = tell
        self._shown_chars = 0
        self.session_id: str | None = session.id

    async def take_up(self) -> Recovery | None:
        """Close what a crash left open; see `Keeper.take_up`."""
        await self._session.flush()  # a turn that was cancelled may have left an append that is still under way
        return await self._session.recover() or None

    async def history(self) -> tuple[Message, ...]:
        """See `Keeper.history`."""
        return tuple(await self._session.messages())

    def replace_history(self, history: tuple[Message, ...]) -> None:
        """Refuse; see `Keeper.replace_history`."""
        raise refuse_history()

    async def pending(self) -> list[OpenCall]:
        """See `Keeper.pending`."""
        return [each for each in await self._session.open_calls() if each.suspended]

    async def thinking_level(self) -> str | None:
        """See `Keeper.thinking_level`."""
        index = (await self._session.log()).index
        return (await self._session.context()).thinking_level if index.levels[index.leaf] else None

    async def summary(self) -> str:
        """See `Keeper.summary`."""
        await self._session.log()
        return self._session.summary

    async def say(self, messages: Sequence[Message]) -> list[str]:
        """See `Keeper.say`."""
        return await self._session.append_many(messages) if messages else []

    async def answer(self, message: Message) -> str | None:
        """See `Keeper.answer`."""
        self._shown_chars = 0
        return await self._session.append(message)

    async def result(self, finished: Finished, message_id: str | None) -> str | None:
        """See `Keeper.result`."""
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
        """See `Keeper.suspend`."""
        await self._session.append(suspension(calls))

    async def failed(self, partial: Message, error: ModelError) -> str | None:
        """Keep the failed attempt on a branch of its own; see `Keeper.failed`."""
        self._shown_chars = 0
        leaf_id = self._session.leaf_id
        if not partial.content or leaf_id is None:
            return None
        try:
            entry_id = await self._session.append(replace(partial, stop_reason="error", error=whole(str(error))))
            await self._leave_attempt(leaf_id)
        except BaseException:  # cancelled, say: the attempt is beside the path all the same
            with anyio.move_on_after(GRACE_S, shield=True):
                await self._session.branch(leaf_id)
            raise
        return entry_id

    async def leave(self, entry_id: str) -> None:
        """Go back to an entry, to have an answer made again."""
        await self._leave(entry_id, self._summarizer)

    async def _leave(self, entry_id: str, summarizer: Summarizer) -> None:
        tokenizer, options = self._builder.tokenizer, self._summarizing
        await leave(self._session, entry_id, "retry", self._policy, summarizer, tokenizer=tokenizer, options=options)

    async def _leave_attempt(self, entry_id: str) -> None:
        """Go back from a failed attempt, without the summary that the policy wants of it where none can be made.

        The model that makes summaries is mostly the one that has just failed.
        """
        summarizer = _Watched(self._summarizer)
        try:
            await self._leave(entry_id, summarizer)
        except Exception as error:
            if not summarizer.answers_for(error):
                raise
            logger().warning("not_summarized", session_id=self.session_id, **failure_of(error))
            await self._session.branch(entry_id)

    async def aborted(self, partial: Message) -> None:
        """Keep what was said on the path, where the next turn sees it; see `Keeper.aborted`."""
        if partial.content:
            await self._session.append(replace(partial, stop_reason="aborted"))

    async def context(self, window: Window) -> ContextBuildResult:
        """Build the context, and compact where it has outgrown the window; see `Keeper.context`.

        What the provider counted last decides, with an estimate of what came since. Where clearing old results of tools
        brings the context below the limit, that is all that is done.
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
        """Tell whether the context fits without the words of old results, by what the messages alone say.

        The session's own way of building reads the whole path, where nothing else is left: a compaction need not wait
        for that.
        """
        quick = ContextBuilder(
            self._builder.tokenizer, [each for each in self._builder.strategies if not needs_path(each)]
        )
        try:
            return _only_masked(quick.build(await self._session.context(), window.budget))
        except ContextOverflow:
            return False

    async def shrunk(self, window: Window) -> ContextBuildResult:
        """Compact the session for a smaller window; see `Keeper.shrunk`."""
        if self._auto_compact:
            await self._compact(window)
        return await self._session.build_context(window.budget, self._builder)

    async def end(self, messages: Sequence[Message], usage: Usage) -> None:
        """See `Keeper.end`: everything is in the log."""

    def show(self, event: AgentEvent) -> None:
        """Show pieces of an answer to the session's subscribers, and write them nowhere; see `Keeper.show`.

        Of two pieces between two entries a slow subscriber gets the later, so each says where in the answer it stands.
        """
        match event:
            case TextDelta(text=said):
                self._session.emit("agent.text", {"at": self._shown_chars, "text": whole(said)})
                self._shown_chars += len(said)
            case ThinkingDelta(text=thought):
                self._session.emit("agent.thinking", {"text": whole(thought)})
            case ToolCallStarted(call_id=call_id, name=name):
                self._session.emit("agent.call", {"id": whole(call_id), "name": whole(name)})
            case RequestSent(sent=sent):
                self._session.emit("agent.request", sent.counts())
            case Retrying(attempt=attempt, delay_s=delay_s):
                self._session.emit("agent.retry", {"attempt": attempt, "delay_s": delay_s})
            case _:
                pass  # the other events are entries, which subscribers get anyway

    async def _compact(self, window: Window) -> None:
        """Compact the session, or say why that failed: the ladder has a context that fits all the same, or says not."""
        limit = window.budget.model_context_window
        options = self._summarizing
        if limit:  # the instructions and the answer need room beside what is summarized
            options = replace(options, max_input_tokens=min(options.max_input_tokens, max(limit // 2, 1)))
        summarizer = _Watched(self._summarizer)
        try:
            report = await self._session.compact(
                summarizer, budget=window.budget, tokenizer=self._builder.tokenizer, options=options
            )
        except Exception as error:
            if not summarizer.answers_for(error):
                raise
            await self._not_compacted(error)
            return
        if report.applied:
            await self._tell(Compacted(report))

    async def _not_compacted(self, error: Exception) -> None:
        logger().warning("not_compacted", session_id=self.session_id, **failure_of(error))
        told = error
        if not isinstance(told, _NO_SUMMARY):
            told = ContextError(f"the summarizer failed, and nothing was compacted: {type(error).__name__}: {error}")
            told.__cause__ = error
        await self._tell(NotCompacted(told))


class _Watched:
    """A summarizer, and the error by which it failed last: a program's own may raise any."""

    def __init__(self, summarizer: Summarizer) -> None:
        self._summarizer = summarizer
        self._failure: Exception | None = None

    def answers_for(self, error: Exception) -> bool:
        """Tell whether an error means that there is no summary; any other is the session's own: no turn can go on in it."""
        return isinstance(error, _NO_SUMMARY) or error is self._failure

    def __call__(self, request: SummaryRequest) -> Awaitable[Summary]:
        """Make a summary."""
        try:
            answering = self._summarizer(request)
        except Exception as error:  # one that is no `async def` may raise before there is anything to wait for
            self._failure = error
            raise
        # What is no awaitable is a mistake of the program, and told of by whoever asks for the summary.
        return self._watched(answering) if isinstance(cast("object", answering), Awaitable) else answering

    async def _watched(self, answering: Awaitable[Summary]) -> Summary:
        try:
            return await answering
        except Exception as error:
            self._failure = error
            raise


def _only_masked(built: ContextBuildResult) -> bool:
    """Tell whether a context leaves out nothing but what old results said."""
    return bool(built.masked_message_count) and not built.summarized_message_count and built.needs_summary is None
