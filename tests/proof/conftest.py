"""What the proofs share: silence, and a bar that shows how far a long proof is."""

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
    """Drop the library's log lines, thousands of which would bury the bars."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(*_: object) -> str:
    raise structlog.DropEvent


@pytest.fixture
def bar(request: pytest.FixtureRequest) -> Callable[[str, Iterable[T]], Iterator[T]]:
    """Go through many things, and show on stderr how far that is, in the soak alone."""
    shown = request.node.get_closest_marker("soak") is not None

    def go(label: str, things: Iterable[T]) -> Iterator[T]:
        every = list(things)
        for done, each in enumerate(every):
            if shown and done % max(1, len(every) // 200) == 0:
                filled = WIDTH * done // len(every)
                sys.stderr.write(f"\r{label:24} {'#' * filled:{WIDTH}} {done:,} of {len(every):,}")
                sys.stderr.flush()
            yield each
        if shown:
            sys.stderr.write(f"\r{label:24} {'#' * WIDTH} {len(every):,} of {len(every):,}\n")

    return go
