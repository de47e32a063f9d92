"""A repository of sessions for Strands Agents.

    from strands import Agent
    from strands.session import RepositorySessionManager
    from treering.adapters.strands import TreeringSessionRepository

    repository = TreeringSessionRepository("~/sessions")
    agent = Agent(agent_id="helper", session_manager=RepositorySessionManager("support-42", repository))
    agent("Where is my parcel?")

The conversation of each agent is a session with the key "support-42/helper", and a message one message. It needs the
extra `strands`.
"""

from .repository import TreeringSessionRepository

__all__ = ["TreeringSessionRepository"]
