"""What the tests of the clients share: the server, and a model of each protocol that asks it."""

# ruff: noqa: ANN401 -- options are those of two classes
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from treering.models.anthropic import AnthropicModel
from treering.models.openai import OpenAIModel
from treering.testing.model_server import ModelServer

Made: TypeAlias = Callable[..., "OpenAIModel | AnthropicModel"]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to the server itself, whatever proxy the environment names."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=["openai", "anthropic"])
def model(request: pytest.FixtureRequest, server: ModelServer) -> Made:
    """Make a model that asks the server, by one protocol and by the other."""

    def make(**options: Any) -> OpenAIModel | AnthropicModel:
        if request.param == "openai":
            return OpenAIModel("m", base_url=server.openai_url, api_key="k", **options)
        return AnthropicModel("m", base_url=server.url, api_key="k", **options)

    return make
