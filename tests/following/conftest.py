"""Another process that writes, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .other_process import AnotherProcess


@pytest.fixture(scope="session")
def another_process() -> Iterator[AnotherProcess]:
    with AnotherProcess() as process:
        yield process
