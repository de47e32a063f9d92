"""The ways of an append are those that the library takes; their times are not asserted."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import treering

pytest.importorskip("rich")

LIBRARY = Path(treering.__file__).parent


def path(*arguments: str) -> str:
    from bench.__main__ import main

    process = CliRunner().invoke(main, ["path", "--rounds", "1", *arguments])
    assert process.exit_code == 0, process.output
    return process.output


@pytest.fixture(scope="module")
def ways() -> dict[str, Any]:
    walks: dict[str, Any] = json.loads(path("--json"))
    return walks


def test_each_way_begins_with_the_call_and_its_files_exist(ways: dict[str, Any]) -> None:
    assert list(ways) == ["warm", "first", "reopening"]
    for walk in ways.values():
        assert walk["steps"][0]["name"].endswith(".append_message")
        assert all((LIBRARY / step["file"]).is_file() for step in walk["steps"])
        assert walk["whole_us"] > 0 < walk["system_us"]


def test_every_call_on_a_warm_way_leads_to_a_step(ways: dict[str, Any]) -> None:
    steps = ways["warm"]["steps"]
    assert sum(step["calls"] for step in steps) == sum(step["times"] for step in steps) - 1


def test_a_warm_append_looks_writes_once_and_looks_again(ways: dict[str, Any]) -> None:
    assert sum(step["system_calls"] for step in ways["warm"]["steps"]) == 3


def test_opening_and_creating_pass_more_than_a_warm_append(ways: dict[str, Any]) -> None:
    warm, first, reopening = (sum(step["system_calls"] for step in walk["steps"]) for walk in ways.values())
    assert warm < first < reopening


def test_the_table_has_the_named_way_and_its_sums(ways: dict[str, Any]) -> None:
    printed = path("warm").splitlines()
    steps = ways["warm"]["steps"]
    assert printed[0].startswith("warm append: ")
    assert [line.split()[0] for line in printed[2 : 2 + len(steps)]] == [step["name"] for step in steps]
    assert printed[2 + len(steps)].startswith(f"{len(steps)} functions")
    assert not any(line.startswith("first append") for line in printed)


def test_the_page_has_the_way_as_it_is(ways: dict[str, Any]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.partition("```text\nwarm append")[2].partition("```")[0]
    rows = [line.split()[:2] for line in block.splitlines()[2:-1]]
    assert rows == [[step["name"], step["file"]] for step in ways["warm"]["steps"]], "see: python -m bench path warm"
