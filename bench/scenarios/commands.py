"""What short commands cost in a pipe, from the start of the interpreter to the last byte."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from treering import SyncHost

from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, near_the_least
from ..search_data import write_sessions
from ..timing import Sample
from ..worker import CACHING
from ..workspace import Workspace

_BASE = "import asyncio, anyio, anyio._backends._asyncio, msgspec, click"
"""What no command can do without: the event loop, reading lines, and the parsing of its arguments."""


def _write(sessions: int, entries: int, folder: Path) -> None:
    """Write sessions to list, and one of a host's own: a host that only lists those of others keeps no rows there."""
    write_sessions(folder / "root", sessions, entries)
    with SyncHost(folder / "root") as host:
        host.create().append_message("user", "Hello")
        host.list_sessions()


def _run(arguments: Sequence[str], sessions: int, entries: int, space: Workspace) -> Sample:
    """Run a command, and time the second run: the first one fills a bytecode cache."""
    folder = space.cached_folder(f"command-{sessions}-{entries}", partial(_write, sessions, entries))
    environment = {
        **os.environ,
        **CACHING,
        "PYTHONPYCACHEPREFIX": str(space.cached_folder("command-bytecode", lambda _: None)),
        "TREERING_ROOT": str(folder / "root"),
    }
    sample = Sample()
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(arguments, check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        sample.cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return sample


def _sides(_: Sequence[Peer], scale: Scale) -> list[Side]:
    treering = [sys.executable, "-m", "treering.cli"]
    return [
        Side("python -c pass", partial(_run, [sys.executable, "-c", "pass"], 1, 1)),
        Side(_BASE, partial(_run, [sys.executable, "-c", _BASE], 1, 1)),
        Side("treering --version", partial(_run, [*treering, "--version"], 1, 1)),
        Side("treering sessions", partial(_run, [*treering, "sessions", "--all"], min(1_000, scale.many), 4)),
        Side("treering tree", partial(_run, [*treering, "tree", "s0"], 1, min(10_000, scale.entries))),
    ]


SCENARIOS = [
    Scenario(
        "commands",
        "a command in a pipe: the version, a list of 1,000 sessions, the tree of 10,000 entries",
        "ms of processor time",
        lambda sample: sample.cpu_us / 1000,
        _sides,
        (
            Goal("treering --version", "figure", 70),
            Goal("treering sessions", "figure", 100),
            Goal("treering tree", "figure", 120),
            near_the_least("treering sessions", _BASE),
            near_the_least("treering tree", _BASE),
        ),
        "python -c pass",
        note="The bytecode is cached, and the sessions were listed before.",
    ),
]
