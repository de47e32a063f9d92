"""One job of an agent: a session from its first prompt to its end, with the sub-agents that it starts."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from random import Random
from typing import TypeAlias

from msgspec.structs import replace

from ...actors.agents.agent import AgentSession
from ...actors.agents.events import Turn as TakenTurn
from ...actors.agents.options import AgentOptions
from ...actors.agents.tool import Handler, Suspend, Tool, ToolOutput
from ...actors.session.session import Session
from ...events.content import plain_text
from ...events.entries import Provider, SessionInfo
from ...events.errors import ModelError
from ...events.json_values import JSON
from ...projections.building.summaries import SummaryRequest
from .model import Pace, StoryModel
from .script import Answer, Call, Script, Story, Turn, Words

Hire: TypeAlias = Callable[[str, Session], Awaitable[Session]]
"""Makes the session of a sub-agent with this name, which the agent of another session starts."""

_SYSTEM = "You work in the project $project. Read before you change, run the tests, and say what you did."
_MODELS = ("large-2", "large-2", "small-2")
_ARGUMENTS = {
    "read": ("Read a file.", ("path",)),
    "edit": ("Replace a text in a file.", ("path", "old", "new")),
    "bash": ("Run a command.", ("command",)),
    "search": ("Find lines in the project.", ("pattern",)),
    "ask_user": ("Ask the person, and wait for an answer.", ("question",)),
    "task": ("Have a sub-agent do something, and get its report.", ("agent", "prompt")),
}
_KEEP_TOKENS = 150
_PROMPTS_S = (6.0, 25.0)  # until a person has typed the next prompt,
_ANSWERS_S = (30.0, 150.0)  # has answered a question,
_NOTICES_S = (15.0, 60.0)  # or has noticed a failure


class Job:
    """A session in which a story is told, turn by turn.

    Args:
        script: All stories, for those of sub-agents.
        pace: How fast time passes.
        random: Decides everything that the story leaves open.
        session: The session, to which nothing has been appended yet.
        story: The story.
        hire: Makes the sessions of sub-agents.
    """

    def __init__(self, script: Script, pace: Pace, random: Random, session: Session, story: Story, hire: Hire) -> None:
        self._script = script
        self._pace = pace
        self._random = random
        self._seed = random.getrandbits(64)
        self._words = Words(script.choices, random)
        self._session = session
        self._story = story
        self._hire = hire
        self._calls: defaultdict[str, deque[Call]] = defaultdict(deque)
        self._waiting: deque[Call] = deque()
        self._model = StoryModel(random.choice(_MODELS), pace, random, self._words)
        self._agent = AgentSession(
            self._model,
            session=session,
            system_prompt=_SYSTEM.replace("$project", story.project or "of another agent"),
            tools=[self._tool(name) for name in _ARGUMENTS],
            options=AgentOptions(auto_compact=False, attempts_max=2, backoff_s=4.0, sleep=pace.sleep),
        )

    async def run(self, further: Iterable[Turn]) -> None:
        """Tell the story, and further turns after it, and mark the session as done.

        Raises:
            TreeringError: The session cannot be written to, such as one that somebody deleted.
        """
        provider = Provider(self._model.provider, self._model.model_id, context_window=self._model.context_window)
        await self._session.update_metadata(name=self._words.fill(self._story.title), provider=provider)
        for turn in (*self._story.turns, *further):
            await self._take(turn)
            await self._pause(_PROMPTS_S)
            await self._answer_visitor()
        await self._session.append(SessionInfo(status="done"))

    async def report(self, prompt: str) -> ToolOutput:
        """Do the work of a sub-agent, and return its last answer."""
        (turn,) = self._story.turns
        await self._session.update_metadata(name=prompt)
        done = await self._respond(prompt, turn.answers)
        await self._session.append(SessionInfo(status="done"))
        return ToolOutput(done.text)

    # -- turns

    async def _take(self, turn: Turn) -> None:
        began = self._session.leaf_id
        taken = await self._respond(self._words.fill(turn.prompt), turn.answers)
        while taken.pending:
            await self._pause(_ANSWERS_S)
            answers = {call.id: self._words.fill(self._waiting.popleft().output) for call in taken.pending}
            taken = await self._agent.resume(answers)
        if turn.label is not None and self._session.leaf_id is not None:
            await self._session.set_label(self._session.leaf_id, turn.label)
        if turn.summary is not None:
            await self._compact(self._words.fill(turn.summary))
        if turn.goes_back and began is not None:
            await self._pause(_PROMPTS_S)
            if turn.left:
                await self._session.branch_with_summary(began, self._words.fill(turn.left))
            else:
                await self._session.branch(began)

    async def _respond(self, prompt: str, answers: list[Answer]) -> TakenTurn:
        """Have the agent answer a prompt, and go on once somebody has noticed that it failed."""
        self._model.expect(answers)
        self._calls.clear()
        for call in (each for answer in answers for each in answer.calls):
            self._calls[call.tool].append(call)
        try:
            return await self._agent.respond(prompt)
        except ModelError:
            await self._pause(_NOTICES_S)
            return await self._agent.respond()

    async def _answer_visitor(self) -> None:
        """Answer what somebody else has written to the session meanwhile."""
        messages = await self._session.messages()
        if messages[-1].role == "user":
            words = plain_text(messages[-1].content)
            quoted = "\n".join(f"> {line}" for line in words.splitlines())
            self._model.expect(
                [Answer(said=[quoted, "", "This demo follows a script, so I read that and go on with it."])]
            )
            await self._agent.respond()

    async def _compact(self, summary: str) -> None:
        async def summarize(request: SummaryRequest) -> str:
            await self._pause(_PROMPTS_S)
            return summary

        await self._session.compact(summarize, keep_tokens=_KEEP_TOKENS)

    async def _pause(self, seconds: tuple[float, float]) -> None:
        await self._pace.sleep(self._random.uniform(*seconds))

    # -- tools

    def _tool(self, name: str) -> Tool:
        description, arguments = _ARGUMENTS[name]
        properties = {argument: {"type": "string"} for argument in arguments}
        parameters = {"type": "object", "properties": properties, "required": list(arguments)}
        return Tool(name, description, parameters=parameters, handler=self._handler(name))

    def _handler(self, name: str) -> Handler:
        async def handle(arguments: dict[str, JSON]) -> ToolOutput:
            call = self._calls[name].popleft()
            began = self._pace()
            await self._pace.sleep(call.seconds)
            if name == "task":
                report = await self._delegate(str(arguments["agent"]), str(arguments["prompt"]))
                return replace(report, duration_ms=self._taken_ms(began))
            if call.reason is not None:
                self._waiting.append(call)
                raise Suspend(self._words.fill(call.reason))
            output, taken_ms = self._words.fill(call.output), self._taken_ms(began)
            if call.exit_code is None:
                return ToolOutput(output, duration_ms=taken_ms)
            error = f"exit code {call.exit_code}"
            return ToolOutput(output, is_error=True, error=error, exit_code=call.exit_code, duration_ms=taken_ms)

        return handle

    def _taken_ms(self, began: datetime) -> float:
        """Return how long ago something began in the time of the demo, which runs faster at first."""
        return (self._pace() - began).total_seconds() * 1000

    async def _delegate(self, name: str, prompt: str) -> ToolOutput:
        session = await self._hire(name, self._session)
        random = Random(f"{self._seed} {name}")  # of its own, since others draw meanwhile
        story = self._script.helpers[name]
        return await Job(self._script, self._pace, random, session, story, self._hire).report(prompt)
