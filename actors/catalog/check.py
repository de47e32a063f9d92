"""The index under examination: what it says of sessions that still look as it says, held against their files.

Lines about sessions that changed since, or are gone, are no damage: nobody believes them. A line is wrong that would be
believed. All of it is derived, so a repair writes the index anew with what is right, and what was wrong is made again by the
next listing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from ...events.disk import Disk
from ...events.errors import InvalidSessionId
from ...events.findings import Finding
from ...events.offload import ThreadOffload
from ...events.repair import Repair
from ...events.stores.files import FileStore
from ...events.wording import counted
from ...projections.summary import SessionSummary
from ..runtime import Limits, Runtime, random_id, system_clock
from .index_file import IndexFile, IndexLine
from .rows import Rows


class IndexCheck:
    """Holds the index of one root against the sessions; nothing is written but by `repair`.

    Args:
        disk: The disk.
        root: The folder of the sessions.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._store = FileStore(root, disk=disk)
        runtime = Runtime(
            store=self._store,
            owner="doctor",
            clock=system_clock,
            new_id=random_id,
            offload=ThreadOffload(),
            limits=Limits(),
            spawn=_no_task,
        )
        self._rows = Rows(runtime, self._store)
        self._index = IndexFile(disk, self._store.root)

    def findings(self) -> list[Finding]:
        """Return what is wrong with the index; one that is not there is in order."""
        return self._examined()[0]

    def repair(self) -> list[Repair]:
        """Write the index anew where something is wrong with it.

        Raises:
            OSError: The disk refuses; the index is as it was.
        """
        found, right = self._examined()
        if not found:
            return []
        self._index.replace({line.ref: line for line in right}, make_folder=False)
        said = f"the index was written anew with {counted(len(right), 'session')}; the next listing adds the others"
        return [Repair(self._index.path, "made_anew", said)]

    def _examined(self) -> tuple[list[Finding], list[IndexLine]]:
        path = self._index.path
        if not self._index.exists():
            return [], []
        contents = self._index.read()
        if not contents.usable:
            what = "this is no index of this version: the next listing reads all sessions and writes it anew"
            return [Finding(path, 1, 0, "catalog_foreign", "warning", what)], []
        found = [
            Finding(path, number, None, "catalog_torn", "warning", "a line of the index that cannot be read; skipped")
            for number in contents.damaged
        ]
        right: list[IndexLine] = []
        for line in contents.lines.values():
            wrong = self._wrong(line)
            if wrong is None:
                right.append(line)
            else:
                found.append(Finding(path, None, None, "catalog_wrong", "warning", wrong))
        return found, right

    def _wrong(self, line: IndexLine) -> str | None:
        """Say what is wrong with a line that would be believed, or return None."""
        try:
            found = self._store.look_at(line.ref)
        except InvalidSessionId:
            return f"the index has a line about {line.ref!r}, which can be no session's file"
        if found is None or not line.holds(found):
            return None
        true = self._rows.read(line.ref, found)
        if true is None:
            return None
        differing = [
            name
            for name in SessionSummary.__struct_fields__
            if name not in ("last_accessed", "project_hash") and getattr(true, name) != getattr(line.session, name)
        ]
        if line.session.last_accessed is None or (true.last_accessed or true.modified) > line.session.last_accessed:
            differing.append("last_accessed")
        if not differing:
            return None
        return f"the index is wrong about {', '.join(differing)} of {line.ref}, which did not change since"


def _no_task(run: Callable[[], Coroutine[Any, Any, None]]) -> NoReturn:
    raise AssertionError("an examination starts no task")
