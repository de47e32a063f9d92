"""Another process that writes, and a bound, for all tests of this folder: a reader that loops without end fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.stores.conftest import ends

from .other_process import AnotherProcess

__all__ = ["another_process", "ends"]


@pytest.fixture(scope="session")
def another_process() -> Iterator[AnotherProcess]:
    with AnotherProcess() as process:
        yield process
