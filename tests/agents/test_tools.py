"""Tools: made from functions, run in parallel, with failures that become results for the model."""

from __future__ import annotations  # for the functions whose annotations cannot be resolved

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import anyio
import msgspec
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint
from msgspec import Raw
from structlog.testing import capture_logs

from treering import AgentOptions, AgentSession, InvalidInput, Session, SessionHost, Tool, text, tool
from treering.actors.agents.model import MALFORMED_ARGUMENTS
from treering.agents import Suspend, ToolOutput
from treering.entries import ToolExecutionEntry, ToolUsePart, image, tool_use
from treering.errors import InvalidEntry, TurnTooLong
from treering.events.content import ToolUse
from treering.events.json_values import JSON
from treering.events.stores.base import Append, Outcome
from treering.testing.models import ScriptedModel, answer

from ..awaited_store import AwaitedStore
from .lines import ON_ASYNCIO, Work, giving, results_of, strictly_paired

Results: TypeAlias = dict[str, tuple[bool, str]]


async def run_calls(
    session: Session,
    tools: Sequence[Tool],
    *calls: ToolUsePart,
    **options: Any,  # noqa: ANN401  # any options
) -> tuple[Results, list[Any]]:
    """Let a model make calls and then answer, and return their results and what was logged."""
    model = ScriptedModel([answer(calls), "Oh."])
    with capture_logs() as logs:
        agent = AgentSession(model, session=session, tools=tools, options=AgentOptions(**options))
        turn = await agent.respond("Try")
    assert turn.text == "Oh."
    assert results_of(turn.messages) == results_of(await session.messages())
    assert all(each["session_id"] == session.id for each in logs)
    return results_of(turn.messages), [*logs]


def named(logs: list[Any]) -> list[tuple[str, str, str]]:
    return [(each["event"], each["call_id"], each["tool"]) for each in logs]


class Place(msgspec.Struct):
    """A line in a file."""

    path: str
    line: int = 1


# -- making tools from functions


