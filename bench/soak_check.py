"""Whether everything that was acknowledged is there: each log is read line by line, and some are replayed by a new host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec import Struct

_REPLAYED = 50


class Acknowledged:
    """What was acknowledged of one session: little enough not to be what a soak measures.

    Attributes:
        count: How many entries.
        crc: A checksum of their ids, in order.
        last: The id of the last one.
    """

    __slots__ = ("count", "crc", "last")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.count = 0
        self.crc = 0
        self.last = ""
        for each in ids:
            self.add(each)

    def add(self, entry_id: str) -> None:
        """Take one more entry in."""
        self.count += 1
        self.crc = crc32(entry_id.encode(), self.crc)
        self.last = entry_id


class Checked(Struct, frozen=True):
    """What was found.

    Attributes:
        entries: How many entries were looked for.
        replayed: How many sessions were opened and replayed.
        lost: What is not as it was acknowledged, a line each; nothing, if all is well.
    """

    entries: int
    replayed: int
    lost: list[str]


async def checked(root: Path, acknowledged: Mapping[str, Acknowledged]) -> Checked:
    """Look for every entry that was acknowledged.

    Args:
        root: Where the logs are.
        acknowledged: What was acknowledged, by the names of the logs' files.
    """
    from treering import SessionHost

    lost: list[str] = []
    for name, promised in acknowledged.items():
        lost += _differences(name, promised, _ids(root / name))
    names = list(acknowledged)
    some = names[:: max(1, len(names) // _REPLAYED)][:_REPLAYED]
    async with SessionHost(root) as host:
        for name in some:
            session = await host.load(root / name, read_only=True)
            ids = [entry.id or "" for entry in await session.entries()]
            lost += _differences(f"{name}, replayed", acknowledged[name], ids)
    return Checked(sum(each.count for each in acknowledged.values()), len(some), lost)


class _Line(Struct):
    id: str


def _ids(path: Path) -> list[str]:
    """Read the ids of a log without the library: a line each, after the header."""
    lines = path.read_bytes().split(b"\n")[1:-1]
    decode = msgspec.json.Decoder(_Line).decode
    return [decode(line).id for line in lines]


def _differences(name: str, promised: Acknowledged, ids: Iterable[str]) -> list[str]:
    found = Acknowledged(ids)
    if (found.count, found.crc, found.last) == (promised.count, promised.crc, promised.last):
        return []
    expected = f"{promised.count} entries were acknowledged, the last {promised.last!r}"
    return [f"{name}: {expected}; there are {found.count}, the last {found.last!r}"]
