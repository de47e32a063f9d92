"""Databases of Google's Agent Development Kit, made by the kit itself: imported, gone on with, and imported again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="the Agent Development Kit is not installed: `make interop` does it")

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import BaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from treering import SessionHost
from treering.adapters.adk import TreeringSessionService
from treering.entries import MessageEntry

pytestmark = pytest.mark.filterwarnings("ignore:.EXPERIMENTAL:UserWarning")  # the kit's, of its own features

NAMES: dict[str, Any] = {"app_name": "my app", "user_id": "ann/1"}
WHOLE: list[Any] = [
    types.Part(text="Thinking", thought=True, thought_signature=b"\x00\xff"),
    types.Part(text="I look it up."),
    types.Part(function_call=types.FunctionCall(id="c1", name="find", args={"my_parcel": {"some_key": 7}})),
    types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png")),
]


@pytest.fixture
def anyio_backend() -> str:
    """The kit knows no other loop."""
    return "asyncio"


@pytest.fixture(params=["sqlite", "database"])
async def before(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseSessionService]:
    """One of the kit's services."""
    file = tmp_path / "sessions.db"
    if request.param == "sqlite":
        yield SqliteSessionService(str(file))
        return
    services = pytest.importorskip("google.adk.sessions.database_session_service", reason="SQLAlchemy is not installed")
    service = services.DatabaseSessionService(f"sqlite+aiosqlite:///{file}")
    yield service
    await service.close()


def said(words: str, invocation: str, author: str = "agent", **actions: Any) -> Event:  # noqa: ANN401
    """Return an event that says something."""
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=words)])
    return Event(invocation_id=invocation, author=author, content=content, actions=EventActions(**actions))


async def stored(host: SessionHost, key: str) -> list[Any]:
    """Return the entries of a session, each with its place in the tree and what people see of it."""
    session = await host.get_or_create(key)
    entries = [each async for each in session.iter_entries()]
    places = {each.id: at for at, each in enumerate(entries)}
    said = [each.message if isinstance(each, MessageEntry) else None for each in entries]
    return [
        (
            type(entry),
            places.get(entry.parent_id),
            message and (message.role, message.content, message.usage, message.model),
        )
        for entry, message in zip(entries, said, strict=True)
    ]


async def alike(here: BaseSessionService, there: BaseSessionService, session_id: str) -> None:
    """Assert that two services have the same session."""
    mine, theirs = [await each.get_session(**NAMES, session_id=session_id) for each in (here, there)]
    assert mine is not None
    assert theirs is not None
    assert (mine.events, mine.state) == (theirs.events, theirs.state)
    assert mine.last_update_time == pytest.approx(theirs.last_update_time, rel=0, abs=1e-5)


async def test_sessions_of_the_kit_go_on_here(root: str, tmp_path: Path, before: BaseSessionService) -> None:
    file = tmp_path / "sessions.db"
    initial = {"kept": [1], "turned": "a", "app:of_app": 1, "user:of_user": {"x_y": None}, "temp:gone": 1}
    session = await before.create_session(**NAMES, session_id="s 1", state=initial)
    await before.append_event(session, said("Where is it?", "i1", "user", state_delta={"turned": "b", "user:n": 2}))
    call = Event(
        invocation_id="i1",
        author="agent",
        content=types.Content(role="model", parts=WHOLE),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=9, candidates_token_count=3),
        long_running_tool_ids={"c1"},
        custom_metadata={"some_key": {"other_key": 1}},
        model_version="gemini-2.5",
        finish_reason=types.FinishReason.STOP,
    )
    await before.append_event(session, call)
    response = types.FunctionResponse(id="c1", name="find", response={"its_place": "Basel"})
    content = types.Content(role="user", parts=[types.Part(function_response=response)])
    await before.append_event(session, Event(invocation_id="i1", author="agent", content=content))
    await before.append_event(session, Event(invocation_id="i1", author="agent", error_code="QUOTA", error_message="?"))
    await before.append_event(session, said("In Basel.", "i2", artifact_delta={"my_file.txt": 1}))
    await before.append_event(session, said("", "i3", "user", rewind_before_invocation_id="i2", state_delta={"z": 0}))
    await before.append_event(session, said("Again?", "i4", "user", state_delta={"app:of_app": 3}))
    other = await before.create_session(**NAMES, session_id="s2", state={"app:of_app": 4})
    async with SessionHost(root) as host:
        reports = await host.import_sessions(file)
        assert {each.format for each in reports} == {"adk"}
        assert [each.findings for each in reports] == [()] * len(reports)
        here = TreeringSessionService(host)
        for each in ("s 1", "s2"):
            await alike(here, before, each)
        assert await here.get_user_state(**NAMES) == await before.get_user_state(**NAMES)
        listed = [[each.id for each in (await of.list_sessions(**NAMES)).sessions] for of in (here, before)]
        assert listed[0] == listed[1]

        again = await before.get_session(**NAMES, session_id="s 1")
        async with SessionHost() as apart:  # where the adapter itself stores the same
            service = TreeringSessionService(apart)
            twin = await service.create_session(**NAMES, session_id="s 1")
            for event in again.events if again else ():
                await service.append_event(twin, event)
            key = "my%20app/ann%2F1/s%201"
            assert await stored(host, key) == await stored(apart, key)

        assert {each.added for each in await host.import_sessions(file)} == {0}  # nothing new

        session = await before.get_session(**NAMES, session_id="s 1") or session
        await before.append_event(session, said("In Bern.", "i4", state_delta={"user:n": 5, "turned": "c"}))
        assert sum(each.added for each in await host.import_sessions(file)) == 2  # the event, and the user's state
        await alike(here, before, "s 1")
        assert await here.get_user_state(**NAMES) == await before.get_user_state(**NAMES)

        next_one = said("Thanks.", "i5", "user", state_delta={"turned": "d", "app:of_app": 6})
        for each in (before, here):  # both go on alike
            session = await each.get_session(**NAMES, session_id="s 1") or session
            await each.append_event(session, next_one.model_copy(deep=True))
        await alike(here, before, "s 1")
        await alike(here, before, other.id)
