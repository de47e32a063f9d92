"""The models of a chat, made by name with the address and key of one provider, and their summarizers."""

from __future__ import annotations

import os
from typing import Self

from msgspec import Struct

from ...actors.agents.agent import summarizer_of
from ...actors.agents.model import Model
from ...events.content import plain_text
from ...events.texts import preview
from ...models.echo import EchoModel
from ...models.naming import model_named
from ...projections.building.summaries import Summarizer, SummaryRequest
from ...projections.tokens import ByteEstimator

ECHO = "echo"
"""The model that needs neither network nor key."""

API_KEY = "TREERING_API_KEY"
"""The environment variable with the key for `--base-url`; other users can see keys on a command line."""

_BEGINNING_CHARS = 120


class Models(Struct, frozen=True):
    """A factory of models by name.

    Attributes:
        name: The name of the first model.
        base_url: Where its provider serves models; other providers' models use their defaults.
        api_key: The key for that address, only for the same provider.
        window: The window of that provider's models, in tokens; None if unknown.
        chosen: Whether the user named the first model; otherwise it is the echo by default.
    """

    name: str = ECHO
    base_url: str | None = None
    api_key: str | None = None
    window: int | None = None
    chosen: bool = True

    @classmethod
    def from_options(cls, name: str | None, base_url: str | None, window: int | None = None) -> Self:
        """Make a factory from the options of the command line, with the key from the environment."""
        api_key = os.environ.get(API_KEY) if base_url else None
        return cls(name or ECHO, base_url, api_key, window, chosen=name is not None)

    def named(self, name: str) -> Model:
        """Make a model.

        Raises:
            InvalidInput: There is no such model.
            ExtraMissing: The library of its client is not installed.
        """
        if _provider(name) != _provider(self.name):  # address, key and window belong to one provider
            return model_named(name)
        return model_named(name, base_url=self.base_url, api_key=self.api_key, context_window=self.window)


def summarizer_for(model: Model) -> Summarizer:
    """Return the summarizer for a model: the model itself, or, for the echo, one that needs no model."""
    return _summary_of_beginnings if model.provider == EchoModel.provider else summarizer_of(model)


async def _summary_of_beginnings(request: SummaryRequest) -> str:
    """Summarize a conversation by the beginnings of its latest messages, since an echo cannot summarize."""
    tokenizer = ByteEstimator()
    head = f"The conversation has {len(request.conversation)} messages. No model has summarized them; the latest begin:"
    room = request.target_tokens - tokenizer.count(head)
    lines: list[str] = []
    for each in reversed(request.conversation):
        line = f"- {each.role}: {preview(plain_text(each.content), _BEGINNING_CHARS)}"
        room -= tokenizer.count(line) + 1
        if room < 0:
            break
        lines.append(line)
    if not lines:
        return f"The conversation has {len(request.conversation)} messages."
    return "\n".join([head, *reversed(lines)])


def _provider(name: str) -> str:
    return name.partition(":")[0]
