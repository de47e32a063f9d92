"""The agent: a model with tools that answers in a conversation, and stores it if it is given a session.

    agent = AgentSession(model, session=session, system_prompt="You are a helpful assistant.", tools=[read_file])
    turn = await agent.respond("What is in main.py?")
    print(turn.text)

Without a session an agent is stateless and does no input or output of its own. With any object that has the three
methods of `ConversationSession`, it loads the history before a turn and saves the turn once, when it ends. With a
`Session` it stores everything as it happens, rebuilds the context before each request, and compacts automatically.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from ...events.content import ContentLike, TextPart, as_content
from ...events.entries import Message
from ...events.errors import AnswerCutOff, InvalidInput
from ...projections.building.builder import ContextBuilder
from ...projections.building.pairing import request_at
from ...projections.building.summaries import SummaryRequest
from ..session.branching import BranchReport
from ..session.reading import identity_of
from ..session.session import Session
from .events import AgentEvent, RequestSubscription, SentContext, SentRequests, Turn
from .live_turn import LiveTurn
from .model import Completed, Model, ModelRequest
from .options import DEFAULT_AGENT_OPTIONS, AgentHooks, AgentOptions, ConversationSession
from .streaming import TurnStream
from .tool import Tool
from .turn_gate import one_turn_at_a_time
from .turn_storage import BufferedTurn, Emit
from .turns import AgentSetup, TurnRun, Work
from .validation import (
    Results,
    answer_stream,
    checked_hooks,
    checked_model,
    checked_options,
    checked_results,
    checked_session,
    checked_tools,
)

Input: TypeAlias = ContentLike | Message | Sequence[Message]
"""Input to an agent: the content of a user message, or complete messages."""


class AgentSession:
    """A model with tools that is driven turn by turn and stores the conversation in a session.

    One agent serves any number of sessions at once: the session passed to a call takes precedence over the agent's own.
    Turns of one session run one after the other; for a `Session`, this includes the turns of other agents on its host.

    With a `Session`, the user's message is in the log before the model is called, each answer when it ends, and each
    tool result, with the record of its execution, when it arrives, in order of arrival. Subscribers of the session get
    the pieces of an answer as transient events ("agent.text", "agent.thinking", "agent.call", "agent.request",
    "agent.retry"), which are not written to the log. A failed attempt that produced some text stays on a side branch; a
    cancelled answer stays on the path, with the stop reason "aborted".

    Args:
        model: The model that answers.
        session: Where the conversation is stored, unless a call passes another session; with None nothing is stored.
        system_prompt: The system prompt; it is sent first in each request and never saved.
        tools: The tools that the model may call.
        hooks: The program's hooks into a turn.
        options: The window and the limits.

    Raises:
        InvalidInput: An argument is not a valid model, session or tool, or two tools have the same name.
    """

    def __init__(
        self,
        model: Model,
        *,
        session: ConversationSession | None = None,
        system_prompt: str = "",
        tools: Iterable[Tool] = (),
        hooks: AgentHooks | None = None,
        options: AgentOptions = DEFAULT_AGENT_OPTIONS,
    ) -> None:
        self._session = checked_session(session)
        options = checked_options(options)
        self._setup = AgentSetup(
            checked_model(model),
            system_prompt,
            checked_tools(tools),
            checked_hooks(hooks),
            options,
            options.builder or ContextBuilder(),
            SentRequests(),
        )

    def __repr__(self) -> str:
        model = self._setup.model
        return f"AgentSession({model.provider}/{model.model_id})"

    # -- turns

    async def respond(self, prompt: Input | None = None, *, session: ConversationSession | None = None) -> Turn:
        """Answer a prompt; without one, answer the end of the session as it stands.

        Args:
            prompt: The content of a user message, or complete messages.
            session: The session of this turn, instead of the agent's own.

        Returns:
            The turn, once all of it is stored.

        Raises:
            TurnSuspended: Calls of the last turn wait for external results.
            TurnTooLong: The model did not stop calling tools within `requests_max` requests.
            ModelError: The provider failed, also after the retries. A `Session` holds what came before.
            ContextOverflow: Not even the smallest context fits.
            AppendError: The session could not be written to.
            InvalidInput: There is nothing to answer.
        """
        return await self._respond(prompt, session)(_discard)

    def stream(self, prompt: Input | None = None, *, session: ConversationSession | None = None) -> TurnStream:
        """Answer like `respond`, and stream the turn's events: `async with agent.stream("Hello") as events`."""
        return TurnStream(self._respond(prompt, session), self._setup.options.stream_events_max)

    async def resume(self, results: Results, *, session: ConversationSession | None = None) -> Turn:
        """Resume a turn whose calls waited for external results; another process may have suspended it.

        Args:
            results: The external results by call id: anything that a tool may return, a `ToolOutput` for an error. If
                some calls still wait, the turn that is returned is suspended again.
            session: The session of the turn, instead of the agent's own.

        Raises:
            NotSuspended: No call waits, or a result names a call that does not wait; nothing was written.
            InvalidInput: The results are not keyed by call ids, or one is not something that a tool may return.
        """
        return await self._resume(results, session)(_discard)

    def stream_resume(self, results: Results, *, session: ConversationSession | None = None) -> TurnStream:
        """Resume like `resume`, and stream the turn's events while it runs."""
        return TurnStream(self._resume(results, session), self._setup.options.stream_events_max)

    # -- branches

    async def retry(self, *, session: Session | None = None) -> Turn:
        """Answer the last user message on the path again; the previous answer stays on a side branch.

        Args:
            session: The session of the turn, instead of the agent's own.

        Raises:
            InvalidInput: The path has no user message.
        """
        return await self._retry(session)(_discard)

    def stream_retry(self, *, session: Session | None = None) -> TurnStream:
        """Retry like `retry`, and stream the turn's events while it runs."""
        return TurnStream(self._retry(session), self._setup.options.stream_events_max)

    async def switch(self, entry_id: str, *, session: Session | None = None) -> BranchReport | None:
        """Continue from another entry; the `leaving` hook decides whether the branch left behind gets a summary.

        Args:
            entry_id: The entry to continue from.
            session: The session to switch, instead of the agent's own.

        Returns:
            The report of the summary; None if none was made.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        target = self._branching_session(session)
        async with self._one_at_a_time(target):
            return await self._live(target, _discard).leave(entry_id, "switch")

    # -- what was sent

    @property
    def last_request(self) -> SentContext | None:
        """The latest request for any session: the exact messages, the strategy and the counts."""
        return self._setup.requests.last

    def follow_requests(self) -> RequestSubscription:
        """Follow the requests: `async with agent.follow_requests() as requests: async for sent in requests: ...`."""
        return RequestSubscription(self._setup.requests)

    # -- how turns are run

    def _respond(self, prompt: Input | None, session: ConversationSession | None) -> Work:
        messages = _messages(prompt)

        async def work(emit: Emit) -> Turn:
            async with self._run(session, emit) as run:
                return await run.respond(messages)

        return work

    def _resume(self, results: Results, session: ConversationSession | None) -> Work:
        outputs = checked_results(results)

        async def work(emit: Emit) -> Turn:
            async with self._run(session, emit) as run:
                return await run.resume(outputs)

        return work

    def _retry(self, session: Session | None) -> Work:
        target = self._branching_session(session)

        async def work(emit: Emit) -> Turn:
            async with self._one_at_a_time(target):
                context = await target.context()
                place = request_at(context.messages)
                if place < 0:
                    raise InvalidInput("this path has no user message to answer again")
                storage = self._live(target, emit)
                await storage.leave(context.messages[place].entry_id, "retry")
                return await TurnRun(self._setup, storage, emit).respond(())

        return work

    @asynccontextmanager
    async def _run(self, session: ConversationSession | None, emit: Emit) -> AsyncGenerator[TurnRun]:
        target = checked_session(session) if session is not None else self._session
        async with self._one_at_a_time(target):
            builder = self._setup.builder
            storage = self._live(target, emit) if isinstance(target, Session) else BufferedTurn(target, builder)
            yield TurnRun(self._setup, storage, emit)

    def _live(self, session: Session, emit: Emit) -> LiveTurn:
        setup = self._setup
        return LiveTurn(session, setup, setup.options.summarizer or summarizer_of(setup.model), emit)

    def _branching_session(self, session: Session | None) -> Session:
        target = session if session is not None else self._session
        if not isinstance(target, Session):
            raise InvalidInput("only a `Session` has branches: pass one to the agent or to this call")
        return target

    @asynccontextmanager
    async def _one_at_a_time(self, session: ConversationSession | None) -> AsyncGenerator[None]:
        """Run the turns of one session one after the other."""
        if session is None:
            yield
            return
        # Other agents count too: one that ran between a call and its result would take the call for an abandoned one.
        key = identity_of(session) if isinstance(session, Session) else (id(self), session.id)
        async with one_turn_at_a_time(key, session.id):
            yield


async def _discard(event: AgentEvent) -> None:
    """Ignore the events of a turn that is not streamed."""


def _messages(prompt: Input | None) -> tuple[Message, ...]:
    """Return the input as messages.

    Raises:
        InvalidInput: The input holds nothing, or something that is neither content nor a message.
    """
    if prompt is None:
        return ()
    if isinstance(prompt, Message):
        return (prompt,)
    if (
        not isinstance(prompt, str)
        and isinstance(prompt, Sequence)
        and any(isinstance(each, Message) for each in prompt)
    ):
        if not all(isinstance(each, Message) for each in prompt):
            raise InvalidInput("the input mixes messages with content: pass either messages or content")
        return tuple(each for each in prompt if isinstance(each, Message))
    content = as_content(prompt)  # type: ignore[arg-type]  # the checks above exclude messages
    if all(isinstance(part, TextPart) and not part.text.content.strip() for part in content):
        raise InvalidInput("the input is empty: pass some content, or omit it to answer the end of the session")
    return (Message("user", content),)


class ModelSummarizer:
    """A summarizer that asks a model; made by `summarizer_of`.

    A request that the model refuses as too long is repeated with less, since `RequestTooLong` is a `ContextOverflow`.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def summarizer_id(self) -> str:
        """The name under which its summaries are cached: provider and model."""
        return f"{self._model.provider}/{self._model.model_id}"

    async def __call__(self, request: SummaryRequest) -> Message:
        """Make a summary.

        Raises:
            ModelError: The model did not answer.
        """
        question = ModelRequest(messages=request.messages, max_tokens=request.max_tokens)
        async with answer_stream(self._model, question) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completed):
                    return piece.message
        raise AnswerCutOff(f"{self.summarizer_id} ended its answer without completing it: try again")


def summarizer_of(model: Model) -> ModelSummarizer:
    """Return a summarizer that asks a model; its summaries carry the model's usage."""
    return ModelSummarizer(model)
