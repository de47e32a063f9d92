"""The agent: a model with tools that answers in a conversation, and keeps it where it is given a session.

    agent = AgentSession(model, session=session, system_prompt="You are a helpful assistant.", tools=[read_file])
    turn = await agent.respond("What is in main.py?")
    print(turn.text)

Without a session an agent is stateless and does no input or output of its own. With any object that has the three methods
of `ConversationSession`, it loads the history before a turn and saves the turn when it ends, once. With a `Session` it
keeps everything as it happens, builds the context anew before each request, and compacts by itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

import anyio

from ...events.content import ContentLike, as_content
from ...events.entries import Message
from ...events.errors import InvalidInput
from ...projections.building.builder import ContextBuilder
from ...projections.building.pairing import is_request
from ...projections.building.summaries import Summarizer
from ..branch_summaries import BranchReport
from ..handle import place_of
from ..session import Session
from .conversation import ConversationSession
from .events import AgentEvent, Turn
from .given import (
    Results,
    checked_hooks,
    checked_model,
    checked_options,
    checked_results,
    checked_session,
    checked_tools,
)
from .hooks import AgentHooks
from .keeping import HeldTurn, Tell
from .leaving import leave
from .live import LiveTurn
from .model import Model
from .options import DEFAULT_AGENT_OPTIONS, AgentOptions
from .sent import RequestSubscription, SentContext, SentRequests
from .streaming import TurnStream
from .summarizing import summarizer_of
from .tool import Tool
from .turns import Equipment, TurnRun, Work

Input: TypeAlias = ContentLike | Message | Sequence[Message]
"""What can be said to an agent: content that a user says, or whole messages."""


class AgentSession:
    """Drives a model turn by turn, and keeps what was said.

    One agent serves any number of sessions at once: what is given to a call wins over what was given to the agent. Turns of
    one session run one after the other; of a `Session` also those of other agents of its host.

    With a `Session`, the user's message is in the log before the model is asked, each answer when it ends, each tool's
    result with the record of its run when it comes, in the order in which they come. Whoever follows the session gets the
    pieces of an answer as transient events ("agent.text", "agent.thinking", "agent.call", "agent.request",
    "agent.retry"), which are written nowhere. A failed attempt of which something was said stays on a side branch; an
    answer that is cancelled stays on the path, with the stop reason "aborted".

    Args:
        model: What answers.
        session: Where the conversation is kept, unless a call says otherwise; None keeps nothing.
        system_prompt: What the system says; it is sent first in each request and saved nowhere.
        tools: What the model may call.
        hooks: Where the program takes part.
        options: The window, and the bounds.

    Raises:
        InvalidInput: One of these is no model, session or tool, or two tools have one name.
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
        self._equipment = Equipment(
            checked_model(model),
            system_prompt,
            checked_tools(tools),
            checked_hooks(hooks),
            options,
            options.builder or ContextBuilder(),
            SentRequests(),
        )

    def __repr__(self) -> str:
        model = self._equipment.model
        return f"AgentSession({model.provider}/{model.model_id})"

    # -- turns

    async def respond(self, said: Input | None = None, *, session: ConversationSession | None = None) -> Turn:
        """Answer what is said; without anything, what the session ends with.

        Args:
            said: What the user says, or whole messages.
            session: Where this turn belongs, instead of the agent's own session.

        Returns:
            The turn, when all of it is kept.

        Raises:
            TurnSuspended: Calls of the last turn wait for something outside.
            TurnTooLong: The model calls tools for ever.
            ModelError: The provider failed, and went on failing. A `Session` holds what came before.
            ContextOverflow: Not even the smallest context fits.
            AppendError: The session could not be written to.
            InvalidInput: There is nothing to answer.
        """
        return await self._respond(said, session)(_nobody)

    def stream(self, said: Input | None = None, *, session: ConversationSession | None = None) -> TurnStream:
        """Answer like `respond`, and show the turn's events while it runs: `async with agent.stream("Hello") as events`."""
        return TurnStream(self._respond(said, session), self._equipment.options.stream_events_max)

    async def resume(self, results: Results, *, session: ConversationSession | None = None) -> Turn:
        """Go on with a turn whose calls waited for something outside, also one of another process.

        Args:
            results: What came from outside, by the ids of the calls: whatever a tool may return, a `ToolOutput` for an
                error. Where some calls go on waiting, the turn that is returned is suspended again.
            session: Where the turn belongs.

        Raises:
            NotSuspended: No call waits, or not one of these; nothing was written.
            InvalidInput: The results are not by the ids of calls, or one is nothing that a tool may return.
        """
        return await self._resume(results, session)(_nobody)

    def stream_resume(self, results: Results, *, session: ConversationSession | None = None) -> TurnStream:
        """Go on like `resume`, and show the turn's events while it runs."""
        return TurnStream(self._resume(results, session), self._equipment.options.stream_events_max)

    # -- branches

    async def retry(self, *, session: Session | None = None) -> Turn:
        """Have the last thing that a user said answered anew; the answer so far stays on a side branch.

        Raises:
            InvalidInput: No user has said anything on the path.
        """
        return await self._retry(session)(_nobody)

    def stream_retry(self, *, session: Session | None = None) -> TurnStream:
        """Answer anew like `retry`, and show the turn's events while it runs."""
        return TurnStream(self._retry(session), self._equipment.options.stream_events_max)

    async def switch(self, entry_id: str, *, session: Session | None = None) -> BranchReport | None:
        """Go on from another entry; the policy of the hooks decides whether what is left gets a summary.

        Returns:
            What the summary came to; None where none was made.

        Raises:
            EntryNotFound: The session has no such entry.
        """
        taken = self._branching(session)
        async with self._one_at_a_time(taken):
            policy = self._equipment.hooks.leaving
            return await leave(
                taken,
                entry_id,
                "switch",
                policy,
                self._summarizer,
                tokenizer=self._equipment.builder.tokenizer,
                options=self._equipment.options.summarizing,
            )

    # -- what was sent

    @property
    def last_request(self) -> SentContext | None:
        """What was sent last, for whichever session: the messages exactly as they were, by which strategy, which counts."""
        return self._equipment.requests.last

    def follow_requests(self) -> RequestSubscription:
        """Follow what is sent: `async with agent.follow_requests() as requests: async for sent in requests: ...`."""
        return RequestSubscription(self._equipment.requests)

    # -- how turns are run

    def _respond(self, said: Input | None, session: ConversationSession | None) -> Work:
        messages = _messages(said)

        async def work(tell: Tell) -> Turn:
            async with self._run(session, tell) as run:
                return await run.respond(messages)

        return work

    def _resume(self, results: Results, session: ConversationSession | None) -> Work:
        outputs = checked_results(results)

        async def work(tell: Tell) -> Turn:
            async with self._run(session, tell) as run:
                return await run.resume(outputs)

        return work

    def _retry(self, session: Session | None) -> Work:
        taken = self._branching(session)

        async def work(tell: Tell) -> Turn:
            async with self._one_at_a_time(taken):
                context = await taken.context()
                asked = next((each for each in reversed(context.messages) if is_request(each.message)), None)
                if asked is None:
                    raise InvalidInput("no user has said anything on this path: there is nothing to answer anew")
                keeper = self._live(taken, tell)
                await keeper.leave(asked.entry_id)
                return await TurnRun(self._equipment, keeper, tell).respond(())

        return work

    @asynccontextmanager
    async def _run(self, session: ConversationSession | None, tell: Tell) -> AsyncGenerator[TurnRun]:
        taken = checked_session(session) if session is not None else self._session
        async with self._one_at_a_time(taken):
            builder = self._equipment.builder
            keeper = self._live(taken, tell) if isinstance(taken, Session) else HeldTurn(taken, builder)
            yield TurnRun(self._equipment, keeper, tell)

    def _live(self, session: Session, tell: Tell) -> LiveTurn:
        options = self._equipment.options
        return LiveTurn(
            session,
            self._equipment.builder,
            self._summarizer,
            options.summarizing,
            self._equipment.hooks.leaving,
            auto_compact=options.auto_compact,
            tell=tell,
        )

    def _branching(self, session: Session | None) -> Session:
        taken = session if session is not None else self._session
        if not isinstance(taken, Session):
            raise InvalidInput("only a `Session` has branches: give the agent, or this call, one")
        return taken

    @property
    def _summarizer(self) -> Summarizer:
        return self._equipment.options.summarizer or summarizer_of(self._equipment.model)

    @asynccontextmanager
    async def _one_at_a_time(self, session: ConversationSession | None) -> AsyncGenerator[None]:
        """Keep the turns of one session apart."""
        if session is None:
            yield
            return
        above = _turns_above.get()
        # Other agents too: one that came in between a call and its result would take the call for one that was left.
        place = place_of(session) if isinstance(session, Session) else (id(self), session.id)
        gate = _gates.setdefault(place, _Gate())
        # A task that a tool left running may outlive its turn: what counts is the turn that runs now.
        if gate.turn in above:
            raise InvalidInput(
                f"a turn of session {session.id!r} cannot take another of the same session: it would wait"
            )
        if _waits_for(gate, above):
            raise InvalidInput(
                f"session {session.id!r} is in a turn that waits for the one which asks it, so that neither would ever end: "
                "ask in another session, or when this turn is over"
            )
        gate.users += 1
        turn = _Running()
        token = _turns_above.set(above | {turn})
        try:
            with _waiting(above, gate):
                await gate.lock.acquire()
            gate.turn = turn
            try:
                yield
            finally:
                gate.turn = None
                gate.lock.release()
        finally:
            _turns_above.reset(token)
            gate.users -= 1
            if not gate.users:
                del _gates[place]


