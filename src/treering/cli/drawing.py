"""Drawing a tree: depth first, and indented only where it branches.

A conversation without branches is a straight column, however long. At a branch, every child gets a connector, and what
follows it stays in its column. Nothing recurses. A tree with thousands of nested branches would be mostly gutter, so
only the innermost gutters are drawn, with the number of those left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..projections.tree import TreeNode

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
        yield node, _shown(gutter, above) + connector
        if connector:
            gutter += through if connector == fork else _BLANK
            if len(gutter) > most * GUTTER_WIDTH:
                gutter, above = gutter[GUTTER_WIDTH:], above + 1
        pending += _below(gutter, above, len(node.children), fork, last)


def _below(gutter: str, above: int, count: int, fork: str, last: str) -> list[tuple[str, str, int]]:
    if count == 1:
        return [(gutter, "", above)]
    return [(gutter, last if number == 0 else fork, above) for number in range(count)]


def _shown(gutter: str, above: int) -> str:
    return f"({above} more) {gutter}" if above else gutter
