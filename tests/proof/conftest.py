"""What the proofs share: silent logging."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Drop the library's log lines, of which the proofs make very many."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(*_: object) -> str:
    raise structlog.DropEvent
