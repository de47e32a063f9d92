"""Databases of OpenAI's Agents SDK, made by the SDK itself: imported, gone on with, and imported again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

pytest.importorskip("agents", reason="OpenAI's Agents SDK is not installed: pip install -e '.[openai-agents]'")

from agents import Agent, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.extensions.memory import AdvancedSQLiteSession
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from agents.usage import Usage
from openai import AsyncOpenAI
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from treering import SessionHost
from treering.adapters.openai_agents import TreeringAdvancedSession, TreeringSession
from treering.testing.model_server import Call, ModelServer

from .typed_values import values_of

set_tracing_disabled(disabled=True)

Make: TypeAlias = Callable[[str, Path], Any]
"""Makes one of the SDK's sessions, by its id and its file."""

ITEMS: list[Any] = [*values_of(ResponseInputItemParam), {"type": "something_new", "of": [1, 2.5, None, {"deep": True}]}]


@pytest.fixture
def anyio_backend() -> str:
    """The SDK knows no other loop."""
    return "asyncio"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model that says what it is told to."""
    with ModelServer() as server:
        yield server


@function_tool
def look(parcel: int) -> str:
    """Look for a parcel."""
    return f"{parcel} is in Basel"


async def ran(agent: Agent[Any], words: str, session: Any) -> str:  # noqa: ANN401  # one of the SDK's, or ours
    """Return what an agent answers in a session."""
    result = Runner.run_streamed(agent, words, session=session)
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


def said(*words: str) -> list[Any]:
    """Return items, in turn of the user and of the assistant."""
    return [{"role": ("user", "assistant")[at % 2], "content": each} for at, each in enumerate(words)]


def run_of(tokens: int) -> Any:  # noqa: ANN401  # what a run returns, as far as its usage goes
    usage = Usage(
        requests=1,
        input_tokens=tokens,
        output_tokens=2,
        total_tokens=tokens + 2,
        input_tokens_details=InputTokensDetails(cached_tokens=1, cache_write_tokens=0),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=1),
    )
    return SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))


def in_sqlite(session_id: str, file: Path) -> Any:  # noqa: ANN401  # a session of the SDK
    return SQLiteSession(session_id, file)


def in_own_tables(session_id: str, file: Path) -> Any:  # noqa: ANN401
    return SQLiteSession(session_id, file, sessions_table="talks", messages_table="said")


def in_advanced_sqlite(session_id: str, file: Path) -> Any:  # noqa: ANN401
    return AdvancedSQLiteSession(session_id=session_id, db_path=file, create_tables=True)


def in_sqlalchemy(session_id: str, file: Path) -> Any:  # noqa: ANN401
    memory = pytest.importorskip("agents.extensions.memory.sqlalchemy_session", reason="SQLAlchemy is not installed")
    return memory.SQLAlchemySession.from_url(session_id, url=f"sqlite+aiosqlite:///{file}", create_tables=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Return what the files of a folder hold."""
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


async def end(session: Any) -> None:  # noqa: ANN401
    """Close one of the SDK's sessions."""
    if isinstance(session, SQLiteSession):
        session.close()
    else:
        await session.engine.dispose()


@pytest.mark.parametrize("make", [in_sqlite, in_own_tables, in_advanced_sqlite, in_sqlalchemy])
async def test_sessions_of_the_sdk_go_on_here(root: str, tmp_path: Path, server: ModelServer, make: Make) -> None:
    file = tmp_path / "conversations.db"
    before, other = make("user:42", file), make("Ünïcode/…", file)
    client = AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=0)
    model = OpenAIChatCompletionsModel("any", openai_client=client)
    agent = Agent(name="clerk", model=model, tools=[look])
    server.calls(Call("c1", "look", '{"parcel": 7}'))
    server.says("In Basel.")
    assert await ran(agent, "Where is it?", before) == "In Basel."
    await other.add_items(ITEMS)
    async with SessionHost(root) as host:
        reports = await host.import_sessions(file)
        assert [(each.format, each.existed, each.findings) for each in reports] == [("openai-agents", False, ())] * 2
        here, twin = TreeringSession("user:42", host), TreeringSession("twin", host)
        assert await here.get_items() == await before.get_items()
        assert await TreeringSession("Ünïcode/…", host).get_items() == ITEMS
        await twin.add_items(ITEMS)  # what the adapter stores, had it been held through it
        one, two = [await host.get_or_create(each) for each in ("Ünïcode/…", "twin")]
        assert [each.message for each in (await one.context()).messages] == [
            each.message for each in (await two.context()).messages
        ]

        stored = one.cursor.seq
        assert [each.added for each in await host.import_sessions(file)] == [0, 0]  # nothing new
        assert one.cursor.seq == stored

        await before.add_items(said("c", "d"))  # meanwhile there
        assert [each.added for each in await host.import_sessions(file)] == [2, 0]
        assert await here.get_items() == await before.get_items()

        assert await before.pop_item() == said("c", "d")[1]  # a failed turn, and another try
        await before.add_items(said("c", "e")[1:])
        assert [each.added for each in await host.import_sessions(file)] == [1, 0]
        assert await here.get_items() == await before.get_items()

        for each in (before, here):  # and on, on both sides alike
            server.says("By train.")
            assert await ran(agent, "How?", each) == "By train."
        assert await here.get_items() == await before.get_items()
        assert [each.added for each in await host.import_sessions(file)] == [2, 0]  # a branch; what goes on here, stays
        assert await here.get_items() == await before.get_items()
    await client.close()
    await end(before)
    await end(other)


