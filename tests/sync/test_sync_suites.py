"""The store suite and the session tests, with every call going through the blocking facade from a worker thread."""

from pathlib import Path
from typing import cast

import pytest
from tests.stores import test_conformance
from tests.stores.suites import SUITES_S, run_tests

from treering.events.stores.base import Store
from treering.events.stores.files import FileStore

from .threaded import ThreadedStore

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The loop of the callers; the store runs in the loop of the facade."""
    return "asyncio"


@pytest.mark.feature("X-34")
class TestFileStoreFromThreads(test_conformance.TestFileStore):
    async def make_store(self) -> Store:
        return cast("Store", ThreadedStore(FileStore(self.folder)))


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
    run_tests(HERE / "threaded.py", "-k", selection, str(HERE.parent / "sessions"))
