"""The agent loop: a model, its tools, the turns of a conversation, and the events of a turn.

An `AgentSession` drives a `Model` turn by turn and, given a session, stores everything as it happens::

    from treering import AgentSession, tool
    from treering.models import EchoModel


    @tool
    async def weather(city: str) -> str:
        "Return the weather in a city."
        return f"sunny in {city}"


    agent = AgentSession(EchoModel(), session=session, tools=[weather])
    turn = await agent.respond("How is the weather in Oslo?")

A model of your own is any object that is a `Model`; `treering.models` has clients of real ones.
"""

from .actors.agents.agent import AgentSession
from .actors.agents.events import (
    AgentEvent,
    Compacted,
    MessageEnd,
    NotCompacted,
    Recovered,
    RequestSent,
    Retrying,
    ToolExecutionEnd,
    Turn,
    TurnEnd,
)
from .actors.agents.model import (
    Completed,
    Model,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    ToolSpec,
    malformed_arguments,
)
from .actors.agents.options import AgentHooks, AgentOptions, ConversationSession, LeavePolicy, LeftWork, TurnInput
from .actors.agents.streaming import TurnStream
from .actors.agents.tool import Suspend, Tool, ToolOutput, tool

__all__ = [
    "AgentEvent",
    "AgentHooks",
    "AgentOptions",
    "AgentSession",
    "Compacted",
    "Completed",
    "ConversationSession",
    "LeavePolicy",
    "LeftWork",
    "MessageEnd",
    "Model",
    "ModelEvent",
    "ModelRequest",
    "NotCompacted",
    "Recovered",
    "RequestSent",
    "Retrying",
    "Suspend",
    "TextDelta",
    "ThinkingDelta",
    "Tool",
    "ToolCallStarted",
    "ToolExecutionEnd",
    "ToolOutput",
    "ToolSpec",
    "Turn",
    "TurnEnd",
    "TurnInput",
    "TurnStream",
    "malformed_arguments",
    "tool",
]