async def test_the_schema_of_a_tool_comes_from_the_type_hints_and_arguments_are_converted_to_them() -> None:
    @tool
    async def look(
        place: Annotated[Place, msgspec.Meta(description="Where.")],
        others: list[Place],
        names: dict[int, str],
        anything: object,
        *,
        limit: int | None = None,
    ) -> object:
        """Look.

        In some places.
        """
        return [place.path, others, {number + 1: name for number, name in names.items()}, anything, limit]

    assert (look.name, look.description) == ("look", "Look.\n\nIn some places.")
    place = {"$ref": "#/$defs/Place"}
    schema = look.spec.parameters
    assert (schema["type"], schema["required"]) == ("object", ["place", "others", "names", "anything"])
    assert schema["properties"] == {
        "place": {"description": "Where.", **place},
        "others": {"type": "array", "items": place},
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {"description": "any JSON value"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    }
    assert [*schema["$defs"]] == ["Place"]  # type: ignore[misc]  # it is an object of JSON
    given: dict[str, JSON] = {"place": {"path": "a.py"}, "others": [{"path": "b", "line": 2}], "names": {"2": "x"}}
    output = await look({**given, "anything": [1, {"a": "b"}]})
    assert output == ToolOutput('["a.py",[{"path":"b","line":2}],{"3":"x"},[1,{"a":"b"}],null]')
    wrongs: list[tuple[dict[str, JSON], str]] = [
        ({"place": {"path": 1}}, r"Expected `str`, got `int` - at `\$.place.path`"),
        ({"depth": 1}, "unknown field `depth`"),
    ]
    for wrong, why in wrongs:
        with pytest.raises(InvalidInput, match=why):
            await look({**given, "anything": None, **wrong})


async def test_functions_that_cannot_be_described_are_refused() -> None:
    async def silent(path) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001  # this is refused
        return str(path)

    async def many(*paths: str) -> str:
        return "".join(paths)

    async def strange(how: Callable[[], None]) -> str:
        return ""

    async def unresolved(place: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821  # this is refused
        return ""

    for function, why in (
        (print, "cannot be passed by name"),
        (5, "is not callable"),
        (Store.fetch, r"'fetch' is a method: .* `tool\(object.fetch\)`"),
        (unresolved, "cannot be described"),
        (silent, "no type hint"),
        (many, "cannot be passed by name"),
        (strange, "^a parameter of tool 'strange' has the type `Callable`, which JSON cannot express: use [^\\n]+$"),
    ):
        with pytest.raises(InvalidInput, match=why):
            Tool.of(function)  # type: ignore[arg-type]  # this is refused
    with pytest.raises(InvalidInput, match="needs a name"):
        Tool("", "", parameters={}, handler=silent)
    with pytest.raises(InvalidInput, match="is not callable"):
        Tool("five", "", parameters={}, handler=5)  # type: ignore[arg-type]  # this is refused
    with pytest.raises(InvalidInput, match="not an async function"):
        await Tool("five", "", parameters={}, handler=lambda given: 5)({})  # type: ignore[arg-type,return-value]  # this is refused


class Store:
    """A store of texts."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def fetch(self, key: str) -> str:
        """Fetch a text."""
        return self.texts[key]

    async def __call__(self, key: str, *, upper: bool = False) -> str:
        """Fetch a text, if asked in capitals."""
        return self.texts[key].upper() if upper else self.texts[key]


async def test_bound_methods_partials_and_callable_objects_become_tools() -> None:
    store = Store({"a": "one"})

    async def fetch(store: Callable[[str], str], key: str, times: int = 1, mark: str = "") -> str:
        """Fetch a text some times."""
        return store(key) * times + mark

    bound = tool(store.fetch)
    assert (bound.name, bound.description, await bound({"key": "a"})) == ("fetch", "Fetch a text.", ToolOutput("one"))
    bare = Tool.of(partial(partial(fetch, store.fetch), mark="!"))
    assert (bare.name, bare.description) == ("fetch", "Fetch a text some times.")
    assert bare.spec.parameters["properties"] == {"key": {"type": "string"}, "times": {"type": "integer", "default": 1}}
    assert await bare({"key": "a", "times": 2}) == ToolOutput("oneone!")
    with pytest.raises(InvalidInput, match="unknown field `mark`"):
        await bare({"key": "a", "mark": "?"})
    called = Tool.of(store, name="store")
    assert called.description == "Fetch a text, if asked in capitals."
    assert await called({"key": "a", "upper": True}) == ToolOutput("ONE")
    with pytest.raises(InvalidInput, match="type `Store` has no name"):
        tool(store)


async def test_a_function_that_is_not_async_runs_in_a_thread() -> None:
    @tool
    def where(what: str, *, times: int = 1) -> dict[str, object]:
        """Return where it runs."""
        return {"what": what * times, "here": threading.get_ident() == caller}

    caller = threading.get_ident()
    assert (where.description, where.spec.parameters["required"]) == ("Return where it runs.", ["what"])
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


async def test_blocking_functions_do_not_use_up_the_threads_of_others() -> None:
    over = threading.Event()
    shared = to_thread.current_default_thread_limiter()
    many = int(shared.total_tokens) + 1
    calls = [tool_use(str(number), "hang") for number in range(many)]
    hang = Tool.of(lambda: over.wait(60), name="hang")
    options = AgentOptions(tool_timeout_s=0.01, parallel_calls_max=many)
    agent = AgentSession(ScriptedModel([answer(calls), "All of them hang."]), tools=[hang], options=options)
    outputs: list[ToolOutput] = []

    async def call() -> None:
        outputs.append(await hang({}))

    async def others_can_use_threads() -> None:
        assert shared.borrowed_tokens == 0
        assert await Tool.of(lambda: "ready", name="ready")({}) == ToolOutput("ready")
        assert await to_thread.run_sync(lambda: "the program's own") == "the program's own"

    try:
        turn = await agent.respond("Hang")
        assert set(results_of(turn.messages).values()) == {(True, "The tool gave no answer within 0.01 seconds.")}
        await others_can_use_threads()  # while those that timed out still hang
        async with anyio.create_task_group() as group:
            for _ in range(many):
                group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            await others_can_use_threads()
            assert outputs == []
            over.set()
    finally:
        over.set()
    assert outputs == [ToolOutput("true")] * many


@pytest.mark.parametrize(
    ("returned", "content"),
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
def test_a_returned_value_becomes_the_content_of_the_output(returned: object, content: object) -> None:
    assert ToolOutput.of(returned) == ToolOutput(content)  # type: ignore[arg-type]  # `object` stands for any content


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (b"caf\xe9", "InvalidEntry: tool output is of type `bytes`: decode it first"),
        (bytearray(b"a"), "InvalidEntry: .* of type `bytearray`: decode it first"),
        ({"read": b"a"}, "InvalidEntry: .*values of type `bytes` have no JSON form"),
        ([float("nan")], "InvalidEntry: .*cannot be written as JSON"),
        (object(), "InvalidEntry: "),
        (OSError("no such disk"), "OSError: no such disk$"),
        (ZeroDivisionError(), "ZeroDivisionError$"),
        (ExceptionGroup("several", [ValueError("one")]), "ExceptionGroup: several"),
    ],
)
async def test_the_model_is_told_errors_and_values_without_json(session: Session, given: object, result: str) -> None:
    results, logs = await run_calls(session, [giving("run", given)], tool_use("1", "run"))
    failed, shown = results["1"]
    assert failed
    assert re.match(result, shown)
    (record,) = [each.tool_execution for each in await session.entries() if isinstance(each, ToolExecutionEntry)]
    assert (record.success, record.error) == (False, shown)
    assert named(logs) == [("tool_failed", "1", "run")]
    assert "no such disk" not in str(logs)  # the text of an error can hold what a user wrote


@pytest.mark.parametrize(
    "wrong",
    [
        {"content": None},
        {"content": {"a": 1}},
        {"content": (text(5),)},  # type: ignore[arg-type]  # this is refused
        {"content": b"a"},
        {"content": (text(b"a"),)},  # type: ignore[arg-type]  # this is refused
        {"content": "", "tokens": -1},
        {"content": "", "exit_code": "1"},
        {"content": "", "exit_code": float("nan")},
        {"content": "", "error": b"no"},
        {"content": "", "error": 5},
        {"content": "", "is_error": "no"},
        {"content": "", "duration_ms": -1.0},
        {"content": "", "duration_ms": float("inf")},
        {"content": "", "duration_ms": float("nan")},
        {"content": "", "duration_ms": "1 s"},
    ],
)
def test_an_invalid_tool_output_is_refused_when_it_is_created(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidEntry, match="invalid tool output"):
        ToolOutput(**wrong)


def test_the_reason_of_a_suspension_must_be_a_string() -> None:
    with pytest.raises(InvalidInput, match="must be a string, not `int`"):
        Suspend(5)  # type: ignore[arg-type]  # this is refused
    assert Suspend("for \udcff").reason == "for \ufffd"
    assert bytes(Suspend("for", {"file": "caf\udcff"}).raw_data or b"") == '{"file":"caf\ufffd"}'.encode()


# -- running tools


async def test_lone_surrogates_in_results_are_replaced(session: Session) -> None:
    """`os.listdir` returns such strings for file names that are not UTF-8."""
    name = b"caf\xe9".decode(errors="surrogateescape")
    given = {"one": name, "list": [name, {name: 1}], "parts": (text(name),), "fails": ValueError(name), "\ufffd": "ok"}

    @tool
    async def say(what: str) -> object:
        """Return or raise one of the values."""
        value = given[what]
        if isinstance(value, Exception):
            raise value
        return value

    arguments = [Raw(b'{"what":"%b"}' % (what.encode() if what.isascii() else b"\\ud83d")) for what in given]
    calls = [ToolUsePart(ToolUse(what, "say", raw)) for what, raw in zip(given, arguments, strict=True)]
    assert (await run_calls(session, [say], *calls))[0] == {
        "one": (False, "caf\ufffd"),
        "list": (False, '["caf\ufffd",{"caf\ufffd":1}]'),
        "parts": (False, "caf\ufffd"),
        "fails": (True, "ValueError: caf\ufffd"),
        "\ufffd": (False, "ok"),
    }


async def test_a_result_that_the_dialect_cannot_hold_is_replaced_by_an_error(tmp_path: Path) -> None:
    draw = giving("draw", image("https://example.org/a.png", "image/png", kind="url"))
    async with SessionHost(tmp_path, dialect="pi") as host:
        results, _ = await run_calls(await host.create(), [draw], tool_use("1", "draw"))
        failed, result = results["1"]
        assert failed
        assert "images inline" in result


@ON_ASYNCIO
async def test_a_tool_that_awaits_a_cancelled_task_fails_and_the_turn_continues(session: Session) -> None:
    """Only asyncio raises a cancellation in the task that awaits the cancelled one."""
    waiting = anyio.Event()

    @tool
    async def follow() -> None:
        """Wait for a task, which is cancelled meanwhile."""
        job = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(job.cancel)
        await waiting.wait()
        await job

    @tool
    async def work() -> str:
        """Work until the other tool has its result."""
        waiting.set()
        while not await session.open_calls() or len(await session.open_calls()) > 1:
            await checkpoint()
        return "worked"

    results, logs = await run_calls(session, [follow, work], tool_use("1", "follow"), tool_use("2", "work"))
    cancelled = "The tool was cancelled before it answered."
    assert results == {"1": (True, cancelled), "2": (False, "worked")}
    assert named(logs) == [("tool_cancelled", "1", "follow")]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("streamed", [False, True])
async def test_exits_and_interrupts_leave_a_tool(session: Session, error: type[BaseException], streamed: bool) -> None:
    calls = answer([tool_use("1", "work"), tool_use("2", "leave")])
    agent = AgentSession(ScriptedModel([calls]), session=session, tools=[giving("leave", error(2)), Work().tool])

    async def respond() -> None:
        if streamed:
            async with agent.stream("Leave") as events:
                async for _ in events:
                    pass
        else:
            await agent.respond("Leave")

    with pytest.raises(error) as ended:
        await respond()
    assert ended.value.args == (2,)


async def test_an_exit_in_a_tool_is_raised_if_the_result_of_another_cannot_be_written() -> None:
    writing, left = anyio.Event(), anyio.Event()

    class Refuses(AwaitedStore):
        """Fails to append a result, after another tool has raised its exit."""

        async def append(self, appends: Sequence[Append]) -> list[Outcome]:
            if any(b"tool_execution" in line for each in appends for line in each.lines):
                writing.set()
                await left.wait()
                raise OSError("no space")
            return await super().append(appends)

    @tool
    async def leave() -> None:
        """End the program."""
        await writing.wait()
        left.set()
        raise SystemExit(2)

    calls = answer([tool_use("1", "leave"), tool_use("2", "look")])
    async with SessionHost(store=Refuses()) as host:
        tools = [leave, giving("look", "a result that cannot be written")]
        agent = AgentSession(ScriptedModel([calls]), session=await host.create(), tools=tools)
        with pytest.raises(SystemExit):
            await agent.respond("Leave")


async def test_a_tool_without_an_answer_in_time_has_an_error_as_its_result(session: Session) -> None:
    results, logs = await run_calls(session, [Work().tool], tool_use("1", "work"), tool_timeout_s=0.001)
    assert results == {"1": (True, "The tool gave no answer within 0.001 seconds.")}
    assert named(logs) == [("tool_timed_out", "1", "work")]


def deep() -> str:
    raise OSError


async def test_the_log_of_a_failed_tool_names_only_the_calls_within_it(session: Session) -> None:
    @tool
    async def in_the_loop() -> str:
        """Fail in the event loop."""
        return deep()

    @tool
    def in_a_thread() -> str:
        """Fail in a thread."""
        return deep()

    @tool
    def later() -> object:
        """Return something that fails when it is awaited."""

        async def fail() -> str:
            return deep()

        return fail()

    @tool
    async def calls_another() -> ToolOutput:
        """Fail in another tool."""
        return await in_a_thread({})

    async def by_hand(arguments: dict[str, JSON]) -> str:
        return deep()

    refused = giving("refused", object())
    tools = [
        in_the_loop,
        in_a_thread,
        later,
        calls_another,
        refused,
        Tool("by_hand", "", parameters={"type": "object"}, handler=by_hand),
    ]
    _, logs = await run_calls(session, tools, *(tool_use(str(number), each.name) for number, each in enumerate(tools)))
    names = {each["tool"]: [re.split(r"[ .]", place)[-1] for place in each["raised_at"]] for each in logs}
    nested = names.pop("calls_another")
    assert names == {
        "in_the_loop": ["in_the_loop", "deep"],
        "in_a_thread": ["in_a_thread", "deep"],
        "later": ["fail", "deep"],
        "refused": ["of"],
        "by_hand": ["by_hand", "deep"],
    }
    assert (nested[0], nested[-2:]) == ("calls_another", ["in_a_thread", "deep"])


async def test_calls_that_cannot_be_made_get_errors_and_records_what_tools_report(session: Session, add: Tool) -> None:
    run = giving("run", ToolOutput("no such file", is_error=True, error="ENOENT", exit_code=2, tokens=4))
    calls = [tool_use("1", "nothing"), tool_use("2", "add", {"b": 1}), tool_use("4", "add", {"a": 1})]
    calls += [tool_use("3", "add", {MALFORMED_ARGUMENTS: '{"a": 1'}), tool_use("5", "run"), tool_use("6", "")]
    assert (await run_calls(session, [add, run], *calls))[0] == {
        "1": (True, "There is no tool 'nothing'. The tools are: add, run."),
        "2": (True, "invalid arguments: Object missing required field `a`"),
        "3": (True, 'The arguments are not a JSON object: {"a": 1'),
        "4": (False, "2"),
        "5": (True, "no such file"),
        "6": (True, "There is no tool 'unnamed'. The tools are: add, run."),
    }
    records = [each.tool_execution for each in await session.entries() if isinstance(each, ToolExecutionEntry)]
    reported = {each.tool_call_id: (each.success, each.error, each.exit_code, each.tokens) for each in records}
    assert reported["4"] == (True, None, None, None)
    assert reported["5"] == (False, "ENOENT", 2, 4)


async def test_calls_run_in_parallel_up_to_the_bound_and_are_written_as_they_end(session: Session) -> None:
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


async def test_a_turn_with_too_many_requests_is_ended(session: Session, add: Tool) -> None:
    model = ScriptedModel(lambda request: answer(tool_use(str(len(request.messages)), "add", {"a": 1})))
    agent = AgentSession(model, session=session, tools=[add], options=AgentOptions(requests_max=4))
    with pytest.raises(TurnTooLong, match="took 4 requests"):
        await agent.respond("Add")
    assert len(model.requests) == 4
    assert await session.open_calls() == []  # each call has its result, so the session can be used
    turn = await AgentSession(ScriptedModel(["Enough."]), session=session).respond("Stop")
    assert turn.text == "Enough."


async def test_different_calls_with_the_same_id_get_ids_of_their_own(session: Session, add: Tool) -> None:
    given = [("1", 1), ("1", 2), ("1_2", 3), ("1", 2), ("1", 4), ("", 5), ("", 6)]
    calls = [tool_use(call_id, "add", {"a": number}) for call_id, number in given]
    model = ScriptedModel([answer(calls), "ok"])
    turn = await AgentSession(model, session=session, tools=[add]).respond("Add")
    shown = [part.tool_use for part in turn.messages[1].content if isinstance(part, ToolUsePart)]
    *_, without, also_without = [each.id for each in shown]
    ids = ["1", "1_3", "1_2", "1_4", without, also_without]
    assert "" not in ids
    assert [(each.id, each.input) for each in shown] == [(each, {"a": n}) for n, each in enumerate(ids, 1)]
    results = results_of(turn.messages)
    assert results == {each: (False, str(n + 1)) for n, each in enumerate(ids, 1)}
    assert results_of(await session.messages()) == results
    assert strictly_paired(model.last_request.messages)
    records = [each.tool_execution for each in await session.entries() if isinstance(each, ToolExecutionEntry)]
    assert {each.tool_call_id: each.arguments for each in records} == {each.id: each.input for each in shown}
    assert len(records) == len(shown), "the call that the answer repeats is run once"
