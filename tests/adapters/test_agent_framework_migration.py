"""Files of the Agent Framework's own history, made by the framework itself: imported, gone on with, imported again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="Microsoft's Agent Framework is not installed: `make interop` does it")

from agent_framework import Agent, Content, FileHistoryProvider, Message, tool

from treering import SessionHost
from treering.adapters.agent_framework import TreeringHistoryProvider

from .test_agent_framework import Script

pytestmark = pytest.mark.filterwarnings("ignore:.*is experimental")  # the framework's, of its own classes

IDS = ("support-42", "user:ann/Ünï", "default", "/" * 200)  # the last one's file does not tell it


@pytest.fixture
def anyio_backend() -> str:
    """The framework knows no other loop."""
    return "asyncio"


@tool(approval_mode="never_require")
def track(number: str) -> str:
    """Say where a parcel is."""
    return f"{number} is in Lisbon"


async def ask(provider: Any, words: str, *answers: Content | str) -> None:  # noqa: ANN401  # theirs, or ours
    """Run an agent that remembers by a provider."""
    agent = Agent(client=Script(*answers), tools=[track], context_providers=[provider])
    await agent.run(words, session=agent.create_session(session_id=IDS[0]))


async def history(provider: Any, session_id: str | None = IDS[0]) -> Sequence[dict[str, Any]]:  # noqa: ANN401
    """Return what a provider has of a session."""
    return [each.to_dict() for each in await provider.get_messages(session_id)]


async def test_histories_of_the_framework_go_on_here(root: str, tmp_path: Path) -> None:
    folder = tmp_path / "histories"
    before = FileHistoryProvider(folder)
    call = Content.from_function_call("c1", "track", arguments='{"number": "Z9"}')
    await ask(before, "Where is Z9?", call, "In Lisbon.")
    odd = [
        Message("user", ["yes"]),
        Message("assistant", [Content.from_text_reasoning(text="hm", protected_data="sealed"), "no"], message_id="m1"),
        Message("user", ["yes"], author_name="ann", additional_properties={"deep": {"of": [1.0, None]}}),
        Message("assistant", [Content.from_data(b"\x89PNG", "image/png")]),
    ]
    for session_id in IDS[1:]:
        await before.save_messages(session_id, odd)
    async with SessionHost(root) as host:
        reports = await host.import_sessions(folder)
        assert {each.format for each in reports} == {"agent-framework"}
        assert [each.code for report in reports for each in report.findings] == ["unnamed"]
        here = TreeringHistoryProvider(host)
        for each in IDS[:-1]:
            assert await history(here, each) == await history(before, each) != []
        await here.save_messages("twin", odd)  # what the adapter itself stores
        one, two = [await host.get_or_create(each) for each in (IDS[1], "twin")]
        assert await one.messages() == await two.messages()

        assert {each.added for each in await host.import_sessions(folder)} == {0}  # nothing new

        await ask(before, "And Z8?", "Lost.")
        assert sum(each.added for each in await host.import_sessions(folder)) == 2
        assert await history(here) == await history(before)

        for provider in (before, here):  # both go on alike
            await ask(provider, "Why?", "Nobody knows.")
        assert await history(here) == await history(before)
        await host.import_sessions(folder)  # a branch: what went on here stays
        assert await history(here) == await history(before)
