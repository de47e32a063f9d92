"""A document about a session: what its writer is given, and the entries in reading order.

The main line runs straight down: the path to the leaf, and below the leaf, or on a branch, the last child. Other
children are branches that follow their parent directly, before the main line continues. Nothing here recurses, however
deep the tree is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

from msgspec import Struct

from ...events.entries import Entry
from ...events.kinds import MESSAGE_KINDS, Kind


class About(Struct, frozen=True, kw_only=True):
    """The information about a session at the head of a document.

    Attributes:
        title: Its name, or the beginning of its first message.
        session_id: Its id.
        created: When it was created.
        modified: When the last entry was appended.
        cwd: The directory in which it was started.
        parent_session: The session from which it was forked.
        message_count: The number of messages in the document.
        left_out: The number of entries on other branches that are not in the document.
        labels: The labels by entry id.
        redacted: Whether secrets were removed.
    """

    title: str
    session_id: str
    created: datetime
    modified: datetime
    cwd: str | None = None
    parent_session: str | None = None
    message_count: int
    left_out: int = 0
    labels: Mapping[str, str]
    redacted: bool = False


class View(Protocol):
    """Writes a document piece by piece; one object writes one document."""

    def head(self, about: About) -> str:
        """Return the beginning of the document."""
        ...

    def entry(self, entry: Entry) -> str:
        """Return the text of an entry."""
        ...

    def branch_begins(self, entry: Entry, count: int) -> str:
        """Return the beginning of a branch of `count` entries, described by `entry`."""
        ...

    def branch_ends(self) -> str:
        """Return the end of the innermost branch."""
        ...

    def tail(self) -> str:
        """Return the end of the document."""
        ...


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
