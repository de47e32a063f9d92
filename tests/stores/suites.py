"""Runs the library's own tests in another process, whose plugin puts something else below them."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .over_stores import ROOMS

HERE = Path(__file__).parent
SUITES_S = 600
"""How long the tests of a store may take, in seconds."""


def run_tests(plugin: Path, *arguments: str, within_s: float | None = SUITES_S, **environment: str) -> dict[str, int]:
    """Run tests with a plugin, assert that none fails, and return how many passed and were skipped.

    Args:
        arguments: Options of pytest, and the tests.
        within_s: How long they may take, in seconds.
    """
    path = os.pathsep.join([str(plugin.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", plugin.stem, "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, *arguments],
        cwd=HERE.parents[1],
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=within_s,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    last = ended.stdout.rstrip().rpartition("\n")[2]
    return {end: int(count) for count, end in re.findall(r"(\d+) (passed|skipped)", last)}


def run_suites(
    kind: str, *options: str, rooms: Sequence[str] | None = None, part: str = "0/1", within_s: float = SUITES_S
) -> int:
    """Run the tests of the rooms of a store, assert that they pass, and return how many did; see `over_stores`.

    Args:
        kind: The store.
        options: Options of pytest.
        rooms: Only these rooms.
        part: Which of how many parts, counted from 0.
        within_s: How long they may take, in seconds.
    """
    folders = [str(HERE.parent / room) for room in rooms or ROOMS[kind]]
    over = {"TREERING_TEST_STORE": kind, "TREERING_TEST_PART": part}
    return run_tests(HERE / "over_stores.py", *options, *folders, within_s=within_s, **over)["passed"]
