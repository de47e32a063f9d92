"""Closing a host answers every command that it accepted, and loses nothing that it acknowledged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.conftest import WAITS_AT_MOST_S
from tests.sampling import each_with_one

from treering import HostClosed, Limits, Session, SessionHost

SESSIONS = 4
SENDERS = 5


class Load:
    """Senders that append until they are refused.

    Attributes:
        acknowledged: The ids that the appends returned, by session.
        asked: How many commands were sent.
        refused: How many of them were refused because the host was closed.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[str, list[str]] = {}
        self.asked = 0
        self.refused = 0

    async def send(self, session: Session) -> None:
        while True:
            self.asked += 1
            try:
                entry_id = await session.append_custom_entry("load", self.asked)
            except HostClosed:
                self.refused += 1
                return
            self.acknowledged.setdefault(session.id, []).append(entry_id)
            await anyio.lowlevel.checkpoint()


def lines_of(root: Path, session_id: str) -> list[bytes]:
    return (root / f"{session_id}.jsonl").read_bytes().splitlines()[1:]


@pytest.mark.feature("X-7")
@pytest.mark.parametrize("options", [{"writes": "inline"}, {"writes": "thread"}, {"durability": "file"}], ids=str)
async def test_closing_under_load_answers_every_command(tmp_path: Path, options: dict[str, Any]) -> None:
    load = Load()
    async with anyio.create_task_group() as tasks:
        async with SessionHost(tmp_path, limits=Limits(mailbox_max=2), **options) as host:
            sessions = [await host.create(f"s{number}") for number in range(SESSIONS)]
            for session in sessions * SENDERS:
                tasks.start_soon(load.send, session)
            while not all(len(load.acknowledged.get(session.id, ())) > 20 for session in sessions):
                await anyio.lowlevel.checkpoint()
        assert host.statistics().live == 0
        acknowledged = sum(map(len, load.acknowledged.values()))
        await anyio.wait_all_tasks_blocked()
    answered = sum(map(len, load.acknowledged.values()))
    assert answered >= acknowledged
    assert load.refused == SESSIONS * SENDERS
    assert load.asked == answered + load.refused  # every command got an answer
    for session_id, ids in load.acknowledged.items():
        lines = lines_of(tmp_path, session_id)
        assert len(lines) == len(ids)
        assert all(f'"id":"{entry_id}"'.encode() in b"".join(lines) for entry_id in ids)


CHILD = """
import sys
import anyio
from treering import HostClosed, Limits, SessionHost

async def main():
    root, durability = sys.argv[1:3]
    left = "no code"
    pending = set()

    async def send(session, name):
        number = 0
        while True:
            number += 1
            command = f"{name}-{number}"
            pending.add(command)
            try:
                entry_id = await session.append_custom_entry("load", command)
            except HostClosed:
                pending.remove(command)
                return
            pending.remove(command)
            print("ack", session.id, entry_id, flush=True)

    async with anyio.create_task_group() as tasks:
        try:
            limits = Limits(mailbox_max=2)
            async with SessionHost(root, signals=True, durability=durability, limits=limits) as host:
                for number in range(3):
                    session = await host.create(f"s{number}")
                    for sender in range(4):
                        tasks.start_soon(send, session, f"{number}-{sender}")
                await anyio.sleep_forever()
        except SystemExit as exit:
            left = exit.code
            print("closed", flush=True)
    print("unanswered", len(pending), flush=True)
    sys.exit(left)

anyio.run(main, backend=sys.argv[3], backend_options={"use_uvloop": True} if sys.argv[4:] else {})
"""


@pytest.mark.feature("X-7")
@pytest.mark.parametrize(
    ("loop", "how"),
    each_with_one([("asyncio",), ("asyncio", "uvloop"), ("trio",)], [(signal.SIGTERM, "os"), (signal.SIGINT, "file")]),
    ids=lambda value: value[-1],
)
def test_after_a_signal_every_acknowledged_append_is_in_the_file(
    tmp_path: Path, loop: tuple[str, ...], how: tuple[signal.Signals, str]
) -> None:
    number, durability = how
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), durability, *loop],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    patience = threading.Timer(WAITS_AT_MOST_S, child.kill)
    patience.start()
    try:
        acknowledged: list[tuple[str, str]] = []
        for line in child.stdout:
            word, *rest = line.split()
            if word == "ack":
                acknowledged.append((rest[0], rest[1]))
                if len(acknowledged) == 100:
                    os.kill(child.pid, number)
            elif word == "unanswered":
                assert rest == ["0"]
        error = child.stderr.read()
        assert child.wait() == 128 + number, error
        assert error == ""
    finally:
        patience.cancel()
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()
    assert len(acknowledged) >= 100
    found = {name: b"".join(lines_of(tmp_path, name)) for name in ("s0", "s1", "s2")}
    assert all(f'"id":"{entry_id}"'.encode() in found[name] for name, entry_id in acknowledged)
    assert sum(lines.count(b'"type":"custom"') for lines in found.values()) == len(acknowledged)
