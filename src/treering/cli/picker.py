"""The session picker, on the full screen of a terminal, which is restored afterwards.

    picked = await pick(host, project="/work/shop")
    if picked.action == "resume":
        session = await host.load(picked.session.path)

Below the list is a preview of the selected session, which is loaded when the selection stays on it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec

import anyio
from anyio.abc import TaskStatus

from ..actors.host.host import SessionHost
from ..events.entries import MessageEntry
from ..events.errors import TreeringError
from ..events.projects import project_hash
from ..projections.summary import SessionSummary
from .commands.keys import Keys
from .descriptions import preview_of, role_of
from .logs import logs_held_back
from .output import can_write_unicode, line
from .picker_screen import Layout, draw
from .picking import Picked, Picking

_ALTERNATE, _BACK = "\x1b[?1049h\x1b[?25l", "\x1b[H\x1b[J\x1b[?25h\x1b[?1049l"
_CHUNK = 4096
_ESCAPE_S = 0.05  # the rest of a key arrives at once
_LOOKED_AT = 40
_PREVIEWED = 4


def has_terminal() -> bool:
    """Return whether there is a terminal for the picker: one with key input and a movable cursor."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    return find_spec("termios") is not None  # systems without termios have no such terminals


async def pick(host: SessionHost, *, project: str, everywhere: bool = False) -> Picked:
    """Let a person choose a session on the terminal; requires `has_terminal`.

    Args:
        host: The host with the sessions.
        project: The directory whose sessions are shown initially, with its current session selected.
        everywhere: Show the sessions of all projects from the start.
    """
    rows = await host.list_sessions()
    current = await host.current_session(project)
    hash_ = await anyio.to_thread.run_sync(project_hash, project)
    state = Picking(rows, hash_, everywhere=everywhere, current=None if current is None else current.ref)
    with logs_held_back(), _screen():
        return await _Picker(host, state).run()


class _Picker:
    """A running picker, redrawn on keys, changes of the terminal's size, and loaded previews."""

    def __init__(self, host: SessionHost, state: Picking) -> None:
        self._host = host
        self._state = state
        self._previews: dict[str, list[str]] = {}
        self._moved = anyio.Event()
        self._reading: anyio.CancelScope | None = None
        self._signalled: int | None = None
        self._marker = "▸" if can_write_unicode() else ">"

    async def run(self) -> Picked:
        """Run until something is chosen.

        Raises:
            SystemExit: A signal ended the program.
        """
        picked: Picked | None = None
        async with anyio.create_task_group() as tasks:
            if threading.current_thread() is threading.main_thread():  # signals reach only this one
                await tasks.start(self._follow_signals, tasks.cancel_scope)
            tasks.start_soon(self._follow_selection)
            self._draw()
            picked = await self._follow_keys()
            tasks.cancel_scope.cancel()
        if self._signalled is not None:
            raise SystemExit(128 + self._signalled)
        assert picked is not None  # the keys are read until something is
        return picked

    def _layout(self) -> Layout:
        size = os.get_terminal_size(sys.stdout.fileno())  # the current size, not that of the environment at startup
        return Layout(size.columns, size.lines)

    def _draw(self) -> None:
        session, layout = self._state.session, self._layout()
        preview = [] if session is None else self._previews.get(session.ref, [])
        lines = draw(self._state, preview, layout, datetime.now(UTC), marker=self._marker)
        sys.stdout.write("\x1b[H" + "\x1b[K\r\n".join(lines) + "\x1b[K\x1b[J")
        sys.stdout.flush()

    async def _follow_signals(
        self, ending: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Redraw when the window is resized, and restore the screen before a signal ends the program."""
        with anyio.open_signal_receiver(signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()  # from here on, signals restore the screen
            async for number in signals:
                if number != signal.SIGWINCH:
                    self._signalled = int(number)
                    ending.cancel()
                    return
                self._draw()

    async def _follow_keys(self) -> Picked:
        keys, fd = Keys(), sys.stdin.fileno()
        while True:
            with anyio.move_on_after(_ESCAPE_S if keys.unfinished else None) as timeout:
                await anyio.wait_readable(fd)
            if timeout.cancelled_caught:
                pressed = keys.finish()
            else:
                data = os.read(fd, _CHUNK)
                pressed = keys.take(data) if data else ["interrupt"]  # the terminal is gone
            before = self._state.session
            for key in pressed:
                picked = self._state.press(key, self._layout().rows)
                if picked is not None:
                    return picked
            self._draw()
            if self._state.session is not before:
                self._moved.set()
                if self._reading is not None:
                    self._reading.cancel()

    async def _follow_selection(self) -> None:
        """Load and show the preview of the selected session, whenever the selection changes."""
        while True:
            self._moved = anyio.Event()
            session = self._state.session
            if session is not None and session.ref not in self._previews:
                with anyio.CancelScope() as self._reading:
                    self._previews[session.ref] = await preview(self._host, session)
                    self._draw()
                self._reading = None
            await self._moved.wait()


async def preview(host: SessionHost, row: SessionSummary) -> list[str]:
    """Return a line for each of the last user and assistant messages of a session, in order."""
    if row.problem is not None:
        return [line(row.problem)]
    try:
        async with await host.load(row, read_only=True) as session:
            log = await session.log()
            seqs = log.index.path(log.index.leaf)[-_LOOKED_AT:]
            entries_by_seq = await log.entries_at(seqs)
    except (TreeringError, OSError) as error:
        return [line(str(error))]
    entries = [entry for seq in seqs if isinstance(entry := entries_by_seq[seq], MessageEntry)]
    spoken = [entry for entry in entries if entry.message.role in ("user", "assistant") and preview_of(entry)]
    return [f"{role_of(entry)}: {preview_of(entry, 400)}" for entry in spoken[-_PREVIEWED:]]


@contextmanager
def _screen() -> Generator[None, None, None]:
    """Switch the terminal to raw mode and the alternate screen, and restore both afterwards."""
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    sys.stdout.write(_ALTERNATE)
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
        sys.stdout.write(_BACK)
        sys.stdout.flush()
