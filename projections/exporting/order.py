"""The reading order of a tree in a document.

The main line runs straight down: the path to the leaf, and below the leaf, or on a branch, the last child. Other
children are branches that follow their parent directly, before the main line continues. Nothing here recurses, however
deep the tree is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from ...events.kinds import MESSAGE_KINDS, Kind


class Show(Struct, frozen=True, gc=False):
    """The entry with this seq comes next."""

    seq: int


class BranchBegins(Struct, frozen=True, gc=False):
    """A branch of `count` entries comes next; `seq` is the entry to describe it by."""

    seq: int
    count: int


class BranchEnds(Struct, frozen=True, gc=False):
    """The innermost branch ends."""


Step: TypeAlias = Show | BranchBegins | BranchEnds
"""A step through the document."""

_END = BranchEnds()
_LEFT_OUT = (Kind.DAMAGED, Kind.ABORTED)


def reading_order(parents: Sequence[int], kinds: Sequence[int], leaf: int) -> list[Step]:
    """Return a whole tree in reading order.

    Args:
        parents: The seq of each line's parent, indexed by seq from 1; 0 or less at a root. A parent precedes its
            children.
        kinds: The kind of each line, indexed by seq. Damaged lines and those of batches that were never completed are
            left out, and their children attached to their parents.
        leaf: The seq of the leaf, 0 for none.
    """
    children, sizes = _children(parents, kinds)
    path = _path(parents, leaf)
    steps: list[Step] = []
    stack: list[int | Step] = [0]
    while stack:
        each = stack.pop()
        if not isinstance(each, int):
            steps.append(each)
            continue
        if each:
            steps.append(Show(each))
        below = children.get(each)
        if not below:
            continue
        main = next((child for child in below if child in path), below[0])
        stack.append(main)
        for child in below:
            if child != main:
                stack += (_END, child, BranchBegins(_first_message(child, children, kinds), sizes[child]))
    return steps


def _children(parents: Sequence[int], kinds: Sequence[int]) -> tuple[dict[int, list[int]], list[int]]:
    """Return the children of each visible line, the last child first, and the number of lines from each one down."""
    children: dict[int, list[int]] = {}
    sizes = [1] * len(parents)
    for seq in range(len(parents) - 1, 0, -1):
        if kinds[seq] in _LEFT_OUT:
            continue
        parent = parents[seq]
        while parent > 0 and kinds[parent] in _LEFT_OUT:
            parent = parents[parent]
        parent = max(parent, 0)
        sizes[parent] += sizes[seq]
        children.setdefault(parent, []).append(seq)
    return children, sizes


def _first_message(seq: int, children: Mapping[int, Sequence[int]], kinds: Sequence[int]) -> int:
    """Return the first message of a branch, or its first entry if it has no message."""
    first = seq
    while kinds[seq] not in MESSAGE_KINDS:
        below = children.get(seq)
        if not below:
            return first
        seq = below[0]
    return seq


def _path(parents: Sequence[int], leaf: int) -> set[int]:
    path: set[int] = set()
    while leaf > 0:
        path.add(leaf)
        leaf = parents[leaf]
    return path
