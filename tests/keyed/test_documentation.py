"""docs/keyed.md is accurate: its links work, and its names and files are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from treering import KeyedSessions, Session
from treering.actors.keys import id_of_key

PAGE = Path(__file__).resolve().parents[2] / "docs" / "keyed.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.feature("P-59")
def test_every_link_has_an_existing_target(page: str) -> None:
    links = re.findall(r"\[[^\]]+\]\(([^)]+)\)", page)
    for link in links:
        path, _, fragment = link.partition("#")
        target = (PAGE.parent / path).resolve()
        assert target.is_file(), link
        if fragment:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert fragment in map(anchor, headings), link
    also = page.partition("## See also")[2]
    for expected in ("architecture.md#the-path-of-a-command", "actors/keyed.py", "events/providers/__init__.py"):
        assert expected in also


@pytest.mark.feature("P-58")
def test_the_table_lists_every_call_and_a_section_covers_threads(page: str) -> None:
    named = set(re.findall(r"`(\w+)\(", page.partition("## What the calls do")[2].partition("Each of these")[0]))
    assert named == {name for name in dir(KeyedSessions) if not name.startswith("_")} - {"host"}
    assert "## Threads and tasks" in page
    for name in ("history", "set_history", "summary", "set_summary", "truncate_history"):
        assert hasattr(Session, name)


def test_file_names_are_as_the_page_shows(page: str) -> None:
    shown = re.findall(r"^\| `([^`]+)` \| `([^`]+)\.jsonl` \|$", page, re.MULTILINE)
    assert len(shown) == 5
    assert [(key, id_of_key(key)) for key, _ in shown] == shown
