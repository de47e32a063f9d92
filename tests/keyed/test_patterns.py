"""The page about conversations by key: its patterns, table and links hold."""

import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from treering import KeyedSessions, Message, Session, SessionHost, message, tool_result, tool_use
from treering.actors.host.names import id_of_key
from treering.errors import LeafMoved

from .conftest import transcript

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "keyed_sessions.py"
KEY = "telegram:123456"
CALL = message("assistant", tool_use("call_1", "files_read", {"path": "config.json"}))
RESULT = message("tool", tool_result("call_1", '{"setting": "value"}'))


@pytest.fixture
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.feature("P-30")
async def test_the_example_has_a_conversation(sessions: KeyedSessions, root: Path, example: dict[str, Any]) -> None:
    await example["talk"](sessions, KEY)
    expected = ["user: What's the weather?", "assistant: It's sunny today."]
    assert transcript(await sessions.history(KEY)) == expected
    assert (root / "telegram_123456.jsonl").read_bytes().count(b"\n") == 3


@pytest.mark.feature("P-31")
async def test_the_example_holds_one_with_tool_calls(sessions: KeyedSessions, example: dict[str, Any]) -> None:
    await example["talk_with_tools"](sessions, KEY)
    assert await sessions.history(KEY) == [
        message("user", "Read the config file"),
        CALL,
        RESULT,
        message("assistant", "The config contains one setting."),
    ]


@pytest.mark.feature("P-32")
async def test_up_to_twenty_messages_nothing_is_summarized(sessions: KeyedSessions, example: dict[str, Any]) -> None:
    await sessions.set_history(KEY, [message("user", str(number)) for number in range(20)])
    await example["summarize_when_long"](sessions, KEY)
    assert len(await sessions.history(KEY)) == 20
    assert await sessions.summary(KEY) == ""


@pytest.mark.feature("P-3", "P-32")
@pytest.mark.parametrize(("after", "kept"), [(2, 4), (3, 5), (4, 4)])
async def test_beyond_twenty_messages_the_last_four_are_kept_and_a_result_keeps_its_call(
    root: Path, example: dict[str, Any], after: int, kept: int
) -> None:
    """The call and its result come before the last messages, so that the cut may fall between them."""
    last = [message("assistant", f"after {number}") for number in range(after)]
    messages = [*(message("user", str(number)) for number in range(19 - after)), CALL, RESULT, *last]
    async with SessionHost(root) as host:
        await KeyedSessions(host).set_history(KEY, messages)
        await example["summarize_when_long"](KeyedSessions(host), KEY)
    async with SessionHost(root) as host:
        sessions = KeyedSessions(host)
        assert len(messages) == 21
        assert await sessions.history(KEY) == messages[-kept:]
        assert await sessions.summary(KEY) == "17 messages, the first of which says: 0"
        assert await (await sessions.get_or_create(KEY)).all_messages() == messages
        asked = await example["request"](sessions, KEY, "And now?")
        assert transcript(asked[:2]) == [
            "system: You are a helpful assistant.",
            "system: Previous conversation summary: 17 messages, the first of which says: 0",
        ]
        assert asked[2:] == [*messages[-kept:], message("user", "And now?")]


@pytest.mark.feature("P-3")
async def test_a_message_added_during_summarizing_is_not_lost(
    sessions: KeyedSessions, example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await sessions.set_history(KEY, [message("user", str(number)) for number in range(21)])

    async def slow(messages: Sequence[Message]) -> str:
        await sessions.add_message(KEY, "user", "meanwhile")
        return "too early"

    monkeypatch.setitem(example["summarize_when_long"].__globals__, "summary_of", slow)
    with pytest.raises(LeafMoved):
        await example["summarize_when_long"](sessions, KEY)
    assert len(await sessions.history(KEY)) == 22
    assert await sessions.summary(KEY) == ""


@pytest.mark.feature("P-51", "P-53")
async def test_background_saves_keep_the_order(sessions: KeyedSessions, root: Path) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            await sessions.add_message(KEY, "user", str(number))
            tasks.start_soon(sessions.save, KEY)
    assert transcript(await sessions.history(KEY)) == [f"user: {number}" for number in range(20)]
    assert (root / "telegram_123456.jsonl").read_bytes().count(b"\n") == 21


PAGE = Path(__file__).resolve().parents[2] / "docs" / "keyed.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.feature("P-59")
def test_every_link_has_an_existing_target(page: str) -> None:
    links = re.findall(r"\[[^\]]+\]\(([^)]+)\)", page)
    for link in links:
        path, _, fragment = link.partition("#")
        target = (PAGE.parent / path).resolve()
        assert target.is_file(), link
        if fragment:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert fragment in map(anchor, headings), link
    also = page.partition("## See also")[2]
    for expected in ("architecture.md#the-path-of-a-command", "actors/host/keyed.py", "events/providers/__init__.py"):
        assert expected in also


@pytest.mark.feature("P-58")
def test_the_table_lists_every_call_and_a_section_covers_threads(page: str) -> None:
    named = set(re.findall(r"`(\w+)\(", page.partition("## What the calls do")[2].partition("Each of these")[0]))
    assert named == {name for name in dir(KeyedSessions) if not name.startswith("_")} - {"host"}
    assert "## Threads and tasks" in page
    for name in ("history", "set_history", "summary", "set_summary", "truncate_history"):
        assert hasattr(Session, name)


def test_file_names_are_as_the_page_shows(page: str) -> None:
    shown = re.findall(r"^\| `([^`]+)` \| `([^`]+)\.jsonl` \|$", page, re.MULTILINE)
    assert len(shown) == 5
    assert [(key, id_of_key(key)) for key, _ in shown] == shown
