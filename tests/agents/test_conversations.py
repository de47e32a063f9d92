"""Agents without a session, with an object that has the three methods, and with a `Session`."""

import inspect
import re
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any, get_type_hints

import anyio
import pytest

import treering
import treering.agents
import treering.entries
import treering.projections
from treering import AgentSession, ConversationSession, InvalidInput, Message, Session, SessionHost, Tool, Usage, tool
from treering.actors.agents.options import AgentOptions
from treering.agents import AgentHooks, TurnInput
from treering.entries import message, plain_text, tool_use
from treering.errors import TurnTooLong
from treering.testing.models import ScriptedModel, Stalled, Step, answer

from .lines import PlainSession, Work, as_lines, respond_and_cancel, results_of

ROOT = Path(__file__).resolve().parents[2]

_watched: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is not None and event.split(".")[0] in {"open", "os", "socket", "subprocess", "shutil", "tempfile"}:
        _watched.append(f"{event} {arguments}")


sys.addaudithook(_watch)


# -- agents without a session


@pytest.mark.feature("D-4", "D-5", "D-63")
async def test_an_agent_without_a_session_reads_and_writes_nothing(add: Tool) -> None:
    global _watched
    model = ScriptedModel(["warm", answer(tool_use("1", "add", {"a": 1})), "2", "again"])
    agent = AgentSession(model, tools=[add])
    await agent.respond("warm up")
    _watched = []
    try:
        turn = await agent.respond("What is 1 + 1?")
        await agent.respond("And now?")
        watched, _watched = _watched, None
    finally:
        _watched = None
    assert watched == []
    assert turn.text == "2"
    assert as_lines(turn.messages) == ["user: What is 1 + 1?", "assistant: calls add 1", "tool: 2", "assistant: 2"]
    assert as_lines(model.last_request.messages) == ["user: And now?"]  # the first turn is not in the request


async def test_input_is_text_parts_or_messages_and_not_empty_or_mixed() -> None:
    model = ScriptedModel(["1", "2", "3"])
    agent = AgentSession(model)
    parts: list[treering.entries.Content] = [treering.text("look"), treering.image("aGk=", "image/png")]
    one, both = message("user", "one"), [message("system", "be brief"), message("user", "two")]
    for given, sent in ((parts, [message("user", parts)]), (one, [one]), (both, both)):
        await agent.respond(given)
        assert model.last_request.messages == tuple(sent)
    empty: list[Message] = []
    blanks: list[treering.entries.Content] = [treering.text(""), treering.text(" ")]
    for nothing in (None, empty, "", " \n", blanks):
        with pytest.raises(InvalidInput, match=r"nothing to answer|input is empty"):
            await agent.respond(nothing)
    with pytest.raises(InvalidInput, match="mixes"):
        await agent.respond([message("user", "a"), "b"])  # type: ignore[arg-type]  # this is refused


# -- sessions with three methods


async def rename(answer_message: Message) -> Message:
    """A hook that takes a name out of an answer."""
    return message("assistant", plain_text(answer_message.content).replace("Ada", "[name]"))


@pytest.fixture
def plain() -> PlainSession:
    return PlainSession(messages=[message("user", "Hello"), message("assistant", "Hi!")])


@pytest.mark.feature("D-9", "D-14", "D-15")
async def test_a_plain_session_is_loaded_and_saved_once_per_turn(add: Tool, plain: PlainSession) -> None:
    model = ScriptedModel([answer(tool_use("1", "add", {"a": 1})), "It is 2.", "Yes."])
    agent = AgentSession(model, session=plain, system_prompt="Be brief.", tools=[add])
    turn = await agent.respond("What is 1 + 1?")
    assert plain.log == ["load", "save"]
    ((saved, usage),) = plain.turns
    assert as_lines(saved) == ["user: What is 1 + 1?", "assistant: calls add 1", "tool: 2", "assistant: It is 2."]
    assert turn.messages == tuple(saved)
    assert usage == turn.usage
    assert usage is not None
    assert usage.output_tokens > 0
    before = ["system: Be brief.", "user: Hello", "assistant: Hi!"]
    assert as_lines(model.requests[0].messages) == [*before, "user: What is 1 + 1?"]
    await agent.respond("Really?")
    assert as_lines(model.last_request.messages) == [*before, *as_lines(saved), "user: Really?"]
    assert len(plain.turns) == 2


