"""The store suite and the session tests, with every call going through the blocking facade from a worker thread."""

import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from tests.sync.threaded import ThreadedStore

from treering.events.stores.base import Ref, Store
from treering.events.stores.files import FileStore
from treering.testing.stores import StoreSuite

HERE = Path(__file__).parent
SUITES_S = 600


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The loop of the callers; the store runs in the loop of the facade."""
    return "asyncio"


@pytest.mark.feature("X-34")
class TestFileStoreFromThreads(StoreSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "sessions"

    async def make_store(self) -> Store:
        return cast("Store", ThreadedStore(FileStore(self.folder)))

    async def another_host(self, store: Store) -> Store:
        return await self.make_store()

    def ref(self, name: str) -> Ref:
        return f"{name}.jsonl"


SELECTION = "asyncio and not test_invalid_input"
"""Invalid input is refused before a call reaches another thread, so those tests would only repeat themselves."""
FILES = ("damaged_files", "deleted_sessions", "failing_writes", "two_processes", "unwritable_roots")
"""Tests of what happens to files, far below the facade: they call few of its methods, and many times over."""


@pytest.mark.feature("X-34")
@pytest.mark.timeout(SUITES_S)
@pytest.mark.parametrize(
    "selection",
    [" and not test_".join([SELECTION, *FILES]), pytest.param(SELECTION, marks=pytest.mark.soak)],
    ids=["some", "all"],
)
def test_the_session_tests_pass_through_the_blocking_facade(selection: str) -> None:
    options = ["-q", "--tb=short", "-p", "threaded", "-p", "no:cacheprovider", "-k", selection]
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(HERE.parent / "sessions")],
        cwd=HERE.parents[1],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=SUITES_S,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
