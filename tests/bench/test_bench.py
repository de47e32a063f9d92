"""The benchmark harness runs and reports; its figures are not asserted."""

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


def bench(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench", *arguments]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def here(*arguments: str, fails: bool = False) -> str:
    """Do the same in this process, for commands that measure nothing."""
    from bench.__main__ import main
    from click.testing import CliRunner

    ended = CliRunner().invoke(main, arguments, terminal_width=120)
    assert (ended.exit_code != 0) == fails, ended.output
    return ended.output


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "results.json"
    chosen = ("append-one", "open-cold", "memory-passivated", "descriptors", "search-10000", "import")
    printed = bench("run", *chosen, "--scale", "tiny", *OURS, "--output", str(path))
    path.with_suffix(".txt").write_text(printed)
    return path


def test_a_tiny_run_reports_sides_with_their_spread_and_their_goals(results: Path) -> None:
    report: dict[str, Any] = json.loads(results.read_text())

    listed = {line.split()[0] for line in here("list").splitlines()}
    assert {scenario["name"] for scenario in report["scenarios"]} <= listed
    for scenario in report["scenarios"]:
        sides = {side["name"]: side for side in scenario["sides"]}
        assert all(side["failed"] is None for side in sides.values()), sides
        assert all(side["figure"]["min"] <= side["figure"]["max"] for side in sides.values())
        yardstick = scenario["yardstick"]
        assert yardstick is None or [name for name in sides if sides[name]["speed"] is None] == [yardstick]
    assert report["machine"]["processors"] >= 1
    assert str(ROOT) not in results.read_text()


def test_a_title_says_how_many_sessions_there_were_at_this_scale(results: Path) -> None:
    titles = {scenario["name"]: scenario["title"] for scenario in json.loads(results.read_text())["scenarios"]}
    assert titles["search-10000"].startswith("search 20 sessions of 50 entries")
    assert "search 10,000 sessions of 50 entries" in here("list")
    assert "memory of each of 20 passivated sessions" in titles["memory-passivated"]
    assert "memory of each of 100,000 passivated sessions" in here("list")


def test_a_plain_loop_keeps_a_file_open_for_each_session(results: Path) -> None:
    scenarios = {scenario["name"]: scenario for scenario in json.loads(results.read_text())["scenarios"]}
    sides = {side["name"]: side["figure"] for side in scenarios["descriptors"]["sides"]}
    assert sides["plain loop"]["median"] == 4
    assert 0 < sides["treering/asyncio"]["median"] < 100


@pytest.mark.parametrize("command", ["run", "soak", "prepare", "compare", "plot", "list"])
def test_the_help_of_each_command_has_an_example(command: str) -> None:
    assert f"  python -m bench {command}" in here(command, "--help")


def test_a_table_says_whether_the_goals_were_met_and_what_an_append_survives(results: Path) -> None:
    table = results.with_suffix(".txt").read_text()
    assert "plain loop" in table
    assert "treering/trio" not in table
    assert "goal: treering/uvloop >= 0.2" in table
    assert "not measured here" in table
    assert "treering/asyncio: a process crash" in table


def test_an_unknown_scenario_is_refused_with_a_list_of_the_known_ones() -> None:
    assert "append-one" in here("run", "nothing", fails=True)


def test_a_measurement_that_takes_too_long_is_reported_as_timed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench import worker

    monkeypatch.setattr(worker, "TIMEOUT_S", 0.0)
    output = tmp_path / "results.json"
    printed = here("run", "append-one", "--scale", "tiny", "--peer", "plain loop", "--output", str(output))
    assert "timed out after 0 s" in printed
    (side,) = json.loads(output.read_text())["scenarios"][0]["sides"]
    assert side["figure"] is None
    assert "timed out" in side["failed"]


def test_two_results_are_compared(results: Path) -> None:
    table = here("compare", str(results), str(results))
    rows = [line for line in table.splitlines() if "treering/asyncio" in line]
    assert len(rows) >= 4
    assert all(row.rstrip().endswith("1.00x") for row in rows)


def test_charts_and_tables_are_made_from_a_result(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = bench("plot", str(results), "--to", str(tmp_path)).split()
    assert (tmp_path / "append-one.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "append-one.svg").read_text()
    tables = (tmp_path / "benchmarks.md").read_text()
    assert "`python -m bench run append-one --scale tiny`" in tables
    assert "![awaited appends of 1 KB, 1 session](append-one.svg)" in tables
    assert str(tmp_path / "benchmarks.md") in drawn