@pytest.mark.feature("D-11", "D-12")
async def test_a_session_of_the_library_has_the_three_methods(session: Session) -> None:
    conversation: ConversationSession = session
    assert conversation.id == session.id == "main"
    ids = await conversation.save_turn([message("user", "a"), message("assistant", "b")], Usage(1, 2))
    assert isinstance(ids, list)
    assert as_lines(await conversation.messages()) == ["user: a", "assistant: b"]


@pytest.mark.feature("D-16", "D-19")
async def test_a_turn_loads_then_runs_hooks_and_the_model_then_saves(plain: PlainSession) -> None:
    async def before(turn: TurnInput) -> None:
        plain.log.append("pre: " + ", ".join(as_lines(turn.messages)))

    async def after(answer_message: Message) -> Message:
        plain.log.append("post")
        return await rename(answer_message)

    class Model(ScriptedModel):
        async def generate(self, request: treering.agents.ModelRequest) -> Any:  # noqa: ANN401  # the type of the base class
            plain.log.append("generate")
            async with aclosing(super().generate(request)) as pieces:
                async for piece in pieces:
                    yield piece

    hooks = AgentHooks(pre_generation=(before,), post_generation=(after,))
    turn = await AgentSession(Model(["I am Ada."]), session=plain, hooks=hooks).respond("Who are you?")
    assert plain.log == ["load", "pre: user: Hello, assistant: Hi!, user: Who are you?", "generate", "post", "save"]
    ((saved, _),) = plain.turns
    assert as_lines(saved) == ["user: Who are you?", "assistant: I am [name]."]
    assert turn.text == "I am [name]."


async def test_hooks_before_generation_change_the_input_and_the_system_prompt(session: Session) -> None:
    async def dated(turn: TurnInput) -> TurnInput:
        dated_input = message("user", "[Monday] " + plain_text(turn.input[0].content))
        return TurnInput(turn.system_prompt + "Be brief.", turn.history, (dated_input,))

    model = ScriptedModel(["1", "2"])
    agent = AgentSession(model, hooks=AgentHooks(pre_generation=(dated, dated)))
    for each in (PlainSession(), session):
        await agent.respond("Hello", session=each)
        assert as_lines(model.last_request.messages) == ["system: Be brief.Be brief.", "user: [Monday] [Monday] Hello"]
        assert as_lines(await each.messages())[0] == "user: [Monday] [Monday] Hello"


async def test_a_hook_can_shorten_a_plain_history_but_no_log(session: Session, plain: PlainSession) -> None:
    async def forget(turn: TurnInput) -> TurnInput:
        return TurnInput(turn.system_prompt, (), turn.input)

    model = ScriptedModel(["1", "2"])
    agent = AgentSession(model, hooks=AgentHooks(pre_generation=(forget,)))
    await agent.respond("Go on", session=plain)
    assert as_lines(model.last_request.messages) == ["user: Go on"]
    assert len(await plain.messages()) == 4
    await session.append_message("user", "Hello")
    with pytest.raises(InvalidInput, match="append a context edit"):
        await agent.respond("Go on", session=session)
    assert len(await session.messages()) == 1


async def test_a_hook_after_generation_that_removes_calls_is_refused(session: Session, add: Tool) -> None:
    async def silent(answer_message: Message) -> Message:
        return message("assistant", "nothing")

    for each in (PlainSession(), session):
        model = ScriptedModel([answer(tool_use("1", "add", {"a": 1})), "2"])
        agent = AgentSession(model, tools=[add], hooks=AgentHooks(post_generation=(silent,)))
        with pytest.raises(InvalidInput, match="changed which calls"):
            await agent.respond("Hello", session=each)
    (kept_answer,) = [each for each in await session.messages() if each.role == "assistant"]
    assert as_lines([kept_answer]) == ["assistant: calls add 1"]  # as the model returned it
    assert kept_answer.stop_reason == "aborted"


