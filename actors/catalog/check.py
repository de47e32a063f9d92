"""Check the rows that a store keeps against its logs.

A row whose log changed since, or is gone, is not damage, since it is not used. A row is wrong if it would be used and
differs from its log. Rows are derived, so a repair keeps the correct ones, and the next listing adds the others.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from ...events.disk import Disk
from ...events.errors import InvalidSessionId
from ...events.findings import Finding, Repair
from ...events.offload import ThreadOffload
from ...events.stores.base import Ref
from ...events.stores.capabilities import KeepsRows, KeptRow, ScansChanges
from ...events.stores.opening import file_store
from ...events.texts import counted
from ...projections.summary import SessionSummary
from ..host.runtime import Limits, Runtime, random_id, system_clock
from .rows import Rows, session_of

_ADDED = ("state", "labels")
"""What rows of earlier versions lack."""


class IndexCheck:
    """Compares the kept rows of one root with the sessions; only `repair` writes anything.

    Args:
        disk: The disk.
        root: The folder of the sessions.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        store = file_store(root, disk=disk)
        kept, scanning = store.capability(KeepsRows), store.capability(ScansChanges)
        assert kept is not None
        assert scanning is not None
        self._kept, self._scanning = kept, scanning
        runtime = Runtime(
            store=store,
            owner="doctor",
            clock=system_clock,
            new_id=random_id,
            offload=ThreadOffload(),
            limits=Limits(),
            spawn=_no_task,
        )
        self._rows = Rows(runtime)

    def findings(self) -> list[Finding]:
        """Return what is wrong with the index; a missing index is in order."""
        return self._examine()[1]

    def repair(self) -> list[Repair]:
        """Rewrite the index if something is wrong with it.

        Raises:
            OSError: A write failed; the index is unchanged.
        """
        place, findings, correct = self._examine()
        if not findings:
            return []
        self._kept.rewrite(correct, may_create=False)
        message = f"the index was rewritten with {counted(len(correct), 'session')}; the next listing adds the others"
        return [Repair(place, "made_anew", message)]

    def _examine(self) -> tuple[str, list[Finding], dict[Ref, KeptRow]]:
        """Return where the rows are kept, the findings, and the rows that are correct."""
        contents = self._kept.rows()
        if contents is None:
            return "", [], {}
        place = contents.place
        if not contents.usable:
            message = "not an index of this version: the next listing reads all sessions and rewrites it"
            return place, [Finding(place, 1, 0, "catalog_foreign", "warning", message)], {}
        findings = [
            Finding(place, number, None, "catalog_torn", "warning", "a line of the index that cannot be read; skipped")
            for number in contents.damaged
        ]
        correct: dict[Ref, KeptRow] = {}
        for row in contents.rows.values():
            session = session_of(row)
            if session is None:
                message = f"what the index says of {row.ref!r} cannot be read; skipped"
                findings.append(Finding(place, None, None, "catalog_torn", "warning", message))
            elif (fault := self._fault(row, session)) is not None:
                findings.append(Finding(place, None, None, "catalog_wrong", "warning", fault))
            else:
                correct[row.ref] = row
        return place, findings, correct

    def _fault(self, row: KeptRow, session: SessionSummary) -> str | None:
        """Return what is wrong with a row that would be used, or None."""
        try:
            stamp = self._scanning.look_at(row.ref)
        except InvalidSessionId:
            return f"the index has a line about {row.ref!r}, which cannot be a session file"
        if stamp is None or stamp != row.stamp:
            return None
        actual = self._rows.look(row.ref, stamp)
        if actual is None:
            return None
        differing = [
            name
            for name in SessionSummary.__struct_fields__
            if name not in ("last_accessed", "path", "project_hash", *_ADDED)
            and getattr(actual, name) != getattr(session, name)
        ]
        differing += [name for name in _ADDED if getattr(session, name) not in (None, getattr(actual, name))]
        if session.last_accessed is None or (actual.last_accessed or actual.modified) > session.last_accessed:
            differing.append("last_accessed")
        if not differing:
            return None
        return f"the index is wrong about {', '.join(differing)} of {row.ref}, which did not change since"


def _no_task(run: Callable[[], Coroutine[Any, Any, None]]) -> NoReturn:
    raise AssertionError("a check starts no tasks")
