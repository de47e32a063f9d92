"""The `feature` marks of the tests name the promises, and every promise is proven."""

import re

import pytest

from .promises import BEGUN_IDS, PROMISED, TESTS, Mark, main, marks, proofs

SOURCE = TESTS.parents[1] / "shared" / "FEATURES.md"


def test_each_mark_names_a_promise_and_each_promise_has_a_mark() -> None:
    found = proofs()
    assert {id_: places for id_, places in found.items() if id_ not in {*PROMISED, *BEGUN_IDS}} == {}
    assert [id_ for id_ in PROMISED if id_ not in found] == []
    assert [id_ for id_ in BEGUN_IDS if id_.startswith("S-") and id_ not in found] == []


def test_marks_are_found_on_modules_functions_and_parameters() -> None:
    source = """'''It is so.'''
pytestmark = [pytest.mark.feature("G-1")]
@pytest.mark.feature("G-2", "N-3")
async def test_it_works() -> None: ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.feature())])
def test_b(x: int) -> None: ...
"""
    assert set(marks(source)) == {
        Mark("G-1", 2, "It is so."),
        Mark("G-2", 3, "it works"),
        Mark("N-3", 3, "it works"),
        Mark(None, 5, "b"),
    }


def test_a_promise_is_printed_with_its_tests(capsys: pytest.CaptureFixture[str]) -> None:
    main(["G-94", "G-0"])
    printed = capsys.readouterr().out
    assert re.search(r"^G-94\n  \w.+  \[tests/\S+\.py:\d+\]$", printed, re.MULTILINE)
    assert printed.endswith("G-0\n  no test is marked with this id\n")


def test_the_promises_are_those_of_their_source() -> None:
    if not SOURCE.is_file():
        pytest.skip("the list of features that the groups were taken from is not here")
    assert re.findall(r"^\| ([A-Z]+-\S*) \|", SOURCE.read_text(encoding="utf-8"), re.MULTILINE) == PROMISED
