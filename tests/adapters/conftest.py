"""Fixtures for the tests of adapters: roots whose shared hosts are closed when a test ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from treering.adapters.hosting import close_shared


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """The directory of an adapter's sessions."""
    yield str(tmp_path / "sessions")
    close_shared()
