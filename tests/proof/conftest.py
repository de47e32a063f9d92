"""Fixtures for the proofs: silent logging, and a progress bar for the long ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

import pytest
import structlog

T = TypeVar("T")
Bar: TypeAlias = Callable[[str, Iterable[T]], Iterator[T]]

WIDTH = 40


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Drop the library's log lines, which would bury the progress bars."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(*_: object) -> str:
    raise structlog.DropEvent


@pytest.fixture
def bar(request: pytest.FixtureRequest) -> Callable[[str, Iterable[T]], Iterator[T]]:
    """Iterate over items, and show the progress on stderr in the soak."""
    is_soak = request.node.get_closest_marker("soak") is not None

    def iterate(label: str, items: Iterable[T]) -> Iterator[T]:
        all_items = list(items)
        for done, each in enumerate(all_items):
            if is_soak and done % max(1, len(all_items) // 200) == 0:
                filled = WIDTH * done // len(all_items)
                sys.stderr.write(f"\r{label:24} {'#' * filled:{WIDTH}} {done:,} of {len(all_items):,}")
                sys.stderr.flush()
            yield each
        if is_soak:
            sys.stderr.write(f"\r{label:24} {'#' * WIDTH} {len(all_items):,} of {len(all_items):,}\n")

    return iterate
