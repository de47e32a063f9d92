"""Sessions for OpenAI's Agents SDK.

    from agents import Agent, Runner
    from treering.adapters.openai_agents import TreeringSession

    session = TreeringSession("support-42", "~/sessions")
    await Runner.run(agent, "Where is my parcel?", session=session)

An item is one message; see `treering.events.providers.responses`. What the SDK takes back (`pop_item`, when a turn
failed) and clears stays in the tree, on a branch of its own. It needs the extra `openai-agents`.
"""

from .branching import TreeringAdvancedSession
from .session import TreeringSession

__all__ = ["TreeringAdvancedSession", "TreeringSession"]
