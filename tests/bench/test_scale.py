"""The command that measures very many sessions in PostgreSQL: where it measures, what it keeps, what it prints."""

import subprocess
import sys
from pathlib import Path

from bench.scale import Measured, decades, read, report, write

FEW = Measured(1000, 1000, 20.0, {"a page": 1.25, "a search": 7.0}, {"lines": 29_000_000, "logs": 1_000_000}, 5.0, 7000)
MANY = Measured(10_000, 9000, 90.0, {"a page": 2.0}, {"lines": 280_000_000})


def test_it_measures_at_each_power_of_ten_and_at_the_end() -> None:
    assert [decades(count) for count in (7, 1000, 1001, 250_000)] == [
        [7],
        [1000],
        [1000, 1001],
        [1000, 10_000, 100_000, 250_000],
    ]


def test_what_was_measured_is_kept_and_printed_beside_what_is_measured_later(tmp_path: Path) -> None:
    assert read(tmp_path) == []
    write(tmp_path, [FEW, MANY])
    assert read(tmp_path) == [FEW, MANY]
    said = report([FEW, MANY]).splitlines()
    for row in (
        "| bytes per session | 1,000 | 10,000 |",
        "| `lines` | 29,000 | 28,000 |",
        "| `logs` | 1,000 |  |",
        "| the index of a search | 7 |  |",
        "| making a session | 20.0 | 10.0 |",
        "| indexing its texts | 5.0 |  |",
        "| a page | 1.2 | 2.0 |",
        "| a search | 7.0 |  |",
    ):
        assert row in said


def test_other_commands_of_the_benchmarks_need_no_driver() -> None:
    asked = "import sys, bench.scale; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False, cwd=Path(__file__).parents[2]).returncode == 0
