"""How costs grow: the exponent of what was measured, and what a run writes; its figures are not asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.growth.curves import Curve, Growth, Point
from bench.report import describe_machine

pytest.importorskip("rich")
pytest.importorskip("matplotlib")


def curve(expected: int, *cpu_us: float, why: str = "") -> Curve:
    points = [Point(10**power, took, took) for power, took in enumerate(cpu_us)]
    return Curve("append", "an append", "entries", expected, points, why)


def test_the_exponent_is_that_of_the_last_two_powers_of_ten() -> None:
    assert curve(0, 7).slope is curve(0, 7).is_as_expected is None
    for points, slope in (((5, 5, 5), 0), ((1, 10, 100), 1), ((9, 9, 9, 90, 900), 1), ((1, 100, 10_000), 2)):
        assert curve(0, *points).slope == pytest.approx(slope, abs=1e-9)
        assert [curve(expected, *points).is_as_expected for expected in (0, 1)] == [slope < 1, slope < 2]
    assert curve(0, 10, 11, 12).is_as_expected


def test_a_report_explains_what_grows_more_than_it_should() -> None:
    from bench.growth.report import in_markdown

    curves = [curve(0, 1, 10, 100, why="it is read whole"), curve(0, 10, 10, 10, why="nobody asks")]
    page = in_markdown(Growth(describe_machine(), "full", 3, curves))
    assert "| an append | 1 | 10 | 100 | **1.00** | flat |" in page
    assert "| an append | 10 | 10 | 10 | 0.00 | flat |" in page
    assert "- an append: it is read whole." in page
    assert "nobody asks" not in page


def growth(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "growth", *arguments]
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(command, cwd=root, check=False, capture_output=True, text=True, timeout=100)


def test_a_run_measures_its_costs_and_writes_tables_and_charts(tmp_path: Path) -> None:
    run = growth("append", "deliver", "append-bytes", "--scale", "tiny", "--json", "--to", str(tmp_path))
    assert run.returncode == 0, run.stderr
    curves = json.loads(run.stdout)["curves"]
    sizes = {each["name"]: [point["size"] for point in each["points"]] for each in curves}
    assert sizes == {"append": [10, 100], "deliver": [1, 10], "append-bytes": [1_000, 10_000]}
    assert all(point["cpu_us"] > 0 < point["wall_us"] for each in curves for point in each["points"])
    assert {each.name for each in tmp_path.glob("*.svg")} == {f"growth-{each['axis']}.svg" for each in curves}
    unknown = growth("nothing")
    assert unknown.returncode == 2
    assert "append-bytes" in unknown.stderr
