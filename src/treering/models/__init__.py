"""Models to give to an agent: clients of real ones, each on its provider's own library, and one that echoes.

They are models for the agent loop (`treering.agents.Model`), and summarizers through `summarizer_of`::

    from treering import AgentSession
    from treering.models import OpenAIModel

    async with OpenAIModel("llama3.2", base_url="http://localhost:11434/v1") as model:
        agent = AgentSession(model, session=session)

An extra installs a provider's library, which is loaded when a model is made. A module of this package is loaded when
one of its names is first asked for, since a program needs one of them at most.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .anthropic import AnthropicModel
    from .echo import EchoModel
    from .exact_tokens import ExactTokenizer
    from .openai import OpenAIModel

__all__ = ["AnthropicModel", "EchoModel", "ExactTokenizer", "OpenAIModel"]

_MODULES = {
    "AnthropicModel": "anthropic",
    "EchoModel": "echo",
    "ExactTokenizer": "exact_tokens",
    "OpenAIModel": "openai",
}

if not TYPE_CHECKING:  # to a type checker, a name that is not here does not exist

    def __getattr__(name: str) -> object:
        """Load the module that has the name."""
        from importlib import import_module

        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
