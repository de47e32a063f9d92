"""Branching: it moves the leaf without writing, loses nothing, and can add a summary of the abandoned branch."""

import errno
import json
from collections import Counter
from pathlib import Path

import pytest

from treering import AppendInDoubt, EntryNotFound, InvalidInput, MessageEntry, Session, SessionHost, plain_text
from treering.entries import BranchSummary, BranchSummaryEntry
from treering.events.disk import OsDisk
from treering.testing.disks import FaultyDisk

from .conftest import file_bytes, file_lines, texts


@pytest.mark.feature("G-2")
async def test_a_hundred_branches_from_one_entry_add_a_hundred_lines(session: Session) -> None:
    await session.append_message("user", "a long way here " * 500)
    base = await session.append_message("assistant", "where to " * 500)
    before = file_lines(session)
    ids: list[str] = []
    for number in range(100):
        await session.branch(base)
        ids.append(await session.append_message("user", f"way {number}"))
    after = file_lines(session)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 100
    assert session.children(base) == ids
    assert set(Counter(str(line["message"]) for line in after).values()) == {1}
    assert file_bytes(session).count(b"a long way here") == 500
    assert file_bytes(session).count(b"where to") == 500


@pytest.mark.feature("G-94", "G-76", "N-166")
async def test_branch_moves_the_leaf_and_does_not_write(host: SessionHost, session: Session) -> None:
    ids = [await session.append_message("user", str(number)) for number in range(5)]
    assert session.leaf_id == ids[-1]
    before = file_bytes(session)
    await session.branch(ids[1])
    assert session.leaf_id == ids[1]
    assert file_bytes(session) == before
    await session.passivate()
    assert file_bytes(session) == before
    again = await host.load("main")
    assert again.leaf_id == ids[1]
    entry_id = await again.append_message("user", "another way")
    assert file_lines(session)[-1]["id"] == entry_id
    assert file_lines(session)[-1]["parent_id"] == ids[1]
    assert again.leaf_id == entry_id


@pytest.mark.feature("G-115")
async def test_a_context_ends_at_the_leaf_that_branch_selected(session: Session) -> None:
    ids = [await session.append_message("user", str(number)) for number in range(4)]
    for number, entry_id in enumerate(ids):
        await session.branch(entry_id)
        context = await session.context()
        assert context.leaf_id == entry_id
        assert [each.entry_id for each in context.messages] == ids[: number + 1]
    await session.branch(ids[0])
    await session.append_message("user", "elsewhere")
    assert texts(await session.messages()) == ["0", "elsewhere"]
    await session.branch(ids[3])
    assert texts(await session.messages()) == ["0", "1", "2", "3"]
    await session.reset_leaf()
    assert texts(await session.messages()) == []


@pytest.mark.feature("G-4", "G-22", "G-29", "G-52", "G-95", "G-108")
async def test_an_abandoned_branch_stays_in_the_file_and_its_summary_is_in_the_new_context(
    host: SessionHost, session: Session
) -> None:
    start = await session.append_message("user", "how do we start?")
    await session.append_message("assistant", "with a dead end")
    abandoned = await session.append_message("user", "that failed")
    before = file_bytes(session)

    summary_id = await session.branch_with_summary(start, "tried a dead end", details={"files": ["a.py"]})

    assert session.leaf_id == summary_id
    assert session.path() == [start, summary_id]
    added = file_lines(session)[3:]
    assert [(line["id"], line["type"], line["parent_id"]) for line in added] == [(summary_id, "branch_summary", start)]
    assert added[0]["branch_summary"]["from_id"] == abandoned
    assert file_bytes(session).startswith(before)
    for handle in (session, await reopened(host, session)):
        entry = await handle.entry(summary_id)
        assert isinstance(entry, BranchSummaryEntry)
        assert (entry.branch_summary.summary, entry.branch_summary.from_id) == ("tried a dead end", abandoned)
        assert entry.branch_summary.details == {"files": ["a.py"]}
        context = await handle.context()
        assert [(each.entry_id, each.role) for each in context.messages] == [
            (start, "user"),
            (summary_id, "branchSummary"),
        ]
        assert texts(await handle.messages()) == ["how do we start?", "tried a dead end"]
        left = [await handle.entry(entry_id) for entry_id in handle.path(abandoned)]
        assert [plain_text(each.message.content) for each in left if isinstance(each, MessageEntry)] == [
            "how do we start?",
            "with a dead end",
            "that failed",
        ]


