"""The mailbox of an actor: the commands that could not be carried out at once, and the task that serves them.

There is a task only while commands wait. The queue is created with the first command that has to wait: most
sessions never need one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeAlias

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .commands import Mail
from .host.runtime import Runtime

Serve: TypeAlias = Callable[[list[Mail]], Awaitable[None]]
"""Carries out a batch of commands; each has its reply when it returns."""


class Mailbox:
    """The queue of an actor's commands, bounded by the host's limits.

    Attributes:
        serving: Whether a command is being carried out: from the queue or, with the mailbox held, on its caller's task.
    """

    __slots__ = ("_answered", "_at_work", "_entering", "_progress", "_receiver", "_runtime", "_sender", "serving")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._sender: MemoryObjectSendStream[Mail] | None = None
        self._receiver: MemoryObjectReceiveStream[Mail] | None = None
        self._entering = 0
        self._answered = 0
        self._at_work = 0  # how many commands are being carried out
        self._progress: anyio.Event | None = None
        self.serving = False

    @property
    def depth(self) -> int:
        """How many commands wait."""
        return 0 if self._receiver is None else self._receiver.statistics().current_buffer_used

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self.serving and not self._entering

    @contextmanager
    def entering(self) -> Generator[None]:
        """Keep the actor from being idle while the caller may be about to queue a command."""
        self._entering += 1
        try:
            yield
        finally:
            self._entering -= 1
            self._note_progress()

    # -- queueing

    async def put(self, mail: Mail, serve: Serve) -> None:
        """Queue a command, waiting while the mailbox is full, and make sure that it is served."""
        sender = self._open()
        await checkpoint_if_cancelled()
        try:
            sender.send_nowait(mail)
        except anyio.WouldBlock:
            with self.entering():  # the queue may be emptied and idle before this task runs again
                await sender.send(mail)
        self._wake(serve)

    def put_unattended(self, mail: Mail) -> None:
        """Queue a command that no caller waits for.

        It is dropped if the mailbox is full: the waiting senders have the mailbox served anyway.
        """
        with suppress(anyio.WouldBlock):
            self._open().send_nowait(mail)

    def _open(self) -> MemoryObjectSendStream[Mail]:
        if self._sender is None:
            self._sender, self._receiver = anyio.create_memory_object_stream[Mail](self._runtime.limits.mailbox_max)
        return self._sender

    # -- serving

    def hold(self) -> None:
        """Hold the mailbox while a command is carried out on its caller's task, until `release`."""
        self.serving = True
        self._at_work = 1

    def release(self, serve: Serve) -> None:
        """Release the mailbox, held while a command ran on its caller's task, and serve what arrived meanwhile."""
        self._stop_serving()
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
                    self._at_work = len(mails)
                    await serve(mails)
                    self._finish_work()
        finally:
            self._stop_serving()

    def _take(self) -> list[Mail]:
        """Take the waiting commands, at most one batch."""
        assert self._receiver is not None
        mails: list[Mail] = []
        while len(mails) < self._runtime.limits.batch_max:
            try:
                mails.append(self._receiver.receive_nowait())
            except anyio.WouldBlock:
                break
        return mails

    def _finish_work(self) -> None:
        """Count the commands that were being carried out as answered."""
        self._answered += self._at_work
        self._at_work = 0
        self._note_progress()

    def _stop_serving(self) -> None:
        """Mark the mailbox as not being served."""
        self.serving = False
        self._finish_work()

    # -- waiting

    async def answered(self) -> None:
        """Wait until every command that was accepted before this call has its reply, however many follow."""
        through = self._answered + self._at_work + self.depth
        while self._answered < through:
            await self._wait_for_progress()

    async def quiet(self) -> None:
        """Wait until the mailbox is idle, which may never happen while commands keep coming."""
        while not self.idle:
            await self._wait_for_progress()

    async def _wait_for_progress(self) -> None:
        if self._progress is None:
            self._progress = anyio.Event()
        await self._progress.wait()

    def _note_progress(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    # -- ending

    def close(self) -> None:
        """Discard the queue, which must be empty."""
        if self._sender is not None and self._receiver is not None:
            self._sender.close()
            self._receiver.close()
            self._sender = self._receiver = None
