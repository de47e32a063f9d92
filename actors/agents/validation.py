"""Validation of what programs and models pass to an agent.

A wrong argument is refused at the call that passed it. A model's answer is normalized before it is stored and its calls
are executed, so that the log shows what was run.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from itertools import count
from typing import TypeAlias, TypeVar, cast
from uuid import uuid4

from msgspec.structs import replace

from ...events.content import Content, ToolUse, ToolUsePart
from ...events.entries import Message
from ...events.errors import InvalidInput
from ..session.session import Session
from .model import Model, ModelEvent, ModelRequest
from .options import AgentHooks, AgentOptions, ConversationSession, TurnInput
from .tool import Tool, ToolOutput

T = TypeVar("T")

Results: TypeAlias = Mapping[str, object]
"""External results by call id: anything that a tool's handler may return."""

_MODEL = ("provider", "model_id", "context_window", "generate")
_SESSION = ("id", "messages", "save_turn")


def checked_model(model: object) -> Model:
    """Return the argument as a model.

    Raises:
        InvalidInput: It lacks a member of `Model`, or does not stream its answers.
    """
    if isinstance(model, str):
        raise InvalidInput(f"{model!r} is a name: `treering.models.naming.model_named` makes a model from a name")
    missing = [name for name in _MODEL if not hasattr(model, name)]
    if missing or isinstance(model, type):
        reason = f"lacks `{'`, `'.join(missing)}`" if missing else "is a class"
        raise InvalidInput(f"{_describe(model)} is not a model: it {reason}; see the protocol `Model`")
    checked = cast("Model", model)  # the members exist; their types show only in use
    if inspect.iscoroutinefunction(checked.generate):
        raise _not_streaming_error(checked)
    return checked


def checked_tools(tools: object) -> dict[str, Tool]:
    """Return the tools by name.

    Raises:
        InvalidInput: The argument is not an iterable of tools, or two tools have the same name.
    """
    if isinstance(tools, (str, Tool)) or not isinstance(tools, Iterable):
        raise InvalidInput(f"`tools` must be a list of tools, not {_describe(tools)}")
    checked: list[Tool] = []
    for each in cast("Iterable[object]", tools):
        if not isinstance(each, Tool):
            remedy = "wrap it with `tool(...)`" if callable(each) else "make tools from functions with `tool(...)`"
            raise InvalidInput(f"{_describe(each)} is not a tool: {remedy}")
        checked.append(each)
    by_name = {each.name: each for each in checked}
    if len(by_name) < len(checked):
        raise InvalidInput(f"two tools have the same name: {', '.join(sorted(each.name for each in checked))}")
    return by_name


def checked_options(options: object) -> AgentOptions:
    """Return the argument as options.

    Raises:
        InvalidInput: It is something else, such as a dict.
    """
    if not isinstance(options, AgentOptions):
        raise InvalidInput(f"`options` must be `AgentOptions(...)`, not {_describe(options)}")
    return options


def checked_hooks(hooks: object) -> AgentHooks:
    """Return the argument as hooks; None means no hooks.

    Raises:
        InvalidInput: It is something else, such as a list, or a field holds one hook instead of a tuple of hooks.
    """
    if hooks is None:
        return AgentHooks()
    if not isinstance(hooks, AgentHooks):
        raise InvalidInput(f"`hooks` must be `AgentHooks(pre_generation=(hook,))`, not {_describe(hooks)}")
    for name, value in (("pre_generation", hooks.pre_generation), ("post_generation", hooks.post_generation)):
        if callable(value):
            raise InvalidInput(f"`{name}` must be a tuple of hooks, not the hook {_describe(value)} itself")
    return hooks


async def run_hook(hook: Callable[[T], Awaitable[T | None]], value: T) -> T:
    """Return the hook's replacement for the value, or the value itself if the hook returns None.

    Raises:
        InvalidInput: The hook is not async.
    """
    pending = cast("object", hook(value))  # the declared type is not checked at run time
    if not isinstance(pending, Awaitable):
        raise InvalidInput(f"the hook {_describe(hook)} did not return an awaitable: write it as `async def`")
    return await cast("Awaitable[T | None]", pending) or value


def checked_session(session: object) -> ConversationSession | None:
    """Return the argument as a session.

    Raises:
        InvalidInput: It lacks a member of `ConversationSession`.
    """
    if session is None or isinstance(session, Session):
        return session
    missing = [name for name in _SESSION if not hasattr(session, name)]
    if missing:
        raise InvalidInput(
            f"{_describe(session)} is not a session: it lacks `{'`, `'.join(missing)}`; "
            "pass what `host.open(...)` returns, or an object with the three methods of `ConversationSession`"
        )
    return cast("ConversationSession", session)  # the members exist; their types show only in use


