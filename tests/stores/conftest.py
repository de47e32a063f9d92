"""A store on a folder, and a bound: what hangs in a shielded scope, or loops without end, fails."""

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.conftest import WAITS_AT_MOST_S

from treering.events.stores.files import FileStore


@pytest.fixture(autouse=True)
def ends(request: pytest.FixtureRequest) -> Iterator[None]:
    """Interrupt a test that runs on although its waiting was to end; then its loop, if that cannot be closed."""
    own = request.node.get_closest_marker("timeout")
    bound_s = own.args[0] if own else WAITS_AT_MOST_S + 5

    def interrupt(*_: object) -> None:
        raise AssertionError("the test does not end")

    handler = signal.signal(signal.SIGALRM, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, bound_s, 2)
    yield
    signal.setitimer(signal.ITIMER_REAL, *timer)
    signal.signal(signal.SIGALRM, handler)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


@pytest.fixture
def log(root: Path) -> Path:
    """The file of a log, which does not exist yet."""
    return root / "a.jsonl"


@pytest.fixture
async def store(root: Path) -> AsyncIterator[FileStore]:
    store = FileStore(root)
    yield store
    await store.aclose()
