"""Histories for pydantic-ai.

    from pydantic_ai import Agent
    from treering.adapters.pydantic_ai import load, save

    history = await load("support-42", "~/sessions")
    result = await agent.run("Where is my parcel?", message_history=history)
    await save("support-42", result.all_messages(), "~/sessions")

A request becomes one message for each that speaks in it, the system, the user and tools, and a response one message.
Going on from an earlier message makes a branch. It needs the extra `pydantic-ai`; `TreeringStepStore`, for the
capability `StepPersistence`, also needs the extra `pydantic-ai-harness`.
"""

from typing import TYPE_CHECKING

from .histories import load, save

if TYPE_CHECKING:
    from .steps import TreeringStepStore

__all__ = ["TreeringStepStore", "load", "save"]


def __getattr__(name: str) -> object:
    if name == "TreeringStepStore":  # the harness is another package
        from .steps import TreeringStepStore

        return TreeringStepStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
