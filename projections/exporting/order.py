"""The order in which a tree is read from the top of a page to its end.

The line that counts goes straight down: the path to the leaf, and below the leaf, or on a branch, the child that came
last. Other children stand as branches right below their parent, before the line goes on. Nothing here recurses, however
deep the tree is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from ...events.kinds import MESSAGE_KINDS, Kind


class Show(Struct, frozen=True, gc=False):
    """The line with this ordinal comes next."""

    seq: int


class BranchBegins(Struct, frozen=True, gc=False):
    """Another branch of `count` entries comes next; the line `seq` is the first that says what it is about."""

    seq: int
    count: int


class BranchEnds(Struct, frozen=True, gc=False):
    """The branch that began last is over."""


Step: TypeAlias = Show | BranchBegins | BranchEnds
"""What comes next on the page."""

_END = BranchEnds()
_LEFT_OUT = (Kind.DAMAGED, Kind.ABORTED)


def reading_order(parents: Sequence[int], kinds: Sequence[int], leaf: int) -> list[Step]:
    """Put a whole tree into the order in which it is read.

    Args:
        parents: The ordinal of each line's parent, by ordinal from 1; 0 or less at a root. A parent comes before its
            children.
        kinds: The kind of each line, by ordinal; damaged lines are left out, and those of batches that were never
            completed, whose children then follow their parent.
        leaf: The ordinal of the leaf, 0 where there is none.
    """
    children: dict[int, list[int]] = {}
    sizes = [1] * len(parents)
    for seq in range(len(parents) - 1, 0, -1):
        if kinds[seq] not in _LEFT_OUT:
            parent = parents[seq]
            while parent > 0 and kinds[parent] in _LEFT_OUT:
                parent = parents[parent]
            parent = max(parent, 0)
            sizes[parent] += sizes[seq]
            children.setdefault(parent, []).append(seq)  # the last child first
    path = _path(parents, leaf)
    steps: list[Step] = []
    waiting: list[int | Step] = [0]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, int):
            steps.append(each)
            continue
        if each:
            steps.append(Show(each))
        below = children.get(each)
        if not below:
            continue
        line = next((child for child in below if child in path), below[0])
        waiting.append(line)
        for child in below:
            if child != line:
                waiting += (_END, child, BranchBegins(_first_said(child, children, kinds), sizes[child]))
    return steps


def _first_said(seq: int, children: Mapping[int, Sequence[int]], kinds: Sequence[int]) -> int:
    """Return the first message of a branch; where it begins, if it has none."""
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
