"""Imported sessions in a host: they are found by key, and their context is what the other program showed."""

from __future__ import annotations

from pathlib import Path

import pytest

from treering import SessionHost
from treering.events.content import plain_text

pytestmark = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])


@pytest.mark.feature("P-29")
async def test_a_session_of_picoclaw_is_found_by_its_key(data: Path, tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        await host.import_sessions(data / "picoclaw.jsonl")
        session = await host.get_or_create("telegram:42")
        assert [message.role for message in await session.history()] == ["assistant", "tool", "tool", "assistant"]
        assert session.summary == "A timer was set."
        assert session.message_count == 5, "skipped messages are kept"


async def test_a_rewound_session_of_gemini_keeps_its_leaf(data: Path, tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        (report,) = await host.import_sessions(data / "gemini.jsonl")
        session = await host.load(report.id)
        assert session.leaf_id == "i1"
        texts = [plain_text(message.content) for message in await session.history()]
        assert texts == ["List the recipes.", "Let me look.", "", "Bread and cake.", "Read the bread."]


async def test_a_compacted_session_of_opencode_shows_its_summary_and_the_kept_messages(
    data: Path, tmp_path: Path
) -> None:
    async with SessionHost(tmp_path) as host:
        report, _ = await host.import_sessions(data / "opencode" / "storage")
        session = await host.load(report.id)
        assert session.path()[-2] == "msg_04", "a mark of the revert is the leaf"
        roles = [message.role for message in await session.history()]
        assert roles == ["compactionSummary", "assistant", "tool", "tool", "assistant"]


async def test_a_compacted_session_of_codex_shows_the_replacement_history(data: Path, tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        (report,) = await host.import_sessions(data / "codex.jsonl")
        session = await host.load(report.id)
        texts = [plain_text(message.content) for message in await session.history()]
        assert texts == ["Summary: oven.py was restored.", "Restore it from git.", "Thanks."]
        assert session.title == "Oven test"


async def test_a_compacted_session_of_dive_shows_the_summary_and_the_kept_messages(data: Path, tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        (report,) = await host.import_sessions(data / "dive.jsonl")
        session = await host.load(report.id)
        texts = [plain_text(message.content) for message in await session.history()]
        assert texts == ["They read bread.md.", "And this?", "A document.", "Done?", "Done."]
        assert (await session.total_usage()).total_tokens == 15
