"""The names on the page about agents exist, and its programs run."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

import treering
from treering import AgentOptions, AgentSession, Session, SessionHost, Suspend, ToolOutput, tool_use
from treering.testing.models import ScriptedModel, Step, answer

from .lines import giving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "agents.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_names_on_the_page_exist(page: str) -> None:
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    for name in re.findall(r"`([A-Z]\w+)[`(]", prose):
        assert hasattr(treering, name) or name == "ScriptedModel", name
    for name in re.findall(r"`(?:agent|session)\.(\w+)\(", prose):
        assert hasattr(AgentSession, name) or hasattr(Session, name), name
    for name in re.findall(r"`(\w+_(?:max|s))`", prose):
        assert name in AgentOptions.__struct_fields__, name


async def test_the_programs_of_the_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    first, reading, streamed, waiting = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    names |= await run(first, names)
    read_file = (await run(reading, names))["read_file"]
    assert await read_file({"path": __file__, "lines": 1}) == ToolOutput(
        '"""The names on the page about agents exist, and its programs run."""\n'
    )
    async with SessionHost() as host:
        script: list[Step] = ["Sunny.", answer(tool_use("1", "deploy")), "Deployed."]
        names["agent"] = AgentSession(
            ScriptedModel(script), session=await host.create(), tools=[giving("deploy", Suspend("may I?"))]
        )
        await run(streamed, names)
        assert (await run(waiting, names))["turn"].text == "Deployed."
    shown = capsys.readouterr().out
    assert "(echo, 2 messages) Hello" in shown
    assert "Sunny.Usage(" in shown


async def run(program: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a program with top-level awaits, and return the names that it defines."""
    exec(f"async def program():\n{indent(program, '    ')}\n    return locals()", names)  # noqa: S102  # from the page
    found: dict[str, Any] = await names["program"]()
    return found
