"""The picker: a person chooses a session on a terminal's whole screen, which is given back as it was.

    picked = await pick(host, project="/work/shop")
    if picked.action == "resume":
        session = await host.load(picked.session.path)

What was said last in the selected session is shown below, read when the selection rests on it.
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

from ..actors.host import SessionHost
from ..events.entries import MessageEntry
from ..events.errors import TreeringError
from ..events.projects import project_hash
from ..projections.summary import SessionSummary
from .keys import Keys
from .logs import holding_logs
from .output import line
from .picker_screen import Layout, draw
from .picking import Picked, Picking
from .telling import said, who

_ALTERNATE, _BACK = "\x1b[?1049h\x1b[?25l", "\x1b[H\x1b[J\x1b[?25h\x1b[?1049l"
_CHUNK = 4096
_ESCAPE_S = 0.05  # a terminal sends the rest of a key at once
_LOOKED_AT = 40
_PREVIEWED = 4


def has_terminal() -> bool:
    """Tell whether there is a terminal to choose on: keys come from it, and it can move its cursor."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    return find_spec("termios") is not None  # a system without it has no such terminals


async def pick(host: SessionHost, *, project: str, everywhere: bool = False) -> Picked:
    """Let a person choose a session on the terminal; see `has_terminal`.

    Args:
        host: Whose sessions there are to choose from.
        project: The folder whose sessions are shown first; its current one is selected.
        everywhere: Show those of all projects from the start.
    """
    rows = await host.list_sessions()
    current = await host.current_session(project)
    hashed = await anyio.to_thread.run_sync(project_hash, project)
    state = Picking(rows, hashed, everywhere=everywhere, current=None if current is None else current.ref)
    with holding_logs(), _screen():
        return await _Picker(host, state).run()


class _Picker:
    """A choice that is being made: keys, the size of the terminal and what was read change what is seen."""

    def __init__(self, host: SessionHost, state: Picking) -> None:
        self._host = host
        self._state = state
        self._previews: dict[str, list[str]] = {}
        self._moved = anyio.Event()
        self._reading: anyio.CancelScope | None = None
        self._signalled: int | None = None
        encoding = (sys.stdout.encoding or "").lower().replace("-", "")
        self._marker = "▸" if encoding.startswith("utf") else ">"

    async def run(self) -> Picked:
        """Go on until something is chosen.

        Raises:
            SystemExit: A signal ended the program.
        """
        picked: Picked | None = None
        async with anyio.create_task_group() as tasks:
            if threading.current_thread() is threading.main_thread():  # the only one that signals reach
                await tasks.start(self._follow_signals, tasks.cancel_scope)
            tasks.start_soon(self._follow_selection)
            self._draw()
            picked = await self._follow_keys()
            tasks.cancel_scope.cancel()
        if self._signalled is not None:
            raise SystemExit(128 + self._signalled)
        assert picked is not None  # it goes on until something is
        return picked

    def _layout(self) -> Layout:
        size = os.get_terminal_size(sys.stdout.fileno())  # and not what the environment said when it began
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
        """Draw anew when the window has another size, and give the screen back before a signal ends the program."""
        with anyio.open_signal_receiver(signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()  # from here on, a signal finds somebody who gives the screen back
            async for number in signals:
                if number != signal.SIGWINCH:
                    self._signalled = int(number)
                    ending.cancel()
                    return
                self._draw()

    async def _follow_keys(self) -> Picked:
        keys, fd = Keys(), sys.stdin.fileno()
        while True:
            with anyio.move_on_after(_ESCAPE_S if keys.unfinished else None) as waiting:
                await anyio.wait_readable(fd)
            if waiting.cancelled_caught:
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
        """Show what was said last in the session that is selected, and in the next one when that changes."""
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
    """Return a line for each of the last messages that somebody said in a session, the latest last."""
    if row.problem is not None:
        return [line(row.problem)]
    try:
        async with await host.load(row, read_only=True) as session:
            log = await session.log()
            seqs = log.index.path(log.index.leaf)[-_LOOKED_AT:]
            found = await log.entries_at(seqs)
    except (TreeringError, OSError) as error:
        return [line(str(error))]
    entries = [entry for seq in seqs if isinstance(entry := found[seq], MessageEntry)]
    spoken = [entry for entry in entries if entry.message.role in ("user", "assistant") and said(entry)]
    return [f"{who(entry)}: {said(entry, 400)}" for entry in spoken[-_PREVIEWED:]]


@contextmanager
def _screen() -> Generator[None, None, None]:
    """Have the terminal send every key as it is pressed, and show another screen; all is put back afterwards."""
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
