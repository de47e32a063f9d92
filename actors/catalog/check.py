"""Check the index against the sessions' files.

A line whose file changed since, or is gone, is not damage, since it is not used. A line is wrong if it would be used
and differs from its file. The index is derived, so a repair rewrites it with the correct lines, and the next listing
adds the others.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from ...events.disk import Disk
from ...events.errors import InvalidSessionId
from ...events.findings import Finding
from ...events.health.repair import Repair
from ...events.offload import ThreadOffload
from ...events.stores.capabilities import KeepsFiles
from ...events.stores.files.row_file import IndexFile, IndexLine
from ...events.stores.opening import file_store
from ...events.texts import counted
from ...projections.summary import SessionSummary
from ..host.runtime import Limits, Runtime, random_id, system_clock
from .rows import Rows


class IndexCheck:
    """Compares the index of one root with the sessions; only `repair` writes anything.

    Args:
        disk: The disk.
        root: The folder of the sessions.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        store = file_store(root, disk=disk)
        files = store.capability(KeepsFiles)
        assert files is not None
        self._files = files
        runtime = Runtime(
            store=store,
            owner="doctor",
            clock=system_clock,
            new_id=random_id,
            offload=ThreadOffload(),
            limits=Limits(),
            spawn=_no_task,
        )
        self._rows = Rows(runtime, files)
        self._index = IndexFile(disk, self._files.root)

    def findings(self) -> list[Finding]:
        """Return what is wrong with the index; a missing index is in order."""
        return self._examine()[0]

    def repair(self) -> list[Repair]:
        """Rewrite the index if something is wrong with it.

        Raises:
            OSError: A write failed; the index is unchanged.
        """
        findings, correct_lines = self._examine()
        if not findings:
            return []
        self._index.replace({line.ref: line for line in correct_lines}, make_folder=False)
        message = (
            f"the index was rewritten with {counted(len(correct_lines), 'session')}; the next listing adds the others"
        )
        return [Repair(self._index.path, "made_anew", message)]

    def _examine(self) -> tuple[list[Finding], list[IndexLine]]:
        """Return the findings, and the lines that are correct."""
        path = self._index.path
        if not self._index.exists():
            return [], []
        contents = self._index.read()
        if not contents.usable:
            message = "not an index of this version: the next listing reads all sessions and rewrites it"
            return [Finding(path, 1, 0, "catalog_foreign", "warning", message)], []
        findings = [
            Finding(path, number, None, "catalog_torn", "warning", "a line of the index that cannot be read; skipped")
            for number in contents.damaged
        ]
        correct_lines: list[IndexLine] = []
        for line in contents.lines.values():
            fault = self._fault(line)
            if fault is None:
                correct_lines.append(line)
            else:
                findings.append(Finding(path, None, None, "catalog_wrong", "warning", fault))
        return findings, correct_lines

    def _fault(self, line: IndexLine) -> str | None:
        """Return what is wrong with a line that would be used, or None."""
        try:
            stat = self._files.look_at(line.ref)
        except InvalidSessionId:
            return f"the index has a line about {line.ref!r}, which cannot be a session file"
        if stat is None or not line.holds(stat):
            return None
        actual = self._rows.read(line.ref, stat)
        if actual is None:
            return None
        differing = [
            name
            for name in SessionSummary.__struct_fields__
            if name not in ("last_accessed", "project_hash") and getattr(actual, name) != getattr(line.session, name)
        ]
        if line.session.last_accessed is None or (actual.last_accessed or actual.modified) > line.session.last_accessed:
            differing.append("last_accessed")
        if not differing:
            return None
        return f"the index is wrong about {', '.join(differing)} of {line.ref}, which did not change since"


def _no_task(run: Callable[[], Coroutine[Any, Any, None]]) -> NoReturn:
    raise AssertionError("a check starts no tasks")
