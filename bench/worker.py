"""The process that does one job of one peer: reads the job from standard input, writes the sample to standard output.

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

from .jobs import Conversations, Holds, Job
from .peer import Peer
from .process import peak_bytes
from .timing import Sample
from .workspace import Workspace

TIMEOUT_S = 120.0
"""How long a measurement may take, including its preparations, for any peer; treering needs a fraction of it."""
_LONG_TIMEOUT_S = 1_200.0
"""The same for holding sessions, a hundred thousand, with every allocation traced, and for whole conversations, whose
appends are not stopped, so that both sides have the same to read."""

CACHING = {"PYTHONDONTWRITEBYTECODE": ""}
"""Makes a process cache its bytecode even if this process does not.

Otherwise modules that are imported late would be compiled during every measurement instead of only during the first.
"""

_ERROR_LINE = re.compile(r"[\w.]+(Error|Exception|Warning|Failed|Locked)\b")


class Order(Struct, frozen=True):
    """A job, and the folder of the run."""

    job: Job
    folder: str


def main() -> None:
    """Do the job on standard input."""
    module, name = sys.argv[1:]
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    output = os.dup(1)
    os.dup2(2, 1)  # keeps what a library prints out of the sample
    peers: list[Peer] = importlib.import_module(module).PEERS
    peer = next(each for each in peers if each.name == name)
    space = Workspace(Path(order.folder))
    sample = peer.do(order.job, space)
    if sample is not None:
        sample.peak_bytes = sample.peak_bytes or peak_bytes()
        sample.disk_bytes = sample.disk_bytes or space.bytes_written()
    os.set_blocking(output, True)  # an event loop may have made it non-blocking
    with os.fdopen(output, "wb") as file:
        file.write(msgspec.json.encode(sample))


def run_in_process(module: str, name: str, python: str, order: Order) -> Sample | None:
    """Run a job in a fresh process.

    Raises:
        PeerFailed: The process failed or timed out.
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
        limit_s = _LONG_TIMEOUT_S if isinstance(order.job, (Conversations, Holds)) else TIMEOUT_S
        try:
            answer, errors = process.communicate(msgspec.json.encode(order), limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            kind = type(order.job).__name__
            raise PeerFailed(f"{name}, {kind}: timed out after {limit_s:g} s") from None
    if process.returncode != 0:
        raise PeerFailed(f"{name}, {type(order.job).__name__}: {_reason(errors.decode(errors='replace'))}")
    return msgspec.json.decode(answer, type=Sample | None)


def _reason(errors: str) -> str:
    """Return the line of a traceback that names the error; an exception group draws a tree around it."""
    lines = [line.strip(" |+-") for line in errors.splitlines()]
    error_lines = [line for line in lines if _ERROR_LINE.match(line) and "ExceptionGroup" not in line]
    return (error_lines or [line for line in lines if line] or ["the process failed without an error message"])[-1]


class PeerFailed(Exception):
    """A peer's process failed or timed out."""


if __name__ == "__main__":
    main()
