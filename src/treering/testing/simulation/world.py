"""The world of a simulation: a disk, the hosts that run on it one after another, and how each host ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from random import Random
from typing import Literal, TypeAlias

import anyio

from ...actors.host.host import SessionHost
from ...actors.host.runtime import Limits
from ...actors.session.session import Session
from ...events.disk.packed import SUFFIXES, codec_of
from ...events.entries import Entry
from ...events.errors import NotASession
from ...events.index import LogIndex
from ...events.stores.files import Durability, FileStore
from ..disks import MemoryDisk
from ..disks.faulty import UnwellDisk, describe
from ..disks.image import Cut, DiskImage, Operation, Write
from .checks import Broken, Ledger, Replay, check_file, check_session, tokens_of
from .determinism import AtOnce, SeededIds, VirtualClock

ROOT = "/sessions"
SESSIONS_MAX = 3
STATES_MAX = 48
PATIENCE_S = 600.0

End: TypeAlias = Literal["closed", "killed", "power cut"]
"""How a host ends: orderly, with its process, or with the machine."""


class World:
    """The state of a simulation: everything that the seed decides, and everything that is checked.

    Attributes:
        random: The only source of randomness.
        trace: The events, one per line, identical in all runs of a seed.
        ledgers: The commands and their outcomes, by session.
        gone: Whether the host has crashed; whatever it does now is ignored.
        operations: The number of disk operations.
        crashes: The number of hosts that were killed or lost power.
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
        self._disk_after_crash: MemoryDisk | None = None
        self._tokens_before_crash: dict[str, list[str]] = {}
        self._token = 0
        self._host: SessionHost | None = None
        self._sessions: dict[str, Session] = {}
        self._opening = anyio.Lock()

    def settle(self) -> None:
        """Write all unsynced data to the disk, as the operating system does from time to time."""
        self.tell("the disk settles")
        self.memory.settle()
        for ledger in self.ledgers.values():
            ledger.note_settled()

    def tell(self, event: str) -> None:
        """Add an event to the trace."""
        if not self.gone:
            self.trace.append(event)

    def token(self) -> str:
        """Return a new word for an entry to begin with."""
        self._token += 1
        return f"t{self._token}"

    # -- one host's life

    async def live(self, play: Callable[[SessionHost], Awaitable[None]]) -> None:
        """Open a host, run `play` with it, and end it in a random way."""
        random = self.random
        self.end = random.choice(("closed", "killed", "power cut"))
        self.gone, self._disk_after_crash, self._sessions = False, None, {}
        self.disk = UnwellDisk(self.memory, random, self.tell)
        countdown = random.randint(1, 60) if self.end != "closed" else -1
        self.tell(f"life: {self.end} after {countdown}")
        with anyio.CancelScope() as scope:

            def note_operation(operation: Operation) -> None:
                nonlocal countdown
                self.operations += 1
                self.tell(describe(operation))
                countdown -= 1
                if countdown == 0:
                    self._crash()
                    scope.cancel()

            self.memory.listeners.append(note_operation)
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
        if self._disk_after_crash is not None:
            self.memory = self._disk_after_crash
            self.crashes += 1
        else:
            for ledger in self.ledgers.values():
                if ledger.in_flight:
                    raise Broken(f"{ledger.name}: the host was closed without answering {ledger.in_flight} callers")
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
            inline_for_s=random.choice((0.0, 1e9)),  # always or never, since it is compared with the real clock
        )
        return SessionHost(store=store, clock=self.clock, new_id=self.new_id, offload=offload, limits=limits)

    def _crash(self) -> None:
        """Keep what a kill or a power cut would leave at this moment; everything after it is ignored."""
        self._tokens_before_crash = {
            name: replay.tokens for name in self.names if (replay := self._replay(name)) is not None
        }
        if self.end == "killed":
            image = self.memory.image.copy()
            if self.durability == "file":
                _write_what_flushes_lost(image)
            self._disk_after_crash = MemoryDisk(image)
        else:
            states = list(islice(self.memory.crash_states(), STATES_MAX))
            self._disk_after_crash = self.random.choice(states)
        self.tell(f"{self.end}: {_digest(self._disk_after_crash)}")
        self.gone = True

    # -- what is on the disk

    def path(self, name: str) -> str:
        """Return the path of a session's file."""
        return f"{ROOT}/{name}.jsonl"

    def data(self, name: str) -> bytes | None:
        """Return the bytes of a session's file, unpacked, or None if it does not exist."""
        for suffix in ("", *SUFFIXES):
            path = self.path(name) + suffix
            with suppress(FileNotFoundError):
                content = bytes(self.memory.image.find(path).content)
                return _unpacked(path, content) if suffix else content
        return None

    def _replay(self, name: str) -> Replay | None:
        data = self.data(name)
        try:
            return None if not data else check_file(data, self.path(name))
        except NotASession:
            return None

    # -- sessions

    @property
    def host(self) -> SessionHost:
        """The running host."""
        assert self._host is not None
        return self._host

    async def session(self, name: str) -> Session:
        """Return the handle of a session, opening it on first use."""
        assert self._host is not None
        async with self._opening:
            if name not in self._sessions:
                self._sessions[name] = await self._host.open(name)
        return self._sessions[name]

    def index(self, name: str) -> LogIndex | None:
        """Return the host's index of a session, or None if the session is not live."""
        assert self._host is not None
        actor = self._host.core.registry.live(f"{name}.jsonl")
        return None if actor is None else actor.log.index

    def check_live(self, name: str) -> None:
        """Check that the state of an idle session agrees with its file."""
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
            return  # the file is ahead until the actor reads it again
        if replay != index:
            raise Broken(f"{name}: after an append the state differs from a replay of the file")

    # -- after the end

    async def check_all(self) -> None:
        """Open every session on a healthy disk, check it against its ledger, and check that reopening has no effect."""
        lossy = self.end == "power cut" and self.durability == "os"
        content_by_name = {name: await self._check_opening(name, lossy=lossy) for name in self.names}
        files = _logs(self.memory)
        for name in self.names:
            if content_by_name[name] != await self._check_opening(name, lossy=False):
                raise Broken(f"{name}: opening it again gives another content")
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
                entries = self._remove_torn_header(name)
                session = None
            ledger.check(entries, lossy=lossy)
            if lossy:
                self._check_prefix(name, tokens_of(entries))
            ledger.accept(entries, on_disk=self.end == "power cut")
            leaf = session.leaf_id if session is not None else None
            return [leaf, *(entry.id for entry in entries)]

    def _remove_torn_header(self, name: str) -> list[Entry]:
        """Remove the file of a session whose first write was torn, as a user would."""
        data = self.data(name) or b""
        if b"\n" in data.rstrip(b"\0").rstrip(b"\n"):
            raise Broken(f"{name}: a file with a complete header was refused as not a session")
        self.tell(f"{name}: torn at its header")
        self.memory.unlink(self.path(name))
        return []

    def _check_prefix(self, name: str, tokens: list[str]) -> None:
        """Check that a log that lost entries lost only its last ones."""
        required = self.ledgers[name].must_hold()
        before = [token for token in self._tokens_before_crash.get(name, ()) if token in required]
        after = [token for token in tokens if token in required]
        if before[: len(after)] != after and after[: len(before)] != before:
            raise Broken(f"{name}: had {before} before the power cut, and has {after} now")


