"""Two sides for the comparison of stores that need no framework: plain files, and a host of treering."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.adapters.ours import WRITTEN, host_in
from bench.adapters.side import Side

from treering import SessionHost


class _Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def append(self, number: int) -> None:
        with (self._folder / str(number)).open("a") as file:
            file.write("x" * 1023 + "\n")

    async def load(self, number: int) -> int:
        return len((self._folder / str(number)).read_text().splitlines())


class Files(Side):
    """A file for each conversation, opened for each append."""

    framework = "none"
    name = "files"
    durability = WRITTEN
    with_treering = False

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Files]:
        yield _Files(folder)


class _Sessions:
    def __init__(self, host: SessionHost) -> None:
        self._host = host

    async def append(self, number: int) -> None:
        await (await self._host.get_or_create(str(number))).append_message("user", "x" * 1000)

    async def load(self, number: int) -> int:
        return len(await (await self._host.get_or_create(str(number))).messages())


class Sessions(Files):
    """A session for each conversation."""

    name = "sessions"

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Sessions]:  # type: ignore[override]  # another store
        async with host_in(folder, "os") as host:
            yield _Sessions(host)


class Broken(Files):
    """A store that loses what was appended."""

    name = "broken"

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[_Files]:
        _empty(folder)
        yield _Files(folder)


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()


PEERS: list[Side] = [Files(), Sessions(), Broken()]
