"""Labels: bookmarks on entries, the same on every branch, and never in a context."""

import pytest

from treering import MessageEntry, Session, SessionHost, plain_text
from treering.entries import LabelEntry

from .conftest import file_lines


@pytest.mark.feature("G-19", "G-123")
async def test_a_label_is_read_back_and_is_in_no_context(host: SessionHost, session: Session) -> None:
    target = await session.append_message("user", "Hello")
    label_id = await session.set_label(target, "xyzzy")
    await session.append_message("assistant", "Hi")
    await session.passivate()
    again = await host.load("main")
    entry = await again.entry(label_id)
    assert isinstance(entry, LabelEntry)
    assert (entry.label.target_id, entry.label.label) == (target, "xyzzy")
    for leaf in again.path():
        context = await again.context(leaf)
        assert "xyzzy" not in repr(context)
        assert label_id not in {each.entry_id for each in context.messages}


@pytest.mark.feature("G-93", "G-46")
@pytest.mark.parametrize("empty", ["", None])
async def test_the_latest_label_wins_and_an_empty_one_removes_it(
    host: SessionHost, session: Session, empty: str | None
) -> None:
    target = await session.append_message("user", "Hello")
    assert session.label(target) is None
    first = await session.set_label(target, "one")
    assert session.label(target) == "one"
    second = await session.set_label(target, "two")
    assert session.label(target) == "two"
    third = await session.set_label(target, empty)
    assert session.label(target) is None
    assert session.labels() == []
    assert [line["id"] for line in file_lines(session)] == [target, first, second, third]
    assert [line["label"].get("label") for line in file_lines(session)[1:]] == ["one", "two", None]
    await session.passivate()
    assert (await host.load("main")).label(target) is None
    await session.set_label(target, "again")
    assert session.label(target) == "again"


@pytest.mark.feature("G-125")
async def test_labels_are_listed_in_path_order(session: Session) -> None:
    ids = [await session.append_message("user", str(number)) for number in range(6)]
    for number in (4, 0, 2):
        await session.set_label(ids[number], f"chapter {number}")
    await session.branch(ids[1])
    aside = await session.append_message("user", "elsewhere")
    await session.set_label(aside, "side")
    await session.branch(ids[5])
    assert session.labels() == [(ids[0], "chapter 0"), (ids[2], "chapter 2"), (ids[4], "chapter 4"), (aside, "side")]
    await session.branch(aside)
    assert session.labels() == [(ids[0], "chapter 0"), (aside, "side"), (ids[2], "chapter 2"), (ids[4], "chapter 4")]


@pytest.mark.feature("G-124", "G-126")
async def test_entries_with_a_label_are_found_on_all_branches(session: Session) -> None:
    root = await session.append_message("user", "root")
    marked: list[str] = []
    for number in range(4):
        await session.branch(root)
        await session.append_message("user", f"branch {number}")
        marked.append(await session.append_message("assistant", f"check {number}"))
        await session.set_label(marked[-1], "needs_review")
    await session.set_label(root, "needs_nothing")
    assert sorted(session.find_by_label("needs_review")) == sorted(marked)
    for entry_id in session.find_by_label("needs_review"):
        entry = await session.entry(entry_id)
        assert isinstance(entry, MessageEntry)
        assert plain_text(entry.message.content).startswith("check")
        await session.set_label(entry_id, "")
    assert session.find_by_label("needs_review") == session.find_by_label("nothing") == []
    assert session.find_by_label("needs_nothing") == [root]
