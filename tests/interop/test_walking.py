"""The tree in pi's and oh-my-pi's formats: the leaf, paths, branches and contexts, live and read anew."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from treering import EntryNotFound, ModelRef, OpaqueEntry, Session, SessionHost, plain_text

Dialect: TypeAlias = Literal["native", "pi", "omp"]


@pytest.fixture(params=["pi", "omp"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    chosen: Dialect = request.param
    return chosen


@pytest.fixture
async def host(dialect: Dialect, tmp_path: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(tmp_path / "root", dialect=dialect) as made:
        yield made


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await host.create(cwd="/work/rings")


def held(session: Session) -> bytes:
    return Path(session.file_path or "").read_bytes()


def ids_in_file(session: Session) -> list[str]:
    lines = map(json.loads, held(session).splitlines())
    return [line["id"] for line in lines if line["type"] not in ("session", "title")]


def logs(root: Path) -> list[Path]:
    return list(root.rglob("*.jsonl"))


class Grown:
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
async def grown(session: Session) -> Grown:
    made = Grown(session)
    await made.grow()
    return made


def said(session_context: object) -> list[tuple[str, str]]:
    return [(each.role, plain_text(each.content)) for each in getattr(session_context, "messages", ())]


@pytest.mark.feature("O-2", "O-47", "O-53")
async def test_branches_stay_in_one_file(grown: Grown, tmp_path: Path) -> None:
    session = grown.session
    before = held(session)
    assert session.leaf_id == grown.right
    await session.branch(grown.left)
    assert session.leaf_id == grown.left
    assert held(session) == before
    more = await session.append_message("user", "more")
    assert held(session).startswith(before)
    assert logs(tmp_path / "root") == [Path(session.file_path or "")]
    entry = await session.entry(more)
    assert entry is not None
    assert (entry.parent_id, session.leaf_id) == (grown.left, more)
    with pytest.raises(EntryNotFound, match="'nobody' not found"):
        await session.branch("nobody")
    assert session.leaf_id == more


@pytest.mark.feature("O-32", "O-47")
async def test_the_leaf_is_the_position_and_after_a_reload_the_last_entry(grown: Grown, host: SessionHost) -> None:
    session, path = grown.session, grown.session.file_path or ""
    assert session.leaf_id == grown.right
    await session.branch(grown.first)
    assert session.leaf_id == grown.first
    await session.reset_leaf()
    assert session.leaf_id is None
    root = await session.append_message("user", "root")
    label = await session.set_label(grown.left, "here")
    assert session.leaf_id == label
    async with SessionHost(Path(path).parent) as other:
        assert (await other.load(path, read_only=True)).leaf_id == label, "whatever its type"
    await session.branch(root)
    await session.passivate()
    assert (await host.load(path)).leaf_id == root, "a move is kept beside the log as long as nothing is appended"
    append(path, {"type": "bark", "id": "ffffffff", "parentId": grown.left, "timestamp": "2036-01-01T00:00:00.000Z"})
    await session.refresh()
    assert session.leaf_id == "ffffffff"


def append(path: str, line: dict[str, object]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


@pytest.mark.feature("O-48", "O-49", "O-51", "O-56")
async def test_entries_paths_and_children(grown: Grown) -> None:
    session = grown.session
    second = await session.append_custom_entry("x")
    await session.reset_leaf()
    root = await session.append_message("user", "another root")
    entries = await session.entries()
    assert [entry.id for entry in entries] == ids_in_file(session)
    for entry in entries:
        assert await session.entry(entry.id or "") == entry
    assert await session.entry("nobody") is None
    assert session.path() == [root]
    assert session.path(grown.left) == [grown.first, grown.answer, grown.left]
    assert session.path(second) == [grown.first, grown.answer, grown.right, second]
    with pytest.raises(EntryNotFound):
        session.path("nobody")
    assert session.children(grown.answer) == [grown.left, grown.right]
    assert session.children(None) == [grown.first, root]
    assert session.children(root) == []


@pytest.mark.feature("O-50")
async def test_the_tree_shows_every_entry(grown: Grown) -> None:
    session = grown.session
    label = await session.set_label(grown.left, "dead end")
    tree = session.tree()
    assert [(node.id, node.parent_id, node.depth, node.label, node.on_path) for node in tree.nodes] == [
        (grown.first, None, 0, None, True),
        (grown.answer, grown.first, 1, None, True),
        (grown.left, grown.answer, 2, "dead end", False),
        (grown.right, grown.answer, 2, None, True),
        (label, grown.right, 3, None, True),
    ]
    assert [node.id for node in tree.roots] == [grown.first]
    assert tree.node(grown.answer).children == (grown.left, grown.right)
    async with SessionHost(Path(session.file_path or "").parent) as other:
        assert (await other.load(session.file_path or "", read_only=True)).tree() == tree


@pytest.mark.feature("O-33", "O-34", "O-55")
async def test_the_context_follows_the_path(grown: Grown) -> None:
    session = grown.session
    await session.append_model_change("openai", "gpt-birch")
    leaf = await session.append_thinking_level_change("high")
    context = await session.context()
    assert said(context) == [("user", "first"), ("assistant", "answer"), ("user", "right")]
    assert (context.model, context.thinking_level) == (ModelRef("openai", "gpt-birch"), "high")
    other = await session.context(grown.left)
    assert said(other) == [("user", "first"), ("assistant", "answer"), ("user", "left")]
    assert (other.model, other.thinking_level) == (ModelRef("anthropic", "claude-oak"), "off")
    assert (await session.context(grown.first)).model is None
    await session.reset_leaf()
    empty = await session.context()
    assert (said(empty), empty.model, empty.thinking_level) == ([], None, "off")
    assert (await session.context(leaf)) == context


@pytest.mark.feature("O-35", "O-36", "U-8")
async def test_a_context_is_summary_kept_and_after(session: Session) -> None:
    """The older compaction lies between the first kept entry and the latest one, and says nothing."""
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
    assert said(await session.context()) == expected
    assert said(await session.context(aside))[0] == ("compactionSummary", "OLD")
    async with SessionHost(Path(session.file_path or "").parent) as other:
        assert said(await (await other.load(session.file_path or "", read_only=True)).context()) == expected


@pytest.mark.feature("O-1")
@pytest.mark.parametrize("header", ["pi", "native"])
async def test_a_line_without_a_type_is_unknown_and_no_failure(tmp_path: Path, header: str) -> None:
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
        made = await session.append_message("user", "below it")
        assert session.path() == ["00000001", "00000002", made]
        assert said(await session.context()) == [("user", "below it")]
    assert [json.loads(line) for line in held_at(path)][:3] == rows


def held_at(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@pytest.mark.feature("U-18")
@pytest.mark.parametrize("kind", ["native", "pi", "omp"])
async def test_a_session_forks_from_every_message(tmp_path: Path, kind: Dialect) -> None:
    async with SessionHost(tmp_path, dialect=kind) as host:
        session = await host.create(cwd="/work/rings")
        grown = Grown(session)
        await grown.grow()
        await session.set_label(grown.answer, "kept")
        before, leaf = held(session), session.leaf_id
        for entry in await session.entries():
            part = await session.create_branched_session(entry.id or "")
            path = session.path(entry.id)
            entries = await part.entries()
            assert part.path()[: len(path)] == path == [each.id for each in entries[: len(path)]]
            assert [each.parent_id for each in entries[: len(path)]] == [None, *path[:-1]]
            assert {each.type for each in entries[len(path) :]} <= {"label"}
            assert part.label(grown.answer) == ("kept" if grown.answer in path else None)
            assert part.header.parent_session == (session.file_path if kind == "pi" else session.id)
            assert said(await part.context()) == said(await session.context(entry.id))
            await part.append_message("user", "on its own")
        whole = await session.fork()
        assert [each.id for each in await whole.entries()] == [each.id for each in await session.entries()]
        assert whole.leaf_id == session.leaf_id
        await whole.append_message("user", "on its own")
        assert (held(session), session.leaf_id) == (before, leaf)
        assert not {whole.id, part.id} & {session.id}
