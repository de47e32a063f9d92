"""The soak of a cluster: three host processes and many sessions, of which some are killed or stopped at random."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from treering import MessageEntry, SessionHost
from treering.entries import plain_text
from treering.stores.postgres.local_server import LocalServer

from .soak_child import digest, sessions_of

HOSTS = 3
SESSIONS, SESSIONS_OF_SOAK = 20, 300
LEASE_S = 1.0
STRIKES_OF_SOAK = 150
WAITS_AT_MOST_S = 240


class Child:
    """One host process, and what it said."""

    def __init__(self, url: str, name: str, seed: int, sessions: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.soak_child", url, name, str(seed), str(sessions)],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.acknowledged: list[tuple[str, str]] = []
        self.begun = threading.Event()
        self.stopped = threading.Event()
        self.seen = threading.Event()
        self.views: dict[str, str] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                return  # it was killed while it said that
            word, _, rest = line.strip().partition(" ")
            if word == "ack":
                session_id, _, text = rest.partition(" ")
                self.acknowledged.append((session_id, text))
            elif word in ("begun", "stopped"):
                (self.begun if word == "begun" else self.stopped).set()
            elif word == "views":
                self.views = json.loads(rest)
                self.seen.set()

    def say(self, word: str) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")

    def end(self) -> None:
        """Wait for its end, and for all that it has said."""
        self.process.wait(WAITS_AT_MOST_S)
        self._thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def kill(self) -> None:
        """End it by SIGKILL, also if it is stopped."""
        self.process.kill()
        self.end()


class Cluster:
    """The processes.

    Args:
        url: The address of the database.
        seed: Decides what happens.
        sessions: How many sessions there are.
    """

    def __init__(self, url: str, seed: int, sessions: int) -> None:
        self.url = url
        self.sessions = sessions
        self.chance = random.Random(seed)
        self.ended: list[Child] = []
        self._started = 0
        self.hosts = [self._start() for _ in range(HOSTS)]

    def _start(self) -> Child:
        self._started += 1
        return Child(self.url, f"{self._started}", self.chance.randrange(10**6), self.sessions)

    @property
    def acknowledged(self) -> list[tuple[str, str]]:
        """All appends that were acknowledged: the session and the text."""
        return [each for child in (*self.ended, *self.hosts) for each in list(child.acknowledged)]

    def wait_for_acks(self, count: int) -> None:
        """Wait until so many more appends were acknowledged."""
        goal, end = len(self.acknowledged) + count, time.monotonic() + WAITS_AT_MOST_S
        while len(self.acknowledged) < goal:
            assert time.monotonic() < end, "the cluster stands still"
            time.sleep(0.01)

    def strike(self, *, kills: bool) -> str:
        """Kill one of the hosts, or stop it for longer than its lease; return what was done."""
        number = self.chance.randrange(HOSTS)
        child = self.hosts[number]
        if kills:
            child.kill()
            self.ended.append(child)
            self.hosts[number] = self._start()
            return "kill"
        child.process.send_signal(signal.SIGSTOP)
        time.sleep(1.3 * LEASE_S)
        child.process.send_signal(signal.SIGCONT)
        return "stop"

    def close(self) -> None:
        """End all processes."""
        for child in self.hosts:
            if child.process.returncode is None:
                child.kill()


@contextmanager
def cluster(url: str, seed: int, sessions: int) -> Iterator[Cluster]:
    """Run a cluster as long as the block runs."""
    made = Cluster(url, seed, sessions)
    try:
        for child in made.hosts:
            assert child.begun.wait(WAITS_AT_MOST_S)
        yield made
    finally:
        made.close()


async def run_soak(
    server: LocalServer, schema: str, tally: Counter[str], *, strikes: int, sessions: int, seed: int
) -> None:
    """Strike so often; assert that nothing is lost or doubled, and that all hosts show the same."""
    url = server.url(schema=schema, lease_s=str(LEASE_S), wait_s="0")
    with cluster(url, seed, sessions) as hosts:
        done: Counter[str] = Counter()
        for number in range(strikes):
            hosts.wait_for_acks(30)
            done[hosts.strike(kills=number == 0 or hosts.chance.random() < 0.6)] += 1
        hosts.wait_for_acks(100)
        for child in hosts.hosts:
            child.say("stop")
        for child in hosts.hosts:
            assert child.stopped.wait(WAITS_AT_MOST_S)
        for child in hosts.hosts:
            child.say("views")
        for child in hosts.hosts:
            assert child.seen.wait(WAITS_AT_MOST_S)
        acknowledged = hosts.acknowledged
        views = [child.views for child in hosts.hosts]
        for child in hosts.hosts:
            child.say("end")
            child.end()
            assert child.process.returncode == 0
    found: dict[str, list[str]] = defaultdict(list)
    shown: dict[str, str] = {}
    async with SessionHost(url) as host:
        for session_id in sessions_of(sessions):
            session = await host.load(session_id, read_only=True)
            for entry in await session.entries():
                assert isinstance(entry, MessageEntry)
                found[session_id].append(plain_text(entry.message.content))
            shown[session_id] = await digest(host, session_id)
    double = [text for texts in found.values() for text, count in Counter(texts).items() if count > 1]
    lost = [(session_id, text) for session_id, text in acknowledged if text not in found[session_id]]
    assert (lost, double) == ([], [])
    assert all(each == shown for each in views)
    with psycopg.connect(server.url()) as connection:
        row = connection.execute(f"SELECT count(*) FROM {schema}.lines".encode()).fetchone()
    assert row == (sum(map(len, found.values())),)
    tally["kills survived"] += done["kill"]


@pytest.mark.feature("C-23")
async def test_a_cluster_whose_hosts_are_killed_loses_and_doubles_nothing(
    server: LocalServer, schema: str, url: str, tally: Counter[str]
) -> None:
    assert url
    await run_soak(server, schema, tally, strikes=2, sessions=SESSIONS, seed=0)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.feature("C-23")
async def test_a_cluster_whose_hosts_are_killed_all_the_time_loses_and_doubles_nothing(
    server: LocalServer, schema: str, url: str, tally: Counter[str], scale: float
) -> None:
    assert url
    await run_soak(
        server, schema, tally, strikes=max(4, round(STRIKES_OF_SOAK * scale)), sessions=SESSIONS_OF_SOAK, seed=1
    )
