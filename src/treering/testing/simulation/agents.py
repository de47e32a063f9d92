"""The tasks of a simulation: writers, subscribers, and a disturber that makes the disk fail and recover."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ...actors.commands import AppendOptions
from ...actors.host.host import SessionHost
from ...actors.session.session import Session
from ...events.content import text
from ...events.entries import Message, Payload
from ...events.errors import (
    AppendInDoubt,
    Closed,
    CommandConflict,
    EntryNotFound,
    LeafMoved,
    LogDamaged,
    LogReplaced,
    TreeringError,
)
from ...events.stores.base import Cursor
from ...projections.feed_events import Reset
from ..disks.faulty import ERRORS
from .checks import Broken, CommandRecord, Fate, tokens_of
from .world import World

TRIES_MAX = 4
CHECKPOINTS_MAX = 12

Call = Callable[[AppendOptions], Awaitable[Sequence[str]]]


class Writer:
    """A task that sends commands to sessions, one after another.

    Args:
        number: Distinguishes it from other writers.
        group: Runs the tasks that cancel its calls.
    """

    def __init__(self, world: World, number: int, group: TaskGroup) -> None:
        self._world = world
        self._group = group
        self._random = world.random
        self._name = f"writer {number}"

    async def run(self) -> None:
        """Send a random number of commands."""
        for _ in range(self._random.randint(2, 10)):
            name = self._random.choice(self._world.names)
            try:
                session = await self._world.session(name)
                await self._act(name, session)
            except Closed:
                return
            except (TreeringError, OSError) as error:
                self._world.tell(f"{self._name}: {name} {type(error).__name__}")
            if self._random.random() < 0.5:
                await anyio.sleep(self._random.choice((0.0, 0.01, 1.0)))

    async def _act(self, name: str, session: Session) -> None:
        """Perform one random action on a session."""
        act = self._random.choices(
            (
                self._append,
                self._append_many,
                self._label,
                self._branch,
                self._summarize,
                self._aside,
                self._read,
                self._archive,
                self._copy,
            ),
            (16, 6, 2, 4, 2, 2, 4, 2, 1),
        )[0]
        await act(name, session)

    @contextmanager
    def _impatience(self) -> Generator[None]:
        """Cancel what runs in the block, sometimes, after a random number of checkpoints."""
        with anyio.CancelScope() as scope:
            if self._random.random() < 0.2:
                self._group.start_soon(_cancel_later, scope, self._random.randrange(CHECKPOINTS_MAX))
            yield

    # -- commands

    async def _append(self, name: str, session: Session) -> None:
        token = self._world.token()
        content = token + " x" * self._random.choice((0, 0, 10, 400, 1500))

        is_custom = self._random.random() < 0.5

        async def call(options: AppendOptions) -> Sequence[str]:
            if is_custom:
                return [await session.append_custom_entry("note", content, **options)]
            return [await session.append_message("user", content, **options)]

        await self._send(name, session, [token], call, self._options(session))

    async def _append_many(self, name: str, session: Session) -> None:
        tokens = [self._world.token() for _ in range(self._random.randint(2, 4))]
        size = self._random.choice((0, 10, 300))
        payloads: list[Payload] = [Message("user", (text(token + " y" * size),)) for token in tokens]
        await self._send(
            name, session, tokens, lambda options: session.append_many(payloads, **options), self._options(session)
        )

    async def _label(self, name: str, session: Session) -> None:
        target, token = self._entry_of(session), self._world.token()
        if target is None:
            return

        async def call(options: AppendOptions) -> Sequence[str]:
            return [await session.set_label(target, token, **options)]

        await self._send(name, session, [token], call, {})

    async def _summarize(self, name: str, session: Session) -> None:
        target, token = self._entry_of(session), self._world.token()

        async def call(options: AppendOptions) -> Sequence[str]:
            return [await session.branch_with_summary(target, token, **options)]

        await self._send(name, session, [token], call, {})

    async def _aside(self, name: str, session: Session) -> None:
        target, token = self._entry_of(session), self._world.token()
        if target is None:
            return

        async def call(options: AppendOptions) -> Sequence[str]:
            return [await session.append_message("user", token, **options)]

        await self._send(name, session, [token], call, {"below": target, "aside": True})

    async def _branch(self, name: str, session: Session) -> None:
        target = self._entry_of(session)
        with self._impatience():
            if target is None or self._random.random() < 0.1:
                await session.reset_leaf()
            else:
                await session.branch(target)
        self._world.tell(f"{self._name}: {name} moved the leaf")

    async def _read(self, name: str, session: Session) -> None:
        read: Callable[[], Awaitable[Any]] = self._random.choice(
            (session.context, session.entries, session.passivate, session.flush, session.refresh)
        )
        with self._impatience():
            await read()
        self._world.tell(f"{self._name}: {name} {read.__name__}")

    # -- whole sessions

    async def _archive(self, name: str, session: Session) -> None:
        host = self._world.host
        act = self._random.choice((host.archive, host.unarchive))
        try:
            with self._impatience():
                await act(session)
        except LogDamaged as error:
            raise Broken(f"{name}: {error!r}") from error
        self._world.tell(f"{self._name}: {name} {act.__name__}")

    async def _copy(self, name: str, session: Session) -> None:
        """Fork a session, compare the copy with the original, and delete it."""
        host = self._world.host
        with self._impatience():
            copy = await host.fork_from(session)
            copied, original = tokens_of(await copy.entries()), tokens_of(await session.entries())
            if copied != original[: len(copied)] and not self._world.gone:
                raise Broken(f"{name}: a copy has {copied}, but the original {original}")
            await host.delete(copy)
            if await host.get_session(copy.id) is not None and not self._world.gone:
                raise Broken(f"{name}: a copy was deleted but is still listed")
        self._world.tell(f"{self._name}: {name} copied")

    def _entry_of(self, session: Session) -> str | None:
        """Choose an entry on the path of a session, or return None if it is empty."""
        try:
            path = session.path()
        except EntryNotFound:
            return None
        return self._random.choice(path) if path else None

    def _options(self, session: Session) -> AppendOptions:
        options: AppendOptions = {}
        if self._random.random() < 0.5:
            options["command_id"] = f"command-{self._world.token()}"
        if self._random.random() < 0.1:
            options["expected_leaf"] = session.leaf_id
        return options

    # -- their outcomes

    async def _send(
        self, name: str, session: Session, tokens: Sequence[str], call: Call, options: AppendOptions
    ) -> None:
        """Send a command, record its outcome, and retry it if the outcome is unknown and a retry is safe."""
        world, record = self._world, self._world.ledgers[name].note_command(tokens)
        in_doubt = False
        for _ in range(TRIES_MAX):
            in_doubt = await self._try(name, record, call, options, in_doubt=in_doubt)
            if not in_doubt or "command_id" not in options or world.gone:
                return
            await anyio.sleep(self._random.choice((0.0, 1.0)))

    async def _try(
        self, name: str, record: CommandRecord, call: Call, options: AppendOptions, *, in_doubt: bool
    ) -> bool:
        world = self._world
        record.fate = "open"
        fate: Fate = "unknown"
        try:
            with self._impatience():
                ids = await call(options)
                if not world.gone:
                    world.ledgers[name].answer(record, ids)
                    fate = "acknowledged"
                    self._check_own_write(name, ids)
        except AppendInDoubt:
            pass
        except (CommandConflict, LogReplaced) as error:
            raise Broken(f"{name}: {record.tokens} {options}: {error!r} without a cause") from error
        except Closed:
            fate = "unknown" if in_doubt else "refused"
            raise
        except LeafMoved:
            fate = "unknown" if in_doubt else "refused"
        except TreeringError:
            fate = "refused"
        except OSError as error:
            raise Broken(f"{name}: {record.tokens}: an append raised {error!r} instead of a TreeringError") from error
        finally:
            if fate != "acknowledged":
                record.fate = "unknown" if world.gone else fate
            world.tell(f"{self._name}: {name} {' '.join(record.tokens)} {record.fate}")
        if fate == "acknowledged":
            world.check_live(name)
        return fate == "unknown"

    def _check_own_write(self, name: str, ids: Sequence[str]) -> None:
        """Check that acknowledged entries are visible immediately."""
        index = self._world.index(name)
        missing = [] if index is None else [entry_id for entry_id in ids if not index.find(entry_id)]
        if missing:
            raise Broken(f"{name}: {missing} was acknowledged but is not visible")


async def _cancel_later(scope: anyio.CancelScope, checkpoints: int) -> None:
    for _ in range(checkpoints):
        await checkpoint()
    scope.cancel()


class Subscriber:
    """A task that follows one session at its own pace, across all crashes.

    Attributes:
        read_only: Whether it follows the file, as another process does, and sees lines before they are flushed.
        seen: The ids of the entries received since the last reset, by seq.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._random = world.random
        self.name = name
        self.read_only = self._random.random() < 0.4
        self.seen: dict[int, str] = {}
        self.cursor: Cursor | int = 0

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._follow(await self._session())
            except (TreeringError, OSError) as error:
                self._world.tell(f"subscriber: {self.name} {type(error).__name__}")
            await anyio.sleep(0.1)

    async def _session(self) -> Session:
        if self.read_only:
            return await self._world.host.load(self._world.path(self.name), read_only=True)
        return await self._world.session(self.name)

    async def _follow(self, session: Session) -> None:
        async with session.subscribe(after=self.cursor) as entries:
            async for item in entries:
                if isinstance(item, Reset):
                    self._world.tell(f"subscriber: {self.name} begins again")
                    self.seen.clear()
                else:
                    self._take(item.seq, item.id or "")
                self.cursor = entries.cursor
                if self._random.random() < 0.3:
                    await anyio.sleep(self._random.choice((0.0, 0.1, 3.0)))

    def _take(self, seq: int, entry_id: str) -> None:
        last = max(self.seen, default=0)
        if seq != last + 1:
            raise Broken(f"{self.name}: a subscriber got seq {seq} after seq {last}")
        self.seen[seq] = entry_id

    def has_received(self, ids: Sequence[str]) -> bool:
        """Return whether it has received exactly these entries."""
        return list(self.seen.values()) == list(ids)


class Disturber:
    """A task that makes the disk fail and recover, and lets time pass.

    Args:
        host: The host on that disk.
    """

    def __init__(self, world: World, host: SessionHost) -> None:
        self._world = world
        self._random = world.random
        self._host = host

    async def run(self) -> None:
        """Disturb until cancelled."""
        random, disk = self._random, self._world.disk
        while True:
            await anyio.sleep(random.choice((0.001, 0.01, 0.5, 2.0)))
            await checkpoint()
            chance = random.random()
            if disk.chances and chance < 0.6:
                disk.heal()
                self._world.tell("the disk is well")
            elif chance < 0.5:
                calls = random.sample(sorted(ERRORS), random.randint(1, 4))
                disk.chances = dict.fromkeys(calls, random.choice((0.1, 0.4, 1.0)))
                disk.slow = random.choice((0.0, 0.0, 0.5))
                self._world.tell(f"the disk is ill: {disk.chances}")
            elif chance < 0.7:
                self._world.settle()
