"""Random histories on several hosts: every view on every host equals that of the host that owns the session."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack

import anyio
import pytest

from treering import Context, Entry, Reset, Session, SessionHost, Snapshot
from treering.events.errors import StoreUnavailable
from treering.projections import Tree, UsageProjection, UsageTotals, WorkProjection, WorkState, labels
from treering.projections.session_state import SessionState
from treering.stores.postgres import watching
from treering.subscriptions import TreeReplica

from ..following.steps import ContextReplica, step
from .conftest import HOSTS
from .load import PAUSE_S
from .network import Network

STEPS = 40
SEEDS = range(1)
SEEDS_OF_SOAK = 60


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.3)


class Seen:
    """All that one host shows of a session when asked."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.context: Context
        self.state: SessionState
        self.usage: UsageTotals
        self.work: WorkState
        self.entries: list[Entry]
        self.tree: Tree
        self.labels: list[tuple[str, str]]
        self.rest: tuple[object, ...]

    async def look(self) -> Seen:
        """Ask for everything."""
        session = self.session
        self.context, self.state = await session.context(), await session.state()
        self.usage, self.work = await session.view(UsageProjection()), await session.view(WorkProjection())
        self.entries, self.tree, self.labels = await session.entries(), session.tree(), session.labels()
        self.rest = (
            session.leaf_id,
            session.path(),
            session.cursor,
            session.message_count,
            session.name,
            await session.messages(),
            await session.all_messages(),
        )
        return self


class Replicas:
    """What one host's subscribers hold of a session."""

    def __init__(self) -> None:
        self.context = ContextReplica()
        self.tree: TreeReplica
        self.labels: dict[str, str] = {}
        self.state: SessionState | None = None
        self.entries: list[Entry] = []
        self._changed = anyio.Event()

    def _change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def follow_context(self, session: Session) -> None:
        """Follow the context."""
        async with session.subscribe("context") as changes:
            async for item in changes:
                self.context.take(item)
                self._change()

    async def follow_tree(self, session: Session) -> None:
        """Follow the tree."""
        async with session.subscribe("tree") as changes:
            async for item in changes:
                if isinstance(item, Snapshot):
                    self.tree = TreeReplica(item.value)
                else:
                    self.tree.apply(item.change)
                self._change()

    async def follow_labels(self, session: Session) -> None:
        """Follow the labels."""
        async with session.subscribe("labels") as changes:
            async for item in changes:
                if isinstance(item, Snapshot):
                    self.labels = dict(item.value)
                else:
                    self.labels = labels.apply_change(self.labels, item.change)
                self._change()

    async def follow_state(self, session: Session) -> None:
        """Follow the state."""
        async with session.subscribe("session_state") as changes:
            async for item in changes:
                self.state = item.value if isinstance(item, Snapshot) else item.change
                self._change()

    async def follow_entries(self, session: Session) -> None:
        """Follow the entries."""
        async with session.subscribe() as entries:
            async for entry in entries:
                assert not isinstance(entry, Reset)
                self.entries.append(entry)
                self._change()

    def equal(self, seen: Seen) -> bool:
        """Whether they hold what a host shows."""
        return (
            self.context.value == seen.context
            and self.tree.tree() == seen.tree
            and self.labels == dict(seen.labels)
            and self.state == seen.state
            and self.entries == seen.entries
        )

    async def become(self, seen: Seen) -> None:
        """Wait until they do."""
        while not self.equal(seen):
            await self._changed.wait()


async def load_at_last(host: SessionHost, session_id: str) -> Session:
    """Load a session, also over a network that was cut just now."""
    while True:
        try:
            return await host.load(session_id)
        except StoreUnavailable:
            await anyio.sleep(PAUSE_S)


async def check_history(nets: list[Network], schema: str, seed: int) -> None:
    """Let random hosts do random steps on one session; compare after each, and the replicas now and then."""
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(SessionHost(net.url(schema=schema, lease_s="600"))) for net in nets]
        begun = await hosts[0].create()
        await begun.append_message("user", "begun")
        reading = [await host.load(begun.id, read_only=True) for host in hosts]
        replicas = [Replicas() for _ in hosts]
        async with anyio.create_task_group() as tasks:
            for each, follower in zip(replicas, reading, strict=True):
                for follow in (
                    each.follow_context,
                    each.follow_tree,
                    each.follow_labels,
                    each.follow_state,
                    each.follow_entries,
                ):
                    tasks.start_soon(follow, follower)
            owner, session = 0, begun
            for number in range(STEPS):
                if chance.random() < 0.2:
                    await hosts[owner].passivate_idle()
                    owner = chance.randrange(HOSTS)
                    session = await load_at_last(hosts[owner], begun.id)
                if chance.random() < 0.1:
                    nets[chance.choice([n for n in range(HOSTS) if n != owner])].cut()
                await step(session, chance, number)
                shown = await Seen(session).look()
                for other, follower in enumerate(reading):
                    seen = await Seen(follower).look()
                    assert vars(seen) | {"session": None} == vars(shown) | {"session": None}, (number, owner, other)
                if number % 5 == 0 or number == STEPS - 1:
                    for each in replicas:
                        await each.become(shown)
            tasks.cancel_scope.cancel()


@pytest.mark.feature("C-12")
@pytest.mark.parametrize("seed", SEEDS)
async def test_each_view_on_every_host_equals_the_owners(nets: list[Network], schema: str, url: str, seed: int) -> None:
    assert url
    await check_history(nets, schema, seed)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.feature("C-12")
async def test_every_view_of_many_histories_equals_the_owners(
    nets: list[Network], schema: str, url: str, scale: float
) -> None:
    assert url
    for seed in range(len(SEEDS), len(SEEDS) + max(2, round(SEEDS_OF_SOAK * scale))):
        await check_history(nets, schema, seed)
