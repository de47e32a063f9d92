"""An agent writes to its session at once: before it asks the model, when an answer ends, when a result comes."""

import re
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
import pytest

from treering import AgentOptions, AgentSession, Message, Session, SessionHost, Tool, Usage, message, tool_use
from treering.agents import MessageEnd, ModelEvent, ModelRequest, ToolExecutionEnd, ToolOutput, TurnEnd
from treering.entries import ContentLike, ToolExecutionEntry
from treering.errors import AnswerCutOff
from treering.projections import UsageProjection
from treering.projections.building.budget import calculate_budget
from treering.projections.tokens import ByteEstimator
from treering.subscriptions import TextPiece, Transient
from treering.testing.models import Broken, ScriptedModel, Step, answer

from .lines import as_lines, at_once


class RecordingModel(ScriptedModel):
    """Records the file and the context of the session at each request."""

    def __init__(self, script: Sequence[Step], session: Session, **options: int) -> None:
        super().__init__(script, **options)  # type: ignore[arg-type]  # tests pass only numbers
        self.session = session
        self.files: list[bytes] = []
        self.contexts: list[tuple[Message, ...]] = []

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        assert self.session.file_path is not None
        self.files.append(await anyio.Path(self.session.file_path).read_bytes())
        budget = calculate_budget(self.context_window or 10**6, "", "", ByteEstimator())
        self.contexts.append(tuple((await self.session.build_context(budget)).to_messages()))
        async with aclosing(super().generate(request)) as pieces:
            async for piece in pieces:
                yield piece


@pytest.mark.feature("N-131")
async def test_everything_is_in_the_file_before_the_next_step(session: Session, add: Tool) -> None:
    calls = answer([tool_use("1", "add", {"a": 1}), tool_use("2", "add", {"a": 5})])
    model = RecordingModel([calls, "2 and 6"], session)
    agent = AgentSession(model, session=session, tools=[add])
    assert session.file_path is not None
    file = anyio.Path(session.file_path)
    seen: dict[str, bytes] = {}
    async with agent.stream("What is 1 + 1, and 5 + 1?") as events:
        async for event in events:
            match event:
                case MessageEnd(entry_id=entry_id) | ToolExecutionEnd(entry_id=entry_id):
                    assert entry_id is not None
                    seen[entry_id] = await file.read_bytes()
                case TurnEnd(turn=turn):
                    content = await file.read_bytes()
                    assert all(entry_id.encode() in content for entry_id in turn.entry_ids)
    assert b"What is 1 + 1" in model.files[0]  # the user's message, before the model is asked
    assert len(seen) == 4  # two answers and two results
    assert all(entry_id.encode() in content for entry_id, content in seen.items())
    assert model.files[1].count(b'"tool_execution"') >= 2  # each call's record, before the model is asked again
    records = [each for each in await session.entries() if isinstance(each, ToolExecutionEntry)]
    arguments = {each.tool_execution.tool_call_id: each.tool_execution.arguments for each in records}
    assert arguments == {"1": {"a": 1}, "2": {"a": 5}}
    assert all(each.tool_execution.success and each.tool_execution.duration_ms is not None for each in records)
    first_answer = next(iter(seen))
    assert {each.tool_execution.message_id for each in records} == {first_answer}


async def test_a_tool_that_ran_elsewhere_says_how_long_it_took(session: Session) -> None:
    async def remote(_: object) -> ToolOutput:
        return ToolOutput("built", duration_ms=90_000)

    async def local(_: object) -> ToolOutput:
        return ToolOutput("read")

    tools = [Tool(each.__name__, "Build.", parameters={}, handler=each) for each in (remote, local)]
    calls = answer([tool_use("1", "remote", {}), tool_use("2", "local", {})])
    await AgentSession(ScriptedModel([calls, "Done."]), session=session, tools=tools).respond("Build it.")
    taken = {
        each.tool_execution.tool_call_id: each.tool_execution.duration_ms
        for each in await session.entries()
        if isinstance(each, ToolExecutionEntry)
    }
    assert taken["1"] == 90_000
    assert 0 <= (taken["2"] or -1) < 60_000


