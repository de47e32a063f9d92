"""Wrong arguments and options of agents are refused."""

# ruff: noqa: ANN401  # arguments of any type are the subject

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest

from treering import AgentOptions, AgentSession, InvalidInput, Session, SessionHost, SyncHost, Tool, image, text
from treering.agents import AgentHooks, Completed, ModelEvent, ModelRequest, Suspend
from treering.contexts import summarizer_of
from treering.entries import Content, Message, tool_use
from treering.models.echo import EchoModel
from treering.testing.models import ScriptedModel, answer

from .lines import giving

Factory = Callable[[Any, Tool], object]

AGENT: Any = AgentSession
HOOKS: Any = AgentHooks
"""The classes as `Any`, so that the type checkers accept wrong arguments."""


class Answers(EchoModel):
    """A model that returns a whole message instead of a stream."""

    async def generate(self, request: ModelRequest) -> Any:  # type: ignore[override]  # this is refused
        return Message("assistant", (text("Hello"),))


class Blocks(EchoModel):
    """A model that returns a plain generator."""

    def generate(self, request: ModelRequest) -> Iterator[ModelEvent]:  # type: ignore[override]  # this is refused
        yield from ()


class Wraps(EchoModel):
    """A model whose plain function returns a coroutine."""

    def generate(self, request: ModelRequest) -> Any:  # this is refused
        return self._answer()

    async def _answer(self) -> str:
        return "Hello"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda model, add: AGENT("openai:gpt-5"), "'openai:gpt-5' is a name: .*model_named"),
        (lambda model, add: AGENT(None), "NoneType` is not a model: it lacks `provider`"),
        (lambda model, add: AGENT(EchoModel), "`EchoModel` is not a model: it is a class|lacks"),
        (lambda model, add: AGENT(Answers()), "`Answers` is not an async generator: write it as `async def`"),
        (lambda model, add: AGENT(model, tools=add), "`tools` must be a list of tools, not an object of type `Tool`"),
        (lambda model, add: AGENT(model, tools=5), "`tools` must be a list of tools, not an object of type `int`"),
        (lambda model, add: AGENT(model, tools="add"), "`tools` must be a list of tools, not an object of type `str`"),
        (lambda model, add: AGENT(model, tools=[print]), r"`print` is not a tool: wrap it with `tool\("),
        (lambda model, add: AGENT(model, tools=[add, "add"]), "`str` is not a tool: make tools from functions"),
        (lambda model, add: AGENT(model, tools=[add, add]), "two tools have the same name: add, add"),
        (lambda model, add: AGENT(model, options={"max_tokens": 5}), r"`options` must be `AgentOptions\(.*type `dict`"),
        (lambda model, add: AGENT(model, hooks=[print]), r"`hooks` must be `AgentHooks\(.*\)`, not .* type `list`"),
        (lambda model, add: AGENT(model, hooks=HOOKS(pre_generation=print)), "`pre_g.* tuple of hooks, .* `print`"),
        (lambda model, add: AGENT(model, hooks=HOOKS(post_generation=print)), "`post_gen.* must be a tuple of hooks"),
        (lambda model, add: AGENT(model, session="main"), "`str` is not a session: it lacks `id`"),
    ],
)
def test_wrong_arguments_of_an_agent_are_refused(make: Factory, why: str, add: Tool) -> None:
    with pytest.raises(InvalidInput, match=why):
        make(ScriptedModel([]), add)


async def test_a_call_with_a_wrong_session_is_refused(session: Session) -> None:
    agent = AgentSession(EchoModel())
    wrong: Any = session.id
    with pytest.raises(InvalidInput, match="is not a session: it lacks"):
        await agent.respond("Hello", session=wrong)
    with pytest.raises(InvalidInput, match="only a `Session` has branches"):
        await agent.retry(session=wrong)


async def test_a_session_with_blocking_methods_is_refused_before_anything_is_stored() -> None:
    with SyncHost() as host:
        blocking: Any = host.create()
        with pytest.raises(InvalidInput, match="`SyncSession` are not async: pass a session of a `SessionHost`"):
            await AgentSession(EchoModel(), session=blocking).respond("Hello")
        assert blocking.message_count == 0


NO_JSON = [{"c": object()}, {1: "a", "c": "b"}, {"c": [{1, object()}]}]


@pytest.mark.parametrize("results", ["yes", ["yes"], None, 5, *NO_JSON])
async def test_resuming_with_anything_but_a_dict_of_json_is_refused(results: Any, session: Session) -> None:
    waits = giving("ask", Suspend("may I?"))
    agent = AgentSession(ScriptedModel([answer(tool_use("c", "ask"))]), session=session, tools=[waits])
    await agent.respond("Hello")
    before = session.cursor
    why = r"cannot be encoded as JSON|which are strings" if results in NO_JSON else "must be a dict by call id"
    with pytest.raises(InvalidInput, match=why):
        await agent.resume(results)
    assert session.cursor == before
    assert [each.id for each in await session.open_calls()] == ["c"]


@pytest.mark.parametrize("given", [5, {"role": "user", "content": "Hello"}, b"Hello", [5], object()])
async def test_wrong_input_of_a_turn_is_refused_before_anything_is_written(given: Any, session: Session) -> None:
    agent = AgentSession(EchoModel(), session=session)
    with pytest.raises(InvalidInput, match="give a string"):
        await agent.respond(given)
    assert session.message_count == 0


