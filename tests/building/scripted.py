"""A summarizer that answers as it is told to."""

from __future__ import annotations

from treering.events.errors import ContextOverflow
from treering.projections.building.summaries import Summary, SummaryRequest
from treering.projections.tokens import count_messages


class Scripted:
    """Gives one answer, and remembers what it was asked.

    Args:
        answer: What it says, or fails with.
        window: How many tokens it takes.
    """

    def __init__(self, answer: Summary | Exception = "They talked.", window: int = 10**9) -> None:
        self.answer = answer
        self.window = window
        self.asked: list[SummaryRequest] = []

    async def __call__(self, request: SummaryRequest) -> Summary:
        """Answer, as the summarizers of programs do."""
        self.asked.append(request)
        if count_messages(request.messages) > self.window:
            raise ContextOverflow("too long for this model")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
