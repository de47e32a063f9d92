"""Which disks a power cut may leave.

What was synced is always there. Of what was not:

- each file has lost any number of its latest changes, none to all; the last change that it kept, if it is a write, may
  be torn after its first byte, before its last, or at any sector's boundary;
- each change of a name is there or not, independently of the others, except that of two changes of the same place in a
  directory the later one is not there without the earlier one. A rename is one change: never half of it.

Not considered are changes of one file that reach the disk out of order, and sizes that grow before the bytes come.

All combinations are considered where there are no more than `COMBINATIONS_MAX`, which covers programs of four
operations and most of ten. Beyond that, one file at a time goes through its contents, and the names through theirs,
while the rest has either lost nothing or everything. A write has `TEARS_MAX` tears at most; more than `NAMINGS_MAX`
changes of names are taken as a run from the oldest, all but one where that can be, and each alone with
what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import product
from math import prod

from .changes import Naming, Node, Write, with_needs
from .image import DiskImage

SECTOR_BYTES = 512
COMBINATIONS_MAX = 1024
TEARS_MAX = 64
NAMINGS_MAX = 8


class Crashes:
    """The disks that a power cut may leave of one image.

    Attributes:
        complete: All combinations are considered.
    """

    def __init__(self, image: DiskImage) -> None:
        self._image = image
        files = [node for node in image.nodes() if node.waiting]
        self._numbers = [node.number for node in files]
        self._choices = [contents(node) for node in files]
        self._names = namings(image.waiting)
        count = len(self._names) * prod(map(len, self._choices))
        self.complete = len(image.waiting) <= NAMINGS_MAX and count <= COMBINATIONS_MAX

    def __iter__(self) -> Iterator[DiskImage]:
        """Yield them, first the one that lost nothing; the same one may come twice."""
        for kept, chosen in self._all() if self.complete else self._some():
            yield self._image.left_by(kept, dict(zip(self._numbers, chosen, strict=True)))

    def _all(self) -> Iterator[tuple[list[Naming], Sequence[bytes]]]:
        return product(self._names, product(*self._choices))

    def _some(self) -> Iterator[tuple[list[Naming], Sequence[bytes]]]:
        for extreme in (0, -1):
            rest = [options[extreme] for options in self._choices]
            for kept in self._names:
                yield kept, rest
            for at, options in enumerate(self._choices):
                for content in options:
                    yield self._names[0], [*rest[:at], content, *rest[at + 1 :]]


def contents(node: Node) -> list[bytes]:
    """Return what a file may hold after a power cut, from all that was written down to what was synced."""
    content = bytearray(node.synced)
    found = {bytes(content): None}
    for change in node.waiting:
        if isinstance(change, Write):
            for length in tears(change):
                torn = content[:]
                Write(change.offset, change.data[:length]).apply(torn)
                found[bytes(torn)] = None
        change.apply(content)
        found.pop(bytes(content), None)  # the whole content comes last, that is first
        found[bytes(content)] = None
    return list(found)[::-1]


def tears(write: Write) -> list[int]:
    """Return after how many bytes a write may be torn."""
    length = len(write.data)
    boundaries = list(range(SECTOR_BYTES - write.offset % SECTOR_BYTES, length, SECTOR_BYTES))
    thinned = boundaries[:: -(-len(boundaries) // TEARS_MAX) or 1]
    return sorted({each for each in (1, *thinned, length - 1) if 0 < each < length})


def namings(waiting: Sequence[Naming]) -> list[list[Naming]]:
    """Return which changes of names may be kept together, from all of them down to none."""
    everything = set(range(len(waiting)))
    if len(waiting) <= NAMINGS_MAX:
        chosen = [{at for at in everything if mask >> at & 1} for mask in range(2 ** len(waiting) - 1, -1, -1)]
    else:
        chosen = [set(range(end)) for end in range(len(waiting), -1, -1)]
        chosen += [everything - {at} for at in everything]
        chosen += [with_needs(waiting, {at}) for at in everything]
    return [[waiting[at] for at in sorted(kept)] for kept in chosen if kept == with_needs(waiting, kept)]


def digest(image: DiskImage) -> bytes:
    """Return what tells apart disks of different content: paths and bytes, not numbers and times."""
    summary = blake2b(digest_size=16)
    for path, node in image.paths():
        kind = b"/" if node.names is not None else b"="
        name = path.encode("utf-8", "surrogateescape")
        summary.update(b"%d %s%s%d\n" % (len(name), name, kind, len(node.content)))
        summary.update(node.content)
    return summary.digest()
