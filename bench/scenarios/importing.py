"""How long `import treering` takes in a process of its own."""

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
    """Import twice, and time the second: the first fills a cache of bytecode of their own."""
    program = f"import time; began = time.perf_counter(); import {modules}; print(time.perf_counter() - began)"
    cached = {**os.environ, **CACHING, "PYTHONPYCACHEPREFIX": str(space.fresh())}
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=cached)
    return Sample(value=float(ended.stdout) * 1000)


def _sides(_: Sequence[Peer], __: Scale) -> list[Side]:
    return [
        Side("import treering", partial(_import, "treering")),
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
        (Goal("import treering", "figure", 150),),
        note="The others are a part of it, and show how much of it is not our own.",
    )
]
