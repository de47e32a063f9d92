"""Damaged files: each is read as far as possible or refused with a typed error, and no line is lost."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from structlog.testing import capture_logs

from treering import NotASession, Session, SessionHost, SessionNotFound, message, plain_text, text, tool_use
from treering.entries import OpaqueEntry, tool_result
from treering.errors import CorruptTree, InvalidEntry, SessionExists
from treering.events.health.doctor import examine
from treering.events.providers.responses import items_of

from .conftest import texts

Dialect: TypeAlias = Literal["native", "pi", "omp"]
Row: TypeAlias = dict[str, Any]

SLOT = b'{"type":"title","v":1,"title":"","source":"user","updatedAt":"2026-01-01T00:00:00.000Z","pad":""}\n'
DIALECTS: tuple[Dialect, ...] = ("native", "pi", "omp")
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def header(dialect: Dialect, **more: object) -> Row:
    version = 1 if dialect == "native" else 3
    return {"type": "session", "version": version, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", **more}


def row(dialect: Dialect, entry_id: str, parent_id: str | None, content: object = "words", **more: object) -> Row:
    return {
        "type": "message",
        "id": entry_id,
        "parent_id" if dialect == "native" else "parentId": parent_id,
        "timestamp": "2026-01-01T00:00:01.000Z",
        "message": {"role": "user", "content": content},
        **more,
    }


def encoded(*rows: Row | bytes) -> bytes:
    """Encode rows as lines; bytes are used as they are."""
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in rows)


def file_bytes(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.is_file()]


class Case:
    """A damaged file, opened by a reader and by an owner."""

    def __init__(self, folder: Path, dialect: Dialect, *rows: Row | bytes, head: Row | bytes | None = None) -> None:
        self.dialect = dialect
        self.path = folder / "s.jsonl"
        slot = SLOT if dialect == "omp" and head is None else b""
        self.before = slot + encoded(header(dialect) if head is None else head, *rows)
        self.path.write_bytes(self.before)

    async def check(self, expected: Sequence[str], *, path: Sequence[str] | None = None, warned: bool = False) -> None:
        """Check that all lines are read as expected and stay unchanged, and that the session can be continued."""
        async with SessionHost(self.path.parent) as host:
            async with await host.load(self.path, read_only=True) as reader:
                await self._check_content(reader, expected, path, warned=warned)
            assert file_bytes(self.path) == self.before
            session = await host.load(self.path)
            await self._check_content(session, expected, path, warned=warned)
            leaf = session.leaf_id
            entry_id = await session.append_message("user", "and on")
            entry = await session.entry(entry_id)
            assert entry is not None
            assert entry.parent_id == leaf
        assert file_bytes(self.path).startswith(self.before)
        async with SessionHost(self.path.parent) as host:
            session = await host.load(self.path)
            assert (session.leaf_id, texts(await session.messages())[-1]) == (entry_id, "and on")

    @staticmethod
    async def _check_content(
        session: Session, expected: Sequence[str], path: Sequence[str] | None, *, warned: bool
    ) -> None:
        context = await session.context()
        assert texts([each.message for each in context.messages]) == [*expected]
        assert bool(context.warnings) == warned
        if path is not None:
            assert session.path() == [*path]

    def codes(self) -> set[str]:
        return {finding.code for finding in examine(self.path)}


# -- the tree


@pytest.mark.feature("G-116")
@every_dialect
async def test_a_missing_or_later_parent_starts_the_path(tmp_path: Path, dialect: Dialect) -> None:
    rows = ("a", None, "gone"), ("b", "nowhere", "b"), ("c", "b", "c"), ("d", "e", "d"), ("e", "c", "e")
    case = Case(tmp_path, dialect, *(row(dialect, *each) for each in rows))
    async with SessionHost(tmp_path) as host:
        session = await host.load(case.path, read_only=True)
        [warning] = (await session.context("c")).warnings
        assert warning == "the parent of entry 'b' (seq 2) is not in the log before it: the path begins there"
        assert (await session.context("a")).warnings == ()
        assert [(node.id, node.parent_id) for node in session.tree().nodes] == [
            *[("a", None), ("b", None), ("c", "b"), ("e", "c"), ("d", None)]
        ]
        assert session.children(None) == ["a", "b", "d"]
        assert session.path("d") == ["d"]
        assert (await session.context("d")).warnings
    assert case.codes() == {"parent_missing", "parent_later"}
    await case.check(["b", "c", "e"], path=["b", "c", "e"], warned=True)


@pytest.mark.feature("G-116")
@every_dialect
@pytest.mark.parametrize("cycle", ["x<x", "x<x y<x", "x<y y<x", "x<z y<x z<y", "x<y y<x z<y"])
async def test_a_cycle_is_an_error_only_for_paths_into_it(tmp_path: Path, dialect: Dialect, cycle: str) -> None:
    rows = [row(dialect, *each.split("<")) for each in cycle.split()]
    case = Case(tmp_path, dialect, row(dialect, "a", None, "fine"), *rows)
    async with SessionHost(tmp_path) as host:
        async with await host.load(case.path, read_only=True) as reader:
            await _check_cycle(reader, rows)
        session = await host.load(case.path)
        await _check_cycle(session, rows)
        assert "x" in session.children(None)
        await session.branch("a")
        await session.append_message("user", "out of it")
        assert texts(await session.messages()) == ["fine", "out of it"]
        assert len(await host.list_sessions()) == 1
    assert file_bytes(case.path).startswith(case.before)
    assert not case.codes().isdisjoint({"self_parent", "cycle"})


async def _check_cycle(session: Session, rows: list[Row]) -> None:
    """Check that each path into the cycle is an error, the one of the leaf among them, and that others are read."""
    for entry_id in (*(each["id"] for each in rows), session.leaf_id):
        with pytest.raises(CorruptTree, match="its own ancestor"):
            await session.context(entry_id)
        with pytest.raises(CorruptTree):
            session.path(entry_id)
    with pytest.raises(CorruptTree):
        await session.context()
    assert texts([each.message for each in (await session.context("a")).messages]) == ["fine"]
    assert {node.id for node in session.tree().nodes} == {"a", *(each["id"] for each in rows)}
    assert session.labels() == []


@every_dialect
async def test_a_repeated_id_refers_to_the_latest_earlier_line(tmp_path: Path, dialect: Dialect) -> None:
    rows = ("a", None, "first a"), ("b", "a", "b"), ("a", "b", "second a"), ("c", "a", "c")
    case = Case(tmp_path, dialect, *(row(dialect, *each) for each in rows))
    async with SessionHost(tmp_path) as host:
        session = await host.load(case.path, read_only=True)
        found = await session.entry("a")
        assert found is not None
        assert found.seq == 3
        assert texts([each.message for each in (await session.context("b")).messages]) == ["first a", "b"]
    assert "duplicate_id" in case.codes()
    await case.check(["first a", "b", "second a", "c"], path=["a", "b", "a", "c"])


# -- single lines


@every_dialect
async def test_an_entry_with_wrong_fields_is_opaque_and_a_valid_parent(tmp_path: Path, dialect: Dialect) -> None:
    wrong = [
        row(dialect, "b", "a", message=7),
        row(dialect, "c", "b", message={"content": "no role"}),
        row(dialect, "d", "c", type="compaction", summary=1),
        row(dialect, "e", "d", type="model_change", message=None),
    ]
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), *wrong, row(dialect, "f", "e", "two"))
    async with SessionHost(tmp_path) as host:
        session = await host.load(case.path, read_only=True)
        entries = await session.entries()
        assert [entry.id for entry in entries if isinstance(entry, OpaqueEntry)] == ["b", "c", "d", "e"]
        assert [entry.value for entry in entries if isinstance(entry, OpaqueEntry)] == wrong
    await case.check(["one", "two"], path=["a", "b", "c", "d", "e", "f"])


NOT_AN_OBJECT = [
    b'{"half":\n',
    b"words\n",
    b"\x00\x00\x00\n",
    b"\xff\xfe\n",
    b"nan\n",
    b"null\n",
    b"[1,2]\n",
    b"7\n",
    b'"s"\n',
]


@every_dialect
@pytest.mark.parametrize("line", NOT_AN_OBJECT)
async def test_a_line_that_is_no_object_keeps_its_seq_unread(tmp_path: Path, dialect: Dialect, line: bytes) -> None:
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), line, row(dialect, "b", "a", "two"))
    async with SessionHost(tmp_path) as host:
        session = await host.load(case.path, read_only=True)
        assert [(entry.id, entry.seq) for entry in await session.entries()] == [("a", 1), ("b", 3)]
        assert session.cursor.seq == 3
    [finding] = [each for each in examine(case.path) if each.severity == "error"]
    number = case.before[: case.before.index(line)].count(b"\n") + 1
    assert (finding.line, finding.byte) == (number, case.before.index(line))
    assert str(finding.where) == f"{case.path}:{number}:{finding.byte}"
    await case.check(["one", "two"], path=["a", "b"])


@pytest.mark.parametrize("count", [1, 16, 20])
async def test_the_first_damaged_lines_are_logged_by_place_and_others_counted(tmp_path: Path, count: int) -> None:
    case = Case(tmp_path, "native", row("native", "a", None), *[b"words\n"] * count)
    with capture_logs() as logs:
        async with SessionHost(tmp_path) as host:
            await (await host.load(case.path)).entries()
    warned = [(each["event"], each.get("where"), each.get("seq"), each.get("count")) for each in logs]
    begin = case.before.index(b"\nwords") + 1
    assert warned == [
        *(("line_damaged", f"{case.path}:{n + 3}:{begin + 6 * n}", n + 2, None) for n in range(min(count, 16))),
        *([("more_lines_damaged", None, None, count - 16)] if count > 16 else []),
    ]


@every_dialect
@pytest.mark.parametrize("depth", [50, 20_000])
async def test_deeply_nested_and_unusual_values_are_kept(tmp_path: Path, dialect: Dialect, depth: int) -> None:
    deep = b'{"type":"bark","id":"b","parentId":"a","parent_id":"a","x":%s1%s}\n' % (b"[" * depth, b"]" * depth)
    odd = b'{"type":"bark","id":"c","parentId":"a","parent_id":"a","n":1e999,"s":"\\ud800","s":"twice"}\n'
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), deep, odd, row(dialect, "d", "a", "two"))
    await case.check(["one", "two"], path=["a", "d"])


@every_dialect
async def test_a_call_with_arguments_not_in_utf8_is_counted_found_and_told(tmp_path: Path, dialect: Dialect) -> None:
    part: Row = {"type": "tool_use", "tool_use": {"id": "c", "name": "run", "input": {"where": "a%b"}}}
    if dialect != "native":
        part = {"type": "toolCall", "id": "c", "name": "run", "arguments": {"where": "a%b"}}
    damaged = encoded(row(dialect, "b", "a", message={"role": "assistant", "content": [part]}))
    case = Case(tmp_path, dialect, row(dialect, "a", None), damaged.replace(b"a%b", b"a\xffb"))
    async with SessionHost(tmp_path) as host:
        session = await host.load(case.path)
        assert await session.total_tokens() > 0
        assert (await session.context_report()).tokens > 0
        assert [hit.entry_id async for hit in host.search('"a\ufffdb"')] == ["b"]
        [item] = items_of((await session.messages())[-1])
        assert item["arguments"] == '{"where": "a\ufffdb"}'
        for format_ in ("markdown", "html", "picoclaw"):
            told = await session.export(format_, tmp_path / format_)
            assert "a\ufffdb" in told.read_text(encoding="utf-8")
        assert (await session.hand_over("codex", cwd=tmp_path, dry_run=True)).id is None


@pytest.mark.parametrize("dialect", ["pi", "omp"])
async def test_an_entry_without_an_id_is_not_on_the_path(tmp_path: Path, dialect: Dialect) -> None:
    nameless = row(dialect, "x", "a", "nobody")
    del nameless["id"]
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), nameless)
    await case.check(["one"], path=["a"])


@every_dialect
async def test_messages_with_null_or_no_content_are_empty_and_hide_nothing(tmp_path: Path, dialect: Dialect) -> None:
    bare = row(dialect, "c", "b", message={"role": "user"})
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), row(dialect, "b", "a", None), bare)
    async with SessionHost(tmp_path) as host:
        session = await host.load(case.path, read_only=True)
        assert session.path() == ["a", "b", "c"]
        assert [text for text in texts(await session.messages()) if text] == ["one"]
        [listed] = await host.list_sessions()
        assert (listed.status, listed.first_message) == ("active", "one")


# -- whole files


@every_dialect
@pytest.mark.parametrize("shape", ["bom", "crlf", "blank", "all"])
async def test_a_byte_order_mark_crlf_and_blank_lines_are_read(tmp_path: Path, dialect: Dialect, shape: str) -> None:
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), row(dialect, "b", "a", "two"))
    if shape in ("crlf", "all"):
        case.before = case.before.replace(b"\n", b"\r\n")
    if shape in ("blank", "all"):
        case.before = b"\n" + case.before.replace(b"\n", b"\n\n  \n")
    if shape in ("bom", "all"):
        case.before = b"\xef\xbb\xbf" + case.before
    case.path.write_bytes(case.before)
    await case.check(["one", "two"], path=["a", "b"])


@every_dialect
async def test_an_empty_file_can_be_opened_as_a_new_session(tmp_path: Path, dialect: Dialect) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"")
    async with SessionHost(tmp_path, dialect=dialect) as host:
        assert await host.list_sessions() == []
        with pytest.raises(SessionNotFound):
            await host.load(path)
        assert file_bytes(path) == b""
        session = await host.open("s")
        await session.append_message("user", "hello")
        assert texts(await session.messages()) == ["hello"]
        assert [each.id for each in await host.list_sessions()] == ["s"]
        if dialect == "native":
            assert file_bytes(path).count(b"\n") == 2


@every_dialect
async def test_a_second_header_is_ignored(tmp_path: Path, dialect: Dialect) -> None:
    other = header(dialect, cwd="/other") | {"id": "other"}
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), other, row(dialect, "b", "a", "two"), other)
    async with SessionHost(tmp_path) as host:
        session = await host.load(case.path, read_only=True)
        assert (session.id, session.header.cwd) == ("s", None)
        assert [entry.id for entry in await session.entries()] == ["a", "b"]
    await case.check(["one", "two"], path=["a", "b"])


@pytest.mark.feature("G-9", "D-35")
@pytest.mark.parametrize("rest", [b"", b'{"type":"session","id":"s","version":1,"timestamp":"2026-01-01T00:00:00Z"}\n'])
@pytest.mark.parametrize(
    "content",
    [
        b"words",
        b"words\n",
        b"\n\n \n",
        b"\xef\xbb\xbf",
        b"\x00" * 5000,
        b"[]\n",
        b"null\n",
        b'{"type":"message","id":"a"}\n',
        b'{"type":"session","name',
        b'{"type":"session"}\n',
        b'{"type":"session","id":7,"version":3}\n',
        b'{"type":"title","v":1,"title":"only a title"}\n',
        b'{"id":"x","version":3}\n{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z"}\n',
        b"<html>" * 5000,
        b"{\n",
        b"{}\n",
        b'{"type":"session"\n{"half":1}\n',
        b'{"type":"session","id":"s","version":"one","timestamp":"2026-01-01T10:00:00Z"}\n',
        b"\xff\xfe\xfd",
    ],
)
async def test_a_file_without_a_header_is_refused_and_unchanged(tmp_path: Path, content: bytes, rest: bytes) -> None:
    path = tmp_path / "s.jsonl"
    if rest and content.strip(b"\xef\xbb\xbf \n") and b'"title"' not in content:  # after those a header counts
        content = content.removesuffix(b"\n") + b"\n" + rest
    path.write_bytes(content)
    async with SessionHost(tmp_path) as host:
        for read_only in (True, False):
            with pytest.raises(NotASession, match=re.escape(str(path))):
                await host.load(path, read_only=read_only)
        with pytest.raises((NotASession, SessionExists)):
            await host.create("s")
        with pytest.raises((NotASession, SessionExists)):
            await (await host.create("other")).fork("s")
        with pytest.raises(NotASession):
            await host.open("s")
        with pytest.raises(NotASession):
            await host.fork_from(path)
        [listed] = await host.list_sessions()
        assert (listed.status, listed.path) == ("corrupted", str(path))
        assert await host.find_recent() is None
    assert file_bytes(path) == content
    assert names(tmp_path) == ["s.jsonl"]


@every_dialect
async def test_a_header_of_ten_kilobytes_is_read_and_listed(tmp_path: Path, dialect: Dialect) -> None:
    long = header(dialect, cwd="/" + "deep/" * 2000, other="x" * 5000)
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), head=long)
    async with SessionHost(tmp_path) as host:
        [listed] = await host.list_sessions()
        assert (listed.id, listed.cwd, listed.message_count) == ("s", long["cwd"], 1)
        recent = await host.find_recent(cwd=long["cwd"])
        assert recent is not None
        assert recent.id == "s"
    await case.check(["one"])


# -- batches


@every_dialect
@pytest.mark.parametrize("kept", [1, 2, 3])
async def test_an_incomplete_batch_is_not_in_the_context(tmp_path: Path, dialect: Dialect, kept: int) -> None:
    """A crash cut it off after some of its lines: they are withheld, and opaque once anything follows."""
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create("s")
        first = await session.append_message("user", "one")
        lengths = (300_000, 1, 1, 1)  # the first is read in one go, and the others after it
        torn = await session.append_many([message("user", "torn " * length) for length in lengths])
        path = Path(session.file_path or "")
    lines = file_bytes(path).splitlines(keepends=True)
    write(path, b"".join(lines[: len(lines) - len(torn) + kept]))
    before = file_bytes(path)
    async with SessionHost(tmp_path) as host:
        reader = await host.load(path, read_only=True)
        assert ([entry.id for entry in await reader.entries()], reader.leaf_id) == ([first], first)
        assert texts(await reader.messages()) == ["one"]
        await reader.close()
        assert file_bytes(path) == before
        session = await host.load(path)
        assert session.leaf_id == first
        entry_id = await session.append_message("user", "two")
        assert texts(await session.messages()) == ["one", "two"]
        assert session.path() == [first, entry_id]
        entries = await session.entries()
        assert [entry.id for entry in entries] == [first, *torn[:kept], entry_id]
        assert [entry.id for entry in entries if isinstance(entry, OpaqueEntry)] == torn[:kept]
        assert [await session.entry(entry.id or "") for entry in entries] == entries
        below = await session.append_message("user", "three", below=torn[kept - 1])
        assert session.path() == [first, *torn[:kept], below]
        assert texts(await session.messages()) == ["one", "three"]
    async with SessionHost(tmp_path) as host:
        session = await host.load(path)
        assert [await session.entry(entry.id or "") for entry in entries] == entries
    assert file_bytes(path).startswith(before)


# -- unknown fields and types


@pytest.mark.feature("U-25")
@every_dialect
async def test_unknown_fields_and_types_are_copied_byte_for_byte(tmp_path: Path, dialect: Dialect) -> None:
    parent = "parent_id" if dialect == "native" else "parentId"
    unknown = [
        b'{"type":"bark", "id":"b","%s":"a" ,%t,"deep":{"z":1.50,"a":[ ]}}\n',
        b'{"n":1e2,"type":"message","id":"c","%s":"b",%t,"message":{"role":"user","content":"known","mood":"\\u00fc"}}\n',
        b'{"type":"ring_count","id":"d","%s":"c","timestamp":"2999-01-01T00:00:01+00:00","version":9,"ring":{}}\n',
    ]
    time = b'"timestamp": "2026-01-01T00:00:01.000Z"'
    rows = [each.replace(b"%s", parent.encode()).replace(b"%t", time) for each in unknown]
    case = Case(tmp_path, dialect, row(dialect, "a", None, "one"), *rows)
    body = encoded(row(dialect, "a", None, "one"), *rows)
    async with SessionHost(tmp_path) as host:
        session = await host.load(case.path)
        assert [entry.type for entry in await session.entries()][1::2] == ["bark", "ring_count"]
        whole, part = await session.fork(), await session.create_branched_session("d")
        for copy in (whole, part):
            assert file_bytes(Path(copy.file_path or "")).endswith(b"\n" + body)
        again = await host.fork_from(whole.file_path or "")
        assert file_bytes(Path(again.file_path or "")).endswith(b"\n" + body)
        await session.append_message("user", "more")
    assert file_bytes(case.path).startswith(case.before)
    await Case(tmp_path, dialect, row(dialect, "a", None, "one"), *rows).check(["one", "known"], path=list("abcd"))


# -- results without calls


@pytest.mark.feature("G-64")
async def test_a_result_without_its_call_on_the_path_is_reported(host: SessionHost, session: Session) -> None:
    with pytest.raises(InvalidEntry):
        await session.append_message("tool", tool_result(None, "text"))  # type: ignore[arg-type]
    root = await session.append_message("user", "read them")
    await session.append_message("assistant", [text("yes"), tool_use("one", "read"), tool_use("two", "read")])
    await session.append_message("tool", tool_result("two", "second"))
    await session.append_message("tool", tool_result("one", "first"))
    path = session.file_path
    assert path is not None
    assert examine(path) == []
    await session.branch(root)
    elsewhere = await session.append_message("tool", tool_result("one", "on a branch without the call"))
    stray = await session.append_message("tool", [tool_result("never", "text")])
    found = [finding for finding in examine(path) if finding.code == "result_without_call"]
    assert [(finding.entry_id, finding.line) for finding in found] == [(elsewhere, 6), (stray, 7)]
    assert "'one'" in found[0].message
    assert "'never'" in found[1].message
    assert plain_text((await session.messages())[0].content) == "read them"


@pytest.mark.feature("G-64")
async def test_a_stored_result_without_its_calls_id_is_not_in_the_context(tmp_path: Path, host: SessionHost) -> None:
    nameless = {"role": "tool", "content": [{"type": "tool_result", "tool_result": {"content": "text"}}]}
    rows = row("native", "a", None), row("native", "b", "a", message=nameless), row("native", "c", "b")
    path = Case(tmp_path, "native", *rows).path
    session = await host.load(path)
    assert session.path() == ["a", "b", "c"]
    assert [each.entry_id for each in (await session.context()).messages] == ["a", "c"]
    assert ("wrong_fields", "b") in [(finding.code, finding.entry_id) for finding in examine(path)]
