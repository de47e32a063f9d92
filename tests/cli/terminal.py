"""A pseudo-terminal for tests: it runs the command, sends keys, and shows what is on the screen."""

import os
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pexpect  # type: ignore[import-untyped]  # it has no types
import pyte

import treering

WAIT_S = 100
"""How long to wait for output before a test fails, in seconds: a start takes many beside other work."""

_CHUNK = 65536
_PACKAGES = str(Path(treering.__file__).resolve().parents[1])


def _environment(terminal: str) -> dict[str, str]:
    """The environment of the command, without the size of the terminal, which the command has to ask for."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**kept, "PYTHONPATH": _PACKAGES, "TERM": terminal, "TZ": "UTC", "PYTHONUTF8": "1"}


class Terminal:
    """The command, running at a pseudo-terminal of that size; a dumb one cannot move its cursor."""

    def __init__(self, *args: str | Path, cwd: Path, columns: int = 90, lines: int = 24, dumb: bool = False) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._process = pexpect.spawn(
            sys.executable,
            ["-m", "treering.cli", *map(str, args)],
            cwd=str(cwd),
            env=_environment("dumb" if dumb else "xterm"),
            dimensions=(lines, columns),
            timeout=WAIT_S,
        )
        self._process.delaybeforesend = None
        self._process.ptyproc.delayafterclose = 0  # closing must not sleep
        self.first_settings = self.settings

    @property
    def settings(self) -> list[object]:
        """The settings of the terminal for input and output."""
        return list(termios.tcgetattr(self._process.child_fd))

    @property
    def lines(self) -> list[str]:
        """The lines on the screen, without blanks at their ends and without blank lines at the end."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip().split("\n")

    def until(self, *words: str, without: str | None = None) -> list[str]:
        """Wait until the screen shows all these words, and does not show `without`; return its lines."""

        def shown(lines: list[str]) -> bool:
            text = "\n".join(lines)
            return all(word in text for word in words) and (without is None or without not in text)

        return self._until(shown, words)

    def until_prompt(self) -> list[str]:
        """Wait until a chat shows its prompt, from where on it reads single keys; return the lines."""
        return self._until(lambda lines: lines[-1] == ">", ("the prompt",))

    def _until(self, shown: Callable[[list[str]], bool], words: tuple[str, ...]) -> list[str]:
        while not shown(self.lines):
            try:
                self._stream.feed(self._process.read_nonblocking(_CHUNK, timeout=WAIT_S))
            except (pexpect.TIMEOUT, pexpect.EOF) as error:
                raise AssertionError("\n".join([f"{words} did not appear on the screen:", *self.lines])) from error
        return self.lines

    def press(self, keys: str) -> None:
        """Send keys; Ctrl-C once the command waits."""
        if keys == "\x03":
            self._until_it_waits()
        self._process.send(keys)

    def _until_it_waits(self) -> None:
        """Wait until the main thread sleeps, since Python loses a signal between its prompt and its wait for a key."""
        state = Path(f"/proc/{self._process.pid}/stat")  # on Linux
        while state.exists() and state.read_text().rpartition(")")[2].split()[0] in "RD":
            os.sched_yield()

    def ask(self, question: str, answer: str) -> None:
        """Send a chat a message at its prompt, and wait for the answer and the next prompt."""
        self.until_prompt()
        self.press(f"{question}\r")
        self.until(answer)
        self.until_prompt()

    def leave(self) -> int:
        """Leave a chat by Ctrl-D, and return its exit status."""
        self.press("\x04")
        return self.wait()

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the window."""
        self._screen.resize(lines, columns)
        self._process.setwinsize(lines, columns)

    def signal(self, number: int) -> None:
        """Send the command a signal."""
        self._process.kill(number)

    def wait(self) -> int:
        """Wait for the end of the command, and return its exit status."""
        while True:
            try:
                self._stream.feed(self._process.read_nonblocking(_CHUNK, timeout=WAIT_S))
            except pexpect.EOF:
                break
        self._process.wait()
        status = self._process.exitstatus
        assert isinstance(status, int), f"the command was ended by signal {self._process.signalstatus}"
        return status

    def close(self) -> None:
        """End the command if it still runs."""
        self._process.close(force=True)
