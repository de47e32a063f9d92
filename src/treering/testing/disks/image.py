"""The content of a disk in memory: a tree of nodes, and the changes to it that are not synced yet.

Two kinds of changes wait for a sync. Changes to a file's bytes (`Write`, `Cut`) wait in its node until the file is
synced. Changes to names (`Naming`) wait in the image until their directory is synced; for a rename, the directory of
the new name. Until then a power cut may undo them: see `crashes`.

An image knows paths and nodes. Descriptors, flags and the errors of calls belong to `MemoryDisk`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from weakref import WeakValueDictionary

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


def parts_of(path: str) -> list[str]:
    """Split an absolute path into names.

    Raises:
        ValueError: The path is not absolute, or contains a null byte.
        OSError: A name is too long.
    """
    if not path.startswith("/"):
        raise ValueError(f"expected an absolute path, got {path!r}")
    if "\0" in path:
        raise ValueError("embedded null byte")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if any(len(os.fsencode(part)) > NAME_BYTES_MAX for part in parts):
        raise os_error(errno.ENAMETOOLONG, path)
    return parts
