"""Models by name, as the command line accepts them."""

from __future__ import annotations

import pytest

from treering import Completed, InvalidInput, ModelRequest, message
from treering.models.anthropic import AnthropicModel
from treering.models.echo import EchoModel
from treering.models.naming import SERVERS, model_named
from treering.models.openai import OpenAIModel
from treering.testing.model_server import ModelServer


def test_the_first_colon_separates_the_provider_from_the_model() -> None:
    model = model_named("ollama:qwen3:8b", context_window=8192)
    assert isinstance(model, OpenAIModel)
    assert (model.provider, model.model_id, model.context_window) == ("ollama", "qwen3:8b", 8192)
    assert isinstance(model_named("anthropic:claude-sonnet-4-5"), AnthropicModel)
    assert isinstance(model_named("echo"), EchoModel)
    assert model_named("echo", context_window=100).context_window == 100
    for provider in SERVERS:
        assert model_named(f"{provider}:m").provider == provider


@pytest.mark.parametrize("name", ["", "gpt-5", "openai:", "echo:loud", "azure:gpt-5", ":m"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="ollama:<model>"):
        model_named(name)


@pytest.mark.parametrize("address", ["notaurl", "localhost:11434/v1", "ftp://localhost", "http://", "http:///v1", 5])
@pytest.mark.parametrize("name", ["openai:m", "anthropic:m"])
def test_an_invalid_address_is_refused_when_the_model_is_created(name: str, address: str) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a server: use a URL such as http://localhost"):
        model_named(name, base_url=address)


async def test_requests_go_to_the_given_address(server: ModelServer) -> None:
    for name in ("llama.cpp:m", "anthropic:m"):
        server.says("Hello")
        url = server.url if name.startswith("anthropic") else server.openai_url
        model = model_named(name, base_url=url, api_key="k", max_tokens=7)
        asked = ModelRequest(messages=(message("user", "Hi"),))
        assert isinstance([event async for event in model.generate(asked)][-1], Completed)
        assert server.requests[-1].body["max_tokens"] == 7
