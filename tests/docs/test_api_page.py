"""The page of the library lists every public member once, with the beginning of its docstring."""

from __future__ import annotations

from collections import Counter

import pytest
from docs.api_page import CHAPTERS, NOT_FOR_PROGRAMS, SECTIONS, Section, page, public, rest

from treering import Session, SessionHost, SyncHost, SyncSession, TreeringError, errors

from .test_samples import PROJECT

PAGE = PROJECT / "docs" / "api.md"
ERRORS = {
    name
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type) and issubclass(kind, TreeringError)
}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python docs/api_page.py > docs/api.md"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.of.__name__)
def test_every_public_member_is_in_one_part(section: Section) -> None:
    named = Counter(name for part in section.parts for name in part.names.split())
    attributes = {"id", "ref", "host"} & named.keys()  # attributes of instances
    assert named == Counter(public(section.of) | attributes)


def test_every_error_is_listed_once() -> None:
    rows = [line.split("`")[1] for line in page().partition("## treering.errors")[2].splitlines() if line[:3] == "| `"]
    assert Counter(rows) == Counter([*ERRORS, "Where"])


def test_every_public_name_is_on_the_page_once() -> None:
    sections = [section.of.__name__ for section in SECTIONS]
    named = [name for chapter in CHAPTERS for name in rest(chapter)]
    assert Counter([*named, *sections]) == Counter(name for chapter in CHAPTERS for name in chapter.__all__)


def test_a_value_is_shown_with_its_fields_properties_and_methods() -> None:
    rows = {line.split("`")[1]: line.split(" | ")[1] for line in page().splitlines() if line.startswith("| `")}
    assert rows["Snapshot"] == "`cursor`, `value`"
    assert rows["LabelEntry"] == "`label`"
    assert rows["Custom"] == "`custom_type`, `data`"
    assert "`text`" in rows["Turn"]
    assert rows["EntrySubscription"] == "`cursor`, `lag`, `receive_many()`"
    assert rows["Cursor"] == "`generation`, `seq`, `parse(text)`"
    assert rows["Search"] == "`findings`, `aclose()`"
    assert "`below`" in rows["AppendOptions"]


def test_every_member_has_the_blocking_counterpart_that_the_page_promises() -> None:
    for one, other in ((SessionHost, SyncHost), (Session, SyncSession)):
        assert public(one) <= public(other) | NOT_FOR_PROGRAMS[one] | {"start", "aclose"}  # `with`, in any thread


def test_the_page_shows_how_each_member_is_used() -> None:
    rows = {line.split("`")[1].partition("(")[0]: line.split("|")[1].strip() for line in session_rows()}
    assert [rows[name] for name in ("append", "tree", "leaf_id", "iter_entries", "subscribe")] == [
        "await",
        "at once",
        "at once",
        "async for",
        "async with",
    ]


def session_rows() -> list[str]:
    part = page().partition("## Session\n")[2].partition("\n## ")[0]
    return [
        line
        for line in part.splitlines()
        if line.count("|") == 4 and "`" in line.split("|")[2] and line.startswith("| a")
    ]
