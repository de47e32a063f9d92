"""An append that a worker thread carries out."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ....disk import Disk
from ....errors import AppendInDoubt, InvalidInput
from ...base import Append, Committed, Cursor, Failed, InDoubt, Outcome
from .. import writing as writer
from ..durability.flushing import make_durable, not_flushed
from ..durability.own_journals import LandedAppend, hold_back
from ..log.log import Log

Barrier: TypeAlias = Literal["none", "file", "journal"]
"""What makes an append durable: nothing, a flush of its file, or the journal."""


class AppendJob:
    """One append, with its outcome once it was called.

    Args:
        disk: The disk.
        log: The log, which is busy in the meantime.
        append: The append.
        barrier: What makes it durable.
        before: The head before the append, if it was written already.
        outcome: The outcome of the write, if it was written already and only has to be made durable.

    Attributes:
        inode: The log's inode before the append.
        landed: The append, if the journal still has to make it durable.
        error: The exception that the job ended with.
    """

    __slots__ = ("_barrier", "_before", "_disk", "_outcome", "append", "error", "inode", "landed", "log")

    def __init__(
        self,
        disk: Disk,
        log: Log,
        append: Append,
        barrier: Barrier,
        before: Cursor | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        self._disk = disk
        self._barrier = barrier
        self._before = before
        self._outcome = outcome
        self.log = log
        self.append = append
        self.inode = log.inode
        self.landed: LandedAppend | None = None
        self.error: BaseException | None = None

    def __call__(self) -> None:
        log = self.log
        try:
            if self._outcome is None:
                self._before = log.head
                sync = self._barrier == "file"
                self._outcome = writer.append_with_own_fd(self._disk, log, self.append, sync=sync, keep=False)
            if self._barrier == "journal" and self._before is not None and log.head != self._before:
                self._make_durable(log, self._before, self._outcome)
        except BaseException as error:  # noqa: BLE001  # raised in the caller's task, not in the thread
            self.error = error

    def _make_durable(self, log: Log, before: Cursor, outcome: Outcome) -> None:
        if isinstance(outcome, Committed | Failed):
            self.landed = hold_back(log, self.append, before, outcome)
            if self.landed is None:
                try:
                    make_durable(self._disk, log)
                except OSError as error:
                    self._outcome = not_flushed(log, error)

    def settle(self) -> None:
        """If the append ended without an outcome, put it and the log in doubt."""
        if self._outcome is None and not isinstance(self.error, InvalidInput):
            doubt = AppendInDoubt(f"{self.log.path}: the append was interrupted; retry with the same command id")
            doubt.__cause__ = self.error
            self.log.doubt = self.log.doubt or doubt
            self._outcome = InDoubt(doubt)

    def outcome(self) -> Outcome:
        """Return the outcome.

        Raises:
            InvalidInput: The request was not valid.
        """
        if self.landed is not None:
            return self.landed.outcome
        if self._outcome is None:
            assert self.error is not None
            raise self.error
        return self._outcome
