"""The content of a disk in memory: a tree of nodes, and the changes to it that are not synced yet.

Two kinds of changes wait for a sync. Changes to a file's bytes (`Write`, `Cut`) wait in its node until the file is
synced. Changes to names (`Naming`) wait in the image until their directory is synced; for a rename, the directory of
the new name. Until then a power cut may undo them: see `crashes`.

An image knows paths and nodes. Descriptors, flags and the errors of calls belong to `MemoryDisk`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias
from weakref import WeakValueDictionary

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


NAME_BYTES_MAX = 255
TICK_NS = 1_000_000


def os_error(number: int, path: str | None = None) -> OSError:
    """Return an error like those of the operating system; Python chooses the subclass."""
    return OSError(number, os.strerror(number), path)


class DiskImage:
    """The nodes of a disk, its unsynced changes of names, and its time.

    Attributes:
        root: The directory "/".
        waiting: The unsynced changes of names, oldest first.
        now_ns: The time of the latest change.
    """

    def __init__(self) -> None:
        self.root = Node(1, is_directory=True)
        self.waiting: list[Naming] = []
        self.now_ns = 0
        self.last_number = 1
        self._by_number: WeakValueDictionary[int, Node] = WeakValueDictionary({1: self.root})

    # finding

    def find(self, path: str) -> Node:
        """Return the node of a path.

        Raises:
            OSError: It does not exist, or a part of it is not a directory.
        """
        trail = [self.root]
        for name in parts_of(path):
            if (names := trail[-1].names) is None:
                raise os_error(errno.ENOTDIR, path)
            if name == "..":
                trail = trail[:-1] or trail
            elif (child := names.get(name)) is not None:
                trail.append(child)
            else:
                raise os_error(errno.ENOENT, path)
        if path.endswith("/") and trail[-1].names is None:
            raise os_error(errno.ENOTDIR, path)
        return trail[-1]

    def slot(self, path: str) -> Slot:
        """Return the parent directory of a path, which itself need not exist, and its last name.

        Raises:
            OSError: The directory does not exist.
        """
        head, _, name = path.rstrip("/").rpartition("/")
        if not name or name in {".", ".."}:
            raise os_error(errno.EINVAL, path)
        parts_of(path)
        return self.find(f"{head}/"), name

    def paths(self) -> Iterator[tuple[str, Node]]:
        """Yield each path below the root with its node, sorted."""
        stack = [("", self.root)]
        while stack:
            path, node = stack.pop()
            if path:
                yield path, node
            if node.names is not None:
                stack += [(f"{path}/{name}", node.names[name]) for name in sorted(node.names, reverse=True)]

    def nodes(self) -> Iterator[Node]:
        """Yield every node that has a name, or may have one after a power cut."""
        seen: set[int] = set()
        reachable = [self.root]
        for naming in self.waiting:
            reachable += [directory for directory, _ in naming.slots]
            reachable += [naming.node] if naming.node is not None else []
        while reachable:
            node = reachable.pop()
            if node.number not in seen:
                seen.add(node.number)
                yield node
                reachable += [*(node.names or {}).values(), *node.synced_names.values()]

    # changing

    def apply(self, operation: Operation) -> Node | None:
        """Apply an operation to the image; return its node, or None if the node is no longer reachable."""
        self.now_ns = operation.modified_ns
        match operation.kind:
            case "open" if operation.created:
                return self._create(operation.path, is_directory=False)
            case "make_directory":
                return self._create(operation.path, is_directory=True)
            case "rename":
                return self._rename(self.slot(operation.path), self.slot(operation.target))
            case "unlink":
                return self._rename(self.slot(operation.path), None)
            case _:
                node = self._by_number.get(operation.node)
                if node is not None:
                    self._change(node, operation)
                return node

    def _create(self, path: str, *, is_directory: bool) -> Node:
        self.last_number += 1
        node = self._adopt(Node(self.last_number, is_directory=is_directory))
        node.modified_ns = self.now_ns
        self._change_names(Naming(None, self.slot(path), node))
        return node

    def _rename(self, old: Slot, new: Slot | None) -> Node:
        node = old[0].child(old[1])
        self._change_names(Naming(old, new, node if new is not None else None))
        return node

    def _change_names(self, naming: Naming) -> None:
        for directory, _ in naming.slots:
            directory.modified_ns = self.now_ns
        naming.apply({each.number: each.names for each, _ in naming.slots if each.names is not None})
        self.waiting.append(naming)

    def _change(self, node: Node, operation: Operation) -> None:
        match operation.kind:
            case "write":
                node.change(Write(operation.offset, operation.data), self.now_ns)
            case "truncate":
                node.change(Cut(operation.offset), self.now_ns)
            case "datasync":
                node.sync()
            case "sync_directory":
                self._sync_names(node)
            case _:
                pass

    def _sync_names(self, directory: Node) -> None:
        surviving = with_needs(
            self.waiting, {at for at, each in enumerate(self.waiting) if each.directory is directory}
        )
        for at in sorted(surviving):
            self.waiting[at].apply({each.number: each.synced_names for each, _ in self.waiting[at].slots})
        self.waiting = [each for at, each in enumerate(self.waiting) if at not in surviving]

    def settle(self) -> None:
        """Make everything survive a power cut, as if enough time had passed."""
        self.waiting.clear()
        for node in list(self.nodes()):
            node.sync()
            node.synced_names = dict(node.names or {})

    # copying

    def _adopt(self, node: Node) -> Node:
        self._by_number[node.number] = node
        return node

    def copy(self) -> DiskImage:
        """Return a deep copy of the image."""
        twin = DiskImage()
        twin.now_ns, twin.last_number = self.now_ns, self.last_number
        originals = list(self.nodes())
        twins = {node.number: twin._adopt(node.copy()) for node in originals}
        for node in originals:
            copied = twins[node.number]
            if node.names is not None:
                copied.names = {name: twins[child.number] for name, child in node.names.items()}
            copied.synced_names = {name: twins[child.number] for name, child in node.synced_names.items()}
        twin.root = twins[self.root.number]
        twin.waiting = [naming.among(twins) for naming in self.waiting]
        return twin

    def after_power_cut(self, surviving: Iterable[Naming], contents: dict[int, bytes]) -> DiskImage:
        """Return the image after a power cut, given the surviving changes of names and contents of unsynced files."""
        names = {node.number: dict(node.synced_names) for node in self.nodes()}
        for naming in surviving:
            naming.apply(names)
        image = DiskImage()
        image.now_ns, image.last_number = self.now_ns, self.last_number
        twins: dict[int, Node] = {}

        def twin_of(node: Node) -> Node:
            if node.number not in twins:
                twin = twins[node.number] = image._adopt(Node(node.number, is_directory=node.names is not None))
                twin.modified_ns = node.modified_ns
                twin.synced += contents.get(node.number, node.synced)
                twin.content += twin.synced
                if twin.names is not None:
                    twin.names |= {name: twin_of(child) for name, child in names[node.number].items()}
            return twins[node.number]

        image.root = twin_of(self.root)
        image.settle()
        return image


@lru_cache(maxsize=4096)
def parts_of(path: str) -> tuple[str, ...]:
    """Split an absolute path into names.

    Raises:
        ValueError: The path is not absolute, or contains a null byte.
        OSError: A name is too long.
    """
    if not path.startswith("/"):
        raise ValueError(f"expected an absolute path, got {path!r}")
    if "\0" in path:
        raise ValueError("embedded null byte")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if any(len(os.fsencode(part)) > NAME_BYTES_MAX for part in parts):
        raise os_error(errno.ENAMETOOLONG, path)
    return parts
