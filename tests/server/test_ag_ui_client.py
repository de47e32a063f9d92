"""The client of AG-UI, under node: it connects, talks, is cut off, and finds its place again."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.adapters.environments import FOLDER, lenient

from treering import AgentSession, MessageEntry, SessionHost, thinking, tool, tool_use
from treering.testing.models import ScriptedModel, Step, answer

from .conftest import Client
from .test_ag_ui import DOCS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PAGE = Path(__file__).with_name("ag_ui_page.mjs")
MODULES = FOLDER / "node" / "node_modules"
STORY = "Once upon a time there was a parser that waited for thirty seconds. " * 40


@pytest.mark.feature("A-30")
async def test_the_client_connects_runs_and_resumes(client: Client, host: SessionHost) -> None:
    node = shutil.which("node")
    if node is None or not (MODULES / "@ag-ui" / "client").is_dir():
        pytest.skip(f"node, or @ag-ui/client in {MODULES}, is missing: `make interop` installs it")
    found = re.search(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    program: dict[str, Any] = {}
    exec(found[1], program)  # noqa: S102  # as it stands

    @tool
    async def read_log(lines: int) -> str:
        """Read the log."""
        return f"{lines} lines"

    script: list[Step] = [
        answer([thinking("The log will tell."), "I look.", tool_use("c1", "read_log", {"lines": 3})]),
        "The timeout is 30 s.",
        STORY,
    ]
    session = await host.create("parser")
    await session.append_message("user", "Hello")
    await session.append_message("assistant", "Hello, what is it?")
    agent = AgentSession(ScriptedModel(script, piece_chars=8), tools=[read_log])
    url = f"http://127.0.0.1:{client.address[1]}/ag-ui/parser"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program["answer_everybody"], session, agent)
        await anyio.wait_all_tasks_blocked()
        command = [node, str(PAGE), str(MODULES), url]
        done = await anyio.run_process(command, check=False, stderr=subprocess.PIPE, env=lenient())
        tasks.cancel_scope.cancel()
    assert done.returncode == 0, done.stderr.decode()
    seen = msgspec.json.decode(done.stdout)

    def told(name: str) -> list[tuple[str, str]]:
        return [(each["role"], each["content"]) for each in seen[name]["messages"]]

    first = [("user", "Hello"), ("assistant", "Hello, what is it?")]
    assert told("history") == first
    assert seen["history"]["state"]["state"] == "idle"
    second = [
        *first, ("user", "Why does it time out?"), ("reasoning", "The log will tell."), ("assistant", "I look."),
        ("tool", "3 lines"), ("assistant", "The timeout is 30 s."),
    ]  # fmt: skip
    assert told("talked") == second
    assert seen["talked"]["messages"][4]["calls"] == [["c1", "read_log", '{"lines":3}']]
    types = seen["talked"]["types"]
    assert (types[0], types[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert types.count("TEXT_MESSAGE_CONTENT") > 2  # live, piece by piece
    assert {"STATE_SNAPSHOT", "STATE_DELTA", "TOOL_CALL_RESULT", "REASONING_MESSAGE_CONTENT"} <= set(types)
    assert seen["talked"]["state"]["state"] == "idle"
    assert "RUN_FINISHED" not in seen["broken"]["types"]
    assert told("broken")[-1][1] != STORY
    last = [*second, ("user", "Tell me a story."), ("assistant", STORY)]
    assert told("resumed") == told("fresh") == last
    assert [each.message.role for each in await session.entries() if isinstance(each, MessageEntry)].count("user") == 3
