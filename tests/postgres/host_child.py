"""A host in a process of its own: for each line that it reads it does something, and prints one line.

    python -m tests.postgres.host_child URL [SECONDS]

`open NAME` opens a session, `say NAME TEXT` appends a message by a command of its own, `archive NAME` archives it,
`close host` closes the host and ends. The answer is what was asked for, or a word more: the class of the error. The
clocks of the process, that of the wall and the monotonic one, are wrong by so many seconds; `jump SECONDS` sets both
forward or back.
"""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread

from treering import SessionHost
from treering.errors import TreeringError


class WrongClocks:
    """Makes the clocks of this process wrong, for everything that asks for them by name, as event loops do."""

    def __init__(self, wrong_by_s: float) -> None:
        self.wrong_by_s = wrong_by_s
        wall, monotonic = time.time, time.monotonic
        time.time = lambda: wall() + self.wrong_by_s
        time.monotonic = lambda: monotonic() + self.wrong_by_s

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), UTC)


def report(line: str) -> None:
    os.write(1, (line + "\n").encode())


async def obey(url: str, clocks: WrongClocks) -> None:
    async with SessionHost(url, clock=clocks.now) as host:
        while True:
            line = (await anyio.to_thread.run_sync(sys.stdin.readline)).strip()
            if not line or line == "close host":
                break
            verb, name, *text = line.split(" ")
            try:
                if verb == "jump":
                    clocks.wrong_by_s += float(name)
                else:
                    session = await host.open(name)
                    if verb == "archive":
                        await host.archive(session)
                    elif verb == "say":
                        await session.append_message("user", text[0], command_id=text[0])
            except TreeringError as error:
                line += f" {type(error).__name__}"
            report(line)
    report("close host")


class HostChild:
    """A process with a host, which is killed at the end of the block.

    Args:
        url: The address of the store.
        wrong_by_s: By how many seconds its clocks are wrong at first.
    """

    def __init__(self, url: str, wrong_by_s: float = 0) -> None:
        command = [sys.executable, "-m", __name__, url, str(wrong_by_s)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, line: str) -> None:
        """Ask for something."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")

    def answer(self) -> str:
        """Wait for the next answer."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, line: str) -> str:
        """Ask for something, wait, and return what was told beyond the line: the class of an error, or nothing."""
        self.send(line)
        answer = self.answer()
        assert answer.startswith(line), answer
        return answer.removeprefix(line).strip()

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        os.kill(self.process.pid, number)


if __name__ == "__main__":
    anyio.run(obey, sys.argv[1], WrongClocks(float(sys.argv[2])))
