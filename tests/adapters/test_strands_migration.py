"""Files of Strands Agents' `FileSessionManager`, made by the framework: imported, gone on with, and imported again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands Agents is not installed: `make interop` does it")

from strands import Agent, tool
from strands.session.file_session_manager import FileSessionManager
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.session_repository import SessionRepository

from treering.adapters.strands import TreeringSessionRepository
from treering.sync import SyncHost

from .test_strands_agents import Script

SESSION, AGENT = "support-42", "helper"


@tool
def track(number: str) -> str:
    """Say where a parcel is."""
    return f"{number} is in Lisbon"


async def ask(manager: RepositorySessionManager, words: str, *answers: str | dict[str, Any]) -> None:
    """Run an agent that remembers by a manager."""
    agent = Agent(
        Script(*answers),
        agent_id=AGENT,
        tools=[track],
        session_manager=manager,
        state={"lang": "en"},
        callback_handler=None,
    )
    await agent.invoke_async(words)


def said(repository: SessionRepository) -> list[Any]:
    """Return what an agent's messages say, by their numbers."""
    listed = repository.list_messages(SESSION, AGENT)
    return [(each.message_id, each.to_message()["role"], each.to_message()["content"]) for each in listed]


def same(here: SessionRepository, there: SessionRepository) -> None:
    """Assert that two repositories have the same session, agent and messages, with their times."""
    for name, call in {"read_session": (SESSION,), "read_agent": (SESSION, AGENT)}.items():
        mine, theirs = (getattr(each, name)(*call).to_dict() for each in (here, there))
        assert mine == theirs
    mine, theirs = ([each.to_dict() for each in of.list_messages(SESSION, AGENT)] for of in (here, there))
    assert mine == theirs != []


async def test_sessions_of_the_framework_go_on_here(root: str, tmp_path: Path) -> None:
    folder = tmp_path / "sessions of strands"
    before = FileSessionManager(SESSION, str(folder))
    await ask(before, "Where is Z9?", {"number": "Z9"}, "In Lisbon.")
    with SyncHost(root) as host:
        reports = host.import_sessions(folder)
        assert [(each.format, each.id, each.findings) for each in reports] == [
            ("strands", SESSION, ()),
            ("strands", reports[1].id, ()),
        ]
        here = TreeringSessionRepository(host)
        same(here, before)
        assert [each.role for each in host.get_or_create(f"{SESSION}/{AGENT}").messages()] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        assert [each.added for each in host.import_sessions(folder)] == [0, 0]  # nothing new

        await ask(FileSessionManager(SESSION, str(folder)), "And Z8?", "Lost.")  # meanwhile there
        file = folder / f"session_{SESSION}" / "agents" / f"agent_{AGENT}" / "messages" / "message_5.json"
        record = json.loads(file.read_text())  # a test
        redacted = record | {"redact_message": {"role": "assistant", "content": [{"text": "[taken out]"}]}}
        file.write_text(json.dumps(redacted))
        assert host.import_sessions(folder)[1].added > 2
        assert [each.added for each in host.import_sessions(folder)] == [0, 0]
        same(here, before)
        assert said(here)[-1][2] == [{"text": "[taken out]"}]

        for manager in (FileSessionManager(SESSION, str(folder)), RepositorySessionManager(SESSION, here)):
            await ask(manager, "Why?", "Nobody knows.")  # both go on alike
        assert said(here) == said(before)
        host.import_sessions(folder)  # a branch: what went on here stays
        assert said(here) == said(before)
