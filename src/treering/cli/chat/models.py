"""The models of a chat: made by name, with the address and key that belong to one provider, and who summarizes for them."""

from __future__ import annotations

import os
from typing import Self

from msgspec import Struct

from ...actors.agents.model import Model
from ...actors.agents.summarizing import summarizer_of
from ...events.content import plain_text
from ...events.previews import preview
from ...models.echo import EchoModel
from ...models.naming import model_named
from ...projections.building.summaries import Summarizer, SummaryRequest
from ...projections.tokens import ByteEstimator

ECHO = "echo"
"""The model that needs neither network nor key."""

API_KEY = "TREERING_API_KEY"
"""The environment's variable with the key for `--base-url`; a key on a command line can be seen by others."""

_BEGINNING_CHARS = 120


class Models(Struct, frozen=True):
    """Makes models by name.

    Attributes:
        name: The name of the first one.
        base_url: Where its provider serves it; another provider's models are asked where those are mostly.
        api_key: The key for that address, under the same rule.
        window: How many tokens the models of that provider take; None where that is not known.
        chosen: Whether the person named the first one; else it is the echo, for want of another.
    """

    name: str = ECHO
    base_url: str | None = None
    api_key: str | None = None
    window: int | None = None
    chosen: bool = True

    @classmethod
    def given(cls, name: str | None, base_url: str | None, window: int | None = None) -> Self:
        """Take what the command line says; the key comes from the environment."""
        api_key = os.environ.get(API_KEY) if base_url else None
        return cls(name or ECHO, base_url, api_key, window, chosen=name is not None)

    def named(self, name: str) -> Model:
        """Make a model.

        Raises:
            InvalidInput: The name names no model.
            ExtraMissing: What its client needs is not installed.
        """
        if _provider(name) != _provider(self.name):  # what was given for one provider is nothing for another
            return model_named(name)
        return model_named(name, base_url=self.base_url, api_key=self.api_key, context_window=self.window)


def summarizer_for(model: Model) -> Summarizer:
    """Return what makes summaries beside a model: the model itself; beside the echo, what needs none."""
    return told_by_beginnings if model.provider == EchoModel.provider else summarizer_of(model)


async def told_by_beginnings(request: SummaryRequest) -> str:
    """Tell of a conversation by how its latest messages begin, since an echo cannot summarize."""
    tokenizer = ByteEstimator()
    head = (
        f"{len(request.conversation)} messages were said; this is how the latest of them begin, and no model read them:"
    )
    room = request.target_tokens - tokenizer.count(head)
    lines: list[str] = []
    for each in reversed(request.conversation):
        line = f"- {each.role}: {preview(plain_text(each.content), _BEGINNING_CHARS)}"
        room -= tokenizer.count(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join([head, *reversed(lines)]) if lines else f"{len(request.conversation)} messages were said."


def _provider(name: str) -> str:
    return name.partition(":")[0]
