"""A summarizer with a given answer."""

from treering.events.errors import ContextOverflow
from treering.projections.building.summaries import Summary, SummaryRequest
from treering.projections.tokens import count_messages


class ScriptedSummarizer:
    """Gives one answer, or raises it, and records its requests, which can have `window` tokens."""

    def __init__(self, answer: Summary | Exception = "They talked.", window: int = 10**9) -> None:
        self.answer = answer
        self.window = window
        self.requests: list[SummaryRequest] = []

    async def __call__(self, request: SummaryRequest) -> Summary:
        """Return the answer."""
        self.requests.append(request)
        assert len(self.requests) < 500, "it is asked without end"
        if count_messages(request.messages) > self.window:
            raise ContextOverflow("too long for this model")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
