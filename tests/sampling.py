"""Cases of which `make test` runs some, and `make soak` the rest."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


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
