"""One turn: from the input to the last answer, through as many requests and tool calls as needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ...events.content import ToolUse, plain_text, text
from ...events.entries import Message, Usage
from ...events.errors import (
    AnswerCutOff,
    InvalidInput,
    ModelUnavailable,
    NotSuspended,
    RateLimited,
    RequestTooLong,
    TurnSuspended,
    TurnTooLong,
)
from ...events.telemetry import failure_of, logger
from ...events.texts import counted, whole
from ...projections.building.builder import ContextBuilder, ContextBuildResult, compose
from ..session.open_calls import OpenCall, closing
from .calling import GRACE_S, Finished, Waiting, carry_out
from .events import (
    AgentEvent,
    MessageEnd,
    Recovered,
    RequestSent,
    Retrying,
    SentContext,
    SentRequests,
    ToolExecutionEnd,
    Turn,
    TurnEnd,
)
from .model import Completed, Model, ModelRequest, TextDelta, ToolSpec
from .options import AgentHooks, AgentOptions, TurnInput
from .tool import Tool, ToolOutput
from .turn_storage import Emit, TurnStorage, Window, window_of
from .validation import (
    answer_stream,
    calls_of,
    checked_answer,
    checked_input,
    run_hook,
    with_missing_fields,
    with_unique_call_ids,
)

SUSPENDED = "suspended"
"""The stop reason of a turn whose calls wait for external results."""

TRANSIENT_ERRORS = (RateLimited, ModelUnavailable, AnswerCutOff)
"""The model errors after which retrying the same request may succeed."""


class AgentSetup(Struct, frozen=True):
    """The model, tools, hooks and options that all turns of an agent share."""

    model: Model
    system_prompt: str
    tools: Mapping[str, Tool]
    hooks: AgentHooks
    options: AgentOptions
    builder: ContextBuilder
    requests: SentRequests

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The descriptions of the tools for the model."""
        return tuple(each.spec for each in self.tools.values())


