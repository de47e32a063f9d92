"""The benchmark harness runs and reports; what it measures is asserted nowhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")
ROOT = Path(__file__).resolve().parents[2]
OURS = ("--peer", "treering/asyncio", "--peer", "plain loop")


def bench(*arguments: str, fails: bool = False) -> str:
    command = [sys.executable, "-m", "bench", *arguments]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=100)
    assert (ended.returncode != 0) == fails, ended.stderr
    return ended.stderr if fails else ended.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "results.json"
    chosen = ("append-one", "open-cold", "fan-out-10", "memory-passivated", "import")
    bench("run", *chosen, "--scale", "tiny", *OURS, "--output", str(path))
    return path


def test_a_tiny_run_reports_sides_with_their_spread_and_their_goals(results: Path) -> None:
    report: dict[str, Any] = json.loads(results.read_text())

    listed = {line.split()[0] for line in bench("list").splitlines()}
    assert {scenario["name"] for scenario in report["scenarios"]} <= listed
    for scenario in report["scenarios"]:
        sides = {side["name"]: side for side in scenario["sides"]}
        assert all(side["failed"] is None for side in sides.values()), sides
        assert all(side["figure"]["min"] <= side["figure"]["max"] for side in sides.values())
        yardstick = scenario["yardstick"]
        assert yardstick is None or [name for name in sides if sides[name]["speed"] is None] == [yardstick]
    assert report["machine"]["processors"] >= 1
    assert str(ROOT) not in results.read_text()


def test_a_table_says_whether_the_goals_were_met_and_what_an_append_survives() -> None:
    table = bench("run", "append-one", "--scale", "tiny", *OURS)
    assert "plain loop" in table
    assert "treering/trio" not in table
    assert "goal: treering/uvloop >= 0.2" in table
    assert "not measured here" in table
    assert "treering/asyncio: the process" in table


def test_a_scenario_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert "append-one" in bench("run", "nothing", fails=True)


def test_two_results_are_held_against_each_other(results: Path) -> None:
    table = bench("compare", str(results), str(results))
    rows = [line for line in table.splitlines() if "treering/asyncio" in line]
    assert len(rows) >= 4
    assert all(row.rstrip().endswith("1.00x") for row in rows)


def test_charts_and_tables_are_drawn_of_a_result(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = bench("plot", str(results), "--to", str(tmp_path)).split()
    assert (tmp_path / "append-one.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "append-one.svg").read_text()
    tables = (tmp_path / "benchmarks.md").read_text()
    assert "`python -m bench run append-one --scale tiny`" in tables
    assert "![awaited appends of 1 KB, 1 session](append-one.svg)" in tables
    assert str(tmp_path / "benchmarks.md") in drawn