async def answer_of(session: ConversationSession, pending: Awaitable[T]) -> T:
    """Return what a method of a session answers.

    Raises:
        InvalidInput: The method is not async.
    """
    if not isinstance(cast("object", pending), Awaitable):  # the declared type is not checked at run time
        raise InvalidInput(
            f"the methods of {_describe(session)} are not async: pass a session of a `SessionHost`, "
            "or write those of your own as `async def`"
        )
    return await pending


def checked_answer(answer: object, source: str) -> Message:
    """Return the argument as an answer.

    Args:
        answer: The value to check.
        source: What produced it, for the error message.

    Raises:
        InvalidInput: It is not an assistant message.
    """
    if not isinstance(answer, Message):
        raise InvalidInput(f"{source} gave {_describe(answer)} as an answer: return a `Message`")
    if answer.role != "assistant":
        raise InvalidInput(f"{source} gave an answer with the role {answer.role!r}: the role must be 'assistant'")
    return answer


def checked_input(turn: object) -> TurnInput:
    """Return a pre-generation hook's result as the input of a turn.

    Raises:
        InvalidInput: It is not a `TurnInput`.
    """
    if not isinstance(turn, TurnInput):
        raise InvalidInput(f"a pre-generation hook returned {_describe(turn)}: return a `TurnInput`, or None")
    return turn


def checked_results(results: object) -> dict[str, ToolOutput]:
    """Return external results as tool outputs, by call id.

    Raises:
        InvalidInput: They are not keyed by call ids, or one is not something that a tool may return.
    """
    if not isinstance(results, Mapping):
        raise InvalidInput(f"`results` must be a dict by call id, not {_describe(results)}")
    outputs: dict[str, ToolOutput] = {}
    for call_id, value in cast("Mapping[object, object]", results).items():
        if not isinstance(call_id, str):
            raise InvalidInput(f"the keys of `results` must be call ids, which are strings, not {_describe(call_id)}")
        outputs[call_id] = ToolOutput.of(value)
    return outputs


def answer_stream(model: Model, request: ModelRequest) -> aclosing[AsyncGenerator[ModelEvent]]:
    """Send a request, and return a context manager for reading the answer; leaving the block closes the stream.

    Raises:
        InvalidInput: The model does not stream its answer.
    """
    pieces = cast("object", model.generate(request))  # the declared type is not checked at run time
    if not (hasattr(pieces, "__aiter__") and hasattr(pieces, "aclose")):
        if inspect.iscoroutine(pieces):
            pieces.close()
        raise _not_streaming_error(model)
    return aclosing(cast("AsyncGenerator[ModelEvent]", pieces))


def _not_streaming_error(model: Model) -> InvalidInput:
    return InvalidInput(
        f"`generate` of {_describe(model)} is not an async generator: write it as `async def` with a `yield`, or as a "
        "plain `def` that returns one"
    )


def _describe(value: object) -> str:
    """Return the name or type of a wrong value, for an error message; the value itself may be large, or a secret."""
    name = getattr(value, "__name__", None)
    return f"`{name}`" if isinstance(name, str) else f"an object of type `{type(value).__name__}`"


def calls_of(answer: Message) -> list[ToolUse]:
    """Return the calls that an answer makes."""
    return [part.tool_use for part in answer.content if isinstance(part, ToolUsePart)]


def with_unique_call_ids(answer: Message) -> Message:
    """Return the answer with a unique id for each of its calls, since results refer to calls by id, and with a name.

    A missing or repeated id is replaced. A call that is repeated with the same tool and arguments counts as one call.
    One without the name of a tool is called "unnamed": providers refuse a history with an empty name.
    """
    calls = calls_of(answer)
    ids = {call.id for call in calls}
    if len(ids) == len(calls) and all(call.id and call.name for call in calls):
        return answer
    seen: list[ToolUse] = []
    parts: list[Content] = []
    for part in answer.content:
        if not isinstance(part, ToolUsePart):
            parts.append(part)
            continue
        call = part.tool_use
        same_id = [each for each in seen if each.id == call.id]
        if any((each.name, each.input) == (call.name, call.input) for each in same_id):
            continue
        seen.append(call)
        if same_id or not call.id:
            base = call.id or f"call_{uuid4().hex}"
            new_id = next(name for number in count(2) if (name := f"{base}_{number}") not in ids)
            ids.add(new_id)
            call = replace(call, id=new_id)
        parts.append(ToolUsePart(replace(call, name=call.name or "unnamed")))
    return replace(answer, content=tuple(parts))


def with_missing_fields(transformed: Message, answer: Message) -> Message:
    """Return a hook's message, with missing provider, model, usage and stop reason taken from the answer."""
    return replace(
        transformed,
        provider=transformed.provider or answer.provider,
        model=transformed.model or answer.model,
        usage=answer.usage if transformed.usage is None else transformed.usage,
        stop_reason=transformed.stop_reason or answer.stop_reason,
    )
