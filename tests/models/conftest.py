"""Fixtures for the tests of model clients: a model server, and a client of each protocol that sends requests to it."""

# ruff: noqa: ANN401  # the options of two classes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from treering.models.anthropic import AnthropicModel
from treering.models.openai import OpenAIModel
from treering.testing.model_server import ModelServer

Maker: TypeAlias = Callable[..., "OpenAIModel | AnthropicModel"]


@pytest.fixture(autouse=True)
def plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect to the server directly, even if the environment names a proxy; read no authorities, which takes long."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(Path(__file__).with_name("nobody.pem")))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=["openai", "anthropic"])
def model(request: pytest.FixtureRequest, server: ModelServer) -> Maker:
    """Make clients of the server, of one protocol and of the other."""

    def make(**options: Any) -> OpenAIModel | AnthropicModel:
        if request.param == "openai":
            return OpenAIModel("m", base_url=server.openai_url, api_key="k", **options)
        return AnthropicModel("m", base_url=server.url, api_key="k", **options)

    return make
