"""A program whose agent is killed in the middle of a turn: it forks a worker for each line that it reads.

A line is a folder, a dialect and a point. The worker's agent runs until that point, prints it, and waits to be killed:

    asking     the model is asked, and has streamed a part of its answer
    answered   an answer with two calls has just ended
    between    one of the two calls has its result, the other one runs
    waiting    a call is suspended, and the turn has ended
    torn       like `between`, with half a line at the end of the file
"""

import os
import sys
from typing import Any

import anyio

from treering import AgentSession, SessionHost, Tool, tool_use
from treering.agents import MessageEnd, Suspend, ToolExecutionEnd
from treering.testing.models import ScriptedModel, Stalled, answer


def report(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())


async def wait_to_be_killed(point: str) -> None:
    report("at", point)
    await anyio.sleep_forever()


async def run_agent(root: str, dialect: Any, point: str) -> None:  # noqa: ANN401  # a word from the line
    async def run(arguments: dict[str, Any]) -> str:
        if arguments["n"] == 2 and point == "waiting":
            raise Suspend("needs a person's word", {"ask": "Ada"})
        if arguments["n"] == 2:
            await anyio.sleep_forever()
        return "one"

    calls = answer([tool_use("c1", "run", {"n": 1}), tool_use("c2", "run", {"n": 2})])
    stalled = Stalled("I am about", anyio.Event())
    model = ScriptedModel([stalled if point == "asking" else calls])
    async with SessionHost(root, dialect=dialect) as host, anyio.create_task_group() as group:
        session = await host.create("main")
        agent = AgentSession(
            model, session=session, tools=[Tool("run", "Run.", parameters={"type": "object"}, handler=run)]
        )
        if point == "asking":
            group.start_soon(agent.respond, "Hello")
            await stalled.reached.wait()
            await wait_to_be_killed(point)
        async with agent.stream("Hello") as events:
            async for event in events:
                if isinstance(event, MessageEnd) and point == "answered":
                    report("id", event.entry_id or "")
                    await wait_to_be_killed(point)
                if isinstance(event, ToolExecutionEnd) and point in ("between", "torn"):
                    if point == "torn":
                        with open(session.file_path or "", "ab") as file:  # noqa: ASYNC230  # a write that was cut off
                            file.write(b'{"type":"message","id":"half of')
                    await wait_to_be_killed(point)
        await wait_to_be_killed(point)


def main() -> None:
    for line in sys.stdin:
        root, dialect, point = line.split()
        pid = os.fork()
        if not pid:
            report("pid", str(os.getpid()))
            anyio.run(run_agent, root, dialect, point)
        os.waitpid(pid, 0)
        report("gone")


if __name__ == "__main__":
    main()
