"""What becomes of a host's sessions when it is killed, stopped or closed: another one serves them."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import anyio
import anyio.to_thread
import psycopg
import pytest
from tests.lateness import waited_s, waits

from treering import SessionHost
from treering.stores.postgres.local_server import LocalServer

from .host_child import HostChild
from .load import texts
from .network import network


async def append_to_all(host: SessionHost, names: Sequence[str], text: str) -> None:
    async def append(name: str) -> None:
        await (await host.load(name)).append_message("user", text)

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(append, name)


async def take_over(url: str, sessions: int, lease_s: float, within_s: float) -> None:
    """Kill a host, and append to all of its sessions on another one, which was opened before."""
    names = [f"session-{n}" for n in range(sessions)]
    leased = f"{url}&lease_s={lease_s}"
    async with SessionHost(leased) as heir:
        with HostChild(leased) as killed:
            for name in names:
                assert killed.ask(f"say {name} first") == ""
            killed.signal(signal.SIGKILL)
            began, before = time.monotonic(), waits()
            await append_to_all(heir, names, "second")
        assert time.monotonic() - began < within_s + waited_s(before)
    for name in names[:3]:
        assert await texts(url, name) == ["first", "second"]


@pytest.mark.feature("C-7")
async def test_a_killed_hosts_sessions_are_served_by_another_when_its_lease_has_ended(url: str) -> None:
    await take_over(url, 20, lease_s=1, within_s=6)  # much more than it takes, since the machine may be busy


@pytest.mark.soak
@pytest.mark.feature("C-7")
async def test_a_killed_hosts_sessions_are_served_by_another_within_its_lease_and_a_second(url: str) -> None:
    await take_over(url, 200, lease_s=15, within_s=16)


@pytest.mark.feature("C-7")
async def test_a_slow_answer_is_no_sign_of_life_of_a_killed_host(server: LocalServer, url: str, schema: str) -> None:
    with network(server) as net, HostChild(f"{url}&lease_s=2") as killed:
        assert killed.ask("say mine first") == ""
        killed.signal(signal.SIGKILL)
        name = f"{socket.gethostname()}:{killed.process.pid}".encode()
        async with SessionHost(net.url(schema=schema, lease_s="2")) as heir, anyio.create_task_group() as tasks:
            late = net.fault("client", "DataRow", containing=name, nth=2, deed="hold")
            tasks.start_soon(append_to_all, heir, ["mine"], "second")
            assert await anyio.to_thread.run_sync(late.happened.wait, 60)
            await anyio.sleep(0.5)  # the answer says how long the lease lasts from when it was sent
            late.release()
    assert await texts(url, "mine") == ["first", "second"]


@pytest.mark.feature("C-7")
async def test_a_host_that_is_closed_hands_its_sessions_over_at_once(url: str) -> None:
    names = [f"session-{n}" for n in range(20)]
    patient = f"{url}&lease_s=600&wait_s=0"
    async with SessionHost(patient) as heir:
        with HostChild(patient) as closed:
            for name in names:
                assert closed.ask(f"say {name} first") == ""
            assert closed.ask("close host") == ""
            await append_to_all(heir, names, "second")


@pytest.mark.feature("C-7")
@pytest.mark.feature("C-5")
async def test_a_host_that_was_stopped_past_its_lease_is_refused_by_name_and_writes_nothing(url: str) -> None:
    with HostChild(f"{url}&lease_s=1&wait_s=0") as stopped:
        assert stopped.ask("say mine first") == ""
        stopped.signal(signal.SIGSTOP)
        async with SessionHost(f"{url}&lease_s=600&wait_s=30") as heir:
            await append_to_all(heir, ["mine"], "taken")
            stopped.signal(signal.SIGCONT)
            assert stopped.ask("say mine late") in ("LeaseLost", "SessionLocked")
            assert stopped.ask("say mine later") in ("LeaseLost", "SessionLocked")
        assert await texts(url, "mine") == ["first", "taken"]
        for _ in range(50):  # where the machine is busy, it may still be letting go of what it lost
            if not (told := stopped.ask("say mine back")):
                break
            await anyio.sleep(0.1)
        assert told == ""
    assert await texts(url, "mine") == ["first", "taken", "back"]


@pytest.mark.feature("C-8")
async def test_hosts_whose_clocks_are_hours_apart_and_jump_write_one_at_a_time(url: str) -> None:
    leased = f"{url}&lease_s=1&wait_s=0.2"
    said: list[str] = []

    def say(host: HostChild, text: str) -> str:
        told = host.ask(f"say s {text}")
        said.extend([text] if not told else [])
        return told

    with HostChild(leased, 3600) as early, HostChild(leased, -3600) as late:
        assert say(early, "early-first") == ""
        for jump_s in (0, 7200):  # one clock runs ahead by hours, and the other falls behind
            assert early.ask(f"jump {jump_s}") == ""
            assert say(late, f"late-{jump_s}") == "SessionLocked"
            assert late.ask(f"jump -{jump_s}") == ""
            assert say(late, f"late-after-{jump_s}") == "SessionLocked"
            assert say(early, f"early-{jump_s}") == ""
        assert early.ask("jump -20000") == ""  # what it would do soon waits for hours, the renewal of its lease too
        while say(late, "late-heir"):
            assert early.ask("jump -20000") == ""  # again, if a renewal was under way, which then went on
        assert say(early, "early-refused") in ("LeaseLost", "SessionLocked")
        assert late.ask("jump 20000") == ""
        assert say(late, "late-again") == ""
        assert say(early, "early-refused-again") == "SessionLocked"
        assert late.ask("close host") == ""
        assert say(early, "early-last") == ""
    assert await texts(url, "s") == said
    assert len(said) == 6


SESSIONS, EACH, KILLED_AT = 20, 40, 600


@pytest.mark.feature("C-7")
def test_what_a_killed_program_was_told_and_what_another_one_adds_is_there_once(
    server: LocalServer, url: str, schema: str
) -> None:
    done = {f"session-{n}": 0 for n in range(SESSIONS)}

    def program() -> subprocess.Popen[str]:
        arguments = [f"{url}&lease_s=2", str(EACH), *(f"{name}={count}" for name, count in done.items())]
        command = [sys.executable, "-m", "tests.postgres.writing_child", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def note(line: str) -> None:
        name, number = line.split()
        assert int(number) == done[name]
        done[name] += 1

    with program() as killed:
        assert killed.stdout is not None
        for _ in range(KILLED_AT):
            note(killed.stdout.readline())
        killed.kill()
        for line in killed.stdout:
            if line.endswith("\n"):
                note(line)
    assert KILLED_AT <= sum(done.values()) < SESSIONS * EACH
    with program() as heir:
        assert heir.stdout is not None
        for line in heir.stdout:
            note(line)
    assert heir.returncode == 0
    assert done == dict.fromkeys(done, EACH)
    with psycopg.connect(server.url()) as connection:
        text = "entry #>> '{message,content,0,text,content}'"
        query = f"SELECT session, {text} FROM {schema}.entries ORDER BY session, seq".encode()
        rows = connection.execute(query).fetchall()
    assert len(rows) == SESSIONS * EACH
    for name in done:
        assert [text for session, text in rows if session == f"{name}.jsonl"] == [f"{n} of {name}" for n in range(EACH)]
