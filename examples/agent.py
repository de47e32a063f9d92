"""An agent in memory, with a tool, and one agent for many users: `python examples/agent.py`.

The model follows a script, so that the example runs anywhere; replacing it by a real one takes one line.
"""

from __future__ import annotations

import anyio

from treering import AgentSession, SessionHost, tool, tool_use
from treering.agents import MessageEnd, TextDelta, ToolExecutionEnd
from treering.models import EchoModel
from treering.testing.models import ScriptedModel, answer


@tool
async def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}"


async def in_memory(host: SessionHost) -> None:
    """Run a conversation of two turns, and print it as it happens."""
    model = ScriptedModel(
        ["Hello! How can I help?", answer(tool_use("call-1", "weather", {"city": "Lisbon"})), "It is sunny."]
    )
    session = await host.create("my-session")
    agent = AgentSession(model, session=session, system_prompt="You are a helpful assistant.", tools=[weather])

    turn = await agent.respond("Hello")
    print(turn.text)

    async with agent.stream("How is the weather in Lisbon?") as events:
        async for event in events:
            match event:
                case TextDelta(text=piece):
                    print(piece, end="")
                case ToolExecutionEnd(name=name):
                    print(f"[{name} was called]")
                case MessageEnd(message=message) if not message.has_calls:
                    print()
                case _:
                    pass
    print(f"{len(await session.messages())} messages, {events.turn.usage.total_tokens} tokens in the last turn")


async def many_users(host: SessionHost) -> None:
    """Serve several users with one agent: the session of a call takes precedence over the agent's own."""
    agent = AgentSession(EchoModel())

    async def serve(user: str) -> None:
        session = await host.create(user)
        for prompt in ("Hello", f"I am {user}"):
            await agent.respond(prompt, session=session)

    async with anyio.create_task_group() as tasks:
        for user in ("ada", "grace"):
            tasks.start_soon(serve, user)
    for user in ("ada", "grace"):
        session = await host.open(user)
        print(f"{user}: {len(await session.messages())} messages")
    print((await agent.respond("Who am I?")).text)  # no session: it remembers nothing


async def main() -> None:
    """Run both."""
    async with SessionHost() as host:
        await in_memory(host)
        await many_users(host)


if __name__ == "__main__":
    anyio.run(main)
