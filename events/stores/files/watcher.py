"""Noticing that files change: the operating system's notices, with a look of one's own before each wait.

A notice only says when to look. What counts is how a file looked when it was looked at last, beginning with the call, so
no change is missed between the call and the first wait, and the last one is never lost. A slow look at all files makes
up for notices that do not come: from a network, from a folder that was not there yet, where none are left to be had.
The notices of all watches come through one ear: see `notices`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeAlias

from ...disk import Disk
from ..base import Ref
from . import notices
from .beside import LEAF_SUFFIX

Look: TypeAlias = tuple[tuple[int, int, int, int] | None, tuple[int, int, int, int] | None]
"""How a log and its leaf record look: device, inode, size and time, or None for what is not there."""


def look_at(disk: Disk, path: str) -> Look:
    """Look at a log and its leaf record."""
    return _look(disk, path), _look(disk, path + LEAF_SUFFIX)


def _look(disk: Disk, path: str) -> tuple[int, int, int, int] | None:
    try:
        found = disk.stat(path)
    except OSError:
        return None
    return found.device, found.inode, found.size, found.modified_ns


class Watch:
    """The looks at some logs, as of the last time.

    Args:
        disk: The disk.
        paths: The logs' paths.
        poll_s: After how long to look without a notice.
        settled: Waits until what was written to a log counts, where it is written by this very store: its file is ahead
            of its head until it is flushed, and does not change again then.
    """

    def __init__(
        self, disk: Disk, paths: Mapping[Ref, str], poll_s: float, settled: Callable[[Ref], Awaitable[None]]
    ) -> None:
        self._disk = disk
        self._settled = settled
        self._paths = paths
        self._poll_s = poll_s
        self._looks = {ref: look_at(disk, path) for ref, path in paths.items()}

    def changed(self) -> set[Ref]:
        """Return the logs that look different from last time."""
        found: set[Ref] = set()
        for ref, path in self._paths.items():
            look = look_at(self._disk, path)
            if look != self._looks[ref]:
                self._looks[ref] = look
                found.add(ref)
        return found

    async def changes(self) -> AsyncIterator[set[Ref]]:
        """Yield the logs that changed, whenever some did."""
        with notices.here().place() as place:
            while True:
                place.ask(frozenset(map(_nearest, self._paths.values())))
                if changed := self.changed():
                    for ref in changed:
                        await self._settled(ref)
                    yield changed
                else:
                    await place.wait(self._poll_s)


def _nearest(path: str) -> str:
    """Return the folder of a file, or the nearest one above that is there."""
    while True:
        path = os.path.dirname(path)
        if os.path.isdir(path) or path == os.path.dirname(path):
            return path
