"""The tables say of a peer that its appends survive a power cut if, and only if, it flushes each of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

if TYPE_CHECKING:
    from bench.peer import Peer

pytest.importorskip("rich")
ROOT = Path(__file__).resolve().parents[2]
CALLS = 20
"""More than any of them flushes before its first append."""
STORES = (
    "agent_framework",
    "aiofile_loop",
    "claude_agent_sdk",
    "event_sourcing",
    "google_adk",
    "langgraph",
    "least",
    "openai_agents",
    "ours",
    "ours_flushed",
    "pi",
    "plain",
    "strands",
)


def peers_that_append_here(module: str) -> list[Peer]:
    from bench.environments import why_absent
    from bench.jobs import Appends
    from bench.peers import all_peers

    peers = [each for each in all_peers() if type(each).__module__ == f"bench.peers.{module}" and each.can(Appends)]
    assert peers, f"no peer of {module} appends: take it off the list"
    present = [each for each in peers if why_absent(each) is None]
    if not present:
        pytest.skip(f"{peers[0].name} is not here: {why_absent(peers[0])}")
    return present


def flushes(peer: Peer, calls: int, folder: Path) -> int:
    """Append in a fresh process, and count the flushes of files below the folder; flushing a folder counts, too."""
    from bench.environments import interpreter
    from bench.jobs import Appends
    from bench.worker import Order

    folder.mkdir()
    log = folder.with_suffix(".strace")
    trace = ("strace", "-f", "-y", "-o", str(log), "-e", "trace=fsync,fdatasync")
    ran = subprocess.run(
        (*trace, interpreter(peer), "-m", "bench.worker", type(peer).__module__, peer.name),
        cwd=ROOT,
        check=False,
        input=msgspec.json.encode(Order(Appends(1, calls), str(folder))),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))), "PYTHONWARNINGS": "ignore"},
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert msgspec.json.decode(ran.stdout)["operations"] == calls
    return len(re.findall(rf"sync\(\d+<{re.escape(str(folder))}", log.read_text()))


@pytest.fixture(autouse=True)
def _needs_strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"strace is not permitted to trace: {tried.stderr.strip()}")


@pytest.mark.parametrize("module", STORES)
def test_what_an_append_survives_is_what_the_peer_flushes(module: str, tmp_path: Path) -> None:
    for number, peer in enumerate(peers_that_append_here(module)):
        flushed = flushes(peer, CALLS, tmp_path.resolve() / str(number))
        assert (flushed >= CALLS) == peer.durability.startswith("a power cut"), (peer.name, flushed)


def test_every_peer_that_appends_is_on_the_list() -> None:
    from bench.jobs import Appends
    from bench.peers import all_peers

    modules = {type(each).__module__.rpartition(".")[2] for each in all_peers() if each.can(Appends)}
    assert modules == set(STORES)
