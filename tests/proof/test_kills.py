"""A process that is killed repeatedly while it works: each acknowledged entry is in its session exactly once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import IO

import anyio
import pytest

from treering import SessionHost
from treering.events.stores.files import Durability
from treering.testing.simulation import durabilities
from treering.testing.simulation.checks import check_file, tokens_of

CHILD = Path(__file__).with_name("kill_child.py")


class KilledProgram:
    """The program that is killed, and what it has acknowledged."""

    def __init__(self, root: Path, durability: Durability, orders: IO[bytes], answers: IO[bytes]) -> None:
        self.root = root
        self.durability = durability
        self.acknowledged: dict[str, dict[str, str]] = {}
        self._orders = orders
        self._answers = answers

    def run_and_kill(self, seed: str, after: int) -> None:
        """Let a worker acknowledge a number of entries, and kill it."""
        self._orders.write(f"{self.root} {self.durability} native {seed}\n".encode())
        self._orders.flush()
        pid = int(self._answers.readline().split()[1])
        for _ in range(after):
            self._note(self._answers.readline())
        os.kill(pid, signal.SIGKILL)
        while (line := self._answers.readline()) != b"gone\n":
            self._note(line)

    def _note(self, line: bytes) -> None:
        name, token, entry_id = line.decode().split()
        self.acknowledged.setdefault(name, {})[token] = entry_id


@contextmanager
def program(root: Path, durability: Durability) -> Generator[KilledProgram]:
    command = [sys.executable, str(CHILD)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield KilledProgram(root, durability, process.stdin, process.stdout)
        process.stdin.close()


async def check(killed: KilledProgram) -> None:
    """Open all sessions, and compare them with what was acknowledged."""
    async with SessionHost(killed.root) as host:
        for name, acknowledged in killed.acknowledged.items():
            session = await host.load(name)
            path = killed.root / session.ref
            replay = check_file(await anyio.Path(path).read_bytes(), str(path))
            assert (await session.log()).index == replay.index
            entries = await session.entries()
            tokens = Counter(tokens_of(entries))
            assert not [token for token in acknowledged if tokens[token] != 1]
            ids = {entry.id for entry in entries}
            assert ids.issuperset(acknowledged.values())


def kill_often(root: Path, durability: Durability, times: int, tally: Counter[str], seed: str = "") -> None:
    random = Random(f"{durability}{seed}")
    with program(root, durability) as killed:
        for number in range(times):
            killed.run_and_kill(f"{durability}{seed}-{number}", random.choice((0, 1, 3, 20, 60, 150)))
            anyio.run(check, killed)
            tally["kills survived"] += 1
    assert sum(map(len, killed.acknowledged.values())), "nothing was acknowledged"


def prove_seed(seed: int, tally: Counter[str]) -> None:
    """Kill ten processes, one after the other, over the same sessions."""
    every = durabilities()
    with TemporaryDirectory() as folder:
        kill_often(Path(folder), every[seed % len(every)], 10, tally, str(seed))


@pytest.mark.parametrize("durability", durabilities())
def test_acknowledged_entries_survive_the_kill(durability: Durability, tmp_path: Path, tally: Counter[str]) -> None:
    kill_often(tmp_path, durability, 8, tally)
