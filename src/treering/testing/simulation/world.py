"""The world of a simulation: a disk, the hosts that live on it one after the other, and what ends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from itertools import islice
from random import Random
from typing import Literal, TypeAlias

import anyio

from ...actors.host import SessionHost
from ...actors.runtime import Limits
from ...actors.session import Session
from ...events.entries import Entry
from ...events.errors import NotASession
from ...events.index import LogIndex
from ...events.stores.files import Durability, FileStore
from ..disks import MemoryDisk
from ..disks.changes import Operation
from .checks import Broken, Replay, check_file, check_session, tokens_of
from .determinism import AtOnce, SeededIds, VirtualClock
from .ledger import Ledger
from .unwell import UnwellDisk, told

ROOT = "/sessions"
SESSIONS_MAX = 3
STATES_MAX = 48
PATIENCE_S = 600.0

End: TypeAlias = Literal["closed", "killed", "power cut"]
"""How a host ends: in order, with its process, with the machine."""


class World:
    """Everything that one seed decides, and everything that is checked.

    Attributes:
        random: Where all chance comes from.
        trace: What happened, in lines that two runs of a seed share.
        ledgers: What callers were told, by session.
        gone: The host came to its end; what it says now counts no longer.
        operations: How often the disks were changed.
        crashes: How many hosts were killed or lost their power.
    """

    def __init__(self, seed: int, durability: Durability, trace: list[str]) -> None:
        self.random = Random(seed)
        self.durability: Durability = durability
        self.trace = trace
        self.names = [f"s{number}" for number in range(self.random.randint(1, SESSIONS_MAX))]
        self.ledgers = {name: Ledger(name) for name in self.names}
        self.memory = MemoryDisk()
        self.disk = UnwellDisk(self.memory, self.random, self.tell)
        self.clock = VirtualClock(self.random)
        self.new_id = SeededIds(self.random)
        self.gone = False
        self.end: End = "closed"
        self.operations = 0
        self.crashes = 0
        self.checks = 0
        self._left: MemoryDisk | None = None
        self._known: dict[str, list[str]] = {}
        self._token = 0
        self._host: SessionHost | None = None
        self._sessions: dict[str, Session] = {}
        self._opening = anyio.Lock()

    def settle(self) -> None:
        """Let the machine write down what it holds back, as it does now and then."""
        self.tell("the disk settles")
        self.memory.settle()
        for ledger in self.ledgers.values():
            ledger.settled()

    def tell(self, what: str) -> None:
        """Note what happened."""
        if not self.gone:
            self.trace.append(what)

    def token(self) -> str:
        """Return a word that no other entry begins with."""
        self._token += 1
        return f"t{self._token}"

    # -- one host's life

    async def live(self, play: Callable[[SessionHost], Awaitable[None]]) -> None:
        """Open a host, have something done with it, and end it in one of the ways in which hosts end."""
        random = self.random
        self.end = random.choice(("closed", "killed", "power cut"))
        self.gone, self._left, self._sessions = False, None, {}
        self.disk = UnwellDisk(self.memory, random, self.tell)
        countdown = random.randint(1, 60) if self.end != "closed" else -1
        self.tell(f"life: {self.end} after {countdown}")
        with anyio.CancelScope() as scope:

            def happened(operation: Operation) -> None:
                nonlocal countdown
                self.operations += 1
                self.tell(told(operation))
                countdown -= 1
                if countdown == 0:
                    self._crash()
                    scope.cancel()

            self.memory.listeners.append(happened)
            async with self._new_host() as host:
                self._host = host
                try:
                    await play(host)
                finally:
                    self.disk.heal()
                    if self.end != "closed" and not self.gone:
                        self._crash()
        self.memory.listeners.clear()
        self._host = None
        if self._left is not None:
            self.memory = self._left
            self.crashes += 1
        else:
            for ledger in self.ledgers.values():
                if ledger.in_flight:
                    raise Broken(f"{ledger.name}: the host was closed and {ledger.in_flight} callers have no answer")
        self.gone = False
        self.disk = UnwellDisk(self.memory, random, self.tell)

    def _new_host(self) -> SessionHost:
        random = self.random
        disk = self.disk
        offload = AtOnce(random)
        store = FileStore(
            ROOT,
            durability=self.durability,
            disk=disk,
            offload=offload,
            writes=random.choice(("auto", "inline", "thread")),
            open_files_max=random.randint(1, 4),
            syncs_max=random.randint(1, 3),
            readers_max=random.randint(1, 3),
            timer=lambda: anyio.current_time() + disk.lag_s,
            new_id=self.new_id,
        )
        limits = Limits(
            mailbox_max=random.choice((1, 2, 16)),
            batch_max=random.choice((1, 3, 64)),
            live_max=random.choice((1, 2, 10)),
            idle_after_s=random.choice((0.5, 5.0, 60.0)),
            feed_events_max=random.choice((1, 4, 64)),
            cache_bytes_max=random.choice((0, 2000, 1 << 20)),
            snapshot_after_lines=random.choice((1, 3, 1000)),
            inline_for_s=random.choice((0.0, 1e9)),  # always or never, since it is held against the real clock
        )
        return SessionHost(store=store, clock=self.clock, new_id=self.new_id, offload=offload, limits=limits)

    def _crash(self) -> None:
        """Keep what a kill or a power cut leaves at this very moment; nothing that happens now counts."""
        self._known = {name: replay.tokens for name in self.names if (replay := self._replay(name)) is not None}
        if self.end == "killed":
            self._left = MemoryDisk(self.memory.image.copy())
        else:
            states = list(islice(self.memory.crash_states(), STATES_MAX))
            self._left = self.random.choice(states)
        self.tell(f"{self.end}: {_digest(self._left)}")
        self.gone = True

    # -- what is on the disk

    def path(self, name: str) -> str:
        """Return the path of a session's file."""
        return f"{ROOT}/{name}.jsonl"

    def data(self, name: str) -> bytes | None:
        """Return the bytes of a session's file, or None where it is not there."""
        try:
            return bytes(self.memory.image.find(self.path(name)).content)
        except FileNotFoundError:
            return None

    def _replay(self, name: str) -> Replay | None:
        data = self.data(name)
        try:
            return None if not data else check_file(data, self.path(name))
        except NotASession:
            return None

    # -- sessions

    async def session(self, name: str) -> Session:
        """Return the handle of a session, made when it is first asked for."""
        assert self._host is not None
        async with self._opening:
            if name not in self._sessions:
                self._sessions[name] = await self._host.open(name)
        return self._sessions[name]

    def index(self, name: str) -> LogIndex | None:
        """Return what the host knows of a session, where it is live."""
        assert self._host is not None
        actor = self._host.core.registry.live(f"{name}.jsonl")
        return None if actor is None else actor.log.index

    def check_live(self, name: str) -> None:
        """Check that the state of a session at rest is what its file says."""
        assert self._host is not None
        if self.gone or self.ledgers[name].in_flight:
            return
        actor = self._host.core.registry.live(f"{name}.jsonl")
        data = self.data(name)
        if actor is None or not actor.idle or not data:
            return
        self.checks += 1
        replay, index = check_file(data, self.path(name)).index, actor.log.index
        if replay.seen > index.seen and self.ledgers[name].in_doubt:
            return  # the file is ahead until somebody looks at it
        if replay != index:
            raise Broken(f"{name}: after an append the state is not what a replay of the file gives")

    # -- after the end

    async def check_all(self) -> None:
        """Open every session on a disk that is well, hold it against the ledgers, and see that opening again is no change."""
        lossy = self.end == "power cut" and self.durability == "os"
        shown = {name: await self._check_opening(name, lossy=lossy) for name in self.names}
        files = _logs(self.memory)
        for name in self.names:
            if shown[name] != await self._check_opening(name, lossy=False):
                raise Broken(f"{name}: opening it again shows something else")
        if files != _logs(self.memory):
            raise Broken("opening the sessions again changed their files")

    async def _check_opening(self, name: str, *, lossy: bool) -> list[str | None]:
        self.checks += 1
        ledger = self.ledgers[name]
        limits = Limits(inline_for_s=1e9)
        offload = AtOnce(self.random)
        store = FileStore(ROOT, durability=self.durability, disk=self.disk, offload=offload, new_id=self.new_id)
        host = SessionHost(store=store, clock=self.clock, new_id=self.new_id, offload=offload, limits=limits)
        async with host:
            try:
                session = await host.open(name)
                entries = await session.entries()
                data = self.data(name)
                if data:
                    entries = await check_session(session, data, self.path(name))
            except NotASession:
                entries = self._clear_beginning(name)
                session = None
            ledger.check(entries, lossy=lossy)
            if lossy:
                self._check_prefix(name, tokens_of(entries))
            ledger.rest(entries, on_disk=self.end == "power cut")
            leaf = session.leaf_id if session is not None else None
            return [leaf, *(entry.id for entry in entries)]

    def _clear_beginning(self, name: str) -> list[Entry]:
        """Take away the file of a session whose very first write was torn, as a person would."""
        data = self.data(name) or b""
        if b"\n" in data.rstrip(b"\0").rstrip(b"\n"):
            raise Broken(f"{name}: a file with a whole header is called no session")
        self.tell(f"{name}: torn at its header")
        self.memory.unlink(self.path(name))
        return []

    def _check_prefix(self, name: str, tokens: list[str]) -> None:
        """Check that a log which lost something has lost its end, and nothing before it."""
        held = self.ledgers[name].must_hold()
        before = [token for token in self._known.get(name, ()) if token in held]
        after = [token for token in tokens if token in held]
        if before[: len(after)] != after and after[: len(before)] != before:
            raise Broken(f"{name}: held {before} before the power cut, and holds {after}")


def _logs(memory: MemoryDisk) -> dict[str, bytes]:
    """Return the logs; the index in `.treering` is derived, and is written anew."""
    return {
        path: data for path, data in memory.files().items() if path.endswith(".jsonl") and "/.treering/" not in path
    }


def _digest(memory: MemoryDisk) -> str:
    digest = blake2b(digest_size=8)
    for path, data in _logs(memory).items():
        digest.update(b"%s %d\n" % (path.encode(), len(data)) + data)
    return digest.hexdigest()
