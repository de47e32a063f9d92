"""A connection that is cut at every step of a commit: what became of it is found by reading."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from treering import Session, SessionHost, Settings
from treering.errors import AppendInDoubt, TreeringError
from treering.events.errors import StoreUnavailable
from treering.stores.postgres.local_server import LocalServer

from .load import insist, texts
from .network import At, Message, Network, Side, network

STATEMENT = ["Parse", "Bind", "Describe", "Execute", "Sync"]
ANSWER = ["ParseComplete", "BindComplete", "RowDescription", "DataRow", "CommandComplete", "ReadyForQuery"]
QUIET = Settings(debounce_ms=10**7, update_metadata_interval_ms=10**7)
"""The host keeps no rows of its listing meanwhile: faults are for the statements of an append."""

WARM = 7
"""After so many appends, the driver has prepared the statement on its connection."""


@pytest.fixture
def net(server: LocalServer) -> Iterator[Network]:
    with network(server) as made:
        yield made


class Writing:
    """One session that is written to through the network, and what it must hold."""

    def __init__(self, net: Network, session: Session) -> None:
        self.net = net
        self.session = session
        self.expected: list[str] = []
        self.told: list[TreeringError] = []

    async def say(self) -> list[TreeringError]:
        """Append one more message until it is acknowledged; return what was told meanwhile."""
        text = str(len(self.expected))
        self.told = []
        await insist(self.session, text, self.told.append)
        self.expected.append(text)
        return self.told

    async def messages(self) -> list[Message]:
        """Append one more message; return the messages between store and server."""
        before = len(self.net.messages)
        await self.say()
        return self.net.messages[before:]


async def cut_commits(writing: Writing, places: Sequence[At]) -> None:
    """Cut the connection at each message of an append, of a statement that is new to it and of one that it knows."""
    await writing.say()
    fresh = await writing.messages()
    assert [message.name for message in fresh if message.toward == "server"] == STATEMENT
    assert [message.name for message in fresh if message.toward == "client"] == ANSWER
    for _ in range(WARM):
        await writing.say()
    prepared = await writing.messages()
    assert [message.name for message in prepared if message.toward == "server"] == STATEMENT[1:]
    for warm, steps in ((0, fresh), (WARM, prepared)):
        for toward, name, *_ in steps:
            for at in places:
                writing.net.cut()
                for _ in range(1 + warm):
                    await writing.say()
                fault = writing.net.fault(toward, name, at=at)
                told = await writing.say()
                assert fault.happened.wait(60)
                lost = (name, at) != ("ReadyForQuery", "after")
                assert [type(error) for error in told] == [AppendInDoubt] * lost, (toward, name, at)


async def cut_resolutions(writing: Writing, stride: int) -> None:
    """Cut the connection at an append, and then at each message by which is found out what became of it.

    Args:
        writing: The session.
        stride: Leave out all but one of so many messages.
    """
    await writing.say()
    firsts: tuple[tuple[Side, str], ...] = (("server", "Sync"), ("client", "ParseComplete"))
    sides: tuple[Side, ...] = ("server", "client")
    for toward, first in firsts:
        writing.net.fault(toward, first)
        steps = [message.toward for message in await writing.messages()]
        for side in sides:
            for nth in range(1, steps.count(side) + 1, stride):
                writing.net.fault(toward, first)
                text = str(len(writing.expected))
                with pytest.raises(AppendInDoubt):
                    await writing.session.append_message("user", text, command_id=f"say {text}")
                writing.net.fault(side, nth=nth)
                await writing.say()
                writing.net.resume()


@asynccontextmanager
async def writing_to(net: Network, url: str, schema: str) -> AsyncIterator[Writing]:
    """Open a session to write to through the network; assert at the end that another host reads what it must hold."""
    async with SessionHost(net.url(schema=schema, lease_s="600"), settings=QUIET) as host:
        writing = Writing(net, await host.create())
        yield writing
        assert await texts(url, writing.session.id) == writing.expected


@pytest.mark.feature("C-6")
async def test_a_connection_cut_at_any_commit_step_leaves_each_append_once(net: Network, url: str, schema: str) -> None:
    async with writing_to(net, url, schema) as writing:
        await cut_commits(writing, ["before"])
        await cut_resolutions(writing, 9)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.feature("C-6")
async def test_a_connection_cut_before_within_and_after_every_message_leaves_each_append_once(
    net: Network, url: str, schema: str
) -> None:
    async with writing_to(net, url, schema) as writing:
        await cut_commits(writing, ["before", "within", "after"])
        await cut_resolutions(writing, 1)


@pytest.mark.feature("C-6")
async def test_a_statement_that_arrives_once_given_up_changes_nothing(net: Network, url: str, schema: str) -> None:
    async with writing_to(net, url, schema) as writing:
        await writing.say()
        for lands in ("before it is looked for", "after that", "after that, and so does what looked for it"):
            late = [net.fault("server", "Parse", containing=b"insert into", deed="late")]
            text = str(len(writing.expected))
            with pytest.raises(AppendInDoubt):
                await writing.session.append_message("user", text, command_id=f"say {text}")
            assert late[0].happened.wait(60)
            if lands.startswith("before"):
                late[0].release()
                assert late[0].landed.wait(60)
            elif lands.endswith("looked for it"):
                late.append(net.fault("server", "Parse", containing=b"set epoch", deed="late"))
            told = await writing.say()
            assert [type(error) for error in told] == [StoreUnavailable] * (len(late) - 1)
            for fault in late:
                fault.release()
                assert fault.landed.wait(60)
                assert ("DataRow" in fault.answer) == lands.startswith("before")
            await writing.say()
