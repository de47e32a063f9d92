"""Sessions for tests of the catalog, and what tells which files were opened."""

import re
from collections.abc import Iterable
from pathlib import Path

from treering import Session, SessionHost, SessionSummary
from treering.events.disk import Disk, OsDisk
from treering.testing.disks import WrappedDisk


class CountingDisk(WrappedDisk):
    """Records which session files are opened."""

    def __init__(self, inner: Disk | None = None) -> None:
        super().__init__(inner or OsDisk())
        self.opened: list[str] = []

    def open(self, path: str, flags: int) -> int:
        if path.endswith(".jsonl") and "/.treering/" not in path:
            self.opened.append(path)
        return super().open(path, flags)


async def create_session(
    host: SessionHost, session_id: str, text: str = "Hello", cwd: Path | str | None = None
) -> Session:
    """Create a session with one user message."""
    session = await host.create(session_id, cwd=cwd)
    await session.append_message("user", text)
    return session


def ids(rows: Iterable[SessionSummary]) -> list[str]:
    return [row.id for row in rows]


def id_of(row: SessionSummary | None) -> str | None:
    return None if row is None else row.id


def without_checksums(lines: bytes) -> bytes:
    """Return lines of an index as they were before lines had a checksum, so that they can be altered."""
    return re.sub(rb',"crc32":\d+}', b"}", lines)
