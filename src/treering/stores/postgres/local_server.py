"""A PostgreSQL server of a program's own, for tests, benchmarks and demonstrations.

It is made in a new folder, listens at a Unix socket there and nowhere else, and goes together with the program, also
when that is killed; a folder that the program names stays, for the next time. It needs the programs of the server
(Debian's `postgresql`), and no rights: a program of root runs it as another user, since PostgreSQL refuses root.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypedDict, Unpack
from urllib.parse import quote, urlencode

from ...events.errors import ExtraMissing, InvalidInput, TreeringError

Ending = Literal["fast", "immediate", "kill"]
"""How a server ends: connections are closed in order; at once, as after a crash; by SIGKILL to all its processes."""

_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
_PORT = "5432"  # it names the socket; each server has a folder of its own
_ADDRESS_MAX = 60  # of a folder: the address of a Unix socket holds about 100 bytes
_STARTS_WITHIN_S = 60.0
_LOOKS_EVERY_S = 0.005

_QUICK = {"fsync": "off", "full_page_writes": "off"}
_SETTINGS = {"listen_addresses": "", "shared_buffers": "32MB", "log_line_prefix": "%m [%p] "}

# It waits until its input ends, as it does when the program ends in any way; then the server has to go.
_WATCH = """
cat
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -CONT $pid && kill -QUIT $pid && {
    kill -CONT $(ps -A -o pid=,ppid= | awk -v of="$pid" '$2 == of { print $1 }')
    for _ in $(seq 200); do kill -0 $pid && sleep 0.02 || break; done
}
[ "$2" = keep ] || rm -rf "$1"
"""


class _As(TypedDict, total=False):
    """As whom a process runs; the names are those of `subprocess.Popen`."""

    user: int
    group: int
    extra_groups: list[int]


class LocalServer:
    """A server that runs as long as the block does::

        with LocalServer() as server:
            host = SessionHost(server.url(schema="treering"))

    Its methods wait, so a program of tasks calls them in a thread. What is written survives the end of its processes;
    unless it is durable, not that of the machine.

    Args:
        durable: Flush as servers do by default. It is quicker without.
        settings: Other settings of PostgreSQL.
        environment: Other variables of its environment.
        programs: The folder of `initdb` and `postgres`; by default the first of PATH, or else the newest installed.
        folder: Where everything of it is, and stays when it ends; by default a new folder, which is removed. As root,
            the user who runs it needs a way there.

    Raises:
        ExtraMissing: The server is not installed.
        InvalidInput: The name of the folder is too long for the address of a Unix socket.

    Attributes:
        folder: Where everything of it is: `data`, the socket, `log`.
        programs: The folder of the programs.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        programs: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        found = programs or find_programs()
        if found is None:
            raise ExtraMissing(
                "PostgreSQL's server is not installed: install it (on Debian: apt-get install postgresql)"
            )
        self.programs = found
        self._settings = {**_SETTINGS, **({} if durable else _QUICK), **(settings or {})}
        outer = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        self._environment = {**outer, "LC_ALL": "C", **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._is_kept = folder is not None
        self.folder = _new_folder() if folder is None else _folder_of(folder)
        self._as = _other_user()
        os.chown(self.folder, self._as.get("user", -1), self._as.get("group", -1))
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", str(self.folder), "keep" if self._is_kept else "remove"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def data(self) -> Path:
        """The folder of the data."""
        return self.folder / "data"

    @property
    def pid(self) -> int | None:
        """The process that all others of the server come from, or None while it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def __enter__(self) -> Self:
        try:
            if not self.data.exists():
                self.run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
            self.configure(unix_socket_directories=str(self.folder), **self._settings)
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server, and remove its folder unless it was named."""
        if self.pid is not None:
            self.resume()
            self.stop("fast" if self._is_kept else "immediate")
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        self._watch.wait()

    def url(self, *, database: str = "postgres", **parameters: str) -> str:
        """Return an address for programs on this machine.

        Args:
            database: The database.
            parameters: Others of the address, such as `schema`.
        """
        query = urlencode({"host": str(self.folder), "port": _PORT, **parameters}, quote_via=quote)
        return f"postgresql://postgres@/{quote(database, safe='')}?{query}"

    def configure(self, **settings: str) -> None:
        """Change settings; while it runs, those that need no restart hold at once."""
        quoted = {name: value.replace("\\", r"\\").replace("'", "''") for name, value in settings.items()}
        lines = "".join(f"{name} = '{value}'\n" for name, value in quoted.items())
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(lines)
        if (pid := self.pid) is not None:
            os.kill(pid, signal.SIGHUP)

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
                **self._as,
            )
        end = time.monotonic() + _STARTS_WITHIN_S
        while not self._is_ready():
            if self.pid is None or time.monotonic() > end:
                raise TreeringError(f"PostgreSQL did not start in {self.folder}; it says: {self.log()[-1000:]}")
            time.sleep(_LOOKS_EVERY_S)

    def stop(self, how: Ending = "fast") -> None:
        """End the server, and wait for its end."""
        process, pid = self._process, self.pid
        if process is None or pid is None:
            return
        if how == "kill":
            _stop_process(pid)  # so that it starts no more of them
            children = _children(pid)
            for each in (pid, *children):
                _send(each, signal.SIGKILL)
            process.wait()
            while any(_runs(child) for child in children):  # the memory that they share is free when the last has gone
                time.sleep(_LOOKS_EVERY_S)
            (self.data / "postmaster.pid").unlink()
        else:
            os.kill(pid, signal.SIGINT if how == "fast" else signal.SIGQUIT)
            process.wait()

    def restart(self, how: Ending = "fast") -> None:
        """Stop the server in one of the ways, and start it again."""
        self.stop(how)
        self.start()

    def pause(self) -> None:
        """Stop all processes of the server, and wait for that: connections stay open, and nothing answers."""
        if (pid := self.pid) is not None:
            _stop_process(pid)  # so that it starts no more of them
            for child in _children(pid):
                _stop_process(child)

    def resume(self) -> None:
        """Let all processes of the server go on."""
        if (pid := self.pid) is not None:
            for each in (*_children(pid), pid):
                _send(each, signal.SIGCONT)

    def standby(self) -> LocalServer:
        """Make a second server that follows this one, to be entered as a block.

        A commit waits for it once `configure(synchronous_standby_names="*")` was called on this one.
        """
        other = LocalServer(settings=self._settings, environment=self._environment, programs=self.programs)
        try:
            self.run("pg_basebackup", "-d", self.url(), "-c", "fast", "-R", "--no-sync", data=other.data)
        except BaseException:
            other.close()
            raise
        return other

    def promote(self) -> None:
        """Make this standby a server that takes writes, and wait for that."""
        self.run("pg_ctl", "promote", "-w")

    def log(self) -> str:
        """Return what the server has logged."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def run(self, program: str, *arguments: str, data: Path | None = None) -> str:
        """Run a program of PostgreSQL on the folder of the data, and return its output.

        Args:
            program: Its name.
            arguments: Its arguments beside `-D`.
            data: Another folder.

        Raises:
            TreeringError: It failed; with what it said.
        """
        return _run([self.programs / program, "-D", data or self.data, *arguments], self._environment, **self._as)

    def _is_ready(self) -> bool:
        """Whether the server has noted that it takes connections, in the 8th line of its file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() in ("ready", "standby")


