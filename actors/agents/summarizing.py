"""Use any model as a summarizer."""

from __future__ import annotations

from ...events.entries import Message
from ...events.errors import AnswerCutOff
from ...projections.building.summaries import SummaryRequest
from .model import Completed, Model, ModelRequest
from .validation import answer_stream


class ModelSummarizer:
    """A summarizer that asks a model; made by `summarizer_of`.

    A request that the model refuses as too long is repeated with less, since `RequestTooLong` is a `ContextOverflow`.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def summarizer_id(self) -> str:
        """The name under which its summaries are cached: provider and model."""
        return f"{self._model.provider}/{self._model.model_id}"

    async def __call__(self, request: SummaryRequest) -> Message:
        """Make a summary.

        Raises:
            ModelError: The model did not answer.
        """
        question = ModelRequest(messages=request.messages, max_tokens=request.max_tokens)
        async with answer_stream(self._model, question) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completed):
                    return piece.message
        raise AnswerCutOff(f"{self.summarizer_id} ended its answer without completing it: try again")


def summarizer_of(model: Model) -> ModelSummarizer:
    """Return a summarizer that asks a model; its summaries carry the model's usage."""
    return ModelSummarizer(model)
