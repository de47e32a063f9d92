"""Saving: additions are in the file without it, it may be called at any time, and disk errors are raised."""

import errno
import threading
from pathlib import Path

import anyio
import pytest

from treering import AppendFailed, KeyedSessions, SessionHost, SyncHost
from treering.events.disk import OsDisk
from treering.sync import SyncKeyedSessions
from treering.testing.disks import FaultyDisk, WrappedDisk

from .conftest import transcript

KEY = "telegram:123456"


@pytest.mark.feature("P-23", "P-48")
async def test_messages_are_stored_before_an_empty_save(sessions: KeyedSessions, host: SessionHost, root: Path) -> None:
    for number in range(3):
        await sessions.add_message(KEY, "user", f"message {number}")
        before = (root / "telegram_123456.jsonl").read_bytes()
        assert f"message {number}".encode() in before
    for _ in range(3):
        await sessions.save(KEY)
        await sessions.save_all()
    assert b"telegram_123456" in (root / ".treering" / "index.jsonl").read_bytes(), "all are listed"
    await host.passivate_idle()
    await sessions.save(KEY)
    assert (root / "telegram_123456.jsonl").read_bytes() == before


@pytest.mark.feature("P-45", "P-50")
async def test_a_full_disk_raises_and_leaves_no_message(sessions: KeyedSessions, disk: FaultyDisk, root: Path) -> None:
    path = root / "telegram_123456.jsonl"
    await sessions.add_message(KEY, "user", "one")
    before = path.read_bytes()
    fault = disk.fail("write", errno.ENOSPC, path="*.jsonl", times=None)
    for call in (
        lambda: sessions.add_message(KEY, "user", "two"),
        lambda: sessions.set_summary(KEY, "no"),
        lambda: sessions.set_history(KEY, []),
    ):
        with pytest.raises(AppendFailed, match=r"telegram_123456\.jsonl") as caught:
            await call()
        cause = caught.value.__cause__
        assert isinstance(cause, OSError)
        assert (cause.errno, cause.filename) == (errno.ENOSPC, str(path))
        assert path.read_bytes() == before
        assert transcript(await sessions.history(KEY)) == ["user: one"]
        assert await sessions.summary(KEY) == ""
    fault.lift()
    await sessions.add_message(KEY, "user", "two")
    assert transcript(await sessions.history(KEY)) == ["user: one", "user: two"]


class Denied(WrappedDisk):
    """A disk that refuses to open the session file, as the system does without permission."""

    def open(self, path: str, flags: int) -> int:
        if path.endswith("telegram_123456.jsonl"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().open(path, flags)


@pytest.mark.feature("P-45")
async def test_unreadable_files_raise_errors_with_it(sessions: KeyedSessions, host: SessionHost, root: Path) -> None:
    await sessions.add_message(KEY, "user", "Hello")
    await host.passivate_idle()
    async with SessionHost(root, disk=Denied(OsDisk())) as other:
        denied = KeyedSessions(other)
        for call in (denied.get_or_create, denied.history, denied.summary):
            with pytest.raises(PermissionError) as caught:
                await call(KEY)
            assert caught.value.filename == str(root / "telegram_123456.jsonl")
        with pytest.raises(PermissionError):
            await denied.add_message(KEY, "user", "and on")
    assert len(await sessions.history(KEY)) == 1


class CountedSaves(KeyedSessions):
    """Sets an event after a number of saves."""

    __slots__ = ("done", "remaining")

    def __init__(self, host: SessionHost, remaining: int) -> None:
        super().__init__(host)
        self.remaining = remaining
        self.done = anyio.Event()

    async def save_all(self) -> None:
        await super().save_all()
        self.remaining -= 1
        if not self.remaining:
            self.done.set()


@pytest.mark.feature("P-54")
async def test_all_is_saved_at_intervals_until_the_task_is_cancelled(host: SessionHost) -> None:
    sessions = CountedSaves(host, 3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sessions.save_every, 0)
        await sessions.add_message(KEY, "user", "one")
        await sessions.done.wait()
        tasks.cancel_scope.cancel()
    await sessions.add_message(KEY, "user", "two")
    assert transcript(await sessions.history(KEY)) == ["user: one", "user: two"]


@pytest.mark.feature("P-54")
async def test_the_first_save_waits_for_the_interval(host: SessionHost) -> None:
    sessions = CountedSaves(host, 1)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await sessions.save_every()
    assert not sessions.done.is_set()


class SyncCountedSaves(SyncKeyedSessions):
    """Sets the event that ends saving after a number of saves."""

    __slots__ = ("remaining", "until")

    def __init__(self, host: SyncHost, remaining: int) -> None:
        super().__init__(host)
        self.remaining = remaining
        self.until = threading.Event()

    def save_all(self) -> None:
        super().save_all()
        self.remaining -= 1
        if not self.remaining:
            self.until.set()


@pytest.mark.feature("P-54")
def test_a_thread_saves_everything_until_the_event_is_set(root: Path) -> None:
    with SyncHost(root) as host:
        sessions = SyncCountedSaves(host, 3)
        sessions.add_message(KEY, "user", "one")
        sessions.save_every(0, until=sessions.until)
        assert sessions.remaining == 0
