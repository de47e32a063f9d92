"""What the tests of model clients ask, and how they receive the answer."""

from treering import Message, message
from treering.agents import Completed, Model, ModelEvent, ModelRequest

REQUEST = ModelRequest(messages=(message("user", "Hello"),))


async def streamed(model: Model, request: ModelRequest = REQUEST) -> tuple[list[ModelEvent], Message]:
    """Return the events of an answer, and the answer that completes them."""
    *events, last = [event async for event in model.generate(request)]
    assert isinstance(last, Completed)
    return events, last.message


async def answer(model: Model, request: ModelRequest = REQUEST) -> Message:
    """Return an answer."""
    return (await streamed(model, request))[1]
