"""A listing looks at many files in a thread, while sessions are created and deleted."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering import SessionHost
from treering.events.disk import FileStat
from treering.events.stores.base import Ref
from treering.events.stores.files import FileStore

PATIENCE_S = 30


class PausingFiles(dict[Ref, FileStat]):
    """Files that pause at each membership test until they may continue."""

    def __init__(self, files: dict[Ref, FileStat]) -> None:
        super().__init__(files)
        self.reached = threading.Event()
        self.go = threading.Event()

    def __contains__(self, ref: object) -> bool:
        self.reached.set()
        assert self.go.wait(PATIENCE_S)
        return super().__contains__(ref)


async def test_a_session_that_is_deleted_during_a_listing_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[PausingFiles] = []
    scan = FileStore.scan

    def pausing_scan(self: FileStore) -> PausingFiles:
        found.append(PausingFiles(scan(self)))
        return found[-1]

    async with SessionHost(tmp_path) as host:
        for name in "abc":
            await (await host.create(name)).append_message("user", name)
        await host.list_sessions()
        await (await host.create("d")).append_message("user", "d")
        monkeypatch.setattr(FileStore, "scan", pausing_scan)
        rows: list[str] = []

        async def listed() -> None:
            rows.extend(sorted(row.id for row in await host.list_sessions()))

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(listed)
                while not (found and found[0].reached.is_set()):
                    await checkpoint()
                try:
                    await host.delete("b")
                finally:
                    found[0].go.set()
        assert rows == ["a", "c", "d"]
