"""Copies of whole sessions and of single paths, in files of their own that name their parent."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from treering import Context, EntryNotFound, MessageEntry, Session, SessionHost, message, tool_use
from treering.entries import LabelEntry, OpaqueEntry

from .conftest import file_bytes, header


def view_of(context: Context) -> tuple[object, ...]:
    return context.messages, context.model, context.thinking_level, context.leaf_id


async def append_everything(session: Session) -> list[str]:
    """Append two branches, labels, a compaction and everything else that a context depends on."""
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
@pytest.mark.parametrize("source_as", ["path", "id", "session"])
async def test_a_copy_has_its_own_id_names_its_parent_and_has_the_same_context(root: Path, source_as: str) -> None:
    async with SessionHost(root) as host:
        source = await host.create("source")
        await append_everything(source)
        before, context = file_bytes(source), view_of(await source.context())
    others = root if source_as == "id" else root.parent / "others"
    async with SessionHost(root) as old, SessionHost(others) as host:
        if source_as == "session":
            copy = await host.fork_from(await old.load("source"))
        else:
            copy = await host.fork_from("source" if source_as == "id" else root / "source.jsonl")
        assert copy.id != "source"
        assert Path(copy.file_path or "").parent == others.resolve()
        assert header(copy)["id"] == copy.id
        assert header(copy)["parent_session"] == "source"
        assert view_of(await copy.context()) == context
        assert file_bytes(copy).partition(b"\n")[2] == before.partition(b"\n")[2]
        added = await copy.append_message("user", "only in the copy")
        assert (await copy.entry(added)) is not None
        await copy.passivate()
        again = await host.load(copy.id)
        assert (again.header.parent_session, again.leaf_id) == ("source", added)
    assert (root / "source.jsonl").read_bytes() == before


@pytest.mark.feature("G-96", "N-166")
async def test_a_branched_session_has_exactly_the_path_to_its_leaf(host: SessionHost, session: Session) -> None:
    await append_everything(session)
    before = file_bytes(session)
    known = {line: entry.id for entry, line in zip(await session.entries(), before.splitlines()[1:], strict=True)}
    for leaf in session.tree().nodes:
        path = session.path(leaf.id)
        branch = await session.create_branched_session(leaf.id)
        assert [known[line] for line in file_bytes(branch).splitlines()[1:][: len(path)]] == path
        assert branch.path() == path
        entries = await branch.entries()
        assert [entry.id for entry in entries[: len(path)]] == path
        assert [entry.parent_id for entry in entries[: len(path)]] == [None, *path[:-1]]
        assert all(isinstance(entry, LabelEntry) and entry.aside for entry in entries[len(path) :])
        assert branch.leaf_id == leaf.id
        assert header(branch)["parent_session"] == "main"
        assert branch.id != "main"
        assert view_of(await branch.context()) == view_of(await session.context(leaf.id))
        assert any(isinstance(entry, LabelEntry) for entry in entries) == (branch.labels() != [])
    assert file_bytes(session) == before
    with pytest.raises(EntryNotFound):
        await session.create_branched_session("nowhere")


@pytest.mark.parametrize("how", ["branched", "native", "pi", "omp", "json"])
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_a_copied_path_has_the_labels_that_were_set_or_cleared_on_other_branches(
    tmp_path: Path, dialect: Literal["native", "pi", "omp"], how: Literal["branched", "native", "pi", "omp", "json"]
) -> None:
    async with SessionHost(tmp_path / "old", dialect=dialect) as host, SessionHost(tmp_path / "new") as other:
        session = await host.create(cwd="/work/rings")
        first = await session.append_message("user", "one")
        await session.set_label(first, "old")
        second = await session.append_message("assistant", "two")
        await session.set_label(second, "gone")
        leaf = await session.append_message("user", "three")
        beyond = await session.append_message("assistant", "four")
        for target, label in ((beyond, "beyond"), (first, "passing"), (leaf, "last"), (second, None), (first, "new")):
            moved = await session.set_label(target, label)
        if how == "branched":
            path = await session.create_branched_session(leaf)
        else:
            exported = await session.export(
                how, tmp_path / f"path.{'json' if how == 'json' else 'jsonl'}", leaf_id=leaf
            )
            await other.import_sessions(exported)
            path = await other.load("last")
        assert path.labels() == [(first, "new"), (leaf, "last")]
        assert path.path()[:5] == session.path(leaf)
        again = await path.entry(moved)
        original = await session.entry(moved)
        assert isinstance(again, LabelEntry)
        assert isinstance(original, LabelEntry)
        assert (again.label, again.timestamp) == (original.label, original.timestamp)
        added = await path.append_message("user", "on from here")
        assert session.path(leaf) == path.path(added)[:5]
        assert view_of(await path.context(leaf)) == view_of(await session.context(leaf))


async def test_a_session_can_be_branched_at_an_entry_that_was_appended_aside(root: Path, session: Session) -> None:
    first = await session.append_message("user", "one")
    beside = await session.append_message("user", "beside", below=first, aside=True)
    branch = await session.create_branched_session(beside)
    assert (branch.path(), branch.leaf_id) == ([first, beside], beside)
    assert view_of(await branch.context()) == view_of(await session.context(beside))
    async with SessionHost(root.parent / "others") as others:
        assert (await others.fork_from(branch)).leaf_id == beside


@pytest.mark.parametrize("moved", [True, False], ids=["branched", "reset"])
async def test_a_copy_has_the_leaf_of_its_source(root: Path, moved: bool) -> None:
    async with SessionHost(root) as host, SessionHost() as memory:
        source = await host.create("source")
        first = await source.append_message("user", "one")
        await source.append_message("assistant", "two")
        await (source.branch(first) if moved else source.reset_leaf())
        leaf, context = (first if moved else None), view_of(await source.context())
        await source.fork("fork")
        await host.fork_from("source", session_id="from")
        for copy in (await memory.fork_from(source), await memory.put(source)):
            assert (copy.leaf_id, view_of(await copy.context())) == (leaf, context)
    async with SessionHost(root) as host:
        for name in ("fork", "from"):
            copy = await host.load(name)
            assert (copy.leaf_id, view_of(await copy.context())) == (leaf, context)
            added = await copy.append_message("assistant", "anew")
            assert copy.path() == ([first, added] if moved else [added])


@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("torn_count", [1, 2])
async def test_entries_of_an_incomplete_batch_stay_opaque_in_copies_and_keep_paths_connected(
    root: Path, dialect: Literal["native", "pi"], torn_count: int
) -> None:
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.create("source")
        before = [await session.append_message("user", text) for text in ("one", "two")]
        torn = (await session.append_many([message("user", f"torn {number}") for number in range(3)]))[:torn_count]
        path = Path(session.file_path or "")
    keep_lines(path, 3 + torn_count)
    async with SessionHost(root, dialect=dialect) as host, SessionHost(root.parent / "others") as others:
        session = await host.load(path)
        await session.append_message("user", "elsewhere")
        kept = await session.append_message("user", "below", below=torn[-1])  # as pi does, which does not know batches
        compaction = await session.append_compaction("so far", torn[0], 10)
        last = await session.append_message("user", "last")
        assert [each.message.content[0] for each in (await session.context()).messages[1:]] == [
            message("user", text).content[0] for text in ("below", "last")
        ]
        original = await session.entries()
        for copy in (
            await session.create_branched_session(last),
            await session.fork(),
            await (await session.fork()).fork(),
            await others.put(session),
        ):
            assert copy.path() == session.path() == [*before, *torn, kept, compaction, last]
            assert view_of(await copy.context()) == view_of(await session.context())
            entries = [entry for entry in await copy.entries() if entry.id in torn]
            assert len(entries) == torn_count
            assert all(isinstance(entry, OpaqueEntry) and "never completed" in entry.reason for entry in entries)
            assert copy.message_count == len(await copy.all_messages())
            assert lines_without_batches(file_bytes(copy)) == [
                line
                for line in lines_without_batches(file_bytes(session))
                if line["id"] in {e.id for e in await copy.entries()}
            ]
        assert await session.entries() == original
        copy = await session.create_branched_session(torn[-1])
        assert (copy.path(), copy.leaf_id) == ([*before, *torn], torn[-1])
        assert (await copy.context()).messages == (await session.context(before[-1])).messages


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
@pytest.mark.parametrize("exported", [False, True])
async def test_entries_of_a_batch_that_a_path_holds_in_part_stay_entries_under_every_id(
    root: Path, dialect: Literal["native", "pi", "omp"], exported: bool
) -> None:
    async with SessionHost(root, dialect=dialect) as host, SessionHost(root.parent / "others") as others:
        session = await host.create("source")
        whole = await session.append_many([message("user", "a"), message("user", "b")])
        part = (await session.append_many([message("user", text) for text in "cde"]))[:2]
        last = await session.append_message("user", "f", below=part[-1])
        source: Session | Path = await session.create_branched_session(last)
        if exported:
            source = root.parent / "path.jsonl"
            await session.export(dialect, source, leaf_id=last)
        copy = await others.fork_from(source, session_id="source")
        entries = await copy.entries()
        assert [entry.id for entry in entries] == [*whole, *part, last]
        assert all(isinstance(entry, MessageEntry) for entry in entries)
        assert [each.entry_id for each in (await copy.context()).messages] == [*whole, *part, last]


def keep_lines(path: Path, count: int) -> None:
    """Truncate a file to its first lines."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


def lines_without_batches(data: bytes) -> list[dict[str, Any]]:
    """Return the lines of a session file without their batch marks."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()[1:]]
    for line in lines:
        line.pop("batch", None)
        line.get("treering", {}).pop("batch", None)
    return lines