@pytest.mark.parametrize("kind", ["session", "plain", "none"])
async def test_a_call_is_run_with_the_arguments_that_a_hook_gave_it(kind: str, session: Session) -> None:
    ran: list[dict[str, Any]] = []

    async def run(arguments: dict[str, Any]) -> str:
        ran.append(arguments)
        return "done"

    async def guard(answer_message: Message) -> Message | None:
        if not answer_message.has_calls:
            return None
        return message("assistant", tool_use("1", "run", {"command": "ls"}))

    sessions: dict[str, Session | PlainSession | None] = {"session": session, "plain": PlainSession(), "none": None}
    given = sessions[kind]
    model = ScriptedModel([answer(tool_use("1", "run", {"command": "rm -rf /"})), "Done."])
    runner = Tool("run", "Run a command.", parameters={"type": "object"}, handler=run)
    agent = AgentSession(model, session=given, tools=[runner], hooks=AgentHooks(post_generation=(guard,)))
    turn = await agent.respond("Clean up")
    assert ran == [{"command": "ls"}]
    for messages in (turn.messages, model.last_request.messages, await given.messages() if given else turn.messages):
        (call,) = messages[1].content
        assert call == tool_use("1", "run", {"command": "ls"})
    assert as_lines(turn.messages)[2:] == ["tool: done", "assistant: Done."]


@pytest.mark.feature("D-17")
async def test_the_log_holds_a_hooks_answer_with_usage_and_model_unless_a_hook_sets_them(session: Session) -> None:
    own: dict[str, Any] = {"usage": Usage(1), "model": "mine", "provider": "me", "stop_reason": "why"}

    async def count(answer_message: Message) -> Message:
        return message("assistant", answer_message.content, **own)

    used = Usage(100, 10, total_tokens=110)
    for each in (PlainSession(), session):
        model = ScriptedModel([answer("I am Ada.", usage=used)], provider="maker", model_id="m-1")
        turn = await AgentSession(model, session=each, hooks=AgentHooks(post_generation=(rename,))).respond("Who?")
        assert turn.answer is not None
        assert turn.answer == (await each.messages())[-1]
        assert (turn.answer.provider, turn.answer.model) == ("maker", "m-1")
        assert (turn.answer.usage, turn.answer.stop_reason, turn.stop_reason) == (used, "stop", "stop")
        assert as_lines(await each.messages()) == ["user: Who?", "assistant: I am [name]."]
    assert (await session.view(treering.projections.UsageProjection())).total == used
    assert "Ada" not in await anyio.Path(session.file_path or "").read_text()
    agent = AgentSession(ScriptedModel(["I am Ada."]), hooks=AgentHooks(post_generation=(count, rename, count)))
    turn = await agent.respond("Who?")
    assert turn.answer == message("assistant", "I am [name].", **own)


async def test_lone_surrogates_in_an_answer_are_replaced(session: Session) -> None:
    calls = answer(["I \ud83d", tool_use("\ude00", "a\udcff")])
    agent = AgentSession(ScriptedModel([calls, "\ud83d\ude00 caf\udce9"], piece_chars=1), session=session)
    async with session.subscribe(transient=True):
        turn = await agent.respond("Hello")
    assert turn.text == "\U0001f600 caf\ufffd"
    assert as_lines(turn.messages[1:2]) == ["assistant: I \ufffd | calls a\ufffd \ufffd"]
    assert as_lines(await session.messages()) == as_lines(turn.messages)


async def test_a_turn_that_fails_or_is_cancelled_is_not_saved_in_a_PlainSession(add: Tool) -> None:
    session = PlainSession()
    model = ScriptedModel(lambda request: answer(tool_use("1", "add", {"a": 1})))
    agent = AgentSession(model, session=session, tools=[add], options=AgentOptions(requests_max=3))
    with pytest.raises(TurnTooLong, match="`requests_max`"):
        await agent.respond("Hello")
    assert len(model.requests) == 3
    assert session.turns == []
    stalled = Stalled("I am", anyio.Event())
    await respond_and_cancel(AgentSession(ScriptedModel([stalled]), session=session), stalled.reached)
    assert session.turns == []


# -- one agent, many sessions


