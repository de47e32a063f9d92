"""What lies on a disk in memory: a tree of nodes, and which changes to it were not synced yet.

Two kinds of changes wait for a sync. Those to a file's bytes (`Write`, `Cut`) wait in the file until it is synced.
Those to names (`Naming`) wait in the image until each directory that they touch is synced; a rename between two
directories waits for both. Until then a power cut may take them away: see `crashes`.

An image knows nodes, not paths, descriptors or flags: those belong to `MemoryDisk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

OperationKind: TypeAlias = Literal[
    "open", "write", "truncate", "datasync", "sync_directory", "rename", "unlink", "make_directory"
]


class Operation(Struct, frozen=True):
    """One thing that was done to a disk.

    Attributes:
        kind: The call of `Disk` that did it; opening with O_TRUNC is an "open" and a "truncate".
        path: The file or directory; of a file that was opened, the name under which it was opened.
        target: The new name, of a rename.
        offset: Where the bytes went, of a write; the new size, of a truncate.
        data: The bytes, of a write.
        created: The name was not there before, of an "open".
        node: The number of the file or directory that it was done to.
        modified_ns: The time that it left on the disk.
    """

    kind: OperationKind
    path: str
    target: str = ""
    offset: int = 0
    data: bytes = b""
    created: bool = False
    node: int = 0
    modified_ns: int = 0


class Write(Struct, frozen=True):
    """Bytes put into a file."""

    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        """Put the bytes there; a gap before them is filled with zeros."""
        if self.offset > len(content):
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data


class Cut(Struct, frozen=True):
    """A new size of a file; where it grows, by zeros."""

    size: int

    def apply(self, content: bytearray) -> None:
        """Give the content the size."""
        if self.size < len(content):
            del content[self.size :]
        else:
            content.extend(bytes(self.size - len(content)))


class Node:
    """A file or a directory, by whatever name.

    Attributes:
        number: What `FileStat` calls the inode; never used again.
        names: The names in a directory; None for a file.
        content: The bytes of a file.
        synced: The bytes that a power cut leaves in any case.
        waiting: The changes that lead from the one to the other.
        modified_ns: When the content or the names last changed.
    """

    __slots__ = ("content", "modified_ns", "names", "number", "synced", "synced_names", "waiting")

    def __init__(self, number: int, *, is_directory: bool, modified_ns: int) -> None:
        self.number = number
        self.modified_ns = modified_ns
        self.names: dict[str, Node] | None = {} if is_directory else None
        self.synced_names: dict[str, Node] = {}
        self.content = bytearray()
        self.synced = bytearray()
        self.waiting: list[Write | Cut] = []

    def change(self, change: Write | Cut) -> None:
        """Change the bytes of a file."""
        change.apply(self.content)
        self.waiting.append(change)

    def sync(self) -> None:
        """Make the bytes survive."""
        for change in self.waiting:
            change.apply(self.synced)
        self.waiting.clear()


class Naming(Struct, frozen=True, eq=False):
    """A name taken away, given, or both at once.

    Attributes:
        old: Where the node loses a name: a directory and a name in it.
        new: Where it gets one.
        node: Who gets the new name; None where a name is only taken away.
        unsynced: The numbers of the directories that have to be synced for it to survive.
    """

    old: tuple[Node, str] | None
    new: tuple[Node, str] | None
    node: Node | None
    unsynced: set[int]

    @property
    def slots(self) -> set[tuple[int, str]]:
        """The places that it changes; what changes the same place later cannot survive without it."""
        return {(directory.number, name) for directory, name in filter(None, (self.old, self.new))}


class DiskImage:
    """The nodes of a disk, and the changes of names that wait for a sync."""

    def __init__(self) -> None:
        self.root = Node(1, is_directory=True, modified_ns=0)
        self.waiting: list[Naming] = []
        self.last_number = 1

    def add(self, *, is_directory: bool, modified_ns: int) -> Node:
        """Make a node without a name."""
        self.last_number += 1
        return Node(self.last_number, is_directory=is_directory, modified_ns=modified_ns)

    def rename(self, old: tuple[Node, str] | None, new: tuple[Node, str] | None, node: Node | None) -> None:
        """Take a name away, give one, or both; whoever had the new name loses it."""
        naming = Naming(old, new, node, {directory.number for directory, _ in filter(None, (old, new))})
        apply_naming(naming, {})
        self.waiting.append(naming)

    def sync_names(self, directory: Node) -> None:
        """Make the names in a directory survive."""
        blocked: set[tuple[int, str]] = set()
        kept: list[Naming] = []
        for naming in self.waiting:
            naming.unsynced.discard(directory.number)
            if naming.unsynced or naming.slots & blocked:
                blocked |= naming.slots
                kept.append(naming)
            else:
                _apply_synced(naming)
        self.waiting = kept

    def nodes(self) -> Iterator[Node]:
        """Yield every node that any name leads to, or may lead to after a power cut."""
        seen: set[int] = set()
        reachable = [self.root, *(naming.node for naming in self.waiting if naming.node is not None)]
        while reachable:
            node = reachable.pop()
            if node.number not in seen:
                seen.add(node.number)
                yield node
                reachable += [*(node.names or {}).values(), *node.synced_names.values()]

    def copy(self) -> tuple[DiskImage, dict[int, Node]]:
        """Return an image like this one, and its nodes by number."""
        twins: dict[int, Node] = {}
        originals = list(self.nodes())
        for node in originals:
            twin = Node(node.number, is_directory=node.names is not None, modified_ns=node.modified_ns)
            twin.content, twin.synced, twin.waiting = node.content[:], node.synced[:], node.waiting[:]
            twins[node.number] = twin
        for node in originals:
            twin = twins[node.number]
            if node.names is not None:
                twin.names = {name: twins[child.number] for name, child in node.names.items()}
                twin.synced_names = {name: twins[child.number] for name, child in node.synced_names.items()}
        image = DiskImage()
        image.root, image.last_number = twins[self.root.number], self.last_number
        return image, twins
