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


def bench(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench", *arguments]
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=100)
    return ended.stdout


def test_a_tiny_run_reports_every_scenario_with_its_goals() -> None:
    report: dict[str, Any] = json.loads(bench("run", "--scale", "tiny", "--rounds", "1", "--json"))

    listed = {line.split()[0] for line in bench("list").splitlines()}
    names = {scenario["name"] for scenario in report["scenarios"]}
    assert names <= listed
    assert {"append-one", "open-cold", "context-compacted", "memory-passivated", "import"} <= names
    for scenario in report["scenarios"]:
        assert scenario["verdicts"], scenario["name"]
        sides = {side["name"]: side for side in scenario["sides"]}
        assert all(side["figure"]["min"] <= side["figure"]["max"] for side in sides.values())
        yardstick = scenario["yardstick"]
        assert yardstick is None or [name for name in sides if sides[name]["speed"] is None] == [yardstick]
    assert report["machine"]["processors"] >= 1
    assert str(ROOT) not in json.dumps(report)


def test_a_table_says_whether_the_goals_were_met() -> None:
    table = bench("run", "append-one", "--scale", "tiny", "--peer", "treering/asyncio", "--peer", "plain loop")
    assert "plain loop" in table
    assert "treering/trio" not in table
    assert "goal: treering/uvloop >= 0.2" in table
    assert "not measured here" in table


def test_a_scenario_that_is_not_there_is_refused_with_those_that_are() -> None:
    command = [sys.executable, "-m", "bench", "run", "nothing"]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 2
    assert "append-one" in ended.stderr
