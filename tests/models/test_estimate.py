"""The accuracy of the token estimate: the bounds that its docstring gives, and its properties."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.projections.tokens import ByteEstimator

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")
ESTIMATE = ByteEstimator()
LOW = {"hexadecimal": 0.6, "base64": 0.4}


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    pytest.importorskip("bpe_openai")
    root = str(Path(__file__).resolve().parents[2])
    sys.path.insert(0, root)
    try:
        from bench.estimator import measured
    finally:
        sys.path.remove(root)
    return list(measured())


def test_the_estimate_is_within_its_documented_bounds(rows: list[Any]) -> None:
    far = [row for row in rows if not LOW.get(row.name, 0.8) <= row.ratio <= 1.5]
    assert far == []
    assert {row.kind for row in rows} == {"prose", "chat", "sources", "output"}
    assert len(rows) > 30


@given(st.text(), st.text())
def test_the_estimate_is_monotonic_and_subadditive(text: str, more: str) -> None:
    assert ESTIMATE.count(text) <= ESTIMATE.count(text + more) <= ESTIMATE.count(text) + ESTIMATE.count(more)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_text_counts_the_same_in_the_ascii_and_the_byte_count(text: str) -> None:
    dense = sum(each in '0123456789"{}[]:-_/=' for each in text)
    assert ESTIMATE.count(text) == -(-(len(text) + dense) // 4)
    # One character outside ASCII makes every byte count; it counts 7/8 of a token, the rest as before.
    assert ESTIMATE.count(text + "山") == -(-(2 * (len(text) + dense) + 7) // 8)


def test_the_estimate_of_given_texts() -> None:
    counted = {"": 0, "a": 1, "word": 1, "words": 2, "1234": 2, '{"a":1}': 4, "\ud800": 1, "日本語": 3, "🎉": 2, "é": 1}
    assert {text: ESTIMATE.count(text) for text in counted} == counted