def _new_folder() -> Path:
    base = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="treering-pg-", dir=base if len(base) < _ADDRESS_MAX else "/tmp"))


def _folder_of(named: Path) -> Path:
    folder = named.resolve()
    if len(os.fsencode(folder)) > _ADDRESS_MAX:
        raise InvalidInput(f"{folder}: its name is too long for the address of a Unix socket: name a shorter one")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def find_programs() -> Path | None:
    """Return the folder of the server's programs: that in PATH, or else the newest installed; None if there is none."""
    named = shutil.which("postgres")
    folders = [Path(named).resolve().parent] if named else []
    for pattern in _FOLDERS:
        folders += sorted(Path("/").glob(pattern[1:]), key=_version, reverse=True)
    return next((each for each in folders if (each / "initdb").exists() and (each / "postgres").exists()), None)


def _version(folder: Path) -> int:
    return max((int(number) for number in re.findall(r"\d+", str(folder))), default=0)


def _other_user() -> _As:
    """Return as whom a server runs: nothing if as ourselves, or, of root's, as `postgres` or `nobody`."""
    if os.getuid() != 0:
        return {}
    known = {user.pw_name: user for user in pwd.getpwall()}
    user = known.get("postgres") or known["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _run(command: list[str | Path], environment: Mapping[str, str], **others: Unpack[_As]) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=environment,
        **others,
    )
    if done.returncode != 0:
        raise TreeringError(f"{command[0]} failed: {done.stderr.strip()[-1000:]}")
    return done.stdout


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started, as `ps` lists them."""
    shown = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    pairs = (map(int, line.split()) for line in shown.splitlines())
    return [child for child, parent in pairs if parent == pid]


def _state(pid: int) -> str:
    """Return the state of a process as `ps` shows it, which is empty if there is none."""
    return subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True
    ).stdout.strip()


def _runs(pid: int) -> bool:
    return _state(pid)[:1] not in ("Z", "")


def _stop_process(pid: int) -> None:
    """Stop a process by SIGSTOP, which takes effect at its next turn, and wait for that."""
    _send(pid, signal.SIGSTOP)
    while _state(pid)[:1] not in ("T", "Z", ""):
        time.sleep(_LOOKS_EVERY_S)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended meanwhile
