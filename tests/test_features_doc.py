"""docs/features.md and the `feature` marks of the tests name the same promises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
FEATURES = TESTS.parent / "docs" / "features.md"
SOURCE = TESTS.parents[1] / "shared" / "FEATURES.md"
GROUPS = "GNOPDUX"
ROW = re.compile(r"^\| ([A-Z]+-\S*) \| (.*) \|$", re.MULTILINE)


def rows(table: Path) -> list[tuple[str, str]]:
    return ROW.findall(table.read_text(encoding="utf-8"))


def marks(source: str) -> Iterator[tuple[int, object]]:
    """Every id in a `feature` mark, with its line; None if it is not a string literal, or if the mark has no id."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="feature"), args=arguments):
                for argument in arguments or [node]:
                    yield node.lineno, argument.value if isinstance(argument, ast.Constant) else None


def test_ids_are_well_formed_unique_and_in_order() -> None:
    ids = [id_ for id_, _ in rows(FEATURES)]
    assert [id_ for id_ in ids if not re.fullmatch(rf"[{GROUPS}]-[1-9]\d*", id_)] == []
    assert ids == sorted(set(ids), key=lambda id_: (GROUPS.index(id_[0]), int(id_[2:])))
    assert {id_[0] for id_ in ids} == set(GROUPS)


def test_each_promise_is_a_sentence() -> None:
    assert [id_ for id_, promise in rows(FEATURES) if not re.fullmatch(r"[^|]+\.", promise)] == []


def test_each_mark_names_promises_of_the_document() -> None:
    promised = {id_ for id_, _ in rows(FEATURES)}
    strays = [
        f"{path.relative_to(TESTS)}:{line}: {id_}"
        for path in sorted(TESTS.rglob("*.py"))
        if ".feature(" in (source := path.read_text(encoding="utf-8"))  # most of the others are long to parse
        for line, id_ in marks(source)
        if id_ not in promised
    ]
    assert strays == []


def test_marks_are_found_on_modules_functions_and_parameters() -> None:
    source = """
pytestmark = [pytest.mark.feature("G-1")]
@pytest.mark.feature("G-2", "N-3")
async def test_a() -> None: ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.feature())])
def test_b(x: int) -> None: ...
"""
    assert set(marks(source)) == {(2, "G-1"), (3, "G-2"), (3, "N-3"), (5, None)}


def test_the_document_has_every_row_of_its_source() -> None:
    if not SOURCE.is_file():
        pytest.skip("the list of features that the document was written from is not here")
    assert [id_ for id_, _ in rows(FEATURES)] == [id_ for id_, _ in rows(SOURCE)]
