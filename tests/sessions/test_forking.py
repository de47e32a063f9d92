"""Copies: whole sessions and single paths, in files of their own that name their parent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treering import Context, EntryNotFound, LabelEntry, Session, SessionHost, SessionNotFound, tool_use

Content = Callable[[Session], bytes]
HeaderOf = Callable[[Session], dict[str, Any]]


def shown(context: Context) -> tuple[object, ...]:
    return context.messages, context.model, context.thinking_level, context.leaf_id


async def grow(session: Session) -> list[str]:
    """Make a session with two branches, labels, a compaction and whatever else a context depends on."""
    ids = [await session.append_message("user", f"message {number}") for number in range(4)]
    await session.append_model_change("maker", "m")
    await session.branch(ids[1])
    ids.append(await session.append_message("assistant", tool_use("call", "read", {})))
    ids.extend(await session.append_tool_execution("call", "read", {}, "text"))
    await session.append_thinking_level_change("high")
    await session.set_label(ids[0], "begin")
    ids.append(await session.append_compaction("so far", ids[1], 100))
    ids.append(await session.append_message("user", "last"))
    return ids


@pytest.mark.feature("G-85")
@pytest.mark.parametrize("give", ["path", "id", "session"])
async def test_a_copy_has_its_own_id_its_parent_and_the_same_context_and_the_source_is_unchanged(
    root: Path, content: Content, header: HeaderOf, give: str
) -> None:
    async with SessionHost(root) as host:
        source = await host.create("source")
        await grow(source)
        before, context = content(source), shown(await source.context())
    others = root if give == "id" else root.parent / "others"
    async with SessionHost(root) as old, SessionHost(others) as host:
        if give == "session":
            copy = await host.fork_from(await old.load("source"))
        else:
            copy = await host.fork_from("source" if give == "id" else root / "source.jsonl")
        assert copy.id != "source"
        assert Path(copy.file_path or "").parent == others.resolve()
        assert header(copy)["id"] == copy.id
        assert header(copy)["parent_session"] == "source"
        assert shown(await copy.context()) == context
        assert content(copy).partition(b"\n")[2] == before.partition(b"\n")[2]
        added = await copy.append_message("user", "only in the copy")
        assert (await copy.entry(added)) is not None
        await copy.passivate()
        again = await host.load(copy.id)
        assert again.header.parent_session == "source"
        assert again.leaf_id == added
    assert (root / "source.jsonl").read_bytes() == before


async def test_what_is_not_there_cannot_be_copied(host: SessionHost, tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound):
        await host.fork_from(tmp_path / "none.jsonl")
    assert await host.list_sessions() == []


@pytest.mark.feature("G-96")
async def test_a_branched_session_holds_exactly_the_path_to_its_leaf(
    host: SessionHost, session: Session, content: Content, header: HeaderOf
) -> None:
    await grow(session)
    before = content(session)
    known = {line: entry.id for entry, line in zip(await session.entries(), before.splitlines()[1:], strict=True)}
    for leaf in session.tree().nodes:
        path = session.path(leaf.id)
        branch = await session.create_branched_session(leaf.id)
        lines = content(branch).splitlines()[1:]
        assert [known[line] for line in lines] == path
        assert branch.path() == path
        assert [node.id for node in branch.tree().nodes] == path
        entries = await branch.entries()
        assert [entry.parent_id for entry in entries] == [None, *path[:-1]]
        assert branch.leaf_id == leaf.id
        assert header(branch)["parent_session"] == "main"
        assert branch.id != "main"
        assert shown(await branch.context()) == shown(await session.context(leaf.id))
        assert any(isinstance(entry, LabelEntry) for entry in entries) == (branch.labels() != [])
    assert content(session) == before
    with pytest.raises(EntryNotFound):
        await session.create_branched_session("nowhere")
