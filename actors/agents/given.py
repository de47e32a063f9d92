"""What a program gives to an agent, looked at before anything begins: a wrong thing is refused where it was given."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import TypeAlias, TypeVar, cast

from ...events.entries import Message
from ...events.errors import InvalidInput
from ..session import Session
from .conversation import ConversationSession
from .hooks import AgentHooks, TurnInput
from .model import Model, ModelEvent, ModelRequest
from .options import AgentOptions
from .tool import Tool, ToolOutput

T = TypeVar("T")

Results: TypeAlias = Mapping[str, object]
"""What came from outside, by the ids of the calls: whatever a tool's handler may return."""

_MODEL = ("provider", "model_id", "context_window", "generate")
_SESSION = ("id", "messages", "save_turn")


def checked_model(model: object) -> Model:
    """Return what is given as a model.

    Raises:
        InvalidInput: It lacks something that a model has, or does not stream its answers.
    """
    if isinstance(model, str):
        raise InvalidInput(f"{model!r} is a name: `treering.models.naming.model_named` makes the model of a name")
    missing = [name for name in _MODEL if not hasattr(model, name)]
    if missing or isinstance(model, type):
        lacks = f"lacks `{'`, `'.join(missing)}`" if missing else "is a class"
        raise InvalidInput(f"{_named(model)} is no model: it {lacks}; see the protocol `Model`")
    found = cast("Model", model)  # as far as can be told without asking it
    if inspect.iscoroutinefunction(found.generate):
        raise _no_stream(found)
    return found


def checked_tools(tools: object) -> dict[str, Tool]:
    """Return what is given as tools, by their names.

    Raises:
        InvalidInput: It is no sequence of tools, or two have one name.
    """
    if isinstance(tools, (str, Tool)) or not isinstance(tools, Iterable):
        raise InvalidInput(f"`tools` is {_named(tools)}: give a list of tools")
    given: list[Tool] = []
    for each in cast("Iterable[object]", tools):
        if not isinstance(each, Tool):
            remedy = "make one of it with `tool(...)`" if callable(each) else "give functions to `tool(...)`"
            raise InvalidInput(f"{_named(each)} is no tool: {remedy}")
        given.append(each)
    by_name = {each.name: each for each in given}
    if len(by_name) < len(given):
        raise InvalidInput(f"two of the tools have one name: {', '.join(sorted(each.name for each in given))}")
    return by_name


def checked_options(options: object) -> AgentOptions:
    """Return what is given as options.

    Raises:
        InvalidInput: It is something else, such as a dict.
    """
    if not isinstance(options, AgentOptions):
        raise InvalidInput(f"`options` is {_named(options)}: give `AgentOptions(...)`")
    return options


def checked_hooks(hooks: object) -> AgentHooks:
    """Return what is given as hooks; None is none of them.

    Raises:
        InvalidInput: It is something else, such as a list, or one hook stands where a tuple of them belongs.
    """
    if hooks is None:
        return AgentHooks()
    if not isinstance(hooks, AgentHooks):
        raise InvalidInput(f"`hooks` is {_named(hooks)}: give `AgentHooks(pre_generation=(hook,))`")
    for name, given in (("pre_generation", hooks.pre_generation), ("post_generation", hooks.post_generation)):
        if callable(given):
            raise InvalidInput(f"`{name}` is one hook, {_named(given)}: give a tuple of hooks")
    return hooks


async def hooked(hook: Callable[[T], Awaitable[T | None]], value: T) -> T:
    """Return what a hook makes of a value.

    Raises:
        InvalidInput: The hook is not async.
    """
    answering = cast("object", hook(value))  # whatever it is declared to be
    if not isinstance(answering, Awaitable):
        raise InvalidInput(f"the hook {_named(hook)} returned nothing to wait for: write it as `async def`")
    return await cast("Awaitable[T | None]", answering) or value


def checked_session(session: object) -> ConversationSession | None:
    """Return what is given as a session.

    Raises:
        InvalidInput: It lacks one of the three things that a session has.
    """
    if session is None or isinstance(session, Session):
        return session
    missing = [name for name in _SESSION if not hasattr(session, name)]
    if missing:
        raise InvalidInput(
            f"{_named(session)} is no session: it lacks `{'`, `'.join(missing)}`; give what `host.open(...)` returns, or "
            "an object with the three methods of `ConversationSession`"
        )
    return cast("ConversationSession", session)  # as far as can be told without asking it


def checked_answer(answer: object, given_by: str) -> Message:
    """Return what is given as an answer.

    Args:
        answer: What is given.
        given_by: Who gave it, for the error.

    Raises:
        InvalidInput: It is no message of an assistant.
    """
    if not isinstance(answer, Message):
        raise InvalidInput(f"{given_by} gave {_named(answer)} as an answer: give a `Message`")
    if answer.role != "assistant":
        raise InvalidInput(f"{given_by} gave an answer of the role {answer.role!r}: give it the role 'assistant'")
    return answer


def checked_input(turn: object) -> TurnInput:
    """Return what a hook gives to begin a turn with.

    Raises:
        InvalidInput: It is nothing that a turn can begin with.
    """
    if not isinstance(turn, TurnInput):
        raise InvalidInput(f"a hook before generation gave {_named(turn)}: return a `TurnInput`, or None")
    return turn


def checked_results(results: object) -> dict[str, ToolOutput]:
    """Return what is given as results from outside, as what the calls came to.

    Raises:
        InvalidInput: They are not by the ids of calls, or one is nothing that a tool may return.
    """
    if not isinstance(results, Mapping):
        raise InvalidInput(f"the results are {_named(results)}: give a dict of them by the ids of the calls")
    outputs: dict[str, ToolOutput] = {}
    for call_id, value in cast("Mapping[object, object]", results).items():
        if not isinstance(call_id, str):
            raise InvalidInput(f"a key of the results is {_named(call_id)}: give the ids of the calls, which are texts")
        outputs[call_id] = ToolOutput.of(value)
    return outputs


def asked(model: Model, request: ModelRequest) -> aclosing[AsyncGenerator[ModelEvent]]:
    """Ask a model: the context in which its answer can be read, and which gives the answer up when it is left.

    Raises:
        InvalidInput: The model does not stream its answer.
    """
    pieces = cast("object", model.generate(request))  # whatever it is declared to be
    if not (hasattr(pieces, "__aiter__") and hasattr(pieces, "aclose")):
        if inspect.iscoroutine(pieces):
            pieces.close()
        raise _no_stream(model)
    return aclosing(cast("AsyncGenerator[ModelEvent]", pieces))


def _no_stream(model: Model) -> InvalidInput:
    return InvalidInput(
        f"`generate` of {_named(model)} is no async generator: write it as `async def` with a `yield`, or as a plain "
        "`def` that returns one"
    )


def _named(value: object) -> str:
    """Return how a wrong value is told of: it may be large, or a secret."""
    name = getattr(value, "__name__", None)
    return f"`{name}`" if isinstance(name, str) else f"an object of type `{type(value).__name__}`"
