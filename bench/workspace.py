"""The files that a run works on: new folders, and large logs that are created once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
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
HEADER_OF_PI = '{"type":"session","version":3,"id":"bench","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/work"}\n'
LINE_OF_PI = (
    '{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z",'
    '"message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"timestamp":1767225600000}}}}\n'
)
COMPACTION_OF_PI = (
    '{{"type":"compaction","id":"{id}","parentId":{parent},"timestamp":"2026-01-01T00:00:00.000Z",'
    '"summary":"{text}","firstKeptEntryId":"{kept}","tokensBefore":100000}}\n'
)
TEXT = "All work and no play makes a long log of nothing in particular. " * 17
"""Makes a line 1.3 KB long, and 100,000 of them 130 MB."""

KEPT = 40
"""How many entries a compaction keeps, and how many follow it."""


class Log(Struct, frozen=True):
    """A log in its own folder."""

    path: Path
    entries: int
    compacted: bool


class Workspace:
    """The folder of one run, shared by all of its processes.

    Args:
        folder: The folder; if omitted, a temporary directory that is deleted when the block ends.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="treering-bench-") if folder is None else None
        self._new_folders: list[Path] = []
        self.folder = Path(self._temporary.name) if self._temporary is not None else folder or Path()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def new_folder(self) -> Path:
        """Create an empty folder."""
        path = Path(tempfile.mkdtemp(dir=self.folder))
        self._new_folders.append(path)
        return path

    def cached_folder(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return a folder that is filled once for the whole run."""
        path = self.folder / name
        if not (path / "complete").exists():
            shutil.rmtree(path, ignore_errors=True)  # left by an attempt that failed
            path.mkdir()
            make(path)
            (path / "complete").touch()
        return path

    def log(self, entries: int, *, compacted: bool = False) -> Log:
        """Return a native log of one long path; the first call creates it, and nothing has opened it before."""

        def make(folder: Path) -> None:
            write_log(folder / "bench.jsonl", entries, compacted=compacted)

        folder = self.cached_folder(f"log-{entries}-{'compacted' if compacted else 'whole'}", make)
        return Log(folder / "bench.jsonl", entries, compacted)

    def bytes_written(self) -> int:
        """Return the size of all files in the new folders; a sparse file counts with its allocated blocks."""
        files = [each.stat() for folder in self._new_folders for each in folder.rglob("*") if each.is_file()]
        return sum(min(each.st_size, each.st_blocks * 512) for each in files)


def write_log(path: Path, entries: int, *, compacted: bool) -> None:
    """Write a log line by line; a compacted log has its compaction `KEPT` entries before the end."""
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
    # Scattered like real ids: consecutive ids with a shared prefix would be unrealistically cheap to hash.
    return str(UUID(int=seq * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128, version=4))
