"""Runs the library's own tests over another store, in another process; see `over_stores`."""

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


def run_suites(
    kind: str, *options: str, rooms: Sequence[str] | None = None, part: str = "0/1", within_s: float = SUITES_S
) -> int:
    """Run the tests of the rooms of a store, assert that they pass, and return how many did.

    Args:
        kind: The store.
        options: Options of pytest.
        rooms: Only these rooms.
        part: Which of how many parts, counted from 0.
        within_s: How long they may take, in seconds.
    """
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "over_stores", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, *options, *(str(HERE.parent / room) for room in rooms or ROOMS[kind])],
        cwd=HERE.parents[1],
        env=os.environ | {"PYTHONPATH": path, "TREERING_TEST_STORE": kind, "TREERING_TEST_PART": part},
        capture_output=True,
        text=True,
        check=False,
        timeout=within_s,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    return sum(map(int, re.findall(r"(\d+) passed", ended.stdout)))
