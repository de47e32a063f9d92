"""`treering serve` as a process, to be asked, killed, measured and started again at the same port."""

import resource
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


def free_port() -> int:
    """Return a port that nobody listens at, and that systems give to nobody by themselves, so that it stays free."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


class Server:
    """A server of a root, which runs or not.

    Args:
        root: The folder of the sessions, or the address of a store.
        options: Other options of the command.
        environment: The environment of the process, by default that of the test.
        port: The port, by default any free one.
        log: The file of its log, by default beside the root.
    """

    def __init__(
        self,
        root: Path | str,
        *options: str,
        environment: Mapping[str, str] | None = None,
        port: int | None = None,
        log: Path | None = None,
    ) -> None:
        self.port = free_port() if port is None else port
        self.address = ""
        self._command = [sys.executable, "-m", "treering.cli", "serve", str(root), "--port", str(self.port), *options]
        self._environment = environment
        self._log = Path(f"{root}.log") if log is None else log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, and wait for its address."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, env=self._environment, bufsize=0
            )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().decode().strip()
        assert self.address, self.log()[-2000:]

    def kill(self) -> None:
        """Kill the process, as if the power had gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End the process in order, and return its status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return status

    def log(self) -> str:
        """Return what all runs have logged."""
        return self._log.read_text(encoding="utf-8")

    def rss(self) -> int:
        """Return how many bytes of memory the process has."""
        assert self.process is not None
        figures = Path(f"/proc/{self.process.pid}/statm")
        if not figures.exists():
            pytest.skip("this system does not tell the memory of a process")
        return int(figures.read_text().split()[1]) * resource.getpagesize()


@contextmanager
def running(root: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run a server as long as the block runs."""
    server = Server(root, *options, environment=environment)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None:
            server.stop()


@contextmanager
def measured(server: Server, every_s: float = 0.02) -> Iterator[list[int]]:
    """Measure the memory of a server again and again as long as the block runs."""
    found = [server.rss()]
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            found.append(server.rss())
            time.sleep(every_s)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
