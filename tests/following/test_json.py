"""What followers in other languages read: changes, views and cursors as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import (
    Changed,
    Cursor,
    InvalidInput,
    Session,
    SessionHost,
    Snapshot,
    message,
    thinking,
    tool_result,
    tool_use,
)
from treering.entries import Content


def as_json(value: object) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return shown


async def test_a_client_follows_a_context_by_its_json_alone() -> None:
    async with SessionHost() as host:
        session = await host.create(cwd="/work")
        messages: list[Any] = []
        async with session.subscribe("context") as steps:
            for act in (nothing, talk, edit, ask, compact):
                await act(session)
                step = None
                while step is None or step.cursor != session.cursor:
                    step = await anext(steps)
                    received = as_json(step)
                    if isinstance(step, Changed):
                        change = received["change"]
                        messages[change["start"] : change["start"] + change["delete"]] = change["insert"]
                    else:
                        messages = received["value"]["messages"]
                assert messages == as_json(await session.context())["messages"]
        assert [each["message"]["role"] for each in messages] == ["compactionSummary", "user"]


async def test_entries_trees_labels_and_listings_can_be_encoded() -> None:
    async with SessionHost() as host:
        session = await host.create(cwd="/work")
        await talk(session)
        async with session.subscribe() as entries:
            assert as_json(await anext(entries))["message"]["role"] == "user"
        async with session.subscribe("tree") as steps:
            assert as_json(await anext(steps))["value"]["nodes"][0]["type"] == "message"
            await session.set_label(session.path()[0], "start")
            assert as_json(await anext(steps))["change"]["id"] == session.leaf_id
        async with session.subscribe("labels") as steps:
            found = await anext(steps)
            assert isinstance(found, Snapshot)
            assert as_json(found)["value"] == [[session.path()[0], "start"]]
        async with host.subscribe_sessions() as listing:
            rows = await anext(listing)
            assert isinstance(rows, list)
            assert [as_json(row)["id"] for row in rows] == [session.id]
            await session.set_title("Reading")
            assert as_json(await anext(listing))["summary"]["title"] == "Reading"


async def nothing(session: Session) -> None:
    """Leave the session as it is: a subscription begins with a snapshot."""


async def talk(session: Session) -> None:
    parts: list[Content | str] = [thinking("I look."), "Wait.", tool_use("c1", "read", {"path": "a.py"})]
    await session.append_many(
        [
            message("user", "What is there?"),
            message("assistant", parts, provider="p", model="m"),
            message("tool", [tool_result("c1", "print(1)")]),
        ]
    )


async def edit(session: Session) -> None:
    await session.append_context_edit(session.path()[0], "What is here?")


async def ask(session: Session) -> None:
    await session.append_message("user", "Thanks.")


async def compact(session: Session) -> None:
    await session.append_compaction("It was read.", session.leaf_id, 100)


CHARACTERS = st.characters(exclude_categories=["Cs"])


@given(st.text(CHARACTERS), st.integers(0, 10**18))
def test_every_cursor_reads_back_from_its_text(generation: str, seq: int) -> None:
    cursor = Cursor(generation, seq)
    text = str(cursor)
    assert Cursor.parse(text) == cursor
    assert urlencode({"after": text}) == f"after={text}"
    assert parse_qs(f"after={text}") == {"after": [text]}


@pytest.mark.parametrize(
    ("cursor", "text"),
    [
        (Cursor("", 0), "0-"),
        (Cursor("2f81a.9c01e77b.0", 17), "17-2f81a.9c01e77b.0"),
        (Cursor("a-b", 1), "1-a-b"),
        (Cursor("a/b c\n%é~", 1), "1-a~2Fb~20c~0A~25~C3~A9~7E"),
    ],
)
def test_the_text_of_a_cursor_is_its_seq_and_its_generation(cursor: Cursor, text: str) -> None:
    assert str(cursor) == text
    assert Cursor.parse(text) == cursor


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        "-a",
        "-1-a",
        "+1-a",
        " 1-a",
        "1-a ",
        "1-a\n",
        "01-a",
        "1_0-a",
        "١-a",
        "1" * 5000 + "-a",
        "1-a/b",
        "1-\ud800",
        "1-%",
        "1-%2F",
        "1-~",
        "1-~2f",
        "1-~61",
        "1-~FF",
        '{"generation":"a","seq":1}',
        b"1-a",
        None,
        17,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a cursor: give the text that"):
        Cursor.parse(text)


@pytest.mark.parametrize("in_memory", [False, True])
async def test_a_client_comes_back_with_the_text_of_its_cursor(tmp_path: Path, in_memory: bool) -> None:
    async with SessionHost(None if in_memory else tmp_path) as host:
        session = await host.create("s")
        first = await session.append_message("user", "Hello")
        async with session.subscribe() as entries:
            assert getattr(await anext(entries), "id", None) == first
            last_event_id = f"{entries.cursor}"
        second = await session.append_message("user", "Are you there?")
        async with session.subscribe(after=Cursor.parse(last_event_id)) as entries:
            assert getattr(await anext(entries), "id", None) == second
        with pytest.raises(InvalidInput, match=r"`Cursor\.parse` reads one"):
            session.subscribe(after=last_event_id)  # type: ignore[call-overload]  # this is refused