class TurnRun:
    """Runs one turn.

    Args:
        setup: The model, tools, hooks and options of the agent.
        storage: Stores the messages of the turn.
        emit: Sends events to the reader of the turn's stream.
    """

    def __init__(self, setup: AgentSetup, storage: TurnStorage, emit: Emit) -> None:
        self._setup = setup
        self._storage = storage
        self._emit_to_stream = emit
        self._messages: list[Message] = []
        self._entry_ids: list[str] = []
        self._usage = Usage()
        self._sent: SentContext | None = None
        self._system_prompt = setup.system_prompt
        self._summary = ""
        self._thinking_level = setup.options.thinking_level

    # -- entry points

    async def respond(self, messages: tuple[Message, ...]) -> Turn:
        """Answer the messages, or the end of the conversation if there are none.

        Raises:
            TurnSuspended: Calls wait for external results.
            InvalidInput: There is nothing to answer.
        """
        await self._prepare()
        pending = await self._storage.pending()
        if pending and self._storage.saves_immediately:
            raise TurnSuspended(
                f"{counted(len(pending), 'call')} {'waits' if len(pending) == 1 else 'wait'} for external results: "
                "pass them to `resume`, or close the calls",
                call_ids=tuple(each.id for each in pending),
            )
        turn_input = await self._begin(messages)
        # A session with three methods cannot tell a suspended turn from an interrupted one, so new input abandons it.
        await self._append([closing(each) for each in pending])
        await self._append(turn_input)
        if not turn_input and not await self._storage.history():
            raise InvalidInput("there is nothing to answer: the session is empty and no input was given")
        return await self._generate()

    async def resume(self, results: Mapping[str, ToolOutput]) -> Turn:
        """Resume a suspended turn.

        Raises:
            NotSuspended: No call waits, or a result names a call that does not wait.
        """
        await self._prepare()
        pending = await self._storage.pending()
        unknown = sorted(results.keys() - {each.id for each in pending})
        if not pending or unknown:
            raise NotSuspended(
                f"no call {unknown[0]!r} waits for a result" if unknown else "no call waits for an external result"
            )
        await self._begin(())
        for each in pending:
            if each.id in results:
                call = ToolUse(each.id, each.name, each.raw_input)
                await self._store_result(Finished(call, results[each.id]), each.message_id)
        remaining = [each for each in pending if each.id not in results]
        return await self._end(SUSPENDED, remaining) if remaining else await self._generate()

    async def _prepare(self) -> None:
        recovery = await self._storage.prepare()
        if recovery is not None:
            await self._emit(Recovered(recovery))

    async def _begin(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Run the pre-generation hooks, load the thinking level and the summary, and return the input of the turn."""
        hooks = self._setup.hooks.pre_generation
        if hooks:
            history = await self._storage.history()
            turn = TurnInput(self._system_prompt, history, messages)
            for hook in hooks:
                replaced = await run_hook(hook, turn)
                turn = checked_input(replaced)
            if turn.history != history:
                self._storage.replace_history(turn.history)
            self._system_prompt, messages = turn.system_prompt, turn.input
        if self._thinking_level is None:
            self._thinking_level = await self._storage.thinking_level()
        self._summary = await self._storage.summary()
        return messages

    async def _append(self, messages: Sequence[Message]) -> None:
        self._note_appended(messages, await self._storage.append_messages(messages))

    # -- requests and calls

    async def _generate(self) -> Turn:
        """Send requests and execute calls until an answer makes no calls."""
        setup = self._setup
        options = setup.options
        system_prompt = "\n\n".join(plain_text(each.content) for each in self._opening())
        window = window_of(setup.model, options, system_prompt, setup.specs, setup.builder.tokenizer)
        for _ in range(options.requests_max):
            answer, entry_id = await self._answer(window)
            calls = calls_of(answer)
            if not calls:
                return await self._end(answer.stop_reason)
            keep = partial(self._store_result, message_id=entry_id)
            waiting = await carry_out(calls, setup.tools, options, keep, session_id=self._storage.session_id)
            if waiting:
                pending = [_open_call(each, entry_id) for each in waiting]
                with anyio.CancelScope(shield=True):  # without this record, recovery would close the calls
                    await self._storage.suspend(pending)
                return await self._end(SUSPENDED, pending)
        raise TurnTooLong(
            f"the turn took {options.requests_max} requests and the model still calls tools: "
            "raise `requests_max`, or split the task"
        )

    async def _answer(self, window: Window) -> tuple[Message, str | None]:
        """Get one answer, in as many attempts as the options allow, and store it.

        Returns:
            The answer as returned by the hooks, and its entry id.
        """
        storage, options = self._storage, self._setup.options
        shrunk: ContextBuildResult | None = None
        attempt = 1
        while True:
            built = shrunk or await storage.context(window)
            request = self._request(built)
            self._sent = self._setup.requests.add(storage.session_id, request, built)
            await self._emit(RequestSent(self._sent))
            text_pieces: list[str] = []
            try:
                answer = await self._request_answer(request, text_pieces)
                break
            except RequestTooLong:
                if shrunk is not None:
                    raise
                # Few providers say by how much the request was too long, and they count differently: try half, once.
                shrunk = await storage.shrunk_context(window.with_available(built.tokens_used // 2))
            except Exception as error:
                transient = error if isinstance(error, TRANSIENT_ERRORS) else None
                delay_s = None if transient is None else options.delay_s(attempt, transient.retry_after_s)
                partial = self._partial_answer(text_pieces)
                failed_id = None
                if partial.content or delay_s is None:  # a turn that fails says so in the log, even without any text
                    failed_id = await storage.keep_failed_attempt(partial, error)
                if transient is None or delay_s is None:
                    raise
                await self._emit(Retrying(transient, attempt, delay_s, failed_id))
                await options.sleep(delay_s)
                attempt += 1
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(GRACE_S, shield=True):
                    await storage.keep_aborted(self._partial_answer(text_pieces))
                raise
        return await self._store_answer(answer)

    def _request(self, built: ContextBuildResult) -> ModelRequest:
        return ModelRequest(
            messages=(*self._opening(), *built.to_messages()),
            tools=self._setup.specs,
            max_tokens=self._setup.options.max_tokens,
            thinking_level=self._thinking_level,
        )

    def _opening(self) -> list[Message]:
        """Return the system messages that precede the conversation."""
        return compose(self._system_prompt, (), summary=self._summary or None)

    async def _request_answer(self, request: ModelRequest, text_pieces: list[str]) -> Message:
        """Send the request to the model once, adding the pieces of text to `text_pieces` as they arrive."""
        model = self._setup.model
        async with answer_stream(model, request) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completed):
                    answer = with_unique_call_ids(whole(checked_answer(piece.message, "the model")))
                    return replace(
                        answer, provider=answer.provider or model.provider, model=answer.model or model.model_id
                    )
                if isinstance(piece, TextDelta):
                    text_pieces.append(piece.text)
                await self._emit(piece)
        raise AnswerCutOff(f"{model.provider}/{model.model_id} ended its answer without completing it: try again")

    def _partial_answer(self, text_pieces: Sequence[str]) -> Message:
        """Return the part of an answer that arrived before it failed or was cancelled."""
        model, partial_text = self._setup.model, whole("".join(text_pieces))
        content = (text(partial_text),) if partial_text else ()
        return Message("assistant", content, provider=model.provider, model=model.model_id)

    # -- storing the messages

    async def _store_answer(self, answer: Message) -> tuple[Message, str | None]:
        if answer.usage is not None:
            self._usage += answer.usage
        try:
            final = await self._run_post_hooks(answer)
        except BaseException:  # a cancellation too
            await self._append_answer(replace(answer, stop_reason="aborted"))
            raise
        try:
            entry_id = await self._append_answer(final)
        except InvalidInput:  # a hook added something that the dialect cannot express, such as an image
            await self._append_answer(replace(answer, stop_reason="aborted"))
            raise
        self._note_appended([final], [] if entry_id is None else [entry_id])
        await self._emit(MessageEnd(final, entry_id))
        return final, entry_id

    async def _append_answer(self, answer: Message) -> str | None:
        """Append an answer even if the turn is cancelled meanwhile: it is complete, and paid for."""
        with anyio.CancelScope(shield=True):
            return await self._storage.append_answer(answer)
        return None  # unreachable: nothing cancels the shield

    async def _store_result(self, finished: Finished, message_id: str | None) -> None:
        """Store the result of a call, or store a failure in its place if the session cannot express the result."""
        try:
            await self._append_result(finished, message_id)
        except InvalidInput as error:  # such as an image URL, which not every dialect can express
            call = finished.call
            logger().warning(
                "tool_failed", session_id=self._storage.session_id, call_id=call.id, tool=call.name, **failure_of(error)
            )
            await self._append_result(replace(finished, output=ToolOutput.failed(str(error))), message_id)

    async def _append_result(self, finished: Finished, message_id: str | None) -> None:
        entry_id: str | None = None
        with anyio.CancelScope(shield=True):  # the tool has run: the log must not leave its outcome unknown
            entry_id = await self._storage.append_result(finished, message_id)
        message = finished.message()
        self._note_appended([message], [] if entry_id is None else [entry_id])
        call, output = finished.call, finished.output
        await self._emit(ToolExecutionEnd(call.id, call.name, message, output.is_error, finished.duration_ms, entry_id))

    def _note_appended(self, messages: Sequence[Message], entry_ids: Sequence[str]) -> None:
        self._messages += messages
        self._entry_ids += entry_ids

    async def _run_post_hooks(self, answer: Message) -> Message:
        """Return the answer as transformed by the post-generation hooks."""
        final = answer
        for hook in self._setup.hooks.post_generation:
            transformed = await run_hook(hook, final)
            final = with_missing_fields(checked_answer(transformed, "a post-generation hook"), answer)
        if [call.id for call in calls_of(final)] != [call.id for call in calls_of(answer)]:
            raise InvalidInput(
                "a post-generation hook changed which calls an answer makes: it may change their arguments, but must "
                "keep their ids and their order, since results refer to them"
            )
        return whole(final)

    async def _end(self, stop_reason: str | None, pending: Sequence[OpenCall] = ()) -> Turn:
        """Save what is not saved yet, and return the finished turn."""
        messages = self._messages
        await self._storage.save(messages, self._usage)
        turn = Turn(tuple(messages), self._usage, stop_reason, tuple(pending), self._sent, tuple(self._entry_ids))
        await self._emit(TurnEnd(turn))
        return turn

    async def _emit(self, event: AgentEvent) -> None:
        self._storage.publish(event)
        await self._emit_to_stream(event)


def _open_call(waiting: Waiting, message_id: str | None) -> OpenCall:
    call, suspend = waiting.call, waiting.suspend
    return OpenCall(
        call.id,
        call.name,
        call.raw_input,
        reason=suspend.reason,
        raw_data=suspend.raw_data,
        suspended=True,
        message_id=message_id or "",
    )


Work: TypeAlias = Callable[[Emit], Awaitable[Turn]]
"""A turn that has not started: called with the event sink, it runs and returns the turn."""
