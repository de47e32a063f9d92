"""Fixtures for tests of the catalog: a root, a clock."""

from datetime import timedelta
from pathlib import Path

import pytest

from treering.testing.clocks import ManualClock


@pytest.fixture
def index_path(root: Path) -> Path:
    """The path of the index of the root."""
    return root / ".treering" / "index.jsonl"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(step=timedelta(seconds=1))
