"""The process that does one job of one peer: the job comes on standard input, the sample goes to standard output.

python -m bench.worker bench.peers.plain "plain loop"
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from .jobs import Holds, Job
from .peer import Peer
from .process import peak_bytes
from .timing import Sample
from .workspace import Workspace

GIVEN_UP_AFTER_S = 120.0
"""How long a measurement may take with all that it prepares, for every peer alike; treering needs a fraction of it."""
_HELD_FOR_S = 1_200.0
"""How long it may take to hold sessions, which treering alone does: a hundred thousand, with each allocation traced."""

CACHING = {"PYTHONDONTWRITEBYTECODE": ""}
"""Has a process keep the bytecode that it compiles, even where this one was told not to.

Modules that are imported late would else be compiled in the midst of every measurement, and not of the first alone.
"""

_NAMED = re.compile(r"[\w.]+(Error|Exception|Warning|Failed|Locked)\b")


class Order(Struct, frozen=True):
    """A job, and the folder of the run."""

    job: Job
    folder: str


def main() -> None:
    """Do what is asked for."""
    module, name = sys.argv[1:]
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    said = os.dup(1)
    os.dup2(2, 1)  # what a library prints is not the sample
    peers: list[Peer] = importlib.import_module(module).PEERS
    peer = next(each for each in peers if each.name == name)
    space = Workspace(Path(order.folder))
    sample = peer.do(order.job, space)
    if sample is not None:
        sample.peak_bytes = sample.peak_bytes or peak_bytes()
        sample.disk_bytes = sample.disk_bytes or space.bytes_made()
    os.set_blocking(said, True)  # whatever an event loop made of it
    with os.fdopen(said, "wb") as answer:
        answer.write(msgspec.json.encode(sample))


def done(module: str, name: str, python: str, order: Order) -> Sample | None:
    """Have a job done in a fresh process.

    Raises:
        PeerFailed: The process ended with an error, or not in time.
    """
    root = Path(__file__).resolve().parents[1]
    paths = os.pathsep.join(filter(None, (str(root), str(root / "src"), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        (python, "-m", "bench.worker", module, name),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **CACHING, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"},
    ) as process:
        limit_s = _HELD_FOR_S if isinstance(order.job, Holds) else GIVEN_UP_AFTER_S
        try:
            answer, errors = process.communicate(msgspec.json.encode(order), limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            kind = type(order.job).__name__
            raise PeerFailed(f"{name}, {kind}: given up, not through after {limit_s:g} s") from None
    if process.returncode != 0:
        raise PeerFailed(f"{name}, {type(order.job).__name__}: {_reason(errors.decode(errors='replace'))}")
    return msgspec.json.decode(answer, type=Sample | None)


def _reason(errors: str) -> str:
    """Find the line that says what went wrong; a group of exceptions draws a tree around it."""
    lines = [line.strip(" |+-") for line in errors.splitlines()]
    named = [line for line in lines if _NAMED.match(line) and "ExceptionGroup" not in line]
    return (named or [line for line in lines if line] or ["it ended without a word"])[-1]


class PeerFailed(Exception):
    """A peer's process ended with an error, or not in time."""


if __name__ == "__main__":
    main()
