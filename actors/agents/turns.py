"""One turn: from what is said to the last answer, through as many requests and calls as that takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ...events.characters import whole
from ...events.content import ToolUse, plain_text, text
from ...events.entries import Message, Usage
from ...events.errors import (
    AnswerCutOff,
    InvalidInput,
    ModelError,
    ModelUnavailable,
    NotSuspended,
    RateLimited,
    RequestTooLong,
    TurnSuspended,
    TurnTooLong,
)
from ...events.telemetry import failure_of, logger
from ...events.wording import counted
from ...projections.building.builder import ContextBuilder, ContextBuildResult
from ...projections.building.composing import compose
from ..open_calls import OpenCall, closing
from .answers import calls_of, completed, told_apart
from .calling import GRACE_S, Finished, Waiting, carry_out
from .events import AgentEvent, MessageEnd, Recovered, RequestSent, Retrying, ToolExecutionEnd, Turn, TurnEnd
from .given import asked, checked_answer, checked_input, hooked
from .hooks import AgentHooks, TurnInput
from .keeping import Keeper, Tell
from .model import Completed, Model, ModelRequest, TextDelta, ToolSpec
from .options import AgentOptions
from .sent import SentContext, SentRequests
from .tool import Tool, ToolOutput
from .window import Window, window_of

SUSPENDED = "suspended"
"""The stop reason of a turn whose calls wait for something outside."""

PASSING = (RateLimited, ModelUnavailable, AnswerCutOff)
"""The errors of a model after which the same request may be answered."""


class Equipment(Struct, frozen=True):
    """What an agent brings into each of its turns."""

    model: Model
    system_prompt: str
    tools: Mapping[str, Tool]
    hooks: AgentHooks
    options: AgentOptions
    builder: ContextBuilder
    requests: SentRequests

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of the tools."""
        return tuple(each.spec for each in self.tools.values())


