"""`/ag-ui/{session}`: a page shows a session, talks in it, and finds its place again after a break."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from treering import (
    AgentSession,
    MessageEntry,
    Session,
    SessionHost,
    image,
    message,
    thinking,
    tool,
    tool_result,
    tool_use,
)
from treering.entries import SessionInfo, ToolResultPart
from treering.events.disk.disk import OsDisk
from treering.server import Tokens
from treering.server.principals import Role
from treering.testing.models import ScriptedModel, answer

from .ag_ui_rules import Page
from .conftest import Client, Json, Serve

DOCS = Path(__file__).resolve().parents[2] / "docs" / "ag-ui.md"


def said(id_: str, content: str, role: str = "user", **more: str) -> Json:
    return {"id": id_, "role": role, "content": content, **more}


def asked(messages: list[Json]) -> Json:
    return {
        "threadId": "thread", "runId": "run", "messages": messages, "state": {}, "tools": [], "context": [],
        "forwardedProps": {},
    }  # fmt: skip


@asynccontextmanager
async def running(
    client: Client, session: Session, page: Page, headers: dict[str, str] | None = None
) -> AsyncIterator[Callable[..., Any]]:
    """Run, and yield what takes events until one of a type comes, or the run is over."""
    body = asked([each for each in page.messages if each["role"] != "activity"])
    async with client.follow(f"/ag-ui/{session.id}", body=body, headers=headers) as events:

        async def until(kind: str | None = None) -> Json:
            async for event in events:
                page.take(event.data)
                if event.data["type"] == kind:
                    return event.data
            assert kind is None, f"no {kind} came"
            return page.end

        yield until


async def run(client: Client, session: Session, page: Page, **options: Any) -> Json:  # noqa: ANN401  # those of `running`
    """Run to the end, and return the last event."""
    async with running(client, session, page, **options) as until:
        return await until()


@pytest.mark.feature("A-30")
async def test_a_page_talks_with_the_agent_of_the_documentation(client: Client, host: SessionHost) -> None:
    found = re.search(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert found[1].count("\n") <= 30
    program: dict[str, Any] = {}
    exec(found[1], program)  # noqa: S102  # as it stands

    @tool
    async def read_log(lines: int) -> str:
        """Read the log."""
        return f"{lines} lines"

    model = ScriptedModel(
        [
            answer([thinking("The log will tell."), "I look.", tool_use("c1", "read_log", {"lines": 3})]),
            "The timeout is 30 s.",
        ]
    )
    session = await host.create("parser")
    await session.append_message("system", "You mend parsers.")
    await session.append_message("user", "Hello")
    await session.append_message("assistant", "Hello, what is it?")
    page = Page()
    assert (await run(client, session, page))["type"] == "RUN_FINISHED"
    assert [each["content"] for each in page.messages] == ["You mend parsers.", "Hello", "Hello, what is it?"]
    assert (page.state["state"], page.state["session"]) == ("idle", "parser")

    page = Page([*page.messages, said("mine", "Why does it time out?")])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program["answer_everybody"], session, AgentSession(model, tools=[read_log]))
        await anyio.wait_all_tasks_blocked()
        end = await run(client, session, page)
        tasks.cancel_scope.cancel()
    assert end == {"type": "RUN_FINISHED", "threadId": "thread", "runId": "run", "outcome": {"type": "success"}}
    assert page.state["state"] == "idle"
    assert "STATE_DELTA" in page.types
    shown = [(each["role"], each["content"]) for each in page.messages][3:]
    assert shown == [
        ("user", "Why does it time out?"), ("reasoning", "The log will tell."), ("assistant", "I look."),
        ("tool", "3 lines"), ("assistant", "The timeout is 30 s."),
    ]  # fmt: skip
    call = page.messages[5]["toolCalls"][0]
    assert (call["id"], call["function"]) == ("c1", {"name": "read_log", "arguments": '{"lines":3}'})
    assert page.messages[6]["toolCallId"] == "c1"

    # Sending all of it again, as a page does that was reloaded, appends nothing, and shows the same in the same order.
    before = session.cursor
    page = Page(page.messages)
    assert (await run(client, session, page))["type"] == "RUN_FINISHED"
    assert [(each["role"], each["content"]) for each in page.messages][3:] == shown
    assert page.messages[3]["id"] == "mine"
    assert session.cursor == before


@pytest.mark.feature("A-30")
async def test_a_page_that_was_cut_off_gets_what_is_written_from_its_start(client: Client, host: SessionHost) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "broken"})
    session = await host.load("broken")
    page = Page([said("mine", "Tell me.")])
    async with running(client, session, page) as until:
        await until("STATE_SNAPSHOT")
        session.emit_text("agent.thinking", "Hm.", message="a1")
        session.emit_text("agent.text", "Once ", message="a1")
        await until("TEXT_MESSAGE_CONTENT")
    assert page.messages[-1]["content"] == "Once "
    session.emit_text("agent.text", "upon ", message="a1")
    again = Page(page.messages)
    async with running(client, session, again) as until:
        while not (again.messages and again.messages[-1]["content"] == "Once upon "):
            await until("TEXT_MESSAGE_CONTENT")
        snapshots = again.types.count("MESSAGES_SNAPSHOT")
        session.emit("progress", {"done": 1})
        for _ in range(1500):  # more than a feed keeps, so that the stream reads the text from its beginning again
            session.emit_text("agent.text", "a", message="a1")
        await until("TEXT_MESSAGE_CONTENT")
        story = f"Once upon {'a' * 1500} time."
        await session.append(message("assistant", [thinking("Hm."), story]))
        assert (await until())["type"] == "RUN_FINISHED"
    assert [each["content"] for each in again.messages] == ["Tell me.", "Hm.", story]
    assert again.types.count("MESSAGES_SNAPSHOT") == snapshots  # which nothing had to be put right by
    assert again.types.count("TEXT_MESSAGE_START") == again.types.count("REASONING_START") == 1
    kept = [each.message.role for each in await session.entries() if isinstance(each, MessageEntry)]
    assert kept == ["user", "assistant"]

    # What nobody went on writing is not the page's either.
    page = Page([*again.messages, said("more", "And then?")])
    async with running(client, session, page) as until:
        await until("STATE_SNAPSHOT")
        session.emit_text("agent.text", "Then", message="a2")
        await until("TEXT_MESSAGE_CONTENT")
        await session.append(SessionInfo(status="done"))
        assert (await until())["type"] == "RUN_FINISHED"
    assert [each["content"] for each in page.messages][3:] == ["And then?"]


@pytest.mark.feature("A-30")
async def test_images_come_in_the_parts_of_all_releases_of_the_protocol(client: Client, host: SessionHost) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    url = "https://example.com/a.png"
    parts = (
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "binary", "data": "aGk=", "mimeType": "image/png", "filename": "a.png"},
        {"type": "image", "source": {"type": "url", "value": url, "mimeType": "image/png"}},
        {"type": "binary", "url": url, "data": None, "mimeType": "image/png"},
    )
    async with client.follow("/ag-ui/a", body=asked([{"id": "1", "role": "user", "content": list(parts)}])) as events:
        await anext(events)
    (sent,) = await (await host.load("a")).messages()
    assert list(sent.content) == [image("aGk=", "image/png")] * 2 + [image(url, "image/png", kind="url")] * 2
    for part in ({"type": "binary", "url": url, "mimeType": "audio/wav"}, {"type": "binary", "mimeType": "image/png"}):
        await client.ask("POST", "/ag-ui/a", asked([{"id": "2", "role": "user", "content": [part]}]), status=400)


async def test_a_run_ends_with_what_it_waits_for_or_failed_along_the_path(client: Client, host: SessionHost) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "ends"})
    session = await host.load("ends")
    page = Page([said("u1", "Paint it.")])
    async with running(client, session, page) as until:
        await until("STATE_SNAPSHOT")
        await session.append(message("assistant", [tool_use("c0", "mix", {})]))
        await session.append(message("tool", [tool_result("c0", "no brush", is_error=True)]))
        while page.state["state"] != "error":  # after which an agent goes on
            await until("STATE_DELTA")
        session.emit_text("agent.text", "I will paint it gre", message="first")
        await until("TEXT_MESSAGE_CONTENT")
        session.emit_text("agent.text", "Which colour?", message="second")  # the first is given up
        await session.append(message("assistant", ["Which colour?", tool_use("c1", "ask_user", {"what": "colour"})]))
        end = await until()
    assert end["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}
    assert [each["content"] for each in page.messages] == ["Paint it.", "", "no brush", "Which colour?"]
    page.messages.append(said("r1", "Blue.", "tool", toolCallId="c1"))
    page.messages.append(said("r2", "Nobody asked.", "tool", toolCallId="c9"))
    page = Page(page.messages)
    async with running(client, session, page) as until:
        await until("STATE_SNAPSHOT")
        assert page.state["state"] == "working"
        asked_at = session.path()[0]
        await session.branch(asked_at)
        while [each["content"] for each in page.messages] != ["Paint it."]:
            await until("MESSAGES_SNAPSHOT")
        await session.append_message("user", "Red.")
        await until("TEXT_MESSAGE_END")
        failed = message("assistant", "I cannot.", error="no paint", stop_reason="error")
        both = [message("user", "Green."), failed]  # the history that is told at the first has the second
        await session.append_many(both, below=asked_at)
        end = await until()
    assert (end["type"], end["code"], end["message"]) == ("RUN_ERROR", "agent", "no paint")
    assert [(each["role"], each["content"]) for each in page.messages] == [
        ("user", "Paint it."), ("user", "Green."), ("assistant", "I cannot."),
    ]  # fmt: skip
    told = [part.tool_result for each in await session.entries() if isinstance(each, MessageEntry)
            for part in each.message.content if isinstance(part, ToolResultPart)]  # fmt: skip
    assert [(each.tool_use_id, each.text) for each in told] == [("c0", "no brush"), ("c1", "Blue.")]


@pytest.mark.feature("A-30")
async def test_whoever_may_only_read_sees_a_run_and_each_run_ends_with_the_server(
    host: SessionHost, served: Serve, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path / "tokens.json", OsDisk())
    session = await host.get_or_create("red:1")
    await session.append_message("user", "Is anybody there?")
    principals: list[tuple[str, Role, str]] = [
        ("reader", "read", "red:"), ("stranger", "write", "blue:"), ("red", "write", "red:"),
    ]  # fmt: skip
    headers = {
        name: {"authorization": f"Bearer {tokens.create(role, prefix=prefix)}"} for name, role, prefix in principals
    }
    async with served(host, tokens=tokens, open_without_tokens=False) as client:
        path = f"/ag-ui/{session.id}"
        await client.ask("POST", path, asked([]), status=401)
        await client.ask("POST", path, asked([]), status=404, headers=headers["stranger"])
        await client.ask("POST", path, asked([said("x", "I.")]), status=403, headers=headers["reader"])
        for wrong in (None, 3, [{"type": "audio"}], [{"type": "text"}]):
            body = asked([{"id": "x", "role": "user", "content": wrong}])
            await client.ask("POST", path, body, status=400, headers=headers["red"])
        assert session.message_count == 1
        page = Page()
        async with running(client, session, page, headers["reader"]) as until:
            await until("STATE_SNAPSHOT")
            assert [each["content"] for each in page.messages] == ["Is anybody there?"]
            client.application.service.stopping.set()
            end = await until()
        assert (end["type"], end["code"]) == ("RUN_ERROR", "shutdown")
