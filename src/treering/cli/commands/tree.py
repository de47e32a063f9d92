"""`treering tree`: all branches of a session, depth first, and indented only where it branches.

A conversation without branches is a straight column, however long. At a branch, every child gets a connector, and what
follows it stays in its column. Nothing recurses. A tree with thousands of nested branches would be mostly gutter, so
only the innermost gutters are drawn, with the number of those left out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from itertools import islice

import click

from ...actors.session.session import Session
from ...events.entries import Entry
from ...projections.tree import TreeNode, iter_nodes, to_json
from ..columns import cut, width_of
from ..opening import find_leaf, opened
from ..options import home_options, json_option, leaf_option, session_file
from ..output import can_write_unicode, columns, echo_json_array, echo_lines, run, short_line, shows_colors
from ..rows import LABEL_CHARS_MAX, colored, preview_of, role_of, short

GUTTERS_MAX = 24
"""The maximum number of nested branches that are drawn, however wide the terminal is."""

GUTTER_WIDTH = 3
"""The width of the gutter of one branch."""

_UNICODE = ("├─ ", "└─ ", "│  ")
_ASCII = ("|- ", "`- ", "|  ")
_BLANK = " " * GUTTER_WIDTH


def gutters(
    nodes: Iterable[TreeNode], roots: int, *, most: int = GUTTERS_MAX, ascii_only: bool = False
) -> Iterator[tuple[TreeNode, str]]:
    """Yield each node of a tree with the gutter to draw in front of it.

    Args:
        nodes: The nodes, depth first.
        roots: The number of roots among them.
        most: The maximum number of nested branches that are drawn.
        ascii_only: Draw with ASCII characters.
    """
    fork, last, through = _ASCII if ascii_only else _UNICODE
    # The gutters of the nodes to come, as a stack, since they come depth first.
    pending = _below("", 0, roots, fork, last)
    for node in nodes:
        gutter, connector, above = pending.pop()
        left_out = f"({above} more) " if above else ""
        yield node, f"{left_out}{gutter}{connector}"
        if connector:
            gutter += through if connector == fork else _BLANK
            if len(gutter) > most * GUTTER_WIDTH:
                gutter, above = gutter[GUTTER_WIDTH:], above + 1
        pending += _below(gutter, above, len(node.children), fork, last)


def _below(gutter: str, above: int, count: int, fork: str, last: str) -> list[tuple[str, str, int]]:
    if count == 1:
        return [(gutter, "", above)]
    return [(gutter, last if number == 0 else fork, above) for number in range(count)]


_PREVIEW_LEAST = 12
_BESIDE_GUTTERS = 56  # the number of gutters left out, a connector, the mark, the id, role, preview and leaf
_AT_FIRST, _AT_ONCE = 256, 2048
"""How many lines are drawn first, and how many at once when there are many: each time, their entries are read."""


@click.command()
@session_file
@leaf_option
@json_option
@home_options
def tree(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """Draw all branches of a session; a dot marks the path to the leaf.

    \b
    Examples:
      treering tree session.jsonl
      treering tree session.jsonl --json | jq '.[] | select(.on_path).id'
    """
    run(_tree, file, root, leaf, as_json)


async def _tree(file: str, root: str | None, leaf: str | None, as_json: bool) -> None:
    async with opened(file, root) as session:
        seq = await find_leaf(session, leaf)
        if as_json:
            await echo_json_array(map(to_json, iter_nodes((await session.log()).index, seq)))
            return
        async for lines in tree_pages(session, seq):
            echo_lines(lines)


async def tree_pages(session: Session, leaf: int | None = None) -> AsyncGenerator[list[str]]:
    """Draw a session's tree, some lines at a time, so that the first of many are shown at once.

    Args:
        session: The session.
        leaf: The seq of the entry whose path is marked; by default the session's leaf.
    """
    log = await session.log()
    leaf = log.index.leaf if leaf is None else leaf
    most = max(1, min(GUTTERS_MAX, (columns() - _BESIDE_GUTTERS) // GUTTER_WIDTH))
    nodes, roots = iter_nodes(log.index, leaf), len(session.children(None))
    drawn = gutters(nodes, roots, most=most, ascii_only=not can_write_unicode())
    lines_max = _AT_FIRST
    while page := list(islice(drawn, lines_max)):
        entries_by_seq = await log.entries_at(sorted(node.seq for node, _ in page))
        yield list(_lines(page, entries_by_seq, leaf))
        lines_max = min(2 * lines_max, _AT_ONCE)


def _lines(
    drawn: Iterable[tuple[TreeNode, str]], entries_by_seq: Mapping[int, Entry | None], leaf: int
) -> Iterator[str]:
    width = columns()
    dot = "•" if can_write_unicode() else "*"
    in_color = shows_colors()
    for node, gutter in drawn:
        entry = entries_by_seq[node.seq]
        name, preview = (node.role or node.type, "") if entry is None else (role_of(entry), preview_of(entry))
        mark = dot if node.on_path else " "
        entry_id, tail = short(node.id), _tail(node, leaf)
        taken = width_of(f"{gutter}{mark} {entry_id} {name}: {tail}")
        said = f": {cut(preview, max(width - taken, _PREVIEW_LEAST))}" if preview else ""
        if in_color:
            entry_id, name = click.style(entry_id, dim=True), colored(name)
            tail = click.style(tail, bold=True) if tail else ""
        yield f"{gutter}{mark} {entry_id} {name}{said}{tail}"


def _tail(node: TreeNode, leaf: int) -> str:
    label = f"  [{short_line(node.label, LABEL_CHARS_MAX)}]" if node.label else ""
    return label + ("  <- leaf" if node.seq == leaf else "")
