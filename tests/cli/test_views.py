"""The commands context, tree, labels and entries: their output as JSON and as text."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given, strategies
from rich.cells import cell_len

from treering import Message, SessionHost
from treering.cli.columns import cut, width_of
from treering.cli.commands.tree import GUTTERS_MAX, gutters, tree_pages
from treering.events.content import as_content
from treering.events.disk import OsDisk
from treering.projections.tree import TreeNode
from treering.testing.disks import WrappedDisk

from .conftest import HEADER, Cli, line_of_message

VIEWS = ("context", "tree", "labels", "entries")


class CountingDisk(WrappedDisk):
    """The real disk; counts the bytes that are read from it."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.bytes_read = 0

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        data = super().pread(fd, length, offset)
        self.bytes_read += len(data)
        return data


def text(content: str) -> dict[str, object]:
    return {"type": "text", "text": {"content": content}}


def test_context_prints_the_messages_as_json(cli: Cli, branched: Path) -> None:
    result = cli("context", branched, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "session_id": "s-1",
        "leaf_id": "l",
        "model": {"provider": "acme", "model_id": "m-1"},
        "thinking_level": "off",
        "messages": [
            {"entry_id": "q", "role": "user", "content": [text("Which way?")]},
            {"entry_id": "a", "role": "assistant", "content": [text("This way.")]},
        ],
    }


def test_context_prints_the_messages_of_another_leaf_and_as_text(cli: Cli, branched: Path) -> None:
    shown = cli.json("context", branched, "--leaf", "x")
    assert (shown["leaf_id"], shown["model"]) == ("x", None)
    call = {"type": "tool_use", "tool_use": {"id": "c1", "name": "read", "input": {"path": "a.py"}}}
    assert [each["content"] for each in shown["messages"]] == [[text("Which way?")], [call]]
    lines = cli.lines("context", branched)
    assert lines[0] == "session s-1, leaf l, acme/m-1, thinking off"
    assert lines[1:] == ["", "user  q", "  Which way?", "", "assistant  a", "  This way."]


def test_a_broken_path_is_a_warning(cli: Cli) -> None:
    result = cli("context", cli.write(line_of_message("a", "gone", "Hello", 1)), "--json")
    assert result.exit_code == 0
    assert [each["entry_id"] for each in json.loads(result.stdout)["messages"]] == ["a"]
    assert "the parent of entry 'a' (seq 1) is not in the log before it" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_tree_prints_the_nodes_as_json(cli: Cli, branched: Path) -> None:
    def node(entry_id: str, parent: str | None, kind: str, depth: int, children: list[str], *, on: bool) -> object:
        label = "crossroads" if entry_id == "q" else None
        return {
            "id": entry_id,
            "parent_id": parent,
            "type": kind,
            "depth": depth,
            "label": label,
            "children": children,
            "on_path": on,
        }

    result = cli("tree", branched, "--json")
    assert result.stderr == ""
    assert json.loads(result.stdout) == [
        node("q", None, "message", 0, ["x", "a"], on=True),
        node("x", "q", "message", 1, [], on=False),
        node("a", "q", "message", 1, ["m"], on=True),
        node("m", "a", "model_change", 2, ["l"], on=True),
        node("l", "m", "label", 3, [], on=True),
    ]


def test_tree_marks_the_path_to_another_leaf(cli: Cli, branched: Path) -> None:
    assert [node["id"] for node in cli.json("tree", branched, "--leaf", "x") if node["on_path"]] == ["q", "x"]
    assert "<- leaf" in cli.lines("tree", branched, "--leaf", "x")[1]
    assert cli.lines("tree", branched) == [
        "• q user: Which way?  [crossroads]",
        '├─   x assistant: calls read({"path": "a.py"})',
        "└─ • a assistant: This way.",
        "   • m model_change: acme/m-1",
        "   • l label: q crossroads  <- leaf",
    ]


def test_the_lines_of_a_tree_fit_the_terminal_whatever_the_width_of_their_characters(cli: Cli) -> None:
    path = cli.write(
        line_of_message("a", None, "木にはなぜ年輪があるのですか。" * 5, 1), line_of_message("b", "a", "x" * 200, 2)
    )
    terminal = cli.terminal("tree", path, columns=50)
    assert terminal.wait() == 0
    assert [line.split(" ")[1] for line in terminal.lines] == ["a", "b"]
    assert [line.removesuffix("  <- leaf")[-1] for line in terminal.lines] == ["…", "…"]


