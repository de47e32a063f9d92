"""Sessions that are written to while something fails, and the proof that nothing acknowledged is lost or doubled."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio

from treering import MessageEntry, Session, SessionHost
from treering.entries import plain_text
from treering.errors import AppendFailed, AppendInDoubt, TreeringError
from treering.events.errors import StoreUnavailable

PAUSE_S = 0.002
"""How long a client waits before it repeats what failed."""

PASSING = (AppendFailed, AppendInDoubt, StoreUnavailable)
"""What a client may be told while something fails; it repeats the same command."""


async def insist(session: Session, text: str, note: Callable[[TreeringError], None]) -> None:
    """Append a message by a command that is repeated until it is acknowledged, and note what is told meanwhile."""
    while True:
        try:
            await session.append_message("user", text, command_id=f"say {text}")
        except PASSING as error:
            note(error)
            await anyio.sleep(PAUSE_S)
        else:
            return


async def texts(url: str, session_id: str) -> list[str]:
    """Return the messages of a session, as a host reads them that did not take part, and that asks until it is told.

    Where answers are waited for only shortly, a busy machine may be late with any of them.
    """
    while True:
        with suppress(StoreUnavailable):
            async with SessionHost(url) as host:
                session = await host.load(session_id, read_only=True)
                entries = await session.entries()
                return [plain_text(entry.message.content) for entry in entries if isinstance(entry, MessageEntry)]
        await anyio.sleep(PAUSE_S)


class Load:
    """Clients that append to their sessions, one message after the other, each until it is acknowledged.

    Attributes:
        acknowledged: The texts that were acknowledged, by session, in order.
        told: What the clients were told meanwhile, by the class of the error.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[str, list[str]] = {}
        self.told: Counter[type[TreeringError]] = Counter()
        self._changed = anyio.Event()

    async def write(self, session: Session) -> None:
        """Append to one session until cancelled."""
        said = self.acknowledged.setdefault(session.id, [])
        while True:
            text = f"{len(said)} of {session.id}"
            await insist(session, text, self.note)
            said.append(text)
            self._change()

    def note(self, error: TreeringError) -> None:
        """Note what a client was told."""
        self.told[type(error)] += 1
        self._change()

    def _change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def progress(self, count: int = 3) -> None:
        """Wait until each session has so many more messages."""
        goal = {name: len(said) + count for name, said in self.acknowledged.items()}
        while any(len(self.acknowledged[name]) < least for name, least in goal.items()):
            await self._changed.wait()

    async def trouble(self) -> None:
        """Wait until a client is told of a failure."""
        before = self.told.total()
        while self.told.total() == before:
            await self._changed.wait()


@asynccontextmanager
async def load(url: str, sessions: int = 4) -> AsyncIterator[Load]:
    """Write to some sessions of one host as long as the block runs, and then a little longer."""
    under = Load()
    async with SessionHost(url) as host, anyio.create_task_group() as tasks:
        for _ in range(sessions):
            session = await host.create()
            await insist(session, "the first", under.note)
            under.acknowledged[session.id] = ["the first"]
            tasks.start_soon(under.write, session)
        await under.progress()
        yield under
        await under.progress()
        tasks.cancel_scope.cancel()


async def check(url: str, under: Load) -> None:
    """Assert that every session holds what was acknowledged, each once, in order, and at most one message more."""
    for session_id, said in under.acknowledged.items():
        found = await texts(url, session_id)
        assert found[: len(said)] == said
        assert found[len(said) :] in ([], [f"{len(said)} of {session_id}"])
