"""The soak runs, reports, and detects missing entries; its figures are not asserted."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from bench.soak_check import Acknowledged, Checked, check_logs
from bench.watching import Histogram

from treering import SessionHost

pytest.importorskip("rich")
ROOT = Path(__file__).resolve().parents[2]
TINY = ("--agents", "6", "--hours", "4", "--speed", "10000", "--think", "600", "--least", "1")


@pytest.fixture(scope="module")
def tiny_soak(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("soak")
    command = [sys.executable, "-m", "bench", "soak", *TINY, "--output", str(folder / "soak.json"), "--to", str(folder)]
    process = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=280)
    assert process.returncode == 0, process.stderr
    return process.stdout, folder


def test_a_tiny_soak_performs_every_operation_and_finds_every_entry(tiny_soak: tuple[str, Path]) -> None:
    result: dict[str, Any] = json.loads((tiny_soak[1] / "soak.json").read_text())
    done = result["did"]
    assert done.keys() == {"turns", "tools", "branches", "compactions", "loads", "subscriptions", "deliveries"}
    assert min(done.values()) >= 1
    assert result["checked"] == {"entries": result["entries"], "replayed": 6, "lost": []}
    last = result["samples"][-1]
    assert last["passivations"] > 0
    assert last["live"] + last["resting"] == 6
    assert last["entries"] == result["entries"]
    hours = [sample["at_hours"] for sample in result["samples"]]
    assert hours == sorted(hours)
    assert result["tracked"] > sum(result["tracked_types"].values()) > 0


def test_a_soak_reports_memory_over_time_and_whether_its_goal_was_met(tiny_soak: tuple[str, Path]) -> None:
    output, folder = tiny_soak
    assert "resident MB" in output
    assert "goal: no full collection takes more than 50 ms" in output
    assert "6 sessions replayed: all there" in output
    assert (folder / "soak.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "soak.svg").read_text()


def _cut_last_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def _swap_first_entries(path: Path) -> None:
    head, first, second, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((head, second, first, *rest)))


def _leave_unchanged(path: Path) -> None:
    assert path.exists()


@pytest.mark.parametrize(("harm", "lost"), [(_leave_unchanged, 0), (_cut_last_line, 2), (_swap_first_entries, 2)])
def test_a_missing_or_moved_entry_is_counted_as_lost(tmp_path: Path, harm: Callable[[Path], None], lost: int) -> None:
    async def run() -> Checked:
        acknowledged: dict[str, Acknowledged] = {}
        async with SessionHost(tmp_path) as host:
            for _ in range(2):
                session = await host.create()
                ids = [await session.append_message("user", word) for word in ("one", "two", "three")]
                acknowledged[session.ref] = Acknowledged(ids)
        harm(tmp_path / next(iter(acknowledged)))
        return await check_logs(tmp_path, acknowledged)

    found = anyio.run(run)
    assert (found.entries, found.replayed) == (6, 2)
    assert len(found.lost) == lost  # once in the file and once in its replay


def test_quantiles_are_accurate_to_a_tenth_for_any_number_of_durations() -> None:
    durations = Histogram()
    for number in range(1, 1_001):
        durations.add(number / 1_000)
    assert durations.quantile(0.5) == pytest.approx(0.5, rel=0.1)
    assert durations.quantile(0.99) == pytest.approx(0.99, rel=0.1)
    assert durations.max_s == 1.0
    assert Histogram().quantile(0.99) == 0
