"""Histories and checkpoints for Microsoft's Agent Framework.

    from agent_framework import Agent
    from treering.adapters.agent_framework import TreeringHistoryProvider

    agent = Agent(client=client, context_providers=[TreeringHistoryProvider("~/sessions")])
    await agent.run("Where is my parcel?", session=agent.create_session(session_id="support-42"))

A history is a session, which its id names as a key, and a message one message. The checkpoints of a workflow are a
session, too: each is an entry below the one that it came after. It needs the extra `agent-framework`.
"""

from .checkpoints import TreeringCheckpointStorage
from .history import TreeringHistoryProvider

__all__ = ["TreeringCheckpointStorage", "TreeringHistoryProvider"]