def _write_what_flushes_lost(image: DiskImage) -> None:
    """Let the system write bytes that a failed flush has lost after all.

    A host that is killed before it could write them again leaves a gap that no later host can see: the known gap of
    docs/durability.md. Under "group", the journal fills it.
    """
    for path, node in image.paths():
        if path.endswith(".jsonl"):
            written = node.synced[:]
            for change in node.waiting:
                change.apply(written)
            if written != node.content:
                node.waiting += [Cut(len(node.content)), Write(0, bytes(node.content))]


def _unpacked(path: str, content: bytes) -> bytes:
    """Return the content of a packed log."""
    parts: list[bytes] = []
    while content:
        unpacker = codec_of(path).unpacker()
        parts.append(unpacker.decompress(content))
        content = unpacker.unused_data
    return b"".join(parts)


def _logs(memory: MemoryDisk) -> dict[str, bytes]:
    """Return the logs, without the index in `.treering`, which is derived and rewritten."""
    return {
        path: data for path, data in memory.files().items() if path.endswith(".jsonl") and "/.treering/" not in path
    }


def _digest(memory: MemoryDisk) -> str:
    digest = blake2b(digest_size=8)
    for path, data in _logs(memory).items():
        digest.update(b"%s %d\n" % (path.encode(), len(data)) + data)
    return digest.hexdigest()
