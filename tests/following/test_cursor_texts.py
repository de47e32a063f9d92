"""The text form of a cursor, which a client holds while it is away: it fits into headers and URLs, and reads back."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import Cursor, InvalidInput, SessionHost

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
