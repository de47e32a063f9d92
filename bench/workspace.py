"""The files that a run works on: fresh folders, and large logs that are made once."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID

from msgspec import Struct

HEADER = '{"type":"session","id":"bench","version":1,"timestamp":"2026-01-01T00:00:00.000000Z"}\n'
LINE = (
    '{{"type":"message","id":"{id}","parent_id":{parent},"timestamp":"2026-01-01T00:00:00.000000Z","seq":{seq},'
    '"message":{{"role":"{role}","content":[{{"type":"text","text":{{"content":"{text}"}}}}]}}}}\n'
)
COMPACTION = (
    '{{"type":"compaction","id":"{id}","parent_id":{parent},"timestamp":"2026-01-01T00:00:00.000000Z","seq":{seq},'
    '"compaction":{{"summary":"{text}","first_kept_entry_id":"{kept}","tokens_before":100000}}}}\n'
)
TEXT = "All work and no play makes a long log of nothing in particular. " * 17
"""So that a line is 1.3 KB, and 100,000 of them 130 MB."""

KEPT = 40
"""How many entries stay before a compaction, and how many come after it."""


class Log(Struct, frozen=True):
    """A log in a folder of its own."""

    path: Path
    entries: int
    compacted: bool


class Workspace:
    """A temporary directory for one run."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="treering-bench-")
        self._numbers = count(1)
        self._logs: dict[tuple[int, bool], Log] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def fresh(self) -> Path:
        """Make an empty folder."""
        path = Path(self._folder.name) / str(next(self._numbers))
        path.mkdir()
        return path

    def log(self, entries: int, *, compacted: bool = False) -> Log:
        """Return a native log of one long path, which nobody has opened yet when it is first asked for."""
        key = (entries, compacted)
        if key not in self._logs:
            path = self.fresh() / "bench.jsonl"
            write_log(path, entries, compacted=compacted)
            self._logs[key] = Log(path, entries, compacted)
        return self._logs[key]


def write_log(path: Path, entries: int, *, compacted: bool) -> None:
    """Write a log line by line; a compacted one has its compaction a little before the end."""
    parent = "null"
    at = entries - KEPT if compacted and entries > 2 * KEPT else 0
    with path.open("w") as file:
        file.write(HEADER)
        for seq in range(1, entries + 1):
            own = _id(seq)
            if seq == at:
                line = COMPACTION.format(id=own, parent=parent, seq=seq, text=TEXT, kept=_id(seq - KEPT))
            else:
                line = LINE.format(id=own, parent=parent, seq=seq, text=TEXT, role=("assistant", "user")[seq % 2])
            file.write(line)
            parent = f'"{own}"'


def _id(seq: int) -> str:
    # Scattered like real ids: neighbours that share a prefix would be kind to whoever hashes them.
    return str(UUID(int=seq * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128, version=4))
