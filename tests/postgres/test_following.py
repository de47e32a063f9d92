"""Followers on every host: each entry once and in order, whatever the network does and whoever owns the session."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio
import pytest

from treering import MessageEntry, Session, SessionHost
from treering.entries import plain_text
from treering.errors import SessionLocked, TreeringError
from treering.events.errors import LeaseLost
from treering.stores.postgres import watching
from treering.stores.postgres.local_server import LocalServer

from .conftest import HOSTS
from .counting import counted
from .load import PASSING, PAUSE_S
from .network import Network

LOOK_S = 0.3
LEASE_S = 1.0
IN_HAND = (LeaseLost, SessionLocked)
"""What a writer is told while another host has the session."""


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_S", LOOK_S)


class Followed:
    """What one follower has received; anything but the next entry fails."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._changed = anyio.Event()

    async def follow(self, session: Session) -> None:
        """Receive entries until cancelled."""
        async with session.subscribe() as entries:
            async for entry in entries:
                assert isinstance(entry, MessageEntry), entry
                assert entry.seq == len(self.texts) + 1
                self.texts.append(plain_text(entry.message.content))
                changed, self._changed = self._changed, anyio.Event()
                changed.set()

    async def reach(self, count: int) -> None:
        """Wait until so many entries were received."""
        while len(self.texts) < count:
            await self._changed.wait()


class Cluster:
    """One session on several hosts, each with a follower, and what was appended."""

    def __init__(self, hosts: list[SessionHost], session_id: str) -> None:
        self.hosts = hosts
        self.session_id = session_id
        self.said = ["0"]
        self.followers = [Followed() for _ in hosts]
        self.told: list[TreeringError] = []

    async def say(self, host: int, count: int = 5) -> None:
        """Append messages on one host, each by a command that is repeated until it is acknowledged."""
        for _ in range(count):
            text = str(len(self.said))
            while True:
                try:
                    session = await self.hosts[host].load(self.session_id)
                    await session.append_message("user", text, command_id=f"say {text}")
                except (*PASSING, *IN_HAND) as error:
                    self.told.append(error)
                    await anyio.sleep(PAUSE_S)
                else:
                    break
            self.said.append(text)

    async def hand_over(self, host: int) -> None:
        """Let a host give the session up."""
        await self.hosts[host].passivate_idle()

    async def reach(self) -> None:
        """Wait until every follower has what was appended."""
        for each in self.followers:
            await each.reach(len(self.said))
            assert each.texts == self.said


async def said(session: Session, text: str) -> None:
    """Append a message, however often its lease ends or an answer is late on a busy machine."""
    while True:
        try:
            await session.append_message("user", text, command_id=f"say {text}")
        except (*PASSING, *IN_HAND):
            await anyio.sleep(PAUSE_S)
        else:
            return


@asynccontextmanager
async def cluster(nets: list[Network], schema: str) -> AsyncIterator[Cluster]:
    """Run a host in each network, with a follower of one session, which the first host has begun."""
    async with AsyncExitStack() as stack:
        hosts = [
            await stack.enter_async_context(
                SessionHost(net.url(schema=schema, lease_s=str(LEASE_S), tcp_user_timeout="2000"))
            )
            for net in nets
        ]
        session = await hosts[0].create()
        await said(session, "0")
        made = Cluster(hosts, session.id)
        async with anyio.create_task_group() as tasks:
            for host, follower in zip(hosts, made.followers, strict=True):
                tasks.start_soon(follower.follow, await host.load(session.id, read_only=True))
            await made.reach()
            yield made
            await made.reach()
            tasks.cancel_scope.cancel()


@pytest.mark.feature("C-11")
async def test_followers_on_all_hosts_see_each_entry_once_in_order(nets: list[Network], schema: str, url: str) -> None:
    assert url
    async with cluster(nets, schema) as hosts:
        await hosts.say(0)
        await hosts.reach()
        for net in nets[1:]:  # lost notifications
            net.unheard = b""
        await hosts.say(0)
        await hosts.reach()
        for net in nets[1:]:  # reconnects, while it is written
            net.resume()
            net.cut()
            await hosts.say(0, 3)
            net.cut_after(200, "client")
            await hosts.say(0, 3)
        await hosts.reach()
        for owner in (1, 2, 0):  # take-overs: the session is handed over
            await hosts.hand_over((owner - 1) % HOSTS)
            nets[owner].cut()
            await hosts.say(owner)
        await hosts.reach()
        nets[0].silence()  # and taken from a host that does not answer
        await hosts.say(1)
        for follower in hosts.followers[1:]:
            await follower.reach(len(hosts.said))
        nets[0].resume()
        nets[0].cut()
        await hosts.reach()
        await hosts.say(1)


@pytest.mark.feature("C-11")
async def test_a_lost_notification_costs_a_look_however_much_else_is_told(
    nets: list[Network], schema: str, url: str
) -> None:
    assert url
    async with cluster(nets, schema) as hosts:
        others = [await hosts.hosts[0].create() for _ in range(8)]
        elsewhere = [Followed() for _ in others]

        async def chatter(other: Session) -> None:
            while True:
                with suppress(*PASSING, *IN_HAND):  # a lease may end while the machine is busy
                    await other.append_message("user", "again")

        async with anyio.create_task_group() as tasks:
            for other, follower in zip(others, elsewhere, strict=True):
                await said(other, "begun")
                tasks.start_soon(follower.follow, await hosts.hosts[1].load(other.id, read_only=True))
                tasks.start_soon(chatter, other)
                await follower.reach(1)
            nets[1].unheard = hosts.session_id.encode()
            for _ in range(3):
                await hosts.say(0, 1)
                await hosts.reach()  # without a look it would wait for ever
            tasks.cancel_scope.cancel()


def listens(net: Network) -> int:
    """Return how many connections have listened."""
    return len({message.connection for message in net.messages if b"listen " in message.data})


@pytest.mark.feature("C-11")
async def test_a_connection_that_hears_nothing_is_opened_anew(nets: list[Network], schema: str, url: str) -> None:
    assert url
    async with cluster(nets, schema) as hosts:
        while listens(nets[1]) == 0:
            await hosts.say(0, 1)
        nets[1].unheard = b""
        while listens(nets[1]) == 1:
            await hosts.say(0, 1)
            await hosts.reach()


@pytest.mark.feature("C-11")
async def test_a_host_listens_once_and_is_told_once_for_a_batch(
    server: LocalServer, nets: list[Network], schema: str, url: str
) -> None:
    async with SessionHost(url) as writer, SessionHost(nets[0].url(schema=schema)) as reader:
        sessions = [await writer.create() for _ in range(50)]

        async def say(text: str) -> None:
            async with anyio.create_task_group() as tasks:
                for session in sessions:
                    tasks.start_soon(session.append_message, "user", text)

        def told() -> int:
            return sum(each.name == "NotificationResponse" for each in nets[0].messages)

        await say("first")
        followers = [Followed() for _ in sessions]
        async with anyio.create_task_group() as tasks:
            for session, follower in zip(sessions, followers, strict=True):
                tasks.start_soon(follower.follow, await reader.load(session.id, read_only=True))
            for follower in followers:
                await follower.reach(1)
            before = told()
            with counted(server.url()) as counts:
                await say("second")
                for follower in followers:
                    await follower.reach(2)
            assert told() - before <= counts.of("insert into", ".lines") < 10
            tasks.cancel_scope.cancel()
    assert listens(nets[0]) == 1