async def test_a_model_that_does_not_stream_is_refused_at_its_first_answer() -> None:
    wrong: list[Any] = [Blocks(), Wraps()]
    for model in wrong:
        with pytest.raises(InvalidInput, match="is not an async generator"):
            await AgentSession(model).respond("Hello")


async def test_a_model_that_does_not_stream_is_refused_as_a_summarizer(session: Session) -> None:
    await session.append_many([Message("user", (text("word " * 100),)), Message("assistant", (text("Yes."),))] * 4)
    wrong: Any = Answers()
    with pytest.raises(InvalidInput, match="is not an async generator"):
        await session.compact(summarizer_of(wrong), keep_tokens=100)
    assert session.message_count == 8


def of_hooks(place: str, returned: Any, *, is_async: bool = True) -> Any:
    async def hook(given: Any) -> Any:
        return returned

    def blocks(given: Any) -> Any:
        return returned

    return HOOKS(**{place: (hook if is_async else blocks,)})


REMOTE = Message("assistant", (image("https://example.org/a.png", "image/png", kind="url"),))


@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        *(
            (of_hooks("pre_generation", returned), "return a `TurnInput`, or None")
            for returned in ("Hello", Message("user", ()), 5)
        ),
        (of_hooks("pre_generation", None, is_async=False), "`blocks` did not return an awaitable: write it as `async"),
        (of_hooks("post_generation", REMOTE, is_async=False), "`blocks` did not return an awaitable: write it as"),
        (of_hooks("post_generation", "No."), "`str` as an answer: return a `Message`"),
        (of_hooks("post_generation", {"role": "assistant"}), "`dict` as an answer"),
        (of_hooks("post_generation", Message("user", (text("No."),))), "role 'user': the role must be 'assistant'"),
        (of_hooks("post_generation", Message("assistant", cast("tuple[Content, ...]", "No."))), "content"),
        (of_hooks("post_generation", REMOTE), "URL"),
    ],
)
async def test_what_a_hook_must_not_return_is_refused(hooks: AgentHooks, why: str) -> None:
    async with SessionHost(dialect="pi") as host:
        session = await host.create()
        with pytest.raises(InvalidInput, match=why):
            await AgentSession(ScriptedModel(["Yes."]), session=session, hooks=hooks).respond("Hello")
        kept = [(each.content, each.stop_reason) for each in await session.messages()]
    # The model's own answer is kept; if no hook let the turn begin, nothing is.
    assert kept == ([] if hooks.pre_generation else [((text("Hello"),), None), ((text("Yes."),), "aborted")])


@pytest.mark.parametrize("given", ["Yes.", None, Message("user", (text("Yes."),))])
async def test_a_model_that_completes_with_anything_but_an_answer_is_refused(given: Any, session: Session) -> None:
    class Wrong(EchoModel):
        async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            yield Completed(given)

    with pytest.raises(InvalidInput, match="the model gave"):
        await AgentSession(Wrong(), session=session).respond("Hello")
    assert [each.role for each in await session.messages()] == ["user"]


class Pieces:
    """An async iterable with `aclose` that is not a generator."""

    def __init__(self, pieces: AsyncIterator[ModelEvent]) -> None:
        self._pieces = pieces
        self.closed = False

    def __aiter__(self) -> AsyncIterator[ModelEvent]:
        return self._pieces

    async def aclose(self) -> None:
        self.closed = True


async def test_any_async_iterable_is_accepted_as_a_stream_and_is_closed() -> None:
    streams: list[Pieces] = []

    class Streams(EchoModel):
        def generate(self, request: ModelRequest) -> Any:
            streams.append(Pieces(EchoModel().generate(request)))
            return streams[-1]

    assert (await AgentSession(Streams()).respond("Hello")).text.endswith("Hello")
    assert [each.closed for each in streams] == [True]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("context_window", wrong) for wrong in (0, "8k")),
        ("reserve_for_response", -1),
        ("max_tokens", 1.5),
        *(("requests_max", wrong) for wrong in (0, None)),
        *(("parallel_calls_max", wrong) for wrong in (0, True)),
        ("tool_timeout_s", -0.5),
        ("attempts_max", 0),
        ("backoff_s", float("nan")),
        ("backoff_max_s", "60"),
        ("stream_events_max", 0),
    ],
)
def test_option_values_out_of_range_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=f"`{name}` cannot be {wrong!r}: give a number of [01] or more"):
        AgentOptions(**{name: wrong})


def test_the_smallest_option_values_are_accepted() -> None:
    ones = ("context_window", "max_tokens", "requests_max", "parallel_calls_max", "attempts_max", "stream_events_max")
    zeros = ("reserve_for_response", "tool_timeout_s", "backoff_s", "backoff_max_s")
    smallest: dict[str, Any] = {**dict.fromkeys(ones, 1), **dict.fromkeys(zeros, 0)}
    assert AgentOptions(**smallest).delay_s(1) is None
    assert AgentOptions(tool_timeout_s=None, backoff_s=float("inf")).delay_s(1) == 60