@pytest.mark.feature("G-130", "N-77", "N-130")
async def test_every_request_is_the_built_context(session: Session, add: Tool) -> None:
    calls: list[Message] = [answer(tool_use("1", "add", {"a": number})) for number in (1, 2)]
    model = RecordingModel([calls[0], "2", "x" * 3000, calls[1], "3", "end"], session, context_window=2000)
    options = AgentOptions(auto_compact=False)
    agent = AgentSession(model, session=session, options=options)
    with_tools = AgentSession(model, session=session, tools=[add], options=options)
    for each, given in ((with_tools, "1 + 1?"), (agent, "Be long"), (with_tools, "y" * 3000), (agent, "Bye")):
        await each.respond(given)
    assert len(model.requests) == 6
    for request, context in zip(model.requests, model.contexts, strict=True):
        if not request.tools:  # tool definitions take tokens that the budget of the recording leaves out
            assert request.messages == context
    assert [request.messages for request in model.requests[:3]] == model.contexts[:3]
    assert agent.last_request is not None
    assert agent.last_request.strategy != "full-history"
    assert len(model.last_request.messages) < len(await session.messages())


@pytest.mark.feature("N-3", "G-130")
async def test_a_new_agent_continues_the_session_of_an_earlier_one(host: SessionHost) -> None:
    first = ScriptedModel(["Hi Ada!"])
    await AgentSession(first, session=await host.create("long")).respond("I am Ada")
    await host.passivate_idle()
    second = ScriptedModel(["Ada"])
    await AgentSession(second, session=await host.load("long")).respond("Who am I?")
    assert as_lines(second.last_request.messages) == ["user: I am Ada", "assistant: Hi Ada!", "user: Who am I?"]


@pytest.mark.feature("G-131", "U-23")
async def test_usage_is_counted_once_and_is_the_same_after_a_reload(host: SessionHost, add: Tool) -> None:
    session = await host.create("used")
    used = [Usage(100, 10, 5, 0, 115, 0.5), Usage(150, 20, 0, 0, 170, 0.25), Usage(200, 30, 0, 0, 230)]
    contents: list[ContentLike] = [tool_use("1", "add", {"a": 1}), "2", "bye"]
    script = [answer(content, usage=usage) for content, usage in zip(contents, used, strict=True)]
    agent = AgentSession(ScriptedModel(script), session=session, tools=[add])
    one, two = await agent.respond("What is 1 + 1?"), await agent.respond("Goodbye")
    assert one.usage == used[0] + used[1]
    assert two.usage == used[2]
    total = used[0] + used[1] + used[2]
    assert (await session.view(UsageProjection())).total == total
    size = (await session.used_tokens()).total
    assert size == used[2].total_tokens  # the size of the context is the last request's, not the sum
    await host.passivate_idle()
    session = await host.load("used")
    assert (await session.rebuild(UsageProjection())).total == total
    assert (await session.used_tokens()).total == size
    agent = AgentSession(ScriptedModel([answer("hi", usage=Usage(1, 1, total_tokens=2))]), session=session)
    await agent.respond("Hello again")
    assert (await session.view(UsageProjection())).total == total + Usage(1, 1, total_tokens=2)


async def test_requests_carry_the_thinking_level_of_the_session(session: Session) -> None:
    model = ScriptedModel(["1", "2", "3"])
    agent = AgentSession(model, session=session)
    await agent.respond("a")
    await session.append_thinking_level_change("high")
    await agent.respond("b")
    await agent.respond("c")
    assert [each.thinking_level for each in model.requests] == [None, "high", "high"]


