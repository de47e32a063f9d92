"""The entries whose parents do not precede them in the log, and the cycles that such a parent closes if it follows."""

from __future__ import annotations

from collections.abc import Sequence


class MissingParents:
    """The entries that name a parent which the log does not hold so far.

    An entry's parent is fixed when the entry is added, so a parent that comes later does not become one. But if it is a
    descendant of the entry that names it, that entry is its own ancestor.

    Attributes:
        children: The seqs of the entries, by the id of the missing parent.
    """

    __slots__ = ("_roots", "children")

    def __init__(self, children: dict[str, list[int]] | None = None) -> None:
        self.children: dict[str, list[int]] = {} if children is None else children
        self._roots: dict[int, int] = {}  # of entries whose path was walked, so that no part is walked twice

    def add(self, parent_id: str, seq: int) -> None:
        """Note that an entry names a parent that is missing."""
        self.children.setdefault(parent_id, []).append(seq)

    def found(self, entry_id: str, seq: int, parents: Sequence[int]) -> int:
        """Note that an entry was added, and return the entry that is its own ancestor because of that; 0 if none is.

        Args:
            entry_id: The id of the added entry.
            seq: Its seq.
            parents: The parents of all entries, by seq; not positive where there is none.
        """
        children = self.children.pop(entry_id, None)
        if not children:
            return 0
        root = self._root_of(seq, parents)
        return root if root in children else 0

    def _root_of(self, seq: int, parents: Sequence[int]) -> int:
        walked: list[int] = []
        while seq not in self._roots and parents[seq] > 0:
            walked.append(seq)
            seq = parents[seq]
        root = self._roots.get(seq, seq)
        self._roots.update(dict.fromkeys(walked, root))
        return root
