"""A session and two processes: the first owns it, the second learns who does, and a dead process owns nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal, Self

import pytest

import treering
from treering import SessionHost, SessionLocked, plain_text

OWNER = """
import sys
import anyio
from treering import SessionHost, SessionLocked

async def main():
    async with SessionHost(sys.argv[1]) as host:
        try:
            session = await host.load(sys.argv[2])
        except SessionLocked as error:
            print("locked by", error.pid, "on", error.host, flush=True)
            reader = await host.load(sys.argv[2], read_only=True)
            print(len(await reader.entries()), flush=True)
            return
        await session.append_message("user", "from the other process")
        print("owned", flush=True)
        sys.stdin.readline()

anyio.run(main)
"""


class OtherProcess:
    """Another process that loads a session and, if it can, appends to it and keeps it."""

    def __init__(self, path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(Path(treering.__file__).parents[1])}
        command = [sys.executable, "-c", OWNER, str(path.parent), str(path)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.mark.feature("U-5")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_session_has_one_owner_at_a_time(tmp_path: Path, dialect: Literal["native", "pi"]) -> None:
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create()
        await session.append_message("user", "hello")
        path = Path(session.file_path or "")
        with OtherProcess(path) as other:
            assert other.read_line() == f"locked by {os.getpid()} on {os.uname().nodename}"
            assert other.read_line() == "1", "the other process can read"
        await session.append_message("user", "still ours")
    async with SessionHost(tmp_path) as host:
        with OtherProcess(path) as other:
            assert other.read_line() == "owned"
            for _ in range(2):
                with pytest.raises(SessionLocked, match=str(other.process.pid)) as caught:
                    await host.load(path)
                assert (caught.value.pid, caught.value.host) == (other.process.pid, os.uname().nodename)
            reader = await host.load(path, read_only=True)
            assert plain_text((await reader.messages())[-1].content) == "from the other process"
            await reader.close()
            other.kill()
            session = await host.load(path)
            await session.append_message("user", "taken over")
        texts = [plain_text(each.content) for each in await session.messages()]
        assert texts == ["hello", "still ours", "from the other process", "taken over"]
