"""Who lives in a simulation: writers, subscribers, and a disturber who makes the disk ill and well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from ...actors.commands import AppendOptions
from ...actors.host import SessionHost
from ...actors.session import Session
from ...events.content import text
from ...events.entries import Message, Payload
from ...events.errors import (
    AppendInDoubt,
    Closed,
    CommandConflict,
    EntryNotFound,
    LeafMoved,
    LogReplaced,
    TreeringError,
)
from ...events.stores.base import Cursor
from ...projections.feed import Reset
from .checks import Broken
from .ledger import Asked, Fate
from .unwell import ERRORS
from .world import World

TRIES_MAX = 4

Call = Callable[[AppendOptions], Awaitable[Sequence[str]]]


class Writer:
    """A task that gives commands to sessions, one after the other.

    Args:
        world: The world.
        number: Tells it from the others.
    """

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._random = world.random
        self._name = f"writer {number}"

    async def run(self) -> None:
        """Live until the work is done."""
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
        """Do one of the things that a program does with a session."""
        act = self._random.choices(
            (self._append, self._append_many, self._label, self._branch, self._summarize, self._aside, self._read),
            (8, 3, 1, 2, 1, 1, 2),
        )[0]
        await act(name, session)

    # -- commands

    async def _append(self, name: str, session: Session) -> None:
        token = self._world.token()
        said = token + " x" * self._random.choice((0, 0, 10, 400, 1500))

        kind = self._random.random() < 0.5

        async def call(options: AppendOptions) -> Sequence[str]:
            if kind:
                return [await session.append_custom_entry("note", said, **options)]
            return [await session.append_message("user", said, **options)]

        await self._give(name, session, [token], call, self._options(session))

    async def _append_many(self, name: str, session: Session) -> None:
        tokens = [self._world.token() for _ in range(self._random.randint(2, 4))]
        size = self._random.choice((0, 10, 300))
        payloads: list[Payload] = [Message("user", (text(token + " y" * size),)) for token in tokens]
        await self._give(
            name, session, tokens, lambda options: session.append_many(payloads, **options), self._options(session)
        )

    async def _label(self, name: str, session: Session) -> None:
        target, token = self._entry_of(session), self._world.token()
        if target is None:
            return

        async def call(options: AppendOptions) -> Sequence[str]:
            return [await session.set_label(target, token, **options)]

        await self._give(name, session, [token], call, {})

    async def _summarize(self, name: str, session: Session) -> None:
        target, token = self._entry_of(session), self._world.token()

        async def call(options: AppendOptions) -> Sequence[str]:
            return [await session.branch_with_summary(target, token, **options)]

        await self._give(name, session, [token], call, {})

    async def _aside(self, name: str, session: Session) -> None:
        target, token = self._entry_of(session), self._world.token()
        if target is None:
            return

        async def call(options: AppendOptions) -> Sequence[str]:
            return [await session.append_message("user", token, **options)]

        await self._give(name, session, [token], call, {"below": target, "aside": True})

    async def _branch(self, name: str, session: Session) -> None:
        target = self._entry_of(session)
        if target is None or self._random.random() < 0.1:
            await session.reset_leaf()
        else:
            await session.branch(target)
        self._world.tell(f"{self._name}: {name} moved the leaf")

    async def _read(self, name: str, session: Session) -> None:
        read: Callable[[], Awaitable[Any]] = self._random.choice(
            (session.context, session.entries, session.passivate, session.flush, session.refresh)
        )
        await read()
        self._world.tell(f"{self._name}: {name} {read.__name__}")

    def _entry_of(self, session: Session) -> str | None:
        """Choose an entry of a session; None in an empty one."""
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

    # -- and what becomes of them

    async def _give(
        self, name: str, session: Session, tokens: Sequence[str], call: Call, options: AppendOptions
    ) -> None:
        """Give a command, again where that is safe and nobody knows what became of it, and note the answer."""
        world, asked = self._world, self._world.ledgers[name].ask(tokens)
        doubted = False
        for _ in range(TRIES_MAX):
            doubted = await self._try(name, asked, call, options, doubted=doubted)
            if not doubted or "command_id" not in options or world.gone:
                return
            await anyio.sleep(self._random.choice((0.0, 1.0)))

    async def _try(self, name: str, asked: Asked, call: Call, options: AppendOptions, *, doubted: bool) -> bool:
        world = self._world
        asked.fate = "open"
        patience = 0.0 if self._random.random() < 0.1 else 1e6
        fate: Fate = "unknown"
        try:
            with anyio.move_on_after(patience):
                ids = await call(options)
                if not world.gone:
                    world.ledgers[name].answer(asked, ids)
                    fate = "acknowledged"
                    self._check_own_write(name, ids)
        except AppendInDoubt:
            pass
        except (CommandConflict, LogReplaced) as error:
            raise Broken(f"{name}: {asked.tokens} {options}: {error!r}, and nobody did that") from error
        except Closed:
            fate = "unknown" if doubted else "refused"
            raise
        except LeafMoved:
            fate = "unknown" if doubted else "refused"
        except TreeringError:
            fate = "refused"
        except OSError as error:
            raise Broken(f"{name}: {asked.tokens}: an append raised a bare {error!r}") from error
        finally:
            if fate != "acknowledged":
                asked.fate = "unknown" if world.gone else fate
            world.tell(f"{self._name}: {name} {' '.join(asked.tokens)} {asked.fate}")
        if fate == "acknowledged":
            world.check_live(name)
        return fate == "unknown"

    def _check_own_write(self, name: str, ids: Sequence[str]) -> None:
        """Check that what was acknowledged can be read at once."""
        index = self._world.index(name)
        missing = [] if index is None else [entry_id for entry_id in ids if not index.find(entry_id)]
        if missing:
            raise Broken(f"{name}: {missing} was acknowledged and cannot be seen")


class Subscriber:
    """A task that follows one session, at its own pace, over all that happens to it.

    Args:
        world: The world.
        name: The session.

    Attributes:
        seen: The ids of the entries that it was given since the last reset, by their ordinals.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._random = world.random
        self.name = name
        self.seen: dict[int, str] = {}
        self.cursor: Cursor | int = 0

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._follow(await self._world.session(self.name))
            except (TreeringError, OSError) as error:
                self._world.tell(f"subscriber: {self.name} {type(error).__name__}")
            await anyio.sleep(0.1)

    async def _follow(self, session: Session) -> None:
        async with session.subscribe(after=self.cursor) as entries:
            async for item in entries:
                if isinstance(item, Reset):
                    self._world.tell(f"subscriber: {self.name} begins again")
                    self.seen.clear()
                else:
                    self._take(item.seq, item.id or "")
                    self.cursor = Cursor(entries.cursor.generation, item.seq)
                if self._random.random() < 0.3:
                    await anyio.sleep(self._random.choice((0.0, 0.1, 3.0)))

    def _take(self, seq: int, entry_id: str) -> None:
        last = max(self.seen, default=0)
        if seq != last + 1:
            raise Broken(f"{self.name}: a subscriber got {seq} after {last}")
        self.seen[seq] = entry_id

    def has(self, ids: Sequence[str]) -> bool:
        """Tell whether it was given these entries and no others."""
        return list(self.seen.values()) == list(ids)


class Disturber:
    """A task that makes the disk ill and well again, and lets time pass.

    Args:
        world: The world.
        host: The host that suffers from it.
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
            what = random.random()
            if disk.chances and what < 0.6:
                disk.heal()
                self._world.tell("the disk is well")
            elif what < 0.5:
                calls = random.sample(sorted(ERRORS), random.randint(1, 4))
                disk.chances = dict.fromkeys(calls, random.choice((0.1, 0.4, 1.0)))
                disk.slow = random.choice((0.0, 0.0, 0.5))
                self._world.tell(f"the disk is ill: {disk.chances}")
            elif what < 0.7:
                self._world.settle()
