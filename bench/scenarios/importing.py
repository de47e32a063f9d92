"""The duration of `from treering import SessionHost` in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, value
from ..timing import Sample
from ..worker import CACHING
from ..workspace import Workspace


def _import(modules: str, space: Workspace) -> Sample:
    """Import in two processes and time the second: the first fills a bytecode cache."""
    program = f"import time; began = time.perf_counter(); import {modules}; print(time.perf_counter() - began)"
    environment = {**os.environ, **CACHING, "PYTHONPYCACHEPREFIX": str(space.new_folder())}
    for _ in range(2):
        completed = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
        )
    return Sample(value=float(completed.stdout) * 1000)


def _sides(_: Sequence[Peer], __: Scale) -> list[Side]:
    return [
        Side("import treering.sessions", partial(_import, "treering.sessions")),
        Side("import anyio, msgspec", partial(_import, "anyio, msgspec")),
        Side("import asyncio", partial(_import, "asyncio")),
    ]


SCENARIOS = [
    Scenario(
        "import",
        "import in a fresh process, bytecode cached",
        "ms",
        value,
        _sides,
        (Goal("import treering.sessions", "figure", 150),),
        note="treering imports the other modules, so they show how much of its time is spent in dependencies.",
    )
]
