"""The mailbox of an actor: the commands that could not be carried out at once, and the task that serves them.

There is a task while commands wait, and none otherwise. The queue is made with the first command that has to wait: most
sessions never need one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .mail import Mail
from .runtime import Runtime

Serve: TypeAlias = Callable[[list[Mail]], Awaitable[None]]
"""Carries out a batch of commands, each of which has its reply then."""


class Mailbox:
    """Where an actor's commands wait, at most so many as the host's limits say.

    Attributes:
        serving: Whether a command is being carried out, be it from here or, with the mailbox held, on its caller's
            task.
    """

    __slots__ = ("_entering", "_quiet", "_receiver", "_runtime", "_sender", "serving")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._sender: MemoryObjectSendStream[Mail] | None = None
        self._receiver: MemoryObjectReceiveStream[Mail] | None = None
        self._entering = 0
        self._quiet: anyio.Event | None = None
        self.serving = False

    @property
    def depth(self) -> int:
        """How many commands wait."""
        return 0 if self._receiver is None else self._receiver.statistics().current_buffer_used

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self.serving and not self._entering

    # -- putting in

    async def put(self, mail: Mail, serve: Serve) -> None:
        """Put a command in, waiting while the mailbox is full, and see that somebody serves it."""
        sender = self._open()
        await checkpoint_if_cancelled()
        try:
            sender.send_nowait(mail)
        except anyio.WouldBlock:
            self._entering += 1  # it may be served, emptied and idle before the sender has its turn again
            try:
                await sender.send(mail)
            finally:
                self._entering -= 1
        self._wake(serve)

    def leave(self, mail: Mail) -> None:
        """Put a command in that nobody waits for, unless the mailbox is full: whoever filled it has it served."""
        with suppress(anyio.WouldBlock):
            self._open().send_nowait(mail)

    def _open(self) -> MemoryObjectSendStream[Mail]:
        if self._sender is None:
            self._sender, self._receiver = anyio.create_memory_object_stream[Mail](self._runtime.limits.mailbox_max)
        return self._sender

    # -- serving

    def release(self, serve: Serve) -> None:
        """Let go of the mailbox, which was held while a command ran on its caller's task, and have served what came."""
        self._rest()
        if self._receiver is not None and self.depth:
            self._wake(serve)

    def _wake(self, serve: Serve) -> None:
        if not self.serving:
            self.serving = True
            self._runtime.spawn(partial(self._serve, serve))

    async def _serve(self, serve: Serve) -> None:
        """Serve until nothing waits."""
        try:
            with anyio.CancelScope(shield=True):
                while mails := self._take():
                    await serve(mails)
        finally:
            self._rest()

    def _take(self) -> list[Mail]:
        """Take what waits, as much as one batch may hold."""
        assert self._receiver is not None
        mails: list[Mail] = []
        while len(mails) < self._runtime.limits.batch_max:
            try:
                mails.append(self._receiver.receive_nowait())
            except anyio.WouldBlock:
                break
        return mails

    def _rest(self) -> None:
        """Serve no more until somebody asks for it."""
        self.serving = False
        if self._quiet is not None:
            self._quiet.set()
            self._quiet = None

    # -- ending

    async def quiet(self) -> None:
        """Wait until every command that was accepted has its reply."""
        while not self.idle:
            if not self.serving:
                await checkpoint()
                continue
            if self._quiet is None:
                self._quiet = anyio.Event()
            await self._quiet.wait()

    def close(self) -> None:
        """Give the queue up; nothing may wait in it."""
        if self._sender is not None and self._receiver is not None:
            self._sender.close()
            self._receiver.close()
            self._sender = self._receiver = None
