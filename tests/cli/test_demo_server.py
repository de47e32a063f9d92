"""`treering demo --serve`: what its agents write, and how it begins and ends."""

import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import httpx2
import pytest

from treering import MessageEntry, Session, SessionHost, plain_text
from treering.cli.crew import crew
from treering.cli.crew.job import Job
from treering.cli.crew.model import Pace
from treering.cli.crew.script import Answer, Script, Story, Turn
from treering.entries import CustomEntry, SessionInfoEntry, ToolExecutionEntry
from treering.events.health.doctor import examine
from treering.subscriptions import SessionChanged

from .conftest import Cli


def test_agents_are_at_work_when_the_address_is_printed(cli: Cli, tmp_path: Path) -> None:
    folder, browser = tmp_path / "demo", tmp_path / "browser.py"
    browser.write_text(
        "import sys, urllib.request as web\nstatus = 0\n"
        "try: status = web.urlopen(sys.argv[1], timeout=20).status\nfinally: print(status)\n"
    )
    command = ("demo", "--serve", "--open", "--port", "0", "--dir", folder)
    with cli.spawn(*command, BROWSER=f"{sys.executable} {browser} %s/healthz") as demo:
        assert demo.stdout is not None
        address, answered = (demo.stdout.readline().decode().strip() for _ in range(2))
        assert address.startswith("http://127.0.0.1:")
        assert answered == "200", "the server waited for the browser"
        with httpx2.Client(base_url=address, timeout=60) as http:
            rows = http.get("/v1/sessions", params={"limit": 500}).json()["items"]
            with http.stream("GET", f"/v1/sessions/{rows[0]['id']}/events?kinds=entry&since=start") as events:
                assert next(line for line in events.iter_lines() if line.startswith("event:")) == "event: entry"
        demo.send_signal(signal.SIGINT)
        rest, said = demo.communicate()
    assert (demo.returncode, rest) == (0, b"")
    assert said.decode().startswith(f"{crew.AGENTS} agents are at work")
    assert examine(folder) == []
    anyio.run(assert_variety, folder)
    ids = {row["id"] for row in rows}
    assert len(ids) == len(rows) >= crew.AGENTS
    assert {each.stem for each in folder.glob("*.jsonl")} >= ids


async def assert_variety(folder: Path) -> None:
    """There is at least one of each thing that the pages of a viewer show."""
    counts: Counter[str] = Counter()
    tests_s: list[float] = []
    async with SessionHost(folder) as host:
        rows = await host.list_sessions()
        agents = [row for row in rows if row.parent_session is None]
        children = [row for row in rows if row.parent_session is not None]
        assert len(agents) >= crew.AGENTS
        assert {row.parent_session for row in children} <= {row.id for row in agents}
        for row in rows:
            session = await host.load(row, read_only=True)
            path = set(session.path())
            for entry in await session.entries():
                counts[entry.custom.custom_type if isinstance(entry, CustomEntry) else entry.type] += 1
                counts["abandoned"] += entry.id not in path
                if isinstance(entry, ToolExecutionEntry) and b'"pytest -q' in bytes(entry.tool_execution.raw_arguments):
                    tests_s.append((entry.tool_execution.duration_ms or 0) / 1000)
                if isinstance(entry, MessageEntry):
                    counts[f"answer {entry.message.stop_reason}"] += 1
                    counts["failed call"] += any(
                        part.tool_result.is_error for part in entry.message.content if part.type == "tool_result"
                    )
    expected = ("tool_execution", "label", "branch_summary", "compaction", "abandoned", "failed call", "answer error")
    assert [kind for kind in (*expected, "treering.suspended") if not counts[kind]] == []
    assert min(tests_s) >= 5  # as the stories say, though the demo has caught up with them in less
    assert sum(row.status == "done" for row in rows) >= crew.AGENTS


@asynccontextmanager
async def running(pace: Pace) -> AsyncGenerator[None]:
    """Let the time of a demo run fast as long as the block runs."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pace.catch_up)
        yield
        tasks.cancel_scope.cancel()


async def test_a_seed_decides_what_is_said_in_every_story_which_ends() -> None:
    script = Script.load()
    told: dict[tuple[str, int], list[str]] = {}

    async def tell(story: Story, seed: int, number: int) -> None:
        async def hire(name: str, parent: Session) -> Session:
            return await host.create(parent_session=parent.id)

        session = await host.create(f"{story.name}-{number}")
        await Job(script, pace, Random(seed), session, story, hire).run(script.further)
        said = [each for each in await session.all_messages() if each.role != "tool"]
        told[story.name, number] = [plain_text(each.content) for each in said]

    pace = Pace(1e6)
    async with SessionHost(None) as host, running(pace), anyio.create_task_group() as tasks:
        for number, seed in enumerate((1, 1, 2)):
            for story in script.stories:
                tasks.start_soon(tell, story, seed, number)
    for story in script.stories:
        assert told[story.name, 0] == told[story.name, 1]
        assert told[story.name, 0] != told[story.name, 2]
        assert not any("$" in text for text in told[story.name, 0])


async def test_the_oldest_sessions_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "KEPT_MAX", 3)
    pace = Pace(1e6)
    async with SessionHost(None) as host, running(pace), anyio.create_task_group() as tasks:
        async with host.subscribe_sessions() as changes:
            tasks.start_soon(crew.Crew(host, pace, 1).work)
            deleted = 0
            async for change in changes:
                if isinstance(change, SessionChanged) and not deleted:
                    await host.delete(change.ref)  # a visitor may, whatever its agent is doing
                deleted += isinstance(change, SessionChanged) and change.summary is None
                if deleted == 2 * crew.AGENTS:
                    break
        agents = [row for row in await host.list_sessions() if row.parent_session is None]
        assert 0 < len(agents) <= crew.KEPT_MAX + 2 * crew.AGENTS
        tasks.cancel_scope.cancel()


async def test_an_agent_answers_what_a_visitor_writes() -> None:
    story = Story(
        "one", "One", "shop", [Turn(["Hi"], [Answer(said=["Hello."])]), Turn(["Bye"], [Answer(said=["Bye."])])]
    )

    async def hire(name: str, parent: Session) -> Session:
        raise AssertionError(name)

    pace = Pace(1e6)
    async with SessionHost(None) as host, running(pace), anyio.create_task_group() as tasks:
        session = await host.create("one")
        job = Job(Script.load(), pace, Random(1), session, story, hire)
        async with session.subscribe() as entries:
            tasks.start_soon(job.run, ())
            async for entry in entries:
                if isinstance(entry, MessageEntry) and plain_text(entry.message.content) == "Hello.":
                    await session.append_message("user", "What is this?")
                elif isinstance(entry, SessionInfoEntry) and entry.session_info.status == "done":
                    break
        said = [plain_text(each.content) for each in await session.all_messages()]
    assert (said[:3], said[4:]) == (["Hi", "Hello.", "What is this?"], ["Bye", "Bye."])
    assert said[3].startswith("> What is this?\n\nThis demo follows a script")
