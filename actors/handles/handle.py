"""The base of a session's handle: which session it is, and access to its actor and its log.

The calls are grouped by topic in `appending`, `reading`, `fitting`, `conversing`, `describing` and `exporting`;
branching, following and closing are in `session`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from ...events.entries import Entry, Payload
from ...events.errors import AppendFailed, InvalidInput, LogReplaced, ReadOnly, SessionClosed, TreeringError
from ...events.index import LogIndex
from ...events.stores.base import Ref
from ..commands import Append, AppendOptions, MoveLeaf, append_command
from ..host.registry import NewLog
from ..host.tasks import on_own_task
from ..log.follower import Follower
from ..mail import unreachable_error

if TYPE_CHECKING:
    from ..host.core import HostCore
    from ..log.open_log import OpenLog

T = TypeVar("T")

_READS_MAX = 64


class Handle:
    """One session of a host, without the calls that programs make.

    Attributes:
        id: The session's id, as in its header.
        ref: The name of its log in the store.
    """

    __slots__ = ("__weakref__", "_closed", "_core", "_follower", "_new_log", "id", "ref")

    def __init__(
        self,
        core: HostCore,
        ref: Ref,
        session_id: str,
        *,
        new_log: NewLog | None = None,
        follower: Follower | None = None,
    ) -> None:
        self._core = core
        self._new_log = new_log
        self._follower = follower
        self._closed = False
        self.id = session_id
        self.ref = ref

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def _check(self) -> None:
        if self._closed:
            raise SessionClosed(f"the handle of session {self.id!r} is closed: load the session again")
        self._core.check()

    def _index(self) -> LogIndex:
        self._check()
        return self._core.index(self.ref, self._new_log, self._follower)[0]

    async def log(self) -> OpenLog:
        """Return the open log, caught up with the file; for the library itself, not for programs."""
        self._check()
        return await self._core.log(self.ref, self._new_log, self._follower)

    async def _append(self, payloads: tuple[Payload, ...], options: AppendOptions) -> list[str]:
        return [entry.id or "" for entry in await self._perform(append_command(payloads, options))]

    def _perform(self, command: Append | MoveLeaf) -> Awaitable[list[Entry]]:
        """Carry out a command: at once if the session is live and it is this task's turn."""
        writable = not self._closed and self._follower is None
        actor = self._core.registry.use_in_turn(self.ref) if writable else None
        return self._perform_in_turn(command) if actor is None else actor.perform(command)

    async def _perform_in_turn(self, command: Append | MoveLeaf) -> list[Entry]:
        """Let others go on if it is their turn, activate the session if it is not live, and carry out a command."""
        self._check()
        if self._follower is not None:
            raise ReadOnly(f"session {self.id!r} was opened read-only: load it without `read_only` to write")
        if self._core.runtime.append_turns.is_over():
            await self._core.runtime.append_turns.pass_on()
            await checkpoint_if_cancelled()
        try:
            actor = await self._core.registry.actor(self.ref, self._new_log)
        except (ReadOnly, InvalidInput, AppendFailed, OSError) as error:
            cause = error.__cause__ if isinstance(error, TreeringError) else error
            if not isinstance(cause, OSError):
                raise
            raise unreachable_error(command, self.ref, cause) from cause
        return await actor.perform(command)


def place_of(handle: Handle) -> tuple[int, Ref]:
    """Return a value that all handles of one session in one host share, valid as long as the host lives."""
    return id(handle._core), handle.ref  # pyright: ignore[reportPrivateUsage]  # a method would be public


async def on_host_task(handle: Handle, run: Callable[[], Awaitable[T]]) -> T:
    """Run something that must not be left half done on a task of the session's host; see `on_own_task`."""
    core = handle._core  # pyright: ignore[reportPrivateUsage]
    core.check()
    return await on_own_task(core.runtime, run)


async def read_log(handle: Handle, read: Callable[[OpenLog], Awaitable[T]]) -> T:
    """Return what a function reads from a session's log, caught up with the file.

    It reads again from the beginning if this host put another session in its place meanwhile; for a read-only handle,
    if the file was replaced at all: another process may archive the session, or bring it back, at any time.
    """
    moved_logs = handle._core.runtime.moved_logs  # pyright: ignore[reportPrivateUsage]
    read_only = handle._follower is not None  # pyright: ignore[reportPrivateUsage]
    for _ in range(_READS_MAX - 1):
        log = await handle.log()
        try:
            return await read(log)
        except LogReplaced:
            if not read_only and not moved_logs.was_replaced(log.ref, log.generation):
                raise
    return await read(await handle.log())