async def test_branches_of_the_sdk_go_on_here(root: str, tmp_path: Path) -> None:
    file = tmp_path / "branches.db"
    before = in_advanced_sqlite("long", file)
    await before.add_items(said("a", "b", "c", "d"))
    await before.store_run_usage(run_of(5))
    await before.create_branch_from_turn(2, "second")
    await before.add_items(said("e", "f", "g"))
    await before.store_run_usage(run_of(7))
    await before.create_branch_from_turn(3, "third")
    await before.add_items(said("h"))
    await before.create_branch_from_turn(1, "first")  # shares nothing
    await before.add_items(said("i", "j"))
    await before.create_branch_from_turn(1, "blank")  # holds nothing
    await before.switch_to_branch("main")
    await before.add_items(said("k", "l"))
    await before.store_run_usage(run_of(9))

    async def alike(here: TreeringAdvancedSession) -> None:
        names = ["main", "second", "third", "first", "gone"]
        for name in names:
            assert await here.get_items(branch_id=name) == await before.get_items(branch_id=name)
            for call in ("get_conversation_by_turns", "get_tool_usage", "get_turn_usage"):
                options = {"branch_id": name}
                assert await getattr(here, call)(**options) == await getattr(before, call)(**options), (name, call)
        assert await here.get_session_usage() == await before.get_session_usage()
        mine, theirs = [{each["branch_id"]: each for each in await of.list_branches()} for of in (here, before)]
        assert mine == theirs

    async with SessionHost(root) as host:
        (report,) = await host.import_sessions(file)
        assert not report.findings
        here = TreeringAdvancedSession("long", host)
        await alike(here)
        (report,) = await host.import_sessions(file)
        assert report.added == 0
        for each in (before, here):  # its names cannot be used again
            with pytest.raises(ValueError, match="already been used"):
                await each.create_branch_from_turn(1, "blank")

        await before.add_items(said("m", "n"))
        await before.store_run_usage(run_of(11))
        await before.switch_to_branch("second")
        await before.pop_item()
        await before.add_items(said("o"))
        await before.create_branch_from_turn(3, "fourth")
        await before.add_items(said("p", "q"))
        await before.switch_to_branch("main")
        (report,) = await host.import_sessions(file)
        assert report.added == 7  # m, n, their usage, o, the mark of the branch, p and q
        await alike(TreeringAdvancedSession("long", host))

        for of in (before, here):  # both sides go on alike
            await of.switch_to_branch("fourth")
            await of.create_branch_from_turn(2, "fifth")
            await of.add_items(said("r", "s"))
        assert await here.get_items() == await before.get_items()
        assert await here.get_items(branch_id="fourth") == await before.get_items(branch_id="fourth")

    await before.clear_session()
    await before.add_items(said("new"))
    async with SessionHost(root) as host:
        await host.import_sessions(file)
        here = TreeringAdvancedSession("long", host)
        assert await here.get_items() == said("new")
        assert [each["branch_id"] for each in await here.list_branches()] == ["main"]
    before.close()


async def test_a_branch_began_when_the_sdk_says_that_it_did(root: str, tmp_path: Path) -> None:
    file = tmp_path / "branches.db"
    before = in_advanced_sqlite("long", file)
    await before.add_items(said("a", "b", "c"))
    await before.create_branch_from_turn(2, "second")
    await before.add_items(said("d"))
    with sqlite3.connect(file) as database:  # the branch began an hour after "c" was said, and an hour before "d"
        for table in ("agent_sessions", "agent_messages", "message_structure"):
            database.execute(f"UPDATE {table} SET created_at = '2026-01-01 08:00:00'")
        database.execute("UPDATE message_structure SET created_at = '2026-01-01 09:00:00' WHERE branch_id = 'second'")
        for table, column in (("agent_messages", "id"), ("message_structure", "message_id")):
            database.execute(f"UPDATE {table} SET created_at = '2026-01-01 10:00:00' WHERE {column} = 4")
    database.close()
    async with SessionHost(root) as host:
        await host.import_sessions(file)
        here = await TreeringAdvancedSession("long", host).list_branches()
        began = {each["branch_id"]: each["created_at"] for each in here}
        assert began == {each["branch_id"]: each["created_at"] for each in await before.list_branches()}
        assert began["second"] == "2026-01-01 09:00:00"
    before.close()


async def test_nothing_is_written_into_the_database(root: str, tmp_path: Path) -> None:
    file = tmp_path / "alive.db"
    before = in_sqlite("alive", file)  # open, so that what it wrote is in its log
    await before.add_items(ITEMS)
    files = contents(tmp_path)
    assert len(files) == 3
    async with SessionHost(root) as host:
        await host.import_sessions(file)
        assert await TreeringSession("alive", host).get_items() == ITEMS
    assert contents(tmp_path) == files
    before.close()


async def test_a_damaged_row_costs_itself(root: str, tmp_path: Path) -> None:
    file = tmp_path / "damaged.db"
    before = in_sqlite("damaged", file)
    await before.add_items(said("a", "b", "c"))
    before.close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute('UPDATE agent_messages SET message_data = \'{"role": "us\' WHERE id = 2')
        connection.commit()
    async with SessionHost(root) as host:
        (report,) = await host.import_sessions(file)
        assert ["row 2" in each.message for each in report.findings] == [True]
        again = in_sqlite("damaged", file)
        assert await TreeringSession("damaged", host).get_items() == await again.get_items()
        again.close()