async def reopened(host: SessionHost, session: Session) -> Session:
    await session.passivate()
    return await host.load(session.id)


@pytest.mark.feature("G-52")
async def test_a_branch_summary_names_the_abandoned_leaf(session: Session) -> None:
    first = await session.append_message("user", "one")
    second = await session.append_message("user", "two")
    await session.append_message("user", "three")
    await session.branch(second)
    summary_id = await session.branch_with_summary(first, "left two")
    root = await session.branch_with_summary(None, "left everything")
    entries = [await session.entry(entry_id) for entry_id in (summary_id, root)]
    payloads = [entry.branch_summary for entry in entries if isinstance(entry, BranchSummaryEntry)]
    assert payloads == [BranchSummary("left two", second), BranchSummary("left everything", summary_id)]
    assert session.children(None) == [first, root]


async def test_options_that_contradict_a_branch_summary_are_refused(session: Session) -> None:
    first = await session.append_message("user", "one")
    leaf = await session.append_message("user", "two")
    before = file_bytes(session)
    with pytest.raises(InvalidInput, match="leave `below` out"):
        await session.branch_with_summary(first, "left two", below=leaf)
    with pytest.raises(InvalidInput, match="becomes the leaf"):
        await session.branch_with_summary(first, "left two", aside=True)
    with pytest.raises(EntryNotFound, match="nowhere"):
        await session.branch_with_summary("nowhere", "left it")
    with pytest.raises(EntryNotFound, match="nowhere"):
        await session.branch("nowhere")
    assert file_bytes(session) == before
    assert session.leaf_id == leaf
    summary_id = await session.branch_with_summary(first, "left two", aside=False, expected_leaf=leaf)
    assert session.leaf_id == summary_id


def append_like_pi(path: Path, parent_id: str) -> None:
    line = {"type": "message", "id": "f0000001", "parentId": parent_id, "timestamp": "2026-01-01T00:00:00.000Z"}
    message = {"role": "user", "content": [{"type": "text", "text": "from pi"}], "timestamp": 1}
    with path.open("a") as file:
        file.write(json.dumps({**line, "message": message}) + "\n")


@pytest.mark.parametrize("refreshed", [False, True], ids=["unseen", "read before"])
async def test_a_branch_takes_effect_after_another_program_appended(tmp_path: Path, refreshed: bool) -> None:
    async with SessionHost(tmp_path, dialect="pi") as host:
        session = await host.create("main")
        first = await session.append_message("user", "one")
        second = await session.append_message("assistant", "two")
        append_like_pi(tmp_path / session.ref, second)
        if refreshed:  # then the store knows of the line, and the session does not
            await (await host.load("main", read_only=True)).refresh()
        await session.branch(first)
        assert session.leaf_id == first
        third = await session.append_message("assistant", "three")
        entry = await session.entry(third)
        assert entry is not None
        assert entry.parent_id == first
        assert len(await session.entries()) == 4


async def test_a_branch_whose_record_may_be_lost_is_in_doubt_and_takes_effect(tmp_path: Path) -> None:
    disk = FaultyDisk(OsDisk())
    async with SessionHost(tmp_path, disk=disk, durability="file") as host:
        session = await host.create("main")
        first = await session.append_message("user", "one")
        await session.append_message("assistant", "two")
        disk.fail("sync_directory", errno.EIO)
        with pytest.raises(AppendInDoubt, match=r"main\.jsonl\.leaf was written"):
            await session.branch(first)
        assert session.leaf_id == first
        assert await session.passivate()
        assert session.leaf_id == first
