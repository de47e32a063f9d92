from __future__ import annotations
import anyio, pytest
from pathlib import Path
from treering import *
from treering.testing.models import Broken, ScriptedModel, Stalled, Step, answer
from treering import tool, tool_use

@pytest.fixture
async def session(tmp_path):
    async with SessionHost(tmp_path / "sessions") as host:
        yield await host.create("main", cwd="/work/project")

async def test_result_lost(session):
    done = anyio.Event()
    @tool
    async def first() -> str:
        """x"""
        await done.wait()
        return "moved the money"
    @tool
    async def second() -> str:
        """x"""
        await done.wait()
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
    model = ScriptedModel([answer([tool_use("1", "first"), tool_use("2", "second")]), "I see."])
    agent = AgentSession(model, session=session, tools=[first, second])
    async with anyio.create_task_group() as group:
        group.start_soon(agent.respond, "Hello")
        while not await session.open_calls(): await anyio.lowlevel.checkpoint()
        for _ in range(5): await anyio.lowlevel.checkpoint()
        done.set()
    print([ (m.role, plain_text(m.content), [p for p in m.content]) for m in await session.messages()][2:])
    assert [m.role for m in await session.messages()] == ["user", "assistant", "tool"]

async def test_answer_lost(session):
    class Model(ScriptedModel):
        async def generate(self, request):
            async for each in super().generate(request):
                if isinstance(each, Completed):
                    group.cancel_scope.cancel()
                yield each
    from treering.actors.agents.model import Completed
    agent = AgentSession(Model(["All of it"]), session=session)
    async with anyio.create_task_group() as group:
        group.start_soon(agent.respond, "Hello")
    assert [(m.role, m.stop_reason, plain_text(m.content)) for m in await session.messages()] == []

async def test_refused_midway(session):
    agent = AgentSession(ScriptedModel([Broken("Some", RequestRefused("no"))]), session=session)
    with pytest.raises(RequestRefused):
        await agent.respond("Hello")
    print([(e.type, getattr(e, "message", None)) for e in await session.entries()])
    assert len(await session.entries()) == 2

async def test_int_keys():
    from treering import Tool
    async def f(a: dict[int, str], b: int = 1) -> str:
        """x"""
        return str(a)+str(b)
    t = Tool.of(f, name="my.tool-x")
    print(t.spec.parameters)
    out = await t({"a": {"1": "x"}, "b": 2.0})
    assert out.content == "{1: 'x'}2"

async def test_later_turn_from_tool_task(session):
    later = []
    async with anyio.create_task_group() as group:
        go = anyio.Event()
        async def follow():
            await go.wait()
            later.append(await agent.respond("And then?"))
        @tool
        async def start() -> str:
            """x"""
            group.start_soon(follow)
            return "started"
        agent = AgentSession(ScriptedModel([answer([tool_use("1", "start")]), "ok", "later"]), session=session, tools=[start])
        await agent.respond("Hello")
        go.set()
    assert later[0].text == "later"

async def test_user_after_open_call(session):
    model = ScriptedModel(["ok", "ok2"])
    await session.append_message("user", "a")
    await session.append(answer([tool_use("1", "x")]))
    await session.append_message("user", "b")
    agent = AgentSession(model, session=session)
    await agent.respond("c")
    for m in model.last_request.messages: print(m.role, m.content)
    for m in await session.messages(): print("S", m.role, m.content)
    await agent.respond("d")
    assert 0

async def test_nameless(tmp_path):
    async with SessionHost(tmp_path / "sessions") as host:
        s = await host.create("main")
        a = await s.append_message("user", "a")
        await s.append_message("assistant", "b")
        path = s.file_path
    with open(path, "a") as f:
        f.write('{"type":"foo","parent_id":"%s","timestamp":"2026-01-01T00:00:00Z"}\n' % a)
        f.write('{"type":"session","version":1,"id":"zz","timestamp":"2026-01-01T00:00:00Z"}\n')
        f.write('{"type":"foo"}\n{"type":"bar"}\n')
    async with SessionHost(tmp_path / "sessions") as host:
        s = await host.load("main")
        await s.branch(a)
        await s.append_message("assistant", "c")
        for fmt in ("html", "json"): await s.export(fmt)

async def test_truncate_twice(session):
    for n in range(5): await session.append_message("user", str(n))
    one = await session.truncate_history(2, command_id="x")
    two = await session.truncate_history(2, command_id="x")
    assert one == two

async def test_redact():
    r = Redaction()
    print(r.value({"password": 12345678, "Authorization": ["Basic dXNlcjpwYXNz"], "env": [{"name": "DB_PASSWORD", "value": "hunter2"}], "x": {"password": ["hunter22"]}, "pw2": {"password": {"value": "hunter2"}}}))
    print(r.text('{"password": 12345678}'))
    import time
    for evil in ("cookie:" * 20000, "authorization: " * 10000, "token" * 30000, "curl -" * 20000, "://a:b" * 20000, "password='aaaa " * 10000, "api_key" * 20000, "bearer " *20000, "--" * 50000+"token", "-----BEGIN A B " * 10000 + "private key", "eyJ" * 40000, "sk-" * 40000, "sk-a" * 40000, "secret=\"" * 20000, "bearer " + "a"*100000, "gh"+"p_"*50000, "--a-" * 30000, "SG." * 30000, "xox"*40000):
        t = time.perf_counter(); r.text(evil); d = time.perf_counter() - t
        if d > .5: print("SLOW", evil[:20], len(evil), d)
    assert 0