async def test_pieces_of_an_answer_reach_subscribers_with_their_offsets_and_are_not_written(session: Session) -> None:
    long_answer = "A somewhat longer answer, in pieces."
    model = ScriptedModel([Broken(long_answer[:14], AnswerCutOff("cut")), long_answer], piece_chars=7)
    agent = AgentSession(model, session=session, options=AgentOptions(sleep=at_once))
    given = [message("user", "one"), message("user", "two")]
    seen: list[Transient] = []
    async with session.subscribe(transient=True) as events, agent.stream(given) as turn:
        async for event in turn:
            while events.lag and not isinstance(event, TurnEnd):
                followed = await anext(events)
                if isinstance(followed, Transient):
                    seen.append(followed)
        # A slow subscriber gets the latest event of each name, and the pieces of a text joined.
        while not seen or not isinstance(seen[-1], TextPiece) or seen[-1].end < len(long_answer):
            followed = await anext(events)
            if isinstance(followed, Transient):
                seen.append(followed)
    data = [(each.name, msgspec.convert(each.data, dict[str, Any])) for each in seen]
    requests = [each for name, each in data if name == "agent.request"]
    assert [(each["strategy"], each["number"]) for each in requests] == [("full-history", 1), ("full-history", 2)]
    assert {name for name, _ in data} == {"agent.request", "agent.retry", "agent.text"}
    assert all(long_answer[each["offset"] :].startswith(each["text"]) for name, each in data if name == "agent.text")
    written: dict[str, str] = {}
    for piece in seen:
        if isinstance(piece, TextPiece):
            assert piece.offset == len(written.get(piece.message, ""))
            written[piece.message] = written.get(piece.message, "") + piece.text
    assert list(written.values()) == [long_answer[:14], long_answer]
    assert b"agent." not in log_bytes(session)
    one, two, *_ = await session.entries()
    assert one.batch is not None
    assert two.batch is not None
    assert (one.batch.id, one.batch.n) == (two.batch.id, 2)


@pytest.mark.feature("G-136")
async def test_missing_folders_are_created_for_their_owner_only(tmp_path: Path) -> None:
    root = tmp_path / "one" / "two" / "sessions"
    async with SessionHost(root) as host:
        session = await host.create("main")
        await AgentSession(ScriptedModel(["Hi!"]), session=session).respond("Hello")
        assert session.file_path == str(root / "main.jsonl")
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (root, root.parent, root.parent.parent)] == [0o700] * 3
    assert stat.S_IMODE((root / "main.jsonl").stat().st_mode) == 0o600


@pytest.mark.feature("G-137")
def test_no_module_outside_agents_imports_them() -> None:
    project = Path(__file__).resolve().parents[2]
    importing = [
        f"{path.relative_to(project)}: {line.strip()}"
        for package in ("events", "projections", "actors")
        for path in (project / package).rglob("*.py")
        if path.parent != project / "actors" / "agents"
        for line in re.findall(r"^\s*(?:from|import)\s.*\bagents\b.*", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert importing == []


def log_bytes(session: Session) -> bytes:
    assert session.file_path is not None
    return Path(session.file_path).read_bytes()


@pytest.mark.feature("D-13")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_log_cut_in_a_saved_turn_shows_all_or_nothing(dialect: Literal["native", "pi"], tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "whole", dialect=dialect) as host:
        session = await host.create("main")
        await session.append_message("user", "before")
        start = len(log_bytes(session))
        turn = [message("user", "one"), message("assistant", "two"), message("user", "three")]
        await session.save_turn(turn, Usage(9))
        content = log_bytes(session)
    ends = [place for place in range(start, len(content) + 1) if content[place - 1 : place] == b"\n"]
    cuts = sorted({*ends, *(end - 1 for end in ends), *(end + 9 for end in ends[:-1])})
    (tmp_path / "cut").mkdir(mode=0o700)
    async with SessionHost(tmp_path / "cut", dialect=dialect) as host:
        for number, cut in enumerate(cuts):
            path = tmp_path / "cut" / f"{number}.jsonl"
            path.write_bytes(content[:cut])
            torn = await host.load(path)
            whole = cut >= len(content) - 1  # a missing last newline is added
            expected = ["user: before", *(as_lines(turn) if whole else ())]
            assert as_lines(await torn.messages()) == expected
            await torn.append_message("user", "after")
            assert as_lines(await torn.messages()) == [*expected, "user: after"]
