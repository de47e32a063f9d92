"""An agent that remembers from one run to the next: `python examples/agent_on_disk.py [DIRECTORY]`.

Run it twice: the second run continues where the first one stopped.
"""

from __future__ import annotations

import sys

import anyio

from treering import AgentSession, SessionHost
from treering.models import EchoModel


async def main(root: str) -> None:
    """Run one turn in the session that is stored under `root`."""
    async with SessionHost(root) as host:
        session = await host.open("my-session")
        before = len(await session.messages())
        agent = AgentSession(EchoModel(), session=session)
        turn = await agent.respond("Tell me more" if before else "Hello")
        print(f"{before} messages from before; {turn.text}")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "~/.myapp/sessions")
