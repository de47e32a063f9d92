"""The session ids in a root, of which the doctor reports those that several files have, as `cp` makes them."""

from __future__ import annotations

import os

from ..disk import Disk
from ..disk.packed import log_path
from ..findings import Finding


class SessionIds:
    """The ids of the sessions that were examined so far, by root.

    Args:
        disk: The disk that holds the sessions.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._first: dict[tuple[str, str], tuple[str, str]] = {}

    def add(self, root: str, path: str, session_id: str) -> list[Finding]:
        """Add the id of one session; return a finding if another file of the root has the same id."""
        real_path = self._disk.real_path(os.path.abspath(log_path(path)))  # the same file may be given twice
        first, first_real_path = self._first.setdefault((root, session_id), (path, real_path))
        if first_real_path == real_path:
            return []
        what = (
            f"its session id {session_id!r} is also that of {first}, so the id does not tell them apart: remove one of "
            "the two files, or replace one by a fork of it (`SessionHost.fork_from`), which has an id of its own"
        )
        return [Finding(path, None, None, "same_session_id", "warning", what)]
