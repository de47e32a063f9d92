"""Tools: made of functions, carried out side by side, and never the end of a turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from treering import (
    AgentOptions,
    AgentSession,
    InvalidInput,
    Message,
    Session,
    Suspend,
    Tool,
    ToolExecutionEntry,
    ToolOutput,
    TurnTooLong,
    image,
    text,
    tool,
    tool_use,
)
from treering.actors.agents.model import MALFORMED_ARGUMENTS
from treering.testing.models import ScriptedModel, answer

Told = Callable[[Sequence[Message]], list[str]]


class Place(msgspec.Struct):
    """Where something is."""

    path: str
    line: int = 1


# -- describing


def test_a_function_s_hints_are_its_schema() -> None:
    @tool
    async def find(
        what: Annotated[str, msgspec.Meta(description="What to look for.")],
        places: list[Place],
        limit: int | None = None,
    ) -> str:
        """Find something.

        Look in some places.
        """
        return what

    assert find.name == "find"
    assert find.description == "Find something.\n\nLook in some places."
    schema = find.spec.parameters
    assert schema["type"] == "object"
    assert schema["required"] == ["what", "places"]
    assert schema["properties"] == {
        "what": {"type": "string", "description": "What to look for."},
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    }
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    assert list(definitions) == ["Place"]


async def test_arguments_arrive_as_what_the_hints_say() -> None:
    @tool
    async def look(place: Place, *, deep: bool = False) -> dict[str, object]:
        """Look."""
        return {"path": place.path, "line": place.line, "deep": deep}

    output = await look({"place": {"path": "a.py"}, "deep": True})
    assert output == ToolOutput('{"path":"a.py","line":1,"deep":true}')
    with pytest.raises(InvalidInput, match=r"Expected `str`, got `int` - at `\$.place.path`"):
        await look({"place": {"path": 1}})
    with pytest.raises(InvalidInput, match="unknown field `depth`"):
        await look({"place": {"path": "a"}, "depth": 1})


def test_what_cannot_be_a_tool_is_refused() -> None:
    async def silent(path) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001 - that is what is refused
        return str(path)

    async def many(*paths: str) -> str:
        return "".join(paths)

    async def strange(how: Callable[[], None]) -> str:
        return ""

    async def unresolved(place: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821 - that is what is refused
        return ""

    for function, why in (
        (print, "cannot be given by name"),
        (5, "cannot be called"),
        (unresolved, "cannot be described"),
        (silent, "no type hint"),
        (many, "cannot be given by name"),
        (strange, "cannot be described"),
    ):
        with pytest.raises(InvalidInput, match=why):
            Tool.of(function)  # type: ignore[arg-type]  # that is what is refused
    with pytest.raises(InvalidInput, match="needs a name"):
        Tool("", "", {}, silent)
    with pytest.raises(InvalidInput, match="cannot be called"):
        Tool("five", "", {}, 5)  # type: ignore[arg-type]  # that is what is refused


async def test_a_function_that_is_not_async_runs_in_a_thread() -> None:
    @tool
    def where(what: str, *, times: int = 1) -> dict[str, object]:
        """Tell where it runs."""
        return {"what": what * times, "here": threading.get_ident() == caller}

    caller = threading.get_ident()
    assert where.description == "Tell where it runs."
    assert where.spec.parameters["required"] == ["what"]
    assert await where({"what": "a", "times": 2}) == ToolOutput('{"what":"aa","here":false}')
    with pytest.raises(InvalidInput, match=r"Expected `str`, got `int` - at `\$.what`"):
        await where({"what": 1})


async def test_a_wrapper_of_an_async_function_is_awaited_on_the_event_loop() -> None:
    async def ident() -> str:
        await checkpoint()
        return str(threading.get_ident())

    def wrapper() -> object:
        return ident()

    assert await Tool.of(wrapper)({}) == ToolOutput(str(threading.get_ident()))


async def test_a_function_that_blocks_is_given_up_in_time(told: Told) -> None:
    over = threading.Event()

    @tool
    def sleep() -> None:
        """Sleep."""
        over.wait(60)

    model = ScriptedModel([answer(tool_use("1", "sleep")), "It took too long."])
    agent = AgentSession(model, tools=[sleep], options=AgentOptions(tool_timeout_s=0.01))
    try:
        turn = await agent.respond("Sleep")
    finally:
        over.set()
    assert told(turn.messages)[-2:] == [
        "tool: !The tool gave no answer within 0.01 seconds.",
        "assistant: It took too long.",
    ]


async def test_a_function_in_a_thread_can_suspend_the_turn() -> None:
    @tool
    def deploy() -> str:
        """Deploy."""
        raise Suspend("may I?")

    turn = await AgentSession(ScriptedModel([answer(tool_use("1", "deploy"))]), tools=[deploy]).respond("Deploy")
    assert [(each.id, each.reason) for each in turn.pending] == [("1", "may I?")]


async def test_a_handler_that_is_not_async_is_told_of() -> None:
    with pytest.raises(InvalidInput, match="no async function"):
        await Tool("five", "", {}, lambda given: 5)({})  # type: ignore[arg-type,return-value]  # that is what is refused


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("text", "text"),
        (None, ""),
        (text("part"), (text("part"),)),
        ([text("a"), image("aGk=", "image/png")], (text("a"), image("aGk=", "image/png"))),
        ([1, 2], "[1,2]"),
        ({"a": None}, '{"a":null}'),
        (Place("a"), '{"path":"a","line":1}'),
    ],
)
def test_a_handler_may_return_what_it_likes(returned: object, told: object) -> None:
    assert ToolOutput.of(returned) == ToolOutput(told)  # type: ignore[arg-type]  # the table says what


# -- carrying out


async def test_what_goes_wrong_is_told_to_the_model(session: Session, told: Told, add: Tool) -> None:
    @tool
    async def fail(how: str = "loudly") -> str:
        """Fail."""
        raise {"loudly": OSError("no such disk"), "group": ExceptionGroup("several", [ValueError("one")])}.get(
            how, ZeroDivisionError()
        )

    @tool
    async def wrong() -> object:
        """Return no JSON."""
        return object()

    calls = [
        tool_use("1", "fail"),
        tool_use("2", "fail", {"how": "silently"}),
        tool_use("3", "nothing"),
        tool_use("4", "add", {"b": 1}),
        tool_use("5", "add", {MALFORMED_ARGUMENTS: '{"a": 1'}),
        tool_use("6", "add", {"a": 1}),
        tool_use("7", "wrong"),
        tool_use("8", "fail", {"how": "group"}),
    ]
    agent = AgentSession(ScriptedModel([answer(calls), "I see."]), session=session, tools=[add, fail, wrong])
    with capture_logs() as logs:
        turn = await agent.respond("Try")
    assert turn.text == "I see."
    results = {
        part.tool_result.tool_use_id: (part.tool_result.is_error, part.tool_result.text)
        for each in turn.messages
        if each.role == "tool"
        for part in each.content
        if hasattr(part, "tool_result")
    }
    assert results["1"] == (True, "OSError: no such disk")
    assert results["2"] == (True, "ZeroDivisionError")
    assert results["3"] == (True, "There is no tool 'nothing'. The tools are: add, fail, wrong.")
    assert results["4"] == (True, "the arguments do not fit: Object missing required field `a`")
    assert results["5"] == (True, 'The arguments are no JSON object: {"a": 1')
    assert results["6"] == (False, "2")
    assert results["7"][0]
    assert results["8"][1].startswith("ExceptionGroup: several")
    records = {
        each.tool_execution.tool_call_id: each.tool_execution
        for each in await session.entries()
        if isinstance(each, ToolExecutionEntry)
    }
    assert (records["1"].success, records["1"].error) == (False, "OSError: no such disk")
    assert records["6"].success
    failed = [each["tool"] for each in logs if each["event"] == "tool_failed"]
    assert sorted(failed) == ["fail", "fail", "fail", "wrong"]
    assert "no such disk" not in str(logs)  # what errors say may be anything that a user said


async def test_a_tool_s_own_record_is_kept(session: Session) -> None:
    @tool
    async def run() -> ToolOutput:
        """Run a command."""
        return ToolOutput("no such file", is_error=True, error="ENOENT", exit_code=2, tokens=4)

    agent = AgentSession(ScriptedModel([answer(tool_use("1", "run")), "Oh."]), session=session, tools=[run])
    await agent.respond("Run")
    (record,) = [each.tool_execution for each in await session.entries() if isinstance(each, ToolExecutionEntry)]
    assert (record.success, record.error, record.exit_code, record.tokens) == (False, "ENOENT", 2, 4)


async def test_calls_run_side_by_side_within_the_bound_and_are_kept_as_they_end(session: Session) -> None:
    most = 0
    running: set[int] = set()
    finished: list[str] = []
    doors = [anyio.Event() for _ in range(6)]

    @tool
    async def wait(number: int) -> str:
        """Wait."""
        nonlocal most
        running.add(number)
        most = max(most, len(running))
        await doors[number].wait()
        running.remove(number)
        finished.append(str(number))
        return str(number)

    calls = answer([tool_use(str(number), "wait", {"number": number}) for number in range(6)])
    options = AgentOptions(parallel_calls_max=3)
    agent = AgentSession(ScriptedModel([calls, "Done."]), session=session, tools=[wait], options=options)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.respond, "Wait")
            for left in range(6, 0, -1):
                while len(running) < min(left, 3):
                    await checkpoint()
                doors[max(running)].set()
                while len(await session.entries()) < 2 + 2 * (7 - left):
                    await checkpoint()
    assert most == 3
    assert finished[0] != "0"
    records = [each for each in await session.entries() if isinstance(each, ToolExecutionEntry)]
    assert [each.tool_execution.tool_call_id for each in records] == finished


async def test_a_slow_tool_is_given_up(session: Session, told: Told) -> None:
    @tool
    async def hang() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return "never"

    agent = AgentSession(
        ScriptedModel([answer(tool_use("1", "hang")), "Oh."]),
        session=session,
        tools=[hang],
        options=AgentOptions(tool_timeout_s=0.001),
    )
    turn = await agent.respond("Hang")
    assert told(turn.messages)[2] == "tool: !The tool gave no answer within 0.001 seconds."


async def test_a_model_that_calls_for_ever_is_stopped(session: Session, add: Tool) -> None:
    model = ScriptedModel(lambda request: answer(tool_use(str(len(request.messages)), "add", {"a": 1})))
    agent = AgentSession(model, session=session, tools=[add], options=AgentOptions(requests_max=4))
    with pytest.raises(TurnTooLong, match="took 4 requests"):
        await agent.respond("Add")
    assert len(model.requests) == 4
    assert await session.open_calls() == []  # each call has its result: the session goes on
    turn = await AgentSession(ScriptedModel(["Enough."]), session=session).respond("Stop")
    assert turn.text == "Enough."


@pytest.mark.parametrize("name", ["requests_max", "parallel_calls_max", "attempts_max", "stream_events_max"])
def test_bounds_must_let_something_through(name: str) -> None:
    options: dict[str, Any] = {name: 0}
    with pytest.raises(InvalidInput, match=f"`{name}` is 0"):
        AgentOptions(**options)


async def test_a_call_made_twice_is_carried_out_once(add: Tool) -> None:
    ran: list[dict[str, Any]] = []

    async def note(arguments: dict[str, Any]) -> None:
        ran.append(arguments)

    calls = answer([tool_use("1", "note", {"n": 1}), tool_use("1", "note", {"n": 1})])
    agent = AgentSession(ScriptedModel([calls, "ok"]), tools=[Tool("note", "Note.", {"type": "object"}, note)])
    await agent.respond("Note")
    assert ran == [{"n": 1}]


async def test_keys_of_arguments_are_read_from_strings() -> None:
    """A model writes JSON, which has no other keys."""

    @tool
    async def shift(by: int, names: dict[int, str]) -> str:
        """Number things anew."""
        return str({number + by: name for number, name in names.items()})

    assert (await shift({"by": 2, "names": {"1": "a"}})).content == "{3: 'a'}"
