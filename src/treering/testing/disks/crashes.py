"""The disks that a power cut may leave.

Everything synced survives. Of what was not synced:

- each file may have lost any number of its latest changes, from none to all; the last surviving change, if it is a
  write, may be torn after its first byte, before its last, or at any sector boundary;
- each change of a name survives or not, independently of the others, except that a later change of a slot (a name in a
  directory) does not survive without the earlier ones. A rename is one change and is never split.

Not modelled: changes of one file that reach the disk out of order, and sizes that grow before the bytes arrive.

All combinations are generated if there are at most `COMBINATIONS_MAX`, which covers programs of four operations and
most of ten. Beyond that, each file in turn takes all of its contents, and the names all of theirs, while everything
else has lost either nothing or everything. A write has at most `TEARS_MAX` tears. If there are more than `NAMINGS_MAX`
changes of names, these sets of them survive: each run from the oldest, all but one where that is possible, and each
one alone with those that it depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import product
from math import prod

from .image import DiskImage, Naming, Node, Write, with_needs

SECTOR_BYTES = 512
COMBINATIONS_MAX = 1024
TEARS_MAX = 64
NAMINGS_MAX = 8


class Crashes:
    """The disks that a power cut may leave of an image.

    Attributes:
        complete: Whether all combinations are generated.
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
        """Yield the disks, beginning with the one that lost nothing; a disk may occur more than once."""
        # `product` makes lists of all choices at once, so it is called only where they are few.
        for surviving, chosen in product(self._names, product(*self._choices)) if self.complete else self._some():
            yield self._image.after_power_cut(surviving, dict(zip(self._numbers, chosen, strict=True)))

    def _some(self) -> Iterator[tuple[list[Naming], Sequence[bytes]]]:
        for extreme in (0, -1):
            rest = [options[extreme] for options in self._choices]
            for surviving in self._names:
                yield surviving, rest
            for at, options in enumerate(self._choices):
                for content in options:
                    yield self._names[0], [*rest[:at], content, *rest[at + 1 :]]


def contents(node: Node) -> list[bytes]:
    """Return what a file may contain after a power cut, from everything written down to what was synced."""
    content = bytearray(node.synced)
    possible = {bytes(content): None}
    for change in node.waiting:
        if isinstance(change, Write):
            for length in tears(change):
                torn = content[:]
                Write(change.offset, change.data[:length]).apply(torn)
                possible[bytes(torn)] = None
        change.apply(content)
        possible.pop(bytes(content), None)  # re-inserted last, so that it is first in the reversed list
        possible[bytes(content)] = None
    return list(possible)[::-1]


def tears(write: Write) -> list[int]:
    """Return the lengths at which a write may be torn."""
    length = len(write.data)
    boundaries = list(range(SECTOR_BYTES - write.offset % SECTOR_BYTES, length, SECTOR_BYTES))
    thinned = boundaries[:: -(-len(boundaries) // TEARS_MAX) or 1]
    return sorted({each for each in (1, *thinned, length - 1) if 0 < each < length})


def namings(waiting: Sequence[Naming]) -> list[list[Naming]]:
    """Return the sets of changes of names that may survive together, from all of them to none."""
    everything = set(range(len(waiting)))
    if len(waiting) <= NAMINGS_MAX:
        chosen = [{at for at in everything if mask >> at & 1} for mask in range(2 ** len(waiting) - 1, -1, -1)]
    else:
        chosen = [set(range(end)) for end in range(len(waiting), -1, -1)]
        chosen += [everything - {at} for at in everything]
        chosen += [with_needs(waiting, {at}) for at in everything]
    return [[waiting[at] for at in sorted(names)] for names in chosen if names == with_needs(waiting, names)]


def digest(image: DiskImage) -> bytes:
    """Return a digest of the paths and bytes on a disk; inode numbers and times do not affect it."""
    summary = blake2b(digest_size=16)
    for path, node in image.paths():
        kind = b"/" if node.names is not None else b"="
        name = path.encode("utf-8", "surrogateescape")
        summary.update(b"%d %s%s%d\n" % (len(name), name, kind, len(node.content)))
        summary.update(node.content)
    return summary.digest()
