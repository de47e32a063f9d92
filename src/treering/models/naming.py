"""Models by name, as on a command line: the provider, a colon, and the model's name there.

openai:gpt-5    anthropic:claude-sonnet-4-5    ollama:qwen3:8b    lmstudio:qwen/qwen3-8b    echo
"""

from __future__ import annotations

from ..actors.agents.model import Model
from ..events.errors import InvalidInput

SERVERS = {
    "openai": None,
    "ollama": "http://localhost:11434/v1",
    "llama.cpp": "http://localhost:8080/v1",
    "lmstudio": "http://localhost:1234/v1",
}
"""Providers with OpenAI's API, and their default addresses; None for the default of the library."""


def model_named(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    context_window: int | None = None,
    max_tokens: int | None = None,
    timeout_s: float = 600.0,
) -> Model:
    """Make a model from a name such as `ollama:qwen3:8b`; `echo` needs neither network nor key.

    Args:
        name: The provider and the model's name there, separated by the first colon.
        base_url: Where it is served; by default the provider's usual address.
        api_key: The key; by default, and only without a `base_url`, the environment's key for OpenAI or Anthropic.
        context_window: How many tokens request and answer may take together, if known.
        max_tokens: The limit on an answer; by default the client's.
        timeout_s: How long to wait for the next piece of an answer, in seconds.

    Raises:
        InvalidInput: There is no such model, or the address is not a URL.
        ExtraMissing: The library of its client is not installed.
    """
    provider, _, model_id = name.partition(":")
    if provider == "echo" and not model_id:
        from .echo import WINDOW, EchoModel

        return EchoModel(context_window or WINDOW)
    if provider not in {*SERVERS, "anthropic"} or not model_id:
        known = ", ".join(f"{each}:<model>" for each in ("anthropic", *SERVERS))
        raise InvalidInput(f"unknown model {name!r}: use echo, or one of {known}")
    if provider == "anthropic":
        from .anthropic import MAX_TOKENS, AnthropicModel

        return AnthropicModel(
            model_id,
            base_url=base_url or None,
            api_key=api_key,
            context_window=context_window,
            max_tokens=max_tokens or MAX_TOKENS,
            timeout_s=timeout_s,
        )
    from .openai import OpenAIModel

    return OpenAIModel(
        model_id,
        base_url=base_url or SERVERS[provider],
        api_key=api_key,
        provider=provider,
        context_window=context_window,
        max_tokens=max_tokens,
        timeout_s=timeout_s,
    )