class TurnRun:
    """Runs one turn.

    Args:
        equipment: What the agent brings.
        keeper: Where the turn's messages are kept.
        tell: Tells whoever streams the turn.
    """

    def __init__(self, equipment: Equipment, keeper: Keeper, tell: Tell) -> None:
        self._with = equipment
        self._keeper = keeper
        self._listener = tell
        self._messages: list[Message] = []
        self._entry_ids: list[str] = []
        self._usage = Usage()
        self._sent: SentContext | None = None
        self._system_prompt = equipment.system_prompt
        self._summary = ""
        self._thinking_level = equipment.options.thinking_level

    # -- the ways into a turn

    async def respond(self, said: tuple[Message, ...]) -> Turn:
        """Have what is said answered, or what stands there already where nothing is said.

        Raises:
            TurnSuspended: Calls wait for something outside.
            InvalidInput: There is nothing to answer.
        """
        await self._take_up()
        pending = await self._keeper.pending()
        if pending and self._keeper.at_once:
            raise TurnSuspended(
                f"{counted(len(pending), 'call')} {'waits' if len(pending) == 1 else 'wait'} for results from outside: "
                "give them to `resume`, or close them",
                call_ids=tuple(each.id for each in pending),
            )
        begun = await self._begin(said)
        # Three methods cannot tell a turn that waits from one that was broken off: to say something else gives it up.
        await self._say([closing(each) for each in pending])
        await self._say(begun)
        if not begun and not await self._keeper.history():
            raise InvalidInput("there is nothing to answer: say something")
        return await self._generate()

    async def resume(self, results: Mapping[str, ToolOutput]) -> Turn:
        """Go on with a suspended turn.

        Raises:
            NotSuspended: No call waits, or not one of these.
        """
        await self._take_up()
        pending = await self._keeper.pending()
        unknown = sorted(results.keys() - {each.id for each in pending})
        if not pending or unknown:
            raise NotSuspended(
                f"no call {unknown[0]!r} waits for a result" if unknown else "no call waits for a result from outside"
            )
        await self._begin(())
        for each in pending:
            if each.id in results:
                call = ToolUse(each.id, each.name, each.raw_input)
                await self._keep_outcome(Finished(call, results[each.id]), each.message_id)
        left = [each for each in pending if each.id not in results]
        return await self._end(SUSPENDED, left) if left else await self._generate()

    async def _take_up(self) -> None:
        recovery = await self._keeper.take_up()
        if recovery is not None:
            await self._tell(Recovered(recovery))

    async def _begin(self, said: tuple[Message, ...]) -> tuple[Message, ...]:
        """Run the hooks before generation, and work out the window that they leave."""
        hooks = self._with.hooks.pre_generation
        if hooks:
            history = await self._keeper.history()
            turn = TurnInput(self._system_prompt, history, said)
            for hook in hooks:
                given = await hooked(hook, turn)
                turn = checked_input(given)
            if turn.history != history:
                self._keeper.replace_history(turn.history)
            self._system_prompt, said = turn.system_prompt, turn.input
        if self._thinking_level is None:
            self._thinking_level = await self._keeper.thinking_level()
        self._summary = await self._keeper.summary()
        return said

    async def _say(self, messages: Sequence[Message]) -> None:
        self._note(messages, await self._keeper.say(messages))

    # -- requests and calls

    async def _generate(self) -> Turn:
        """Ask and carry out calls until the model calls no more."""
        options = self._with.options
        equipment = self._with
        window = window_of(
            equipment.model,
            options,
            "\n\n".join(plain_text(each.content) for each in self._opening()),
            equipment.specs,
            equipment.builder.tokenizer,
        )
        for _ in range(options.requests_max):
            answer, entry_id = await self._answer(window)
            calls = calls_of(answer)
            if not calls:
                return await self._end(answer.stop_reason)
            waiting = await carry_out(
                calls,
                equipment.tools,
                partial(self._keep_outcome, message_id=entry_id),
                session_id=self._keeper.session_id,
                parallel_max=options.parallel_calls_max,
                timeout_s=options.tool_timeout_s,
            )
            if waiting:
                pending = [_open(each, entry_id) for each in waiting]
                with anyio.CancelScope(shield=True):  # or the calls would be closed as if a crash had left them
                    await self._keeper.suspend(pending)
                return await self._end(SUSPENDED, pending)
        raise TurnTooLong(
            f"the turn took {options.requests_max} requests and the model still calls tools: "
            "raise `requests_max`, or ask for less at once"
        )

    async def _answer(self, window: Window) -> tuple[Message, str | None]:
        """Get one answer, in as many attempts as the options allow, and keep it.

        Returns:
            The answer as the hooks left it, and its entry.
        """
        keeper, options = self._keeper, self._with.options
        shrunk: ContextBuildResult | None = None
        attempt = 0
        while True:
            attempt += 1
            built = shrunk or await keeper.context(window)
            request = self._request(built)
            self._sent = self._with.requests.add(keeper.session_id, request, built)
            await self._tell(RequestSent(self._sent))
            said: list[str] = []
            try:
                answer = await self._asked(request, said)
                break
            except RequestTooLong:
                if shrunk is not None:
                    raise
                # Few providers say by how much it was too long, and they count in another way: half of it is tried, once.
                shrunk = await keeper.shrunk(window.with_available(built.tokens_used // 2))
                attempt -= 1
            except ModelError as error:
                asked_s = error.retry_after_s if isinstance(error, RateLimited) else None
                delay_s = options.delay_s(attempt, asked_s) if isinstance(error, PASSING) else None
                failed_id = await keeper.failed(self._partial(said), error)
                if delay_s is None:
                    raise
                await self._tell(Retrying(error, attempt, delay_s, failed_id))
                await options.sleep(delay_s)
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(GRACE_S, shield=True):
                    await keeper.aborted(self._partial(said))
                raise
        return await self._keep_answer(answer)

    def _request(self, built: ContextBuildResult) -> ModelRequest:
        return ModelRequest(
            messages=(*self._opening(), *built.to_messages()),
            tools=self._with.specs,
            max_tokens=self._with.options.max_tokens,
            thinking_level=self._thinking_level,
        )

    def _opening(self) -> list[Message]:
        """Return what the system says before the conversation."""
        return compose(self._system_prompt, (), summary=self._summary or None)

    async def _asked(self, request: ModelRequest, said: list[str]) -> Message:
        """Ask the model once; what it says of the answer piece by piece is put into `said`."""
        model = self._with.model
        async with asked(model, request) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completed):
                    answer = told_apart(whole(checked_answer(piece.message, "the model")))
                    return replace(
                        answer, provider=answer.provider or model.provider, model=answer.model or model.model_id
                    )
                if isinstance(piece, TextDelta):
                    said.append(piece.text)
                await self._tell(piece)
        raise AnswerCutOff(f"{model.provider}/{model.model_id} ended its answer without completing it: ask again")

    def _partial(self, said: Sequence[str]) -> Message:
        """Return what had come of an answer."""
        model, told = self._with.model, whole("".join(said))
        return Message(
            "assistant", (text(told),) if told else (), provider=model.provider, model=model.model_id, usage=None
        )

    # -- keeping what was said

    async def _keep_answer(self, answer: Message) -> tuple[Message, str | None]:
        if answer.usage is not None:
            self._usage += answer.usage
        try:
            kept = await self._hooked(answer)
        except BaseException:  # a cancellation too
            await self._keep_whole(replace(answer, stop_reason="aborted"))
            raise
        try:
            entry_id = await self._keep_whole(kept)
        except InvalidInput:  # of what a hook made of it, such as an image for which a dialect has no place
            await self._keep_whole(replace(answer, stop_reason="aborted"))
            raise
        self._note([kept], [] if entry_id is None else [entry_id])
        await self._tell(MessageEnd(kept, entry_id))
        return kept, entry_id

    async def _keep_whole(self, answer: Message) -> str | None:
        """Keep an answer, also where the turn is cancelled meanwhile: it is whole, and paid for."""
        with anyio.CancelScope(shield=True):
            return await self._keeper.answer(answer)
        return None  # never: nothing cancels the shield

    async def _keep_outcome(self, finished: Finished, message_id: str | None) -> None:
        """Keep what a tool answered, or say that it failed where the session has no way to hold that."""
        try:
            await self._keep_result(finished, message_id)
        except InvalidInput as error:  # such as an image by its URL, for which a dialect has no place
            call = finished.call
            logger().warning(
                "tool_failed",
                session_id=self._keeper.session_id,
                call_id=call.id,
                tool=call.name,
                **failure_of(error),
            )
            await self._keep_result(replace(finished, output=ToolOutput.failed(str(error))), message_id)

    async def _keep_result(self, finished: Finished, message_id: str | None) -> None:
        entry_id: str | None = None
        with anyio.CancelScope(shield=True):  # what the tool did is done: the log must not say that nobody knows
            entry_id = await self._keeper.result(finished, message_id)
        message = finished.message()
        self._note([message], [] if entry_id is None else [entry_id])
        call, output = finished.call, finished.output
        await self._tell(ToolExecutionEnd(call.id, call.name, message, output.is_error, finished.duration_ms, entry_id))

    def _note(self, messages: Sequence[Message], entry_ids: Sequence[str]) -> None:
        self._messages += messages
        self._entry_ids += entry_ids

    async def _hooked(self, answer: Message) -> Message:
        """Return what the hooks after generation make of an answer."""
        kept = answer
        for hook in self._with.hooks.post_generation:
            given = await hooked(hook, kept)
            kept = completed(checked_answer(given, "a hook after generation"), answer)
        if [call.id for call in calls_of(kept)] != [call.id for call in calls_of(answer)]:
            raise InvalidInput(
                "a hook after generation changed which calls an answer makes: it may change their arguments, and leaves "
                "their ids in their order, since results refer to them"
            )
        return whole(kept)

    async def _end(self, stop_reason: str | None, pending: Sequence[OpenCall] = ()) -> Turn:
        """Save what is not saved yet, and return what the turn came to."""
        messages = self._messages
        await self._keeper.end(messages, self._usage)
        turn = Turn(tuple(messages), self._usage, stop_reason, tuple(pending), self._sent, tuple(self._entry_ids))
        await self._tell(TurnEnd(turn))
        return turn

    async def _tell(self, event: AgentEvent) -> None:
        self._keeper.show(event)
        await self._listener(event)


def _open(waiting: Waiting, message_id: str | None) -> OpenCall:
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


Work: TypeAlias = Callable[[Tell], Awaitable[Turn]]
"""A turn that is still to be run."""
