"""The session picker on the full screen of a terminal, which prompt_toolkit reads, draws and restores.

Below the list is a preview of the selected session, which is loaded when the selection stays on it. prompt_toolkit
takes a while to import, so this module is imported when a person is to choose.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from datetime import UTC, datetime

import anyio
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Window
from prompt_toolkit.layout import Layout as Screen

from ...actors.host.host import SessionHost
from ...events.entries import MessageEntry
from ...events.errors import TreeringError
from ...events.projects import project_hash
from ...projections.summary import SessionSummary
from ..home import Home
from ..messages import logs_held_back
from ..output import ENDING, can_write_unicode, clean, ended_by_signals, line, run
from ..rows import preview_of, role_of
from .picker import Layout, Picked, Picking, draw

_ESCAPE_S = 0.05  # the rest of a key arrives at once
_LOOKED_AT = 40
_PREVIEWED = 4
_NAMES = {
    Keys.Escape: "escape",
    Keys.Up: "up",
    Keys.Down: "down",
    Keys.Home: "home",
    Keys.End: "end",
    Keys.ControlM: "enter",
    Keys.ControlJ: "enter",
    Keys.ControlI: "tab",
    Keys.ControlH: "backspace",
    Keys.ControlC: "interrupt",
    Keys.SIGINT: "interrupt",
    Keys.ControlD: "end-of-input",
    Keys.ControlU: "erase",
    Keys.ControlN: "down",
    Keys.ControlP: "up",
    Keys.ControlUp: "up",
    Keys.ControlDown: "down",
    Keys.PageUp: "page-up",
    Keys.PageDown: "page-down",
}
"""The keys that `Picking` knows beside characters."""


def choose(home: Home, *, everywhere: bool = False) -> Picked:
    """Let a person choose at a terminal; requires `has_terminal`, and the main thread, which gets the signals.

    Args:
        home: The root, and the project whose sessions are shown initially, with its current session selected.
        everywhere: Show the sessions of all projects from the start.

    Raises:
        SystemExit: A signal ended the program; the terminal is restored.
    """
    handlers = {each: signal.getsignal(each) or signal.SIG_DFL for each in ENDING}
    try:
        return run(_pick, home, everywhere)
    finally:
        for each, handler in handlers.items():  # the loop has left the default ones
            signal.signal(each, handler)


async def _pick(home: Home, everywhere: bool) -> Picked:
    async with home.opened() as host:
        rows = await host.list_sessions()
        current = await host.current_session(home.project)
        hash_ = await anyio.to_thread.run_sync(project_hash, home.project)
        state = Picking(rows, hash_, everywhere=everywhere, current=None if current is None else current.ref)
        with logs_held_back():
            return await Picker(host, state).run()


class Picker:
    """A running picker, redrawn on keys, changes of the terminal's size, and loaded previews.

    Args:
        host: The host with the sessions.
        state: What is shown and selected.
    """

    def __init__(self, host: SessionHost, state: Picking) -> None:
        self._host = host
        self._state = state
        self._previews: dict[str, list[str]] = {}
        self._moved = anyio.Event()
        self._reading: anyio.CancelScope | None = None
        self._marker = "▸" if can_write_unicode() else ">"
        keys = KeyBindings()
        keys.add(Keys.Any)(self._press)
        self._app: Application[Picked] = Application(
            Screen(Window(FormattedTextControl(self._drawing, show_cursor=False))),
            key_bindings=keys,
            full_screen=True,
            erase_when_done=True,
        )
        self._app.ttimeoutlen = _ESCAPE_S

    async def run(self) -> Picked:
        """Run until something is chosen.

        Raises:
            SystemExit: A signal ended the program.
        """
        picked = Picked("interrupt")
        async with ended_by_signals() as tasks:
            tasks.start_soon(self._follow_selection)
            with suppress(EOFError):  # the terminal is gone
                picked = await self._app.run_async(set_exception_handler=False)
        return picked

    def _layout(self) -> Layout:
        size = self._app.output.get_size()
        return Layout(size.columns, size.rows)

    def _drawing(self) -> ANSI:
        session = self._state.session
        preview = [] if session is None else self._previews.get(session.ref, [])
        return ANSI("\n".join(draw(self._state, preview, self._layout(), datetime.now(UTC), marker=self._marker)))

    def _press(self, event: KeyPressEvent) -> None:
        before = self._state.session
        for name in _names(event.key_sequence[0]):
            picked = self._state.press(name, self._layout().rows)
            if picked is not None:
                self._app.exit(result=picked)
                return
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
                    self._app.invalidate()
                self._reading = None
            await self._moved.wait()


def _names(pressed: KeyPress) -> list[str]:
    """Return the names of a key for `Picking`, several if text was pasted."""
    if pressed.key == Keys.BracketedPaste:
        return [each for each in pressed.data if each.isprintable()]
    if not isinstance(pressed.key, Keys):
        return [clean(pressed.key)]
    name = _NAMES.get(pressed.key)
    return [] if name is None else [name]


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