class _Gate:
    """Lets one turn of a session through at a time, knows which, and counts those that stand at it."""

    __slots__ = ("lock", "turn", "users")

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.turn: _Running | None = None
        self.users = 0


class _Running:
    """A turn that runs, and the gates at which turns that its tools take wait to be let through."""

    __slots__ = ("waits",)

    def __init__(self) -> None:
        self.waits: list[_Gate] = []


_NONE: frozenset[_Running] = frozenset()
_turns_above: ContextVar[frozenset[_Running]] = ContextVar("treering_agent_turns", default=_NONE)


@contextmanager
def _waiting(above: Iterable[_Running], gate: _Gate) -> Generator[None]:
    """Note of the turns above one that it waits at a gate."""
    for each in above:
        each.waits.append(gate)
    try:
        yield
    finally:
        for each in above:
            each.waits.remove(gate)


def _waits_for(gate: _Gate, above: frozenset[_Running]) -> bool:
    """Tell whether the turn that runs behind a gate waits, by whatever other turns, for one of those above."""
    seen: set[_Running] = set()
    left = [gate]
    while left:
        turn = left.pop().turn
        if turn in above:
            return True
        if turn is not None and turn not in seen:
            seen.add(turn)
            left += turn.waits
    return False


_gates: dict[tuple[int, str], _Gate] = {}
"""The sessions in which turns run or wait at this moment."""


async def _nobody(event: AgentEvent) -> None:
    """Nobody streams the turn."""


def _messages(said: Input | None) -> tuple[Message, ...]:
    """Make messages of whatever is said.

    Raises:
        InvalidInput: Something in it is neither content nor a message.
    """
    if said is None:
        return ()
    if isinstance(said, Message):
        return (said,)
    if not isinstance(said, str) and isinstance(said, Sequence) and any(isinstance(each, Message) for each in said):
        if not all(isinstance(each, Message) for each in said):
            raise InvalidInput("what is said mixes messages with content: give the one or the other")
        return tuple(each for each in said if isinstance(each, Message))
    content = as_content(said)  # type: ignore[arg-type]  # no messages are left, as the two checks above say
    if not content:
        raise InvalidInput("nothing is said: give some content, or leave it out to have the session's end answered")
    return (Message("user", content),)