@pytest.mark.feature("D-18", "D-57")
async def test_the_session_of_a_call_is_used_and_concurrent_calls_do_not_mix() -> None:
    model = ScriptedModel(lambda request: "re: " + plain_text(request.messages[-1].content))
    own = PlainSession("own")
    agent = AgentSession(model, session=own)
    sessions = [PlainSession(f"s{number}") for number in range(8)]

    async def talk(session: Any) -> None:  # noqa: ANN401  # the class of the fixture
        for turn in range(3):
            await agent.respond(f"{session.id}.{turn}", session=session)

    async with anyio.create_task_group() as group:
        for session in sessions:
            group.start_soon(talk, session)
    assert own.turns == []
    for session in sessions:
        inputs = [f"{session.id}.{turn}" for turn in range(3)]
        assert as_lines(await session.messages()) == [
            line for each in inputs for line in (f"user: {each}", f"assistant: re: {each}")
        ]
    for request in model.requests:
        assert len({plain_text(each.content).removeprefix("re: ").split(".")[0] for each in request.messages}) == 1
    assert set(inspect.signature(agent.respond).parameters) == {"prompt", "session"}  # no session id


@pytest.mark.parametrize(
    ("count", "why"),
    [(1, "cannot start another turn of the same session"), (2, "neither would ever end"), (3, "neither would")],
)
async def test_one_of_agents_that_wait_for_each_other_gets_an_error(host: SessionHost, count: int, why: str) -> None:
    """The tool of each agent's turn asks the next agent, and that of the last asks the first."""
    agents: list[AgentSession] = []
    met = [anyio.Event() for _ in range(count)]

    def asking(number: int) -> Tool:
        async def ask(arguments: dict[str, Any]) -> str:
            met[number].set()
            for each in met:  # no agent is asked before all of them are in a turn
                await each.wait()
            return (await agents[(number + 1) % count].respond("You?")).text

        return Tool("ask", "Ask the next.", parameters={"type": "object"}, handler=ask)

    for number in range(count):
        model = ScriptedModel([answer(tool_use("1", "ask", {})), "First.", "Second."])
        session = await host.create(f"agent-{number}")
        agents.append(AgentSession(model, session=session, tools=[asking(number)]))
    turns: list[treering.agents.Turn] = []

    async def begin(agent: AgentSession) -> None:
        turns.append(await agent.respond("Hello"))

    async with anyio.create_task_group() as group:
        for agent in agents:
            group.start_soon(begin, agent)
    results = [str(turn.messages[2].content) for turn in turns]
    assert sum(why in each for each in results) == 1  # one is refused, the others get an answer
    assert {turn.text for turn in turns} == {"First."}


async def test_a_tool_can_wait_for_the_turn_of_a_busy_agent(host: SessionHost) -> None:
    work = Work()
    script: list[Step] = [answer(tool_use("1", "work")), "Worked.", "Yes."]
    worker = AgentSession(ScriptedModel(script), session=await host.create("busy"), tools=[work.tool])

    @tool
    async def ask() -> str:
        """Ask the worker, who is busy and will be free."""
        return (await worker.respond("Are you free?")).text

    model = ScriptedModel([answer(tool_use("1", "ask")), "It is."])
    asker = AgentSession(model, session=await host.create("asker"), tools=[ask])
    async with anyio.create_task_group() as group:
        group.start_soon(worker.respond, "Work")
        await work.begun.wait()
        group.start_soon(asker.respond, "Is it free?")
        await anyio.wait_all_tasks_blocked()
        work.done.set()
    assert results_of(model.last_request.messages) == {"1": (False, "Yes.")}


async def test_turns_of_two_agents_in_one_session_run_one_after_the_other(session: Session) -> None:
    """Programs may create an agent per request, and none may close the running calls of another."""
    work = Work()
    model = ScriptedModel([answer(tool_use("1", "work")), "Done."])
    first = AgentSession(model, session=session, tools=[work.tool])
    second = AgentSession(ScriptedModel(["Hi!"]), session=session)
    async with anyio.create_task_group() as group:
        group.start_soon(first.respond, "Work")
        await work.begun.wait()
        group.start_soon(second.respond, "Hello")
        await anyio.wait_all_tasks_blocked()
        work.done.set()
    roles = [each.role for each in await session.messages()]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_a_task_that_a_tool_started_can_take_the_next_turn(session: Session) -> None:
    """The task was started inside a turn, but takes its own turn only after that one has ended."""
    ended, texts = anyio.Event(), list[str]()

    async def follow() -> None:
        await ended.wait()
        texts.append((await agent.respond("And then?")).text)

    @tool
    async def start() -> None:
        """Start a task that outlives this turn."""
        group.start_soon(follow)

    model = ScriptedModel([answer(tool_use("1", "start")), "It goes on.", "It is over."])
    agent = AgentSession(model, session=session, tools=[start])
    async with anyio.create_task_group() as group:
        await agent.respond("Hello")
        ended.set()
    assert texts == ["It is over."]


