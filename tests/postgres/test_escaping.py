"""The form of texts in the database, which has to keep what texts are compared by."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treering.stores.postgres.catalog.escaping import BETWEEN, after_prefix, escaped, like_containing, unescaped

texts = st.text("\0\1\2\3\4ab%_\\\ud7ff\ue000\U0010ffff", max_size=5)


@given(texts, texts)
def test_order_beginnings_and_contents_are_those_of_the_texts(one: str, other: str) -> None:
    first, second = escaped(one), escaped(other)
    assert "\0" not in first
    assert unescaped(first) == one
    assert (first < second, first == second) == (one < other, one == other)
    assert first.startswith(second) == one.startswith(other)
    assert (second in first) == (other in one)
    end = after_prefix(second)
    assert one.startswith(other) == (second <= first and (end is None or first < end))


@given(texts, texts, texts.filter(bool))
def test_nothing_is_found_across_the_border_of_two_texts(one: str, other: str, part: str) -> None:
    assert (escaped(part) in escaped(one) + BETWEEN + escaped(other)) == (part in one or part in other)


@given(texts, texts)
def test_half_a_character_is_found_nowhere(one: str, other: str) -> None:
    assert escaped(one + "\ud800" + other) not in escaped(other) + BETWEEN + escaped(one)
    assert not escaped(other).startswith(escaped("\udfff"))


def test_the_signs_of_a_pattern_stand_for_themselves() -> None:
    assert like_containing("50%_\\") == "%50\\%\\_\\\\%"
