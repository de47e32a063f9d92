"""The tree in pi's and oh-my-pi's formats: the leaf, paths, branches and contexts, live and after reading the file."""

import json
from pathlib import Path

import pytest

from treering import EntryNotFound, Session, SessionHost, plain_text
from treering.contexts import ModelRef
from treering.entries import OpaqueEntry
from treering.events.dialects.detect import DialectName


def file_bytes(session: Session) -> bytes:
    return Path(session.file_path or "").read_bytes()


def ids_in_file(session: Session) -> list[str]:
    lines = map(json.loads, file_bytes(session).splitlines())
    return [line["id"] for line in lines if line["type"] not in ("session", "title")]


def logs(root: Path) -> list[Path]:
    return list(root.rglob("*.jsonl"))


class BranchedSession:
    """A session with a fork in its tree::

    first ── answer ─┬─ left
                     └─ right (the leaf)
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.first = self.answer = self.left = self.right = ""

    async def grow(self) -> None:
        session = self.session
        self.first = await session.append_message("user", "first")
        self.answer = await session.append_message("assistant", "answer", provider="anthropic", model="claude-oak")
        self.left = await session.append_message("user", "left")
        await session.branch(self.answer)
        self.right = await session.append_message("user", "right")


@pytest.fixture
async def branched(session: Session) -> BranchedSession:
    branched = BranchedSession(session)
    await branched.grow()
    return branched


def roles_and_texts(session_context: object) -> list[tuple[str, str]]:
    return [(each.role, plain_text(each.content)) for each in getattr(session_context, "messages", ())]


@pytest.mark.feature("O-2", "O-47", "O-53")
async def test_branches_stay_in_one_file(branched: BranchedSession, tmp_path: Path) -> None:
    session = branched.session
    before = file_bytes(session)
    assert session.leaf_id == branched.right
    await session.branch(branched.left)
    assert session.leaf_id == branched.left
    assert file_bytes(session) == before
    more = await session.append_message("user", "more")
    assert file_bytes(session).startswith(before)
    assert logs(tmp_path / "root") == [Path(session.file_path or "")]
    entry = await session.entry(more)
    assert entry is not None
    assert (entry.parent_id, session.leaf_id) == (branched.left, more)
    with pytest.raises(EntryNotFound, match="'nobody' not found"):
        await session.branch("nobody")
    assert session.leaf_id == more


@pytest.mark.feature("O-32", "O-47")
async def test_the_leaf_is_the_branched_entry_or_the_files_last(branched: BranchedSession, host: SessionHost) -> None:
    session, path = branched.session, branched.session.file_path or ""
    assert session.leaf_id == branched.right
    await session.branch(branched.first)
    assert session.leaf_id == branched.first
    await session.reset_leaf()
    assert session.leaf_id is None
    root = await session.append_message("user", "root")
    label = await session.set_label(branched.left, "here")
    assert session.leaf_id == label
    async with SessionHost(Path(path).parent) as other:
        assert (await other.load(path, read_only=True)).leaf_id == label, "the last entry, whatever its type"
    await session.branch(root)
    await session.passivate()
    assert (await host.load(path)).leaf_id == root, "a branch is kept beside the log until something is appended"
    append(path, {"type": "bark", "id": "ffffffff", "parentId": branched.left, "timestamp": "2036-01-01T00:00:00.000Z"})
    await session.refresh()
    assert session.leaf_id == "ffffffff"


def append(path: str, line: dict[str, object]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


@pytest.mark.feature("O-48", "O-49", "O-51", "O-56")
async def test_entries_paths_and_children_follow_the_file(branched: BranchedSession) -> None:
    session = branched.session
    second = await session.append_custom_entry("x")
    await session.reset_leaf()
    root = await session.append_message("user", "another root")
    entries = await session.entries()
    assert [entry.id for entry in entries] == ids_in_file(session)
    for entry in entries:
        assert await session.entry(entry.id or "") == entry
    assert await session.entry("nobody") is None
    assert session.path() == [root]
    assert "from the root to an entry" in (session.path.__doc__ or ""), "its order is documented"
    assert session.path(branched.left) == [branched.first, branched.answer, branched.left]
    assert session.path(second) == [branched.first, branched.answer, branched.right, second]
    with pytest.raises(EntryNotFound):
        session.path("nobody")
    assert session.children(branched.answer) == [branched.left, branched.right]
    assert session.children(None) == [branched.first, root]
    assert session.children(root) == []


@pytest.mark.feature("O-50")
async def test_the_tree_shows_every_entry(branched: BranchedSession) -> None:
    session = branched.session
    label = await session.set_label(branched.left, "dead end")
    tree = session.tree()
    assert [(node.id, node.parent_id, node.depth, node.label, node.on_path) for node in tree.nodes] == [
        (branched.first, None, 0, None, True),
        (branched.answer, branched.first, 1, None, True),
        (branched.left, branched.answer, 2, "dead end", False),
        (branched.right, branched.answer, 2, None, True),
        (label, branched.right, 3, None, True),
    ]
    assert [node.id for node in tree.roots] == [branched.first]
    assert tree.node(branched.answer).children == (branched.left, branched.right)
    async with SessionHost(Path(session.file_path or "").parent) as other:
        assert (await other.load(session.file_path or "", read_only=True)).tree() == tree


@pytest.mark.feature("O-33", "O-34", "O-55")
async def test_the_context_has_the_messages_and_settings_of_the_path(branched: BranchedSession) -> None:
    session = branched.session
    await session.append_model_change("openai", "gpt-birch")
    leaf = await session.append_thinking_level_change("high")
    context = await session.context()
    assert roles_and_texts(context) == [("user", "first"), ("assistant", "answer"), ("user", "right")]
    assert (context.model, context.thinking_level) == (ModelRef("openai", "gpt-birch"), "high")
    other = await session.context(branched.left)
    assert roles_and_texts(other) == [("user", "first"), ("assistant", "answer"), ("user", "left")]
    assert (other.model, other.thinking_level) == (ModelRef("anthropic", "claude-oak"), "off")
    assert (await session.context(branched.first)).model is None
    await session.reset_leaf()
    empty = await session.context()
    assert (roles_and_texts(empty), empty.model, empty.thinking_level) == ([], None, "off")
    assert (await session.context(leaf)) == context


@pytest.mark.feature("O-35", "O-36", "U-8")
async def test_a_context_is_the_latest_summary_the_kept_entries_and_those_after(session: Session) -> None:
    """An older compaction among the kept entries contributes nothing."""
    await session.append_message("user", "gone")
    kept = await session.append_message("user", "kept")
    await session.append_compaction("OLD", kept, 10)
    await session.append_message("assistant", "between", provider="p", model="m")
    aside = await session.append_message("user", "aside")
    await session.branch_with_summary(session.path()[-2], "tried aside")
    await session.append_custom_message("hook", "noted")
    await session.append_compaction("NEW", kept, 20)
    await session.append_message("user", "after")
    expected = [
        ("compactionSummary", "NEW"),
        ("user", "kept"),
        ("assistant", "between"),
        ("branchSummary", "tried aside"),
        ("custom", "noted"),
        ("user", "after"),
    ]
    assert roles_and_texts(await session.context()) == expected
    assert roles_and_texts(await session.context(aside))[0] == ("compactionSummary", "OLD")
    async with SessionHost(Path(session.file_path or "").parent) as other:
        assert roles_and_texts(await (await other.load(session.file_path or "", read_only=True)).context()) == expected


@pytest.mark.feature("O-1")
@pytest.mark.parametrize("header", ["pi", "native"])
async def test_a_line_without_a_type_is_an_opaque_entry(tmp_path: Path, header: str) -> None:
    version, parent = (3, "parentId") if header == "pi" else (1, "parent_id")
    rows: list[dict[str, object]] = [
        {"type": "session", "version": version, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z"},
        {"id": "00000001", parent: None, "timestamp": "2026-01-01T00:00:01.000Z", "x": {"y": 1}},
        {"id": "00000002", parent: "00000001", "timestamp": "2026-01-01T00:00:02.000Z", "type": 7},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    async with SessionHost(tmp_path) as host:
        session = await host.load(path)
        entries = await session.entries()
        assert [isinstance(entry, OpaqueEntry) for entry in entries] == [True, True]
        assert [entry.value for entry in entries if isinstance(entry, OpaqueEntry)] == rows[1:]
        entry_id = await session.append_message("user", "below it")
        assert session.path() == ["00000001", "00000002", entry_id]
        assert roles_and_texts(await session.context()) == [("user", "below it")]
    assert [json.loads(line) for line in file_lines(path)][:3] == rows


def file_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@pytest.mark.feature("U-18")
@pytest.mark.parametrize("kind", ["native", "pi", "omp"])
async def test_a_session_can_be_forked_at_every_entry(tmp_path: Path, kind: DialectName) -> None:
    async with SessionHost(tmp_path, dialect=kind) as host:
        session = await host.create(cwd="/work/rings")
        branched = BranchedSession(session)
        await branched.grow()
        await session.set_label(branched.answer, "kept")
        before, leaf = file_bytes(session), session.leaf_id
        for entry in await session.entries():
            part = await session.create_branched_session(entry.id or "")
            path = session.path(entry.id)
            entries = await part.entries()
            assert part.path()[: len(path)] == path == [each.id for each in entries[: len(path)]]
            assert [each.parent_id for each in entries[: len(path)]] == [None, *path[:-1]]
            assert {each.type for each in entries[len(path) :]} <= {"label"}
            assert part.label(branched.answer) == ("kept" if branched.answer in path else None)
            assert part.header.parent_session == (session.file_path if kind == "pi" else session.id)
            assert roles_and_texts(await part.context()) == roles_and_texts(await session.context(entry.id))
            await part.append_message("user", "on its own")
        whole = await session.fork()
        assert [each.id for each in await whole.entries()] == [each.id for each in await session.entries()]
        assert whole.leaf_id == session.leaf_id
        await whole.append_message("user", "on its own")
        assert (file_bytes(session), session.leaf_id) == (before, leaf)
        assert not {whole.id, part.id} & {session.id}
