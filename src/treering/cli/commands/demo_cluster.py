"""`treering demo --cluster`: three hosts on one PostgreSQL, of which the one that owns the conversation is killed.

Everything is real, and begun for the demonstration alone: the server of the database, the three servers of the sessions
in processes of their own, and requests that go to any of them, as a load balancer would send them.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import webbrowser
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import anyio
import click
import httpx2
import msgspec
from anyio import to_thread
from msgspec import Struct

from ...events.errors import Unavailable
from ...events.http_clients import verify_for
from ...events.texts import counted
from ...projections.feed_events import Reset
from ...remote import RemoteHost
from ...stores.postgres.local_server import LocalServer
from ...stores.postgres.store import PostgresStore
from ..output import echo_step, echo_title

LEASE_S = 3.0
"""After how many seconds the others may take what a killed host held; servers have 15 by default."""

SESSION = "voyage"
"""The id of the conversation."""

_HOSTS = 3
_BEFORE, _AFTER = 6, 6  # messages before and after the host is killed
_DEADLINE_S = 120.0
_ANSWERED_WITHIN_S = 30.0
_AGAIN_S = 0.2
_LINES = (
    ("user", "Where do we stand?"),
    ("assistant", "Two days west of the islands, with a steady wind."),
    ("user", "And the water?"),
    ("assistant", "Ten casks, which last for three weeks."),
    ("user", "Then we sail on."),
    ("assistant", "On the same course, with a lookout at the bow."),
)


class Story(Struct):
    """How fast the story is told, and how it goes on.

    Attributes:
        pause_s: The seconds between two messages.
        goes_on: Whether the conversation goes on afterwards, until somebody ends it.
    """

    pause_s: float = 0.7
    goes_on: bool = False


class Crew:
    """The servers of the three hosts, each a process of its own.

    Args:
        database: The address of the database.
        folder: Where their secret is, and what they keep of their own.
        port: The port of the first one; 0 for a free one.
    """

    def __init__(self, database: str, folder: Path, port: int) -> None:
        self._folder = folder
        secret = folder / "secret"
        secret.write_text(secrets.token_urlsafe(32), encoding="utf-8")
        ports = [port, *_free_ports(_HOSTS - 1)] if port else _free_ports(_HOSTS)
        self.addresses = [f"http://127.0.0.1:{each}" for each in ports]
        self._commands = [
            [
                *(sys.executable, "-m", "treering.cli", "serve", database, "--port", str(each)),
                *("--advertise", address, "--peer", "127.0.0.1/32", "--cluster-secret-file", str(secret)),
            ]
            for each, address in zip(ports, self.addresses, strict=True)
        ]
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, running: ExitStack) -> None:
        """Start all, and wait until they answer; they are killed when the stack is left.

        Raises:
            Unavailable: One of them does not start.
        """
        ours = {name: value for name, value in os.environ.items() if not name.startswith("TREERING_")}
        environment = {**ours, "XDG_DATA_HOME": str(self._folder)}
        for number, command in enumerate(self._commands):
            log = running.enter_context((self._folder / f"{number}.log").open("wb"))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment,
                start_new_session=True,
            )  # fmt: skip  # in its own process group: Ctrl-C reaches only this process, which kills them
            running.callback(_end, process)
            self.processes.append(process)
        for number, process in enumerate(self.processes):
            assert process.stdout is not None
            if not process.stdout.readline():
                said = (self._folder / f"{number}.log").read_text(encoding="utf-8", errors="replace")
                raise Unavailable(f"a host of the demonstration did not start: {said.strip()[-500:] or 'no word why'}")

    def kill(self, address: str) -> None:
        """Kill a host, as if its machine had failed."""
        process = self.processes[self.addresses.index(address)]
        process.kill()
        process.wait()


async def play_cluster(port: int, opens: bool, story: Story) -> None:
    """Tell the story.

    Args:
        port: The port of the first host, whose viewer shows it; 0 for a free one.
        opens: Whether to open the viewer in a browser.
        story: How fast, and whether it goes on.

    Raises:
        ExtraMissing: PostgreSQL's server is not installed; the message says how to get it.
        Unavailable: A host did not start, or nobody answered in time.
    """
    with ExitStack() as running:
        database = await to_thread.run_sync(running.enter_context, LocalServer())
        url = database.url(schema="treering", lease_s=f"{LEASE_S:g}")
        temporary = TemporaryDirectory(prefix="treering-demo-")
        folder = Path(await to_thread.run_sync(running.enter_context, temporary))
        crew = Crew(url, folder, port)
        await to_thread.run_sync(crew.start, running)
        click.echo(crew.addresses[0])
        echo_title("1. Three hosts serve the sessions of one database")
        for address in crew.addresses:
            echo_step(f"{address}{'  <- open this one' if address == crew.addresses[0] else ''}")
        viewer = f"{crew.addresses[0]}/s/{SESSION}"
        verify = verify_for(crew.addresses[0])
        async with httpx2.AsyncClient(timeout=_ANSWERED_WITHIN_S, trust_env=False, verify=verify) as http:
            conversation = Conversation(http, crew, url)
            await conversation.begin()
            if opens:
                await to_thread.run_sync(webbrowser.open, viewer)
            with anyio.fail_after(_DEADLINE_S):
                await _tell(conversation, crew, story.pause_s)
            if story.goes_on:
                echo_step(f"The conversation goes on: {viewer}   Ctrl-C ends it")
                while True:
                    await conversation.say()
                    await anyio.sleep(story.pause_s)


async def _tell(conversation: Conversation, crew: Crew, pause_s: float) -> None:
    seen: list[int] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_follow, crew.addresses[0], seen)
        echo_title("2. A conversation, each message sent to another host, carried out by the one that owns it")
        for _ in range(_BEFORE):
            await conversation.say()
            await anyio.sleep(pause_s)
        owner = await conversation.owner()
        echo_title("3. That host is killed in the middle of it")
        await to_thread.run_sync(crew.kill, owner)
        echo_step(f"{_port(owner)} is gone; the others may take its sessions when its lease of {LEASE_S:g} s has ended")
        began = anyio.current_time()
        await conversation.say()
        heir = await conversation.owner()
        echo_step(f"{_port(heir)} took the conversation over, {anyio.current_time() - began:.1f} s later")
        for _ in range(_AFTER - 1):
            await conversation.say()
            await anyio.sleep(pause_s)
        echo_title("4. Nothing is lost, nothing is doubled")
        stored = await conversation.stored()
        said = conversation.acknowledged
        echo_step(f"{counted(len(said), 'message')} acknowledged, {len(stored)} in the conversation: "
             f"{'each once, in order' if stored == said else 'NOT THE SAME'}")  # fmt: skip
        with anyio.fail_after(_ANSWERED_WITHIN_S):
            while len(seen) < len(said):  # noqa: ASYNC110  # it is another task that appends to the list
                await anyio.sleep(_AGAIN_S)
        gapless = "yes" if seen == [*range(1, len(seen) + 1)] else "NO"
        echo_step(f"who followed it at {_port(crew.addresses[0])} saw {len(seen)}, without a gap: {gapless}")
        tasks.cancel_scope.cancel()


class Conversation:
    """The conversation, by requests to all hosts in turn.

    Args:
        http: Sends them.
        crew: The hosts.
        database: The address of the database, which knows the owner.

    Attributes:
        acknowledged: The ids of the messages that were acknowledged.
    """

    def __init__(self, http: httpx2.AsyncClient, crew: Crew, database: str) -> None:
        self._http = http
        self._crew = crew
        self._database = database
        self._number = count()
        self._turn = count(1)
        self.acknowledged: list[str] = []

    async def begin(self) -> None:
        """Make the session, on another host than the one that is looked at."""
        body = {"id": SESSION, "title": "A voyage"}
        reply = await self._http.post(f"{self._crew.addresses[1]}/v1/sessions", json=body)
        _check(reply)
        self.acknowledged += [each["id"] for each in await self._items(self._crew.addresses[1])]

    async def say(self) -> None:
        """Send the next message, to the next host that can be reached: with one id, so that it is said once."""
        number = next(self._number)
        role, text = _LINES[number % len(_LINES)]
        body = msgspec.json.encode({"type": "message", "message": {"role": role, "content": text}})
        headers = {"content-type": "application/json", "idempotency-key": f"say-{number}"}
        until = anyio.current_time() + _ANSWERED_WITHIN_S
        while True:
            address = self._crew.addresses[next(self._turn) % _HOSTS]
            try:
                reply = await self._http.post(f"{address}/v1/sessions/{SESSION}/entries", content=body, headers=headers)
            except httpx2.TransportError as error:
                if anyio.current_time() > until:
                    raise Unavailable("no host of the demonstration answers: look at their logs") from error
                echo_step(f"         {_port(address)} does not answer: the next host is asked")
                continue
            _check(reply)
            self.acknowledged += reply.json()["ids"]
            echo_step(f"{_port(address)}  {role}: {text}")
            return

    async def owner(self) -> str:
        """Return the address of the host that owns the conversation."""
        store = PostgresStore(self._database)
        try:
            found = await to_thread.run_sync(store.hosts)
        finally:
            await store.aclose()
        return next(each.address for each in found if each.sessions and each.left_s > 0 and each.address)

    async def stored(self) -> list[str]:
        """Return the ids of what is in the conversation, as the host tells that is looked at."""
        return [each["id"] for each in await self._items(self._crew.addresses[0])]

    async def _items(self, address: str) -> list[dict[str, str]]:
        reply = await self._http.get(f"{address}/v1/sessions/{quote(SESSION)}/entries", params={"limit": 1000})
        _check(reply)
        items: list[dict[str, str]] = reply.json()["items"]
        return items


def _check(reply: httpx2.Response) -> None:
    if not reply.is_success:
        raise Unavailable(f"a host of the demonstration refused a request: {reply.text[:500]}")


async def _follow(address: str, seen: list[int]) -> None:
    """Follow the conversation at one host, as its viewer does."""
    async with RemoteHost(address) as host:
        session = await host.load(SESSION, read_only=True)
        async with session.subscribe() as entries:
            async for entry in entries:
                if not isinstance(entry, Reset):
                    seen.append(entry.seq)  # noqa: PERF401  # which others look at meanwhile


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at, all of them other ones, since each is held until the last one was found."""
    with ExitStack() as held:
        found = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _port(address: str) -> str:
    return address.rpartition(":")[2].rjust(5)