# -- one way to connect sessions


@pytest.mark.feature("D-56", "D-70")
def test_pages_and_examples_show_one_way_to_use_sessions() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
    examples = [path.read_text(encoding="utf-8") for path in ROOT.glob("examples/*.py")]
    assert any("session=" in each for each in examples if "AgentSession(" in each)
    for each in (pages, *examples):
        assert not re.search(r"session[_.]hooks|hooks\(store|session_loader|session_saver", each, re.IGNORECASE)
    assert set(AgentHooks.__struct_fields__) == {"pre_generation", "post_generation", "leaving"}
    assert set(TurnInput.__struct_fields__) == {"system_prompt", "history", "input"}  # no store to load from or save to


@pytest.mark.feature("D-58", "D-61", "D-62")
def test_an_agent_needs_only_an_id_messages_and_save_turn_of_a_session() -> None:
    assert {name for name in vars(ConversationSession) if not name.startswith("_")} == {"id", "messages", "save_turn"}
    hints = {
        str(hint)
        for name in ("messages", "save_turn")
        for hint in get_type_hints(vars(ConversationSession)[name]).values()
    }
    assert not any("Entry" in hint or "Event" in hint for hint in hints)
    assert not {name for name in treering.__all__ if re.search("loader|saver|session_?hooks", name, re.IGNORECASE)}
    assert not hasattr(Session, "hooks")


# -- turns as events


@pytest.mark.feature("D-20", "D-28", "D-29", "D-30", "D-31", "D-32", "D-33")
async def test_each_saved_turn_is_an_event_with_its_messages_and_usage(host: SessionHost) -> None:
    session = await host.create("turns")
    before = session.created
    for number in range(3):
        turn_messages = [message("user", f"q{number}"), message("assistant", f"a{number}")]
        await session.save_turn(turn_messages, Usage(number, 1), metadata={"n": number, "tags": ["a", {"b": None}]})
    await session.append_compaction("so far", None, 10)
    written = [(each.type, getattr(each, each.type)) for each in await session.entries()]
    await host.passivate_idle()
    entries = await session.entries()
    assert [(each.type, getattr(each, each.type)) for each in entries] == written
    turns = [each for each in entries if isinstance(each, treering.entries.UsageEntry) and each.usage.kind == "turn"]
    assert [each.usage.usage for each in turns] == [Usage(0, 1), Usage(1, 1), Usage(2, 1)]
    assert [each.usage.metadata for each in turns] == [{"n": n, "tags": ["a", {"b": None}]} for n in range(3)]
    assert [each.timestamp for each in turns] == sorted(each.timestamp for each in turns)
    assert all(each.timestamp >= before and each.timestamp.tzinfo is not None for each in turns)
    for number, turn in enumerate(turns):
        place = entries.index(turn)
        of_turn = entries[place - (turn.usage.messages or 0) : place]
        messages = [each.message for each in of_turn if isinstance(each, treering.MessageEntry)]
        assert as_lines(messages) == [f"user: q{number}", f"assistant: a{number}"]
        assert {each.batch.id for each in (*of_turn, turn) if each.batch} == {of_turn[0].id}
    ids: list[str] = []

    async def save(number: int) -> None:
        ids.extend(await session.save_turn([message("user", f"at once {number}")], Usage(1)))

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(save, number)
    assert len(set(ids)) == len(ids) == 100


@pytest.mark.feature("D-54")
async def test_a_tilde_in_the_root_of_a_host_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with SessionHost("~/.myapp/sessions") as host:
        agent = AgentSession(ScriptedModel(["Hi!"]), session=await host.open("my-session"))
        await agent.respond("Hello")
    assert (tmp_path / ".myapp" / "sessions" / "my-session.jsonl").is_file()
