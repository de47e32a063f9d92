"""Cases of which `make test` runs some, and `make soak` the rest."""

import os
from collections.abc import Iterable, Sequence
from itertools import product

import pytest


def examples(short: int) -> int:
    """Return how many examples of a property are tried: so many, and by the soak up to 50 times as many."""
    return max(short, int(50 * short * float(os.environ.get("SOAK") or 0)))


def some_of(cases: Iterable[object], every: int, start: int = 0) -> list[pytest.ParameterSet]:
    """Mark all but one of so many cases as `soak`.

    Args:
        cases: The cases, in a fixed order. Choose `every` so that it has no factor in common with the length of the
            inner loop that the cases come from: the sample then meets each of its values.
        every: One of how many stays.
        start: Which of the first ones.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if left == start else pytest.mark.soak)
        for left, case in ((number % every, case) for number, case in enumerate(cases))
    ]


def each_with_one(outer: Sequence[object], inner: Sequence[object]) -> list[pytest.ParameterSet]:
    """Pair each value with one of the inner ones, in turn, and mark the remaining pairs as `soak`."""
    return [
        pytest.param(one, other, marks=() if (at - place) % len(inner) == 0 else pytest.mark.soak)
        for (at, one), (place, other) in product(enumerate(outer), enumerate(inner))
    ]
