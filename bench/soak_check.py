"""Checks that every acknowledged entry is stored: reads each log line by line and replays some in a new host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec import Struct

_REPLAYED = 50


class Acknowledged:
    """What was acknowledged in one session, in constant memory, so that it does not distort what a soak measures.

    Attributes:
        count: The number of entries.
        crc: A checksum of their ids, in order.
        last: The id of the last entry.
    """

    __slots__ = ("count", "crc", "last")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.count = 0
        self.crc = 0
        self.last = ""
        for each in ids:
            self.add(each)

    def add(self, entry_id: str) -> None:
        """Add an entry."""
        self.count += 1
        self.crc = crc32(entry_id.encode(), self.crc)
        self.last = entry_id


class Checked(Struct, frozen=True):
    """The result of the check.

    Attributes:
        entries: The number of entries that were expected.
        replayed: The number of sessions that were opened and replayed.
        lost: One line for each log that differs from what was acknowledged.
    """

    entries: int
    replayed: int
    lost: list[str]


async def check_logs(root: Path, acknowledged: Mapping[str, Acknowledged]) -> Checked:
    """Compare every log with what was acknowledged.

    Args:
        root: The folder of the logs.
        acknowledged: What was acknowledged, by the file names of the logs.
    """
    from treering import SessionHost

    lost: list[str] = []
    for name, expected in acknowledged.items():
        lost += _differences(name, expected, _ids(root / name))
    names = list(acknowledged)
    replayed_names = names[:: max(1, len(names) // _REPLAYED)][:_REPLAYED]
    async with SessionHost(root) as host:
        for name in replayed_names:
            session = await host.load(root / name, read_only=True)
            ids = [entry.id or "" for entry in await session.entries()]
            lost += _differences(f"{name}, replayed", acknowledged[name], ids)
    return Checked(sum(each.count for each in acknowledged.values()), len(replayed_names), lost)


class _Line(Struct):
    id: str


def _ids(path: Path) -> list[str]:
    """Read the ids in a log without the library, from each line after the header."""
    lines = path.read_bytes().split(b"\n")[1:-1]
    decode = msgspec.json.Decoder(_Line).decode
    return [decode(line).id for line in lines]


def _differences(name: str, expected: Acknowledged, ids: Iterable[str]) -> list[str]:
    stored = Acknowledged(ids)
    if (stored.count, stored.crc, stored.last) == (expected.count, expected.crc, expected.last):
        return []
    acknowledged = f"{expected.count} entries were acknowledged, the last {expected.last!r}"
    return [f"{name}: {acknowledged}; {stored.count} are stored, the last {stored.last!r}"]
