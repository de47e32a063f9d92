"""What a query matches, decided from texts alone."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import InvalidInput
from treering.events.stores import search_index as schema
from treering.events.stores.search import folded
from treering.projections.search.query import QUERY_CHARS_MAX, Query
from treering.projections.search.snippets import SNIPPET_CHARS, snippet

LETTERS = "abſßKKiİıſtﬁÉé中文字 \n\t\"\\/%*'-:^()NEAR\x00\x1f\x7f😀"
texts = st.text(st.sampled_from(LETTERS), max_size=40)


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("timeout", "a SocketTimeoutError", True),
        ("read timeout", "timeout after a READ", True),
        ("read timeout", "timeout", False),
        ('"read timeout"', "the read\n\t timeout", True),
        ('"read timeout"', "timeout, then read", False),
        ('"read tim', "a read timeout", True),
        ("STRASSE", "Straße", True),
        ("straße", "STRASSE", True),
        ("中文", "这是中文。", True),
        ("a/b.py:12", "see a/b.py:12 there", True),
        ('foo"bar baz"', "bar baz foo", True),
        ("100%", "done: 100%", True),
        ("x* OR y", "x* y", False),
    ],
)
def test_all_terms_must_occur_in_any_letter_case(query: str, text: str, found: bool) -> None:
    assert Query(query).matches(text) is found


@pytest.mark.parametrize("query", ["", "  \n", '""', '" "', "x" * (QUERY_CHARS_MAX + 1)])
def test_an_empty_or_overlong_query_is_refused(query: str) -> None:
    with pytest.raises(InvalidInput):
        Query(query)


def test_case_folding_keeps_ascii_within_ascii() -> None:
    """A line of plain ASCII is compared as bytes, so its characters may only fold to their lower case."""
    for code in range(128):
        assert chr(code).casefold() == chr(code).lower()
    assert all(char.casefold() for char in map(chr, range(0x80, sys.maxunicode + 1)) if char.isalpha())


@given(texts, texts)
def test_a_line_ruled_out_by_its_bytes_does_not_match(query: str, text: str) -> None:
    if not query.replace('"', "").split():
        return
    asked = Query(query)
    for ensure_ascii in (False, True):
        line = json.dumps({"text": text}, ensure_ascii=ensure_ascii).replace("/", "\\/").encode()
        assert asked.may_match(line) or not asked.matches(text)


@given(texts, texts)
def test_a_matching_text_has_all_trigrams_and_a_snippet_with_ranges(query: str, text: str) -> None:
    if not query.replace('"', "").split():
        return
    asked = Query(query)
    if not asked.matches(text):
        return
    assert all(gram in folded(text) for gram in asked.trigrams)
    cut = snippet(text, asked)
    assert cut.ranges
    assert "\n" not in cut.text
    ends = [0, *(end for span in cut.ranges for end in span)]
    assert ends == sorted(ends)
    assert ends[-1] <= len(cut.text)


def test_a_snippet_shows_the_first_match_on_one_line_with_its_ranges() -> None:
    text = "word " * 100 + "\n\nthe Straße was\n\n  CLOSED  " + "tail " * 100
    cut = snippet(text, Query('strasse "was closed"'))
    assert cut.text.startswith("…word")
    assert cut.text.endswith("tail…")
    assert len(cut.text) <= SNIPPET_CHARS + 2
    assert [cut.text[start:end] for start, end in cut.ranges] == ["Straße", "was CLOSED"]
    whole = snippet("Closed", Query("closed"))
    assert (whole.text, whole.ranges) == ("Closed", ((0, 6),))


def test_a_snippet_shows_a_match_deep_in_a_long_text() -> None:
    text = "x" * 100_000 + " needle " + "y" * 100_000
    cut = snippet(text, Query("needle"))
    assert [cut.text[start:end] for start, end in cut.ranges] == ["needle"]


def test_an_index_query_contains_no_fts_syntax() -> None:
    asked = schema.match(Query('a"b NEAR(x) col:val* -not "AND OR"'))
    assert asked is not None
    assert all(len(each.replace('""', '"')) == 5 for each in asked.split(" AND ") if each)
    assert schema.match(Query("ab")) is None