def test_the_lines_of_a_tree_fit_the_terminal_however_many_branches_are_nested(cli: Cli) -> None:
    def uuid(number: int) -> str:
        return f"{number:08x}-0000-4000-8000-000000000000"

    path = cli.write(
        line_of_message(uuid(1), None, "x" * 200, 1),
        *(line_of_message(uuid(seq), uuid(seq // 2 * 2 - 1), "x" * 200, seq, "assistant") for seq in range(2, 22)),
    )
    terminal = cli.terminal("tree", path, columns=60)
    assert terminal.wait() == 0
    lines = terminal.lines
    assert len(lines) == 21
    assert all(line.endswith(("…", "…  <- leaf")) for line in lines)
    assert lines[-2:] == [
        f"(8 more)    ├─   00000014 assistant: {'x' * 22}…",
        f"(8 more)    └─ • 00000015 assistant: {'x' * 13}…  <- leaf",
    ]


def test_tree_draws_several_roots_as_branches(cli: Cli) -> None:
    path = cli.write(
        line_of_message("a", None, "One", 1),
        line_of_message("b", "a", "below", 2),
        line_of_message("c", None, "Two", 3),
    )
    lines = cli.lines("tree", path)
    assert [line[:5] for line in lines] == ["├─   ", "│    ", "└─ • "]


def chain(length: int, *, side: bool) -> list[TreeNode]:
    """A chain of nodes. With `side`, each entry has a leaf beside it, which is drawn after the rest of the chain."""
    spine, twigs = list[TreeNode](), list[TreeNode]()
    for depth in range(length):
        below = (f"e{depth + 1}", f"s{depth + 1}") if side else (f"e{depth + 1}",)
        children = below if depth + 1 < length else ()
        spine.append(TreeNode(f"e{depth}", depth + 1, None, 0, "message", depth, None, children, True, "user"))
        if side and depth:
            twigs.append(TreeNode(f"s{depth}", length + depth, None, 0, "custom", depth, None, (), False, None))
    return [*spine, *reversed(twigs)]


def test_a_deep_chain_stays_in_one_column() -> None:
    drawn = list(gutters(chain(100_000, side=False), 1))
    assert len(drawn) == 100_000
    assert {gutter for _, gutter in drawn} == {""}


def test_the_gutters_of_deeply_nested_branches_are_bounded() -> None:
    drawn = list(gutters(chain(20_000, side=True), 1))
    assert len(drawn) == 2 * 20_000 - 1
    assert max(len(gutter) for _, gutter in drawn) < 3 * GUTTERS_MAX + 20
    assert (drawn[1][1], drawn[-1][1]) == ("├─ ", "└─ ")


def test_tree_draws_a_session_of_20000_levels(cli: Cli) -> None:
    count = 20_000
    lines = (line_of_message(f"e{n}", f"e{n - 1}" if n else None, "x", n + 1) for n in range(count))
    path = cli.write(*lines)
    drawn = cli.lines("tree", path)
    assert len(drawn) == count
    assert drawn[0] == "• e0 user: x"
    assert drawn[-1] == f"• e{count - 1} user: x  <- leaf"
    nodes = cli.json("tree", path)
    assert nodes[-1]["depth"] == count - 1


async def test_the_first_lines_of_a_tree_are_drawn_before_all_entries_are_read(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("s-1")
        await session.append_many([Message("user", as_content("x" * 100)) for _ in range(2_000)])
    size = (tmp_path / "s-1.jsonl").stat().st_size
    disk = CountingDisk()
    async with SessionHost(tmp_path, disk=disk) as host, await host.load("s-1", read_only=True) as session:
        await session.log()
        disk.bytes_read = 0
        async with aclosing(tree_pages(session)) as pages:
            first = await anext(pages)
            assert first[0].endswith("x…")
            assert 0 < disk.bytes_read < size / 4
            assert len(first) + sum([len(lines) async for lines in pages]) == 2_000
        assert disk.bytes_read < size * 1.1  # each entry is read once


def test_the_tree_of_an_empty_session_is_empty(cli: Cli) -> None:
    path = cli.write()
    assert cli("tree", path).output == ""
    assert cli("tree", path, "--json").output == "[]\n"


def test_the_tree_of_a_session_with_a_cycle_shows_every_entry(cli: Cli) -> None:
    path = cli.write(line_of_message("a", "a", "One", 1), line_of_message("b", "a", "Two", 2))
    nodes = cli.json("tree", path)
    assert [(each["id"], each["depth"], each["on_path"]) for each in nodes] == [("a", 0, True), ("b", 1, True)]


@pytest.mark.parametrize(
    ("content", "width", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("long er", 6, "long…"),
        ("long…", 5, "long…"),
        ("木には", 6, "木には"),
        ("木にはなぜ", 6, "木に…"),
        ("e\u0301" * 4, 4, "e\u0301" * 4),
        ("x", 0, "…"),
    ],
)
def test_texts_are_cut_by_the_cells_that_they_take(content: str, width: int, shown: str) -> None:
    assert cut(content, width) == shown
    assert width_of(shown) <= max(width, 1)


@given(strategies.text(alphabet=strategies.characters(max_codepoint=0x3FFF, exclude_categories=["Cc", "Cs"])))
def test_the_width_of_a_text_is_what_rich_measures(content: str) -> None:
    assert width_of(content) == cell_len(content)


def test_labels_prints_the_labels_as_json(cli: Cli, branched: Path) -> None:
    assert cli.json("labels", branched) == [{"entry_id": "q", "label": "crossroads"}]
    heading, row = cli.lines("labels", branched)
    assert heading.split("  ")[0] == "label"
    assert row.split() == ["crossroads", "q", "user:", "Which", "way?"]


def test_a_narrow_terminal_shows_labels_and_ids_whole(cli: Cli) -> None:
    named = line_of_message("named", "4b8a91c2", "", 2) | {"type": "label"}
    del named["message"]
    named["label"] = {"target_id": "4b8a91c2", "label": "before the rewrite"}
    terminal = cli.terminal(
        "labels", cli.write(line_of_message("4b8a91c2", None, "What does it take? " * 5, 1), named), columns=50
    )
    assert terminal.wait() == 0
    assert terminal.lines == ["label               entry     text", "before the rewrite  4b8a91c2  user: What does it…"]


def test_labels_without_labels_prints_nothing(cli: Cli) -> None:
    path = cli.write(line_of_message("a", None, "Hello", 1))
    assert cli("labels", path).output == ""
    assert cli.json("labels", path) == []


def test_entries_prints_the_stored_entries_as_json(cli: Cli, branched: Path) -> None:
    stored = [json.loads(line) for line in branched.read_text().splitlines()[1:]]
    assert cli.json_lines("entries", branched) == stored
    assert [each["id"] for each in cli.json_lines("entries", branched, "--leaf", "m")] == ["q", "a", "m"]
    lines = cli.lines("entries", branched)
    assert len(lines) == 5
    assert lines[2] == "    3  2026-01-01 10:00:03  a  assistant: This way."


def test_entries_of_a_pi_file_are_printed_in_the_native_form(cli: Cli) -> None:
    envelope = {"timestamp": "2026-01-01T10:00:01.000Z"}
    path = cli.write(
        {
            "type": "message",
            "id": "0000000a",
            "parentId": None,
            **envelope,
            "message": {"role": "user", "content": "Hi"},
        },
        {"type": "glow", "id": "0000000b", "parentId": "0000000a", **envelope, "brightness": 7},
        header={**HEADER, "version": 3},
    )
    first, second = cli.json_lines("entries", path)
    assert (first["parent_id"], first["seq"], first["message"]["content"]) == (None, 1, [text("Hi")])
    assert (second["type"], second["id"], second["parent_id"], second["seq"]) == ("glow", "0000000b", "0000000a", 2)
    assert (second["brightness"], second["opaque"]) == (7, "unknown type")


def test_an_entry_with_a_lone_surrogate_is_printed(cli: Cli) -> None:
    path = cli.write(
        line_of_message("a", None, "half \ud83d of it", 1), line_of_message("b", "a", "whole \U0001f600", 2)
    )
    assert len(cli.lines("entries", path, "--json")) == 2
    assert "whole \U0001f600" in cli("tree", path).stdout


def test_a_session_can_be_given_as_id_beginning_name_last_or_path(cli: Cli, branched: Path) -> None:
    cli.create("Hello", session_id="abc-1", name="A title")
    by_path = {command: cli(command, cli.root / "abc-1.jsonl").stdout for command in VIEWS}
    for name in ("abc-1", "abc", "A title", "last"):
        assert {command: cli(command, name).stdout for command in VIEWS} == by_path, name
        assert cli("tree", name, "--root", cli.project).exit_code == 1
    # An existing file takes precedence over the beginning of an id.
    (cli.project / "abc").write_bytes(branched.read_bytes())
    assert "Which way?" in cli("context", "abc").stdout
    assert "no session has the id or the name 'nobody'" in cli.error("tree", "nobody")


@pytest.mark.parametrize("command", VIEWS)
def test_an_unknown_leaf_is_an_error(cli: Cli, branched: Path, command: str) -> None:
    error = cli.error(command, branched, "--leaf", "nobody")
    assert error == "treering: entry 'nobody' not found: give the id of an entry of this session\n"


def test_a_leaf_can_be_given_by_the_beginning_of_its_id(cli: Cli) -> None:
    path = cli.write(
        line_of_message("abc-1", None, "One", 1),
        line_of_message("abd-2", "abc-1", "Two", 2),
        line_of_message("abd", "abd-2", "Three", 3),
    )
    assert cli.json("context", path, "--leaf", "abc")["leaf_id"] == "abc-1"
    assert cli.json("context", path, "--leaf", "abd")["leaf_id"] == "abd"
    assert "3 entries begin with 'ab'" in cli.error("context", path, "--leaf", "ab")
