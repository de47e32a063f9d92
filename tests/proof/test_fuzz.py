"""Damaged inputs of every reader: each is read or refused by a typed error, and no whole line is lost."""

from collections import Counter

import pytest

from .fuzzing import READERS, WORST, check_session_file, prove_seed


@pytest.mark.parametrize("at", range(len(READERS)), ids=READERS)
def test_a_damaged_input_is_read_or_refused_and_loses_no_line(at: int, tally: Counter[str]) -> None:
    for turn in range(10):
        prove_seed(turn * len(READERS) + at, tally)


@pytest.mark.parametrize("data", WORST, ids=range(len(WORST)))
def test_the_worst_files_lose_no_line(data: bytes) -> None:
    assert check_session_file(data) == 0
