"""The benchmark harness runs and reports; its figures are not asserted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")
ROOT = Path(__file__).resolve().parents[2]
TWO_PEERS = ("--peer", "treering/asyncio", "--peer", "plain loop")


def bench(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench", *arguments]
    process = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=100)
    assert process.returncode == 0, process.stderr
    return process.stdout


def in_process(*arguments: str, fails: bool = False) -> str:
    """Run a command of the harness in this process, for commands that measure nothing."""
    from bench.__main__ import main
    from click.testing import CliRunner

    process = CliRunner().invoke(main, arguments, terminal_width=120)
    assert (process.exit_code != 0) == fails, process.output
    return process.output


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "results.json"
    chosen = ("append-one", "memory-passivated", "descriptors", "search-10000")
    printed = bench("run", *chosen, "--scale", "tiny", *TWO_PEERS, "--output", str(path))
    path.with_suffix(".txt").write_text(printed)
    return path


def test_a_run_writes_the_spread_of_each_side_and_no_local_path(results: Path) -> None:
    report: dict[str, Any] = json.loads(results.read_text())
    listed = {line.split()[0] for line in in_process("list").splitlines()}
    assert {scenario["name"] for scenario in report["scenarios"]} <= listed
    for scenario in report["scenarios"]:
        sides = {side["name"]: side for side in scenario["sides"]}
        assert all(side["failed"] is None for side in sides.values()), sides
        assert all(side["figure"]["min"] <= side["figure"]["max"] for side in sides.values())
        yardstick = scenario["yardstick"]
        assert yardstick is None or [name for name in sides if sides[name]["speed"] is None] == [yardstick]
    assert report["machine"]["processors"] >= 1
    assert str(ROOT) not in results.read_text()


def test_a_title_has_the_number_of_sessions_at_the_scale_of_the_run(results: Path) -> None:
    titles = {scenario["name"]: scenario["title"] for scenario in json.loads(results.read_text())["scenarios"]}
    assert titles["search-10000"].startswith("search 20 sessions of 50 entries")
    assert "search 10,000 sessions of 50 entries" in in_process("list")
    assert "memory of each of 20 passivated sessions" in titles["memory-passivated"]
    assert "memory of each of 100,000 passivated sessions" in in_process("list")


def test_the_descriptors_scenario_counts_open_files_of_each_side(results: Path) -> None:
    scenarios = {scenario["name"]: scenario for scenario in json.loads(results.read_text())["scenarios"]}
    sides = {side["name"]: side["figure"] for side in scenarios["descriptors"]["sides"]}
    assert sides["plain loop"]["median"] == 4
    assert 0 < sides["treering/asyncio"]["median"] < 100


@pytest.mark.parametrize("command", ["run", "soak", "prepare", "compare", "plot", "list"])
def test_the_help_of_each_command_has_an_example(command: str) -> None:
    assert f"  python -m bench {command}" in in_process(command, "--help")


def test_the_table_shows_goals_and_what_an_append_survives(results: Path) -> None:
    table = results.with_suffix(".txt").read_text()
    assert "plain loop" in table
    assert "treering/trio" not in table
    assert "goal: treering/uvloop >= 0.45" in table
    assert "not measured here" in table
    assert "treering/asyncio: a process crash" in table


def test_an_unknown_scenario_is_refused_with_a_list_of_the_known_ones() -> None:
    assert "append-one" in in_process("run", "nothing", fails=True)


def test_a_measurement_that_takes_too_long_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import worker

    monkeypatch.setattr(worker, "TIMEOUT_S", 0.0)
    output = tmp_path / "results.json"
    printed = in_process("run", "append-one", "--scale", "tiny", "--peer", "plain loop", "--output", str(output))
    assert "timed out after 0 s" in printed
    (side,) = json.loads(output.read_text())["scenarios"][0]["sides"]
    assert side["figure"] is None
    assert "timed out" in side["failed"]


def test_comparing_a_result_with_itself_gives_ratios_of_one(results: Path) -> None:
    table = in_process("compare", str(results), str(results))
    rows = [line for line in table.splitlines() if "treering/asyncio" in line]
    assert len(rows) >= 4
    assert all(row.rstrip().endswith("1.00x") for row in rows)


def test_plot_writes_charts_and_tables_of_a_result(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = bench("plot", str(results), "--to", str(tmp_path)).split()
    assert (tmp_path / "append-one.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "append-one.svg").read_text()
    tables = (tmp_path / "benchmarks.md").read_text()
    assert "`python -m bench run append-one --scale tiny`" in tables
    assert "![awaited appends of 1 KB, 1 session](append-one.svg)" in tables
    assert str(tmp_path / "benchmarks.md") in drawn
