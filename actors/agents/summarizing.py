"""Any model as a summarizer."""

from __future__ import annotations

from ...events.entries import Message
from ...events.errors import AnswerCutOff
from ...projections.building.summaries import SummaryRequest
from .given import asked
from .model import Completed, Model, ModelRequest


class ModelSummarizer:
    """Makes summaries by asking a model; `summarizer_of` makes these.

    A model that says that the request was too long is asked again with less, since `RequestTooLong` is a `ContextOverflow`.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def summarizer_id(self) -> str:
        """By what name its summaries are kept: the provider's and the model's."""
        return f"{self._model.provider}/{self._model.model_id}"

    async def __call__(self, request: SummaryRequest) -> Message:
        """Make a summary.

        Raises:
            ModelError: The model did not answer.
        """
        question = ModelRequest(messages=request.messages, max_tokens=request.max_tokens)
        async with asked(self._model, question) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completed):
                    return piece.message
        raise AnswerCutOff(f"{self.summarizer_id} ended its answer without completing it: ask again")


def summarizer_of(model: Model) -> ModelSummarizer:
    """Return a summarizer that asks a model, with what it used in the usage of its summaries."""
    return ModelSummarizer(model)
