"""The parts of a disk image: nodes, the changes to them, and the record of an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

OperationKind: TypeAlias = Literal[
    "open", "write", "truncate", "datasync", "sync_directory", "rename", "unlink", "make_directory"
]


class Operation(Struct, frozen=True):
    """One operation on a disk.

    Attributes:
        kind: The call of `Disk`; opening with O_TRUNC is an "open" followed by a "truncate".
        path: The file or directory; for an open file, the path under which it was opened.
        node: The number of the file or directory; 0 if the path identifies it.
        target: The new path of a rename.
        offset: The offset of a write; the new size of a truncate.
        data: The bytes of a write.
        created: Whether an "open" created the file.
        modified_ns: The disk's time of the operation.
    """

    kind: OperationKind
    path: str
    node: int = 0
    target: str = ""
    offset: int = 0
    data: bytes = b""
    created: bool = False
    modified_ns: int = 0


class Write(Struct, frozen=True):
    """Bytes written to a file."""

    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        """Write the bytes; a gap before them is filled with zeros."""
        if self.offset > len(content):
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data


class Cut(Struct, frozen=True):
    """A new size of a file."""

    size: int

    def apply(self, content: bytearray) -> None:
        """Resize the content; it grows with zeros."""
        if self.size < len(content):
            del content[self.size :]
        else:
            content.extend(bytes(self.size - len(content)))


Change: TypeAlias = Write | Cut
"""A change to the bytes of a file."""


class Node:
    """A file or directory, independent of its names.

    Attributes:
        number: The inode in `FileStat`; never reused.
        names: The names in a directory; None for a file.
        synced_names: The names that survive any power cut.
        content: The bytes of a file.
        synced: The bytes that survive any power cut.
        waiting: The changes from `synced` to `content`.
        modified_ns: When the content or the names last changed.
    """

    __slots__ = ("__weakref__", "content", "modified_ns", "names", "number", "synced", "synced_names", "waiting")

    def __init__(self, number: int, *, is_directory: bool) -> None:
        self.number = number
        self.names: dict[str, Node] | None = {} if is_directory else None
        self.synced_names: dict[str, Node] = {}
        self.content = bytearray()
        self.synced = bytearray()
        self.waiting: list[Change] = []
        self.modified_ns = 0

    def child(self, name: str) -> Node:
        """Return the node with a name in this directory."""
        return (self.names or {})[name]

    def change(self, change: Change, now_ns: int) -> None:
        """Apply a change to the bytes of a file."""
        change.apply(self.content)
        self.waiting.append(change)
        self.modified_ns = now_ns

    def sync(self) -> None:
        """Make the bytes survive a power cut."""
        for change in self.waiting:
            change.apply(self.synced)
        self.waiting.clear()

    def copy(self) -> Node:
        """Return a node with the same bytes, but without names."""
        twin = Node(self.number, is_directory=self.names is not None)
        twin.content, twin.synced, twin.waiting = self.content[:], self.synced[:], self.waiting[:]
        twin.modified_ns = self.modified_ns
        return twin


Slot: TypeAlias = tuple[Node, str]
"""The place of a name: a directory, and the name in it."""


class Naming(Struct, frozen=True, eq=False):
    """A change of names: removes a name (`old`), adds one (`new`), or does both in one step."""

    old: Slot | None
    new: Slot | None
    node: Node | None

    @property
    def slots(self) -> list[Slot]:
        """The slots that it changes."""
        return [slot for slot in (self.old, self.new) if slot is not None]

    @property
    def directory(self) -> Node:
        """The directory that must be synced for the change to survive."""
        return self.slots[-1][0]

    @property
    def places(self) -> set[tuple[int, str]]:
        """The slots as plain values that can be compared."""
        return {(directory.number, name) for directory, name in self.slots}

    def apply(self, names: Mapping[int, dict[str, Node]]) -> None:
        """Apply the change to the names of directories, given by directory number."""
        if self.old is not None:
            names[self.old[0].number].pop(self.old[1], None)
        if self.new is not None and self.node is not None:
            names[self.new[0].number][self.new[1]] = self.node

    def among(self, nodes: Mapping[int, Node]) -> Naming:
        """Return the same change for other nodes with the same numbers."""
        old, new = [slot and (nodes[slot[0].number], slot[1]) for slot in (self.old, self.new)]
        return Naming(old, new, self.node and nodes[self.node.number])


def with_needs(waiting: Sequence[Naming], chosen: set[int]) -> set[int]:
    """Return the chosen changes of names and all earlier ones that they depend on, since they change the same slot."""
    latest: dict[tuple[int, str], int] = {}
    needs: list[set[int]] = []
    for at, naming in enumerate(waiting):
        needs.append({latest[place] for place in naming.places if place in latest})
        latest |= dict.fromkeys(naming.places, at)
    closure = set(chosen)
    for at in reversed(range(len(waiting))):
        if at in closure:
            closure |= needs[at]
    return closure
