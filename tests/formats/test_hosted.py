"""Imported sessions in a host: they are found by key, and their context is what the other program showed."""

from pathlib import Path

import pytest

from treering import SessionHost
from treering.events.content import plain_text

pytestmark = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])


@pytest.mark.feature("P-29")
async def test_a_session_of_picoclaw_is_found_by_its_key(data: Path, host: SessionHost) -> None:
    await host.import_sessions(data / "picoclaw" / "picoclaw.jsonl")
    session = await host.get_or_create("telegram:42")
    assert [message.role for message in await session.history()] == ["assistant", "tool", "tool", "assistant"]
    assert session.summary == "A timer was set."
    assert session.message_count == 5, "skipped messages are kept"


@pytest.mark.parametrize(
    ("sample", "shown", "title", "total_tokens"),
    [
        ("gemini", ["List the recipes.", "Let me look.", "", "Bread and cake.", "Read the bread."], None, None),
        ("codex", ["Summary: oven.py was restored.", "Restore it from git.", "Thanks."], "Oven test", None),
        ("dive", ["They read bread.md.", "And this?", "A document.", "Done?", "Done."], "Bakery", 15),
    ],
)
async def test_a_rewound_or_compacted_session_shows_what_the_program_showed(
    data: Path, host: SessionHost, sample: str, shown: list[str], title: str | None, total_tokens: int | None
) -> None:
    (report,) = await host.import_sessions(data / sample / f"{sample}.jsonl")
    session = await host.load(report.id)
    assert [plain_text(message.content) for message in await session.history()] == shown
    assert title in (None, session.title)
    assert total_tokens in (None, (await session.total_usage()).total_tokens)


async def test_a_compacted_session_of_opencode_shows_summary_and_kept_messages(data: Path, host: SessionHost) -> None:
    report, _ = await host.import_sessions(data / "opencode" / "storage")
    session = await host.load(report.id)
    assert session.path()[-2] == "msg_04", "a mark of the revert is the leaf"
    roles = [message.role for message in await session.history()]
    assert roles == ["compactionSummary", "assistant", "tool", "tool", "assistant"]
